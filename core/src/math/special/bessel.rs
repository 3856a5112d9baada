//! Gives the modified Bessel functions that normalise the von Mises distribution, without overflow.

use std::f64::consts::TAU;

/// From here on the asymptotic series reaches the last digit.
const ASYMPTOTIC_FROM: f64 = 30.0;

/// $\log(e^{-x} I_0(x))$ and $I_1(x)/I_0(x)$ for `x` ≥ 0.
///
/// # References
/// NIST DLMF 10.25.2 (series) and 10.40.1 (asymptotic series).
///
/// # Example
/// ```
/// let [log, ratio] = partita_core::special::log_bessel_zero(1.0);
/// assert!((log + 1.0 - 1.266_065_877_752_008_3_f64.ln()).abs() < 1e-15);
/// assert!((ratio - 0.446_389_965_896_534_4).abs() < 1e-15);
/// ```
#[must_use]
pub fn log_bessel_zero(x: f64) -> [f64; 2] {
    if x < ASYMPTOTIC_FROM {
        let quarter = 0.25 * x * x;
        let (mut zero, mut one, mut term) = (1.0, 1.0, 1.0);
        for k in 1..200 {
            let k = f64::from(k);
            term *= quarter / (k * k);
            zero += term;
            one += term / (k + 1.0);
            if term < 1e-17 * zero {
                break;
            }
        }
        return [f64::ln(zero) - x, 0.5 * x * one / zero];
    }
    let [zero, one] = [0.0, 4.0].map(|order| {
        let (mut sum, mut term) = (1.0, 1.0);
        for k in 1..30 {
            let k = f64::from(k);
            term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - order) / (8.0 * k * x);
            sum += term;
        }
        sum
    });
    [f64::ln(zero) - 0.5 * (TAU * x).ln(), one / zero]
}

/// $I_j(x)/I_0(x)$ for $j = 1, 2, \dots$, as many as exceed the last digit, for `x` ≥ 0 (backward recurrence).
#[must_use]
pub fn bessel_ratios(x: f64) -> Vec<f64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of terms, far below 2^32")]
    let count = 40 + (10.0 * x.sqrt()) as usize;
    let mut ratios = vec![0.0; count];
    let mut next = 0.0;
    for (before, slot) in ratios.iter_mut().enumerate().rev() {
        next = 1.0 / (2.0 * (before + 1) as f64 / x + next);
        *slot = next;
    }
    let mut product = 1.0;
    for slot in &mut ratios {
        product *= *slot;
        *slot = product;
    }
    ratios
}
