//! Gives the log-gamma function, its derivatives, and the differences of them that would otherwise lose digits.

use super::HALF_LOG_TWO_PI;

/// From here on the asymptotic series below reach the last digit of f64.
const ASYMPTOTIC_FROM: f64 = 10.0;

/// $\log\Gamma(x)$ for `x` > 0.
///
/// # Numerics
/// Differences of two large ones cancel; use [`ln_gamma_difference`] or [`ln_beta`].
#[must_use]
pub fn ln_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// What Stirling's formula leaves out of $\log\Gamma$.
///
/// $$ \delta(x) = \log\Gamma(x+1) - (x + \tfrac12)\log x + x - \tfrac12\log 2\pi $$ for `x` > 0.
///
/// # References
/// Loader (2000), *Fast and accurate computation of binomial probabilities*; NIST DLMF 5.11.1.
#[must_use]
pub fn stirling_error(x: f64) -> f64 {
    if x < ASYMPTOTIC_FROM {
        return ln_gamma(x + 1.0) - (x + 0.5) * x.ln() + x - HALF_LOG_TWO_PI;
    }
    const SERIES: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
        -3617.0 / 122_400.0,
    ];
    polynomial(&SERIES, 1.0 / (x * x)) / x
}

/// $\log\Gamma(x + s) - \log\Gamma(x)$ for `x` > 0 and `s` = `step` ≥ 0, without cancellation for large `x`.
///
/// # Numerics
/// From `x` = 10 on relative error below 1e-13 for a step of 1e-4 or more, and absolute error below 1e-17 for a shorter
/// one; below 10 absolute error of a few units in the last place of the values.
///
/// # Example
/// ```
/// let difference = partita_core::special::ln_gamma_difference(1e15, 1.0);
/// assert!((difference - 1e15_f64.ln()).abs() < 1e-13);
/// ```
#[must_use]
pub fn ln_gamma_difference(x: f64, step: f64) -> f64 {
    if x < ASYMPTOTIC_FROM {
        return ln_gamma(x + step) - ln_gamma(x);
    }
    let end = x + step;
    (end - 0.5) * (step / x).ln_1p() + step * (x.ln() - 1.0) + stirling_error(end) - stirling_error(x)
}

/// $\log B(a, b) = \log\Gamma(a) + \log\Gamma(b) - \log\Gamma(a + b)$ for `a`, `b` > 0.
#[must_use]
pub fn ln_beta(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    ln_gamma(small) - ln_gamma_difference(large, small)
}

/// The digamma function $\psi(x) = \frac{d}{dx}\log\Gamma(x)$; NaN unless `x` > 0.
///
/// # Numerics
/// Relative error below 1e-13 everywhere, also at the root 1.4616..., around which it is expanded:
/// $\psi(x_0 + h) = \sum_{n\ge1} (-1)^{n+1}\zeta(n+1, x_0)\thinspace h^n$.
///
/// # References
/// NIST DLMF 5.5.2 (recurrence), 5.11.2 (asymptotic series), 5.15 (derivatives).
///
/// # Example
/// ```
/// let euler = -partita_core::special::digamma(1.0);
/// assert!((euler - 0.577_215_664_901_532_9).abs() < 1e-15);
/// ```
#[must_use]
pub fn digamma(x: f64) -> f64 {
    const ROOT: f64 = 1.461_632_144_968_362_2;
    const ROOT_REST: f64 = 9.549_995_429_965_698e-17;
    const AT_ROOT: [f64; 16] = [
        0.967_672_245_447_621_2,
        -0.442_763_168_983_592_1,
        0.258_499_760_955_651,
        -0.163_942_705_442_406_53,
        0.107_824_050_691_262_37,
        -0.072_199_561_256_454_71,
        0.048_804_288_164_143_11,
        -0.033_161_126_474_847_36,
        0.022_597_648_232_218_105,
        -0.015_424_765_904_948_96,
        0.010_538_791_616_612_175,
        -0.007_204_534_386_356_868,
        0.004_926_781_395_729_853,
        -0.003_369_801_655_439_328,
        0.002_305_126_326_734_928,
        -0.001_576_936_771_430_197_3,
    ];
    if x.is_nan() || x <= 0.0 {
        return f64::NAN;
    }
    let from_root = (x - ROOT) - ROOT_REST;
    if from_root.abs() < 0.1 {
        return from_root * polynomial(&AT_ROOT, from_root);
    }
    let (shifted, sum) = shift(x, |y| 1.0 / y);
    shifted.ln() - digamma_rest(shifted) - sum
}

/// $\psi(x + s) - \psi(x)$ for `x` > 0 and `s` = `step` ≥ 0, without cancellation; NaN unless `x` > 0.
#[must_use]
pub fn digamma_difference(x: f64, step: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return f64::NAN;
    }
    let (shifted, sum) = shift(x, |y| step / (y * (y + step)));
    let end = shifted + step;
    sum + (step / shifted).ln_1p() + 0.5 * step / (shifted * end) + digamma_series(shifted) - digamma_series(end)
}

/// The trigamma function $\psi'(x) = \frac{d^2}{dx^2}\log\Gamma(x)$; NaN unless `x` > 0.
///
/// # References
/// NIST DLMF 5.15.5 (recurrence), 5.15.8 (asymptotic series).
///
/// # Example
/// ```
/// let at_one = partita_core::special::trigamma(1.0);
/// assert!((at_one - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-15);
/// ```
#[must_use]
pub fn trigamma(x: f64) -> f64 {
    const SERIES: [f64; 8] =
        [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0];
    if x.is_nan() || x <= 0.0 {
        return f64::NAN;
    }
    let (shifted, sum) = shift(x, |y| 1.0 / (y * y));
    let inverse = 1.0 / shifted;
    let square = inverse * inverse;
    sum + inverse + square * (0.5 + inverse * polynomial(&SERIES, square))
}

/// $\log x - \psi(a)$ for `x`, $a$ = `shape` > 0, without cancellation where both are large and close.
pub(super) fn log_minus_digamma(x: f64, shape: f64) -> f64 {
    if shape < ASYMPTOTIC_FROM {
        return x.ln() - digamma(shape);
    }
    let change = (x - shape) / shape;
    let log_ratio = if change.abs() < 0.5 { change.ln_1p() } else { (x / shape).ln() };
    log_ratio + digamma_rest(shape)
}

/// $\log x - \psi(x)$ for large `x`.
fn digamma_rest(x: f64) -> f64 {
    0.5 / x + digamma_series(x)
}

/// $\sum_n \frac{B_{2n}}{2n\thinspace x^{2n}}$.
fn digamma_series(x: f64) -> f64 {
    const SERIES: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32_760.0,
        1.0 / 12.0,
        -3617.0 / 8160.0,
    ];
    let square = 1.0 / (x * x);
    square * polynomial(&SERIES, square)
}

/// Moves `x` up by ones until the asymptotic series hold, and sums `term` over the numbers passed, smallest term first.
fn shift(x: f64, term: impl Fn(f64) -> f64) -> (f64, f64) {
    let mut shifted = x;
    let mut passed = [0.0; 16];
    let mut count = 0;
    while shifted < ASYMPTOTIC_FROM {
        passed[count] = term(shifted);
        count += 1;
        shifted += 1.0;
    }
    (shifted, passed[..count].iter().rev().sum())
}

/// Evaluates the polynomial with these coefficients, constant first (Horner).
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}
