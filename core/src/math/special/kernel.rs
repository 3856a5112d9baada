//! Gives the Poisson and binomial log probabilities by Loader's saddle point, exact where gamma functions would cancel.

use super::gamma::{ln_gamma, stirling_error};

use std::f64::consts::TAU;

/// Below this count the plain formula is as accurate and cheaper.
const PLAIN_BELOW: f64 = 10.0;

/// The deviance of a Poisson observation from its mean (half the usual statistic).
///
/// $$ D(x, \mu) = x\log\frac{x}{\mu} + \mu - x $$
/// with `x` > 0, $\mu$ = `mean` ≥ 0 and $\log\mu$ = `log_mean`, which is used where $\mu$ has under- or overflowed.
///
/// # References
/// Loader (2000), *Fast and accurate computation of binomial probabilities*, function `bd0`.
#[must_use]
pub fn deviance(x: f64, mean: f64, log_mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() < 0.1 * (x + mean) {
        let ratio = difference / (x + mean);
        let square = ratio * ratio;
        let mut sum = difference * ratio;
        let mut term = 2.0 * x * ratio;
        let mut denominator = 1.0;
        loop {
            term *= square;
            denominator += 2.0;
            let next = sum + term / denominator;
            // An exact standstill: the last term is below the last digit. NaN cannot reach here (the branch is false).
            if next.to_bits() == sum.to_bits() {
                return sum;
            }
            sum = next;
        }
    }
    let log_ratio = if mean.is_normal() { (x / mean).ln() } else { x.ln() - log_mean };
    x * log_ratio - difference
}

/// $k\log\mu - \mu - \log\Gamma(k+1)$ for real $k$ = `count` ≥ 0, $\mu$ = `mean`, $\log\mu$ = `log_mean`.
///
/// # Numerics
/// Relative error of a few units in the last place times $1 + D(k, \mu)$, for counts of any size.
#[must_use]
pub fn poisson_kernel(count: f64, mean: f64, log_mean: f64) -> f64 {
    if count <= 0.0 {
        -mean
    } else if count < PLAIN_BELOW {
        count * log_mean - mean - ln_gamma(count + 1.0)
    } else {
        -0.5 * (TAU * count).ln() - stirling_error(count) - deviance(count, mean, log_mean)
    }
}

/// A probability and its complement, apart, so that neither loses digits where it is small.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chance {
    /// The probability $p$.
    pub success: f64,
    /// Its complement $1 - p$.
    pub failure: f64,
}

impl Chance {
    /// The logarithms of both.
    pub(super) fn ln(self) -> LogChance {
        let ln = |part: f64, rest: f64| if rest < 0.5 { (-rest).ln_1p() } else { part.ln() };
        LogChance { success: ln(self.success, self.failure), failure: ln(self.failure, self.success) }
    }
}

/// The logarithms of a probability and of its complement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogChance {
    /// $\log p$.
    pub success: f64,
    /// $\log(1 - p)$.
    pub failure: f64,
}

/// $\log\binom{k+m}{k} + k\log p + m\log(1-p)$ for real $k$ = `successes`, $m$ = `failures` ≥ 0.
///
/// `log` holds $\log p$ and $\log(1-p)$; gamma functions stand for factorials.
///
/// # Example
/// ```
/// use partita_core::special::{LogChance, binomial_kernel};
/// let half = 0.5_f64.ln();
/// let found = binomial_kernel(2.0, 2.0, LogChance { success: half, failure: half });
/// assert!((found - (6.0_f64 / 16.0).ln()).abs() < 1e-14);
/// ```
#[must_use]
pub fn binomial_kernel(successes: f64, failures: f64, log: LogChance) -> f64 {
    let LogChance { success: log_success, failure: log_failure } = log;
    if successes <= 0.0 {
        return if failures <= 0.0 { 0.0 } else { failures * log_failure };
    }
    if failures <= 0.0 {
        return successes * log_success;
    }
    let trials = successes + failures;
    let log_trials = trials.ln();
    let part = |count: f64, log_probability: f64| {
        stirling_error(count) + deviance(count, trials * log_probability.exp(), log_trials + log_probability)
    };
    0.5 * (trials / successes / failures / TAU).ln() + stirling_error(trials)
        - part(successes, log_success)
        - part(failures, log_failure)
}
