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
/// Relative error below 1e-13 from `x` = 10 on; below, absolute error of a few units in the last place of the values.
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

#[cfg(test)]
mod tests {
    use super::*;

    // What the docstrings promise; references were computed with 50 digits by mpmath 1.4.1.
    const RELATIVE: f64 = 1e-13;

    fn agrees(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= RELATIVE * expected.abs()
    }

    const DIGAMMA_TRIGAMMA: [[f64; 3]; 19] = [
        [1e-12, -1000000000000.5773, 1e+24],
        [0.001, -1000.5755719318103, 1000001.6425331958],
        [0.1, -10.423754940411076, 101.43329915079275],
        [0.5, -1.9635100260214235, 4.934802200544679],
        [1.0, -0.5772156649015329, 1.6449340668482264],
        [1.37, -0.09259870818786115, 1.055871928602604],
        [1.4616, -3.110625123034165e-05, 0.9677007114650835],
        [1.461632144968362, -3.072790566546293e-16, 0.9676722454476214],
        [1.47, 0.008066489011364869, 0.9603162090511507],
        [1.5615, 0.09246558647028064, 0.8863676043658405],
        [1.6, 0.12604745277347632, 0.8584318931245798],
        [2.0, 0.42278433509846713, 0.6449340668482264],
        [3.3, 1.0348224890596216, 0.3535015418410618],
        [9.9, 2.2411803166063815, 0.1062830416287406],
        [10.0, 2.251752589066721, 0.10516633568168575],
        [10.1, 2.262214357094148, 0.10407283129749605],
        [57.3, 4.039549239957579, 0.017605179101050653],
        [10000.0, 9.210290371142849, 0.00010000500016666666],
        [1000000000000.0, 27.63102111592805, 1.0000000000005e-12],
    ];

    const DIFFERENCES: [[f64; 4]; 9] = [
        [0.3, 0.5, -0.9437383164182379, 2.5375156554939946],
        [2.0, 7.0, 10.60460290274525, 1.7178571428571427],
        [9.99, 0.001, 0.0022507530094608603, 0.00010527141400081483],
        [10.5, 0.5, 1.1637873536717516, 0.048751554769034734],
        [50.0, 1.0, 3.912023005428146, 0.02],
        [1000.0, 1000.0, 7293.703024845084, 0.6933972430599376],
        [1000000.0, 0.5, 6.907755153982137, 5.00000125e-07],
        [100000000.0, 3.0, 55.2620422618571, 2.9999999700000005e-08],
        [1000000000000.0, 1000000.0, 27631021.615927882, 9.999995000008333e-07],
    ];

    const STIRLING: [[f64; 2]; 7] = [
        [1e-06, 5.9888309840731795],
        [0.5, 0.15342640972002736],
        [3.0, 0.02767792568499834],
        [9.9, 0.008414653894090263],
        [10.0, 0.00833056343336287],
        [33.0, 0.0025251752497567844],
        [10000000.0, 8.33333333333333e-09],
    ];

    const BETA: [[f64; 3]; 6] = [
        [1e-06, 1000000.0, 13.815496165239374],
        [0.5, 0.5, 1.1447298858494002],
        [3.0, 1000000000.0, -61.47665033327929],
        [2.5, 7.0, -4.825399338314249],
        [40.0, 60.0, -67.96861624748244],
        [100000.0, 100000.0, -138633.92706134808],
    ];

    #[test]
    fn digamma_and_trigamma_agree_with_fifty_digits() {
        for [x, first, second] in DIGAMMA_TRIGAMMA {
            assert!(agrees(digamma(x), first), "digamma({x}) = {} not {first}", digamma(x));
            assert!(agrees(trigamma(x), second), "trigamma({x}) = {} not {second}", trigamma(x));
        }
        assert!(digamma(0.0).is_nan() && trigamma(-1.0).is_nan());
    }

    #[test]
    fn differences_agree_with_fifty_digits() {
        for [x, step, log_gamma, first] in DIFFERENCES {
            let found = [ln_gamma_difference(x, step), digamma_difference(x, step)];
            // Below the asymptotic series two plain values are subtracted, which leaves absolute accuracy only.
            let bound = if x < ASYMPTOTIC_FROM { 1e-14 } else { RELATIVE * log_gamma };
            assert!(
                (found[0] - log_gamma).abs() < bound,
                "ln_gamma_difference({x}, {step}) = {} not {log_gamma}",
                found[0]
            );
            assert!(agrees(found[1], first), "digamma_difference({x}, {step}) = {} not {first}", found[1]);
        }
    }

    #[test]
    fn stirling_error_and_ln_beta_agree_with_fifty_digits() {
        for [x, expected] in STIRLING {
            // Below the asymptotic series the definition itself is evaluated: absolute accuracy only.
            let found = stirling_error(x);
            assert!((found - expected).abs() < 1e-14, "stirling_error({x}) = {found} not {expected}");
        }
        for [a, b, expected] in BETA {
            assert!(agrees(ln_beta(a, b), expected), "ln_beta({a}, {b}) = {} not {expected}", ln_beta(a, b));
        }
    }
}
