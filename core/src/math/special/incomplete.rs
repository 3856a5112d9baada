//! Gives the regularised incomplete gamma and beta functions, which are cumulative distribution functions.
//!
//! Not `statrs` 0.19: from $a\log x - x - \log\Gamma(a)$ it loses nine digits at a shape of 1e8; its beta has no $1-x$.

use super::kernel::{Chance, binomial_kernel, poisson_kernel};

/// Series and fractions stop at a relative change below this.
const RELATIVE_CHANGE: f64 = 1e-16;
/// Keeps a continued fraction away from division by zero (Lentz).
const TINY: f64 = 1e-300;
/// More terms than any argument below 1e8 needs; they grow with its square root.
const TERMS: u32 = 100_000;

/// The lower and upper regularised incomplete gamma functions $P(a, x)$ and $Q(a, x) = 1 - P(a, x)$.
///
/// $$ P(a, x) = \frac{1}{\Gamma(a)}\int_0^x t^{a-1}e^{-t}\thinspace dt $$ for $a$ = `shape` > 0 and `x` ≥ 0.
///
/// # Numerics
/// The smaller of the two has full relative accuracy for shapes up to 1e8.
///
/// # References
/// NIST DLMF 8.11.4 (series, for `x` < `shape` + 1) and 8.9.2 (continued fraction).
///
/// # Example
/// ```
/// let [lower, upper] = partita_core::special::regularised_gamma(1.0, 2.0);
/// assert!((upper - (-2.0_f64).exp()).abs() < 1e-15 && (lower + upper - 1.0).abs() < 1e-15);
/// ```
#[must_use]
pub fn regularised_gamma(shape: f64, x: f64) -> [f64; 2] {
    if x <= 0.0 {
        return [0.0, 1.0];
    }
    if x.is_infinite() {
        return [1.0, 0.0];
    }
    let front = poisson_kernel(shape, x, x.ln()).exp();
    if x < shape + 1.0 {
        let (mut sum, mut term, mut denominator) = (1.0, 1.0, shape);
        for _ in 0..TERMS {
            denominator += 1.0;
            term *= x / denominator;
            sum += term;
            if term < RELATIVE_CHANGE * sum {
                break;
            }
        }
        let lower = (front * sum).min(1.0);
        return [lower, 1.0 - lower];
    }
    let mut b = x + 1.0 - shape;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for index in 1..TERMS {
        let index = f64::from(index);
        let a = -index * (index - shape);
        b += 2.0;
        let change;
        (c, d, change) = lentz(a, b, c, d);
        fraction *= change;
        if (change - 1.0).abs() < RELATIVE_CHANGE {
            break;
        }
    }
    let upper = (front * shape * fraction).min(1.0);
    [1.0 - upper, upper]
}

/// The regularised incomplete beta function.
///
/// $$ I_x(a, b) = \frac{1}{B(a, b)}\int_0^x t^{a-1}(1-t)^{b-1}\thinspace dt $$
/// for `a`, `b` > 0, with $x$ and $1 - x$ apart in `at`.
///
/// # References
/// NIST DLMF 8.17.22 (continued fraction), 8.17.4 (reflection).
///
/// # Example
/// ```
/// use partita_core::special::Chance;
/// let half = partita_core::special::regularised_beta(3.0, 3.0, Chance { success: 0.5, failure: 0.5 });
/// assert!((half - 0.5).abs() < 1e-14);
/// ```
#[must_use]
pub fn regularised_beta(a: f64, b: f64, at: Chance) -> f64 {
    let Chance { success: x, failure: complement } = at;
    if x <= 0.0 {
        return 0.0;
    }
    if complement <= 0.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_fraction(b, a, Chance { success: complement, failure: x });
    }
    beta_fraction(a, b, at)
}

fn beta_fraction(a: f64, b: f64, at: Chance) -> f64 {
    let x = at.success;
    let front = binomial_kernel(a, b, at.ln()).exp() * b / (a + b);
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for index in 1..TERMS {
        let m = f64::from(index);
        let end = a + 2.0 * m;
        let even = m * (b - m) * x / ((end - 1.0) * end);
        let odd = -(a + m) * (a + b + m) * x / (end * (end + 1.0));
        let (first, second);
        (c, d, first) = lentz(even, 1.0, c, d);
        (c, d, second) = lentz(odd, 1.0, c, d);
        fraction *= first * second;
        if (second - 1.0).abs() < RELATIVE_CHANGE {
            break;
        }
    }
    (front * fraction).min(1.0)
}

/// One step of Lentz's evaluation of a continued fraction: the new `c` and `d`, and the factor `c d`.
fn lentz(a: f64, b: f64, c: f64, d: f64) -> (f64, f64, f64) {
    let c = away_from_zero(b + a / c);
    let d = 1.0 / away_from_zero(b + a * d);
    (c, d, c * d)
}

fn away_from_zero(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}
