//! Gathers the special functions that densities and bijectors need, in f64 on the host and safe in the tails.

mod bessel;
mod dual;
mod gamma;
mod kernel;
mod log_incomplete;
mod normal_tail;
mod owen;
mod quantile;

pub use bessel::{bessel_ratios, log_bessel_zero};
pub use gamma::{digamma, digamma_difference, ln_beta, ln_gamma, ln_gamma_difference, stirling_error, trigamma};
pub use kernel::{Chance, LogChance, binomial_kernel, deviance, poisson_kernel};
pub use log_incomplete::{LogTails, log_incomplete_beta, log_incomplete_gamma};
pub use normal_tail::{log_normal_cumulative, mills_ratio, normal_hazard};
pub use owen::log_skew_normal_cumulative;
pub use quantile::normal_quantile;

/// $\tfrac12\log 2\pi$, the constant of every normal log density.
pub const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// The cumulative distribution function of the standard normal distribution.
///
/// $$ \Phi(z) = \tfrac12\operatorname{erfc}\left(-z/\sqrt2\right) $$
///
/// # Numerics
/// Full relative accuracy in the lower tail; for the upper tail use `normal_cumulative(-z)`, which is $1 - \Phi(z)$.
///
/// # Example
/// ```
/// let lower = partita_core::special::normal_cumulative(-10.0);
/// assert!((lower / 7.619_853_024_160_527e-24 - 1.0).abs() < 1e-13);
/// ```
#[must_use]
pub fn normal_cumulative(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// $\log(1 + e^x)$ without overflow for large `x` and without loss of digits for small.
#[must_use]
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// $1 / (1 + e^{-x})$ with full relative accuracy in both tails; $1 - \sigma(x)$ is `sigmoid(-x)`.
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let exponential = x.exp();
        exponential / (1.0 + exponential)
    }
}

/// $\log(1 - e^x)$ for `x` ≤ 0, without cancellation at either end.
///
/// # Example
/// ```
/// let log = partita_core::special::log_one_minus_exp(-1e-20);
/// assert!((log / 1e-20_f64.ln() - 1.0).abs() < 1e-15);
/// ```
#[must_use]
pub fn log_one_minus_exp(x: f64) -> f64 {
    if x > -std::f64::consts::LN_2 { (-x.exp_m1()).ln() } else { (-x.exp()).ln_1p() }
}

/// $\log(1 + z^2)$ without overflow for large `z`.
#[must_use]
pub fn log1p_square(z: f64) -> f64 {
    // Above 1e8 the 1 is below the last digit of z².
    if z.abs() < 1e8 { (z * z).ln_1p() } else { 2.0 * z.abs().ln() }
}

/// $\log\sum_i e^{x_i}$; minus infinity for an empty slice.
///
/// # Example
/// ```
/// let sum = partita_core::special::log_sum_exp(&[1000.0, 1000.0]);
/// assert!((sum - 1000.0 - 2.0_f64.ln()).abs() < 1e-12);
/// ```
#[must_use]
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let (largest, rest) = log_sum_exp_parts(values);
    largest + rest
}

/// The largest $x_m$ and $\log\sum_i e^{x_i - x_m}$, whose sum is [`log_sum_exp`].
///
/// Apart, they keep the digits of `(x_i - largest) - rest`, the log softmax, where it is close to zero.
#[must_use]
pub fn log_sum_exp_parts(values: &[f64]) -> (f64, f64) {
    let mut largest = f64::NEG_INFINITY;
    let mut place = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > largest {
            (largest, place) = (*value, index);
        }
    }
    if !largest.is_finite() {
        return (largest, 0.0);
    }
    let others: f64 =
        values.iter().enumerate().filter(|(index, _)| *index != place).map(|(_, v)| (v - largest).exp()).sum();
    (largest, others.ln_1p())
}
