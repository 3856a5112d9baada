//! Gives the logarithm of the normal distribution function and its slope, to the last digits in both tails.

use super::HALF_LOG_TWO_PI;

use std::f64::consts::FRAC_1_SQRT_2;

/// From here on Mills' ratio is a continued fraction; below, its factors are far from under- and overflow.
const FRACTION_FROM: f64 = 5.0;

/// $\log\Phi(z)$ of the standard normal distribution.
///
/// # Numerics
/// Relative error of a few units in the last place, times $1 + z^2$ for positive `z`. For
/// $\log(1 - \Phi(z))$ use `log_normal_cumulative(-z)`.
///
/// # Example
/// ```
/// let lower = partita_core::special::log_normal_cumulative(-40.0);
/// assert!((lower + 804.608_442_013_754).abs() < 1e-12);
/// ```
#[must_use]
pub fn log_normal_cumulative(z: f64) -> f64 {
    if z < -FRACTION_FROM {
        -0.5 * z * z - HALF_LOG_TWO_PI + mills_fraction(-z).ln()
    } else if z < 0.0 {
        (0.5 * libm::erfc(-z * FRAC_1_SQRT_2)).ln()
    } else {
        (-0.5 * libm::erfc(z * FRAC_1_SQRT_2)).ln_1p()
    }
}

/// $\varphi(z)/\Phi(z)$, the derivative of [`log_normal_cumulative`].
#[must_use]
pub fn normal_hazard(z: f64) -> f64 {
    1.0 / mills_ratio(-z)
}

/// Mills' ratio $(1 - \Phi(z))/\varphi(z)$; infinite for `z` below -38.
///
/// # Example
/// ```
/// let ratio = partita_core::special::mills_ratio(0.0);
/// assert!((ratio - (0.5 * std::f64::consts::PI).sqrt()).abs() < 1e-15);
/// ```
#[must_use]
pub fn mills_ratio(z: f64) -> f64 {
    if z < FRACTION_FROM {
        0.5 * libm::erfc(z * FRAC_1_SQRT_2) * (0.5 * z * z + HALF_LOG_TWO_PI).exp()
    } else {
        mills_fraction(z)
    }
}

/// $1/(z + 1/(z + 2/(z + 3/(z + \dots))))$, all of whose terms are positive (NIST DLMF 7.9.2).
fn mills_fraction(z: f64) -> f64 {
    const STEPS: i32 = 60;
    1.0 / (1..=STEPS).rev().fold(z, |rest, step| z + f64::from(step) / rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // mpmath 1.4.1, 50 digits.
    const LOG: [[f64; 3]; 9] = [
        [-300.0, -45006.62273211866, 300.0033332592634],
        [-40.0, -804.6084420137538, 40.02496884720726],
        [-7.5, -31.075890902890002, 7.6289663911037655],
        [-5.0, -15.064998393988725, 5.186503967125842],
        [-1.25, -2.247625677214318, 1.728816627331054],
        [-0.001, -0.6939453834669652, 0.7985212895629114],
        [0.5, -0.3689464152886564, 0.5091604338370335],
        [6.0, -9.865876455243758e-10, 6.075882855817676e-09],
        [30.0, -4.906713927148187e-198, 1.4736461348785476e-196],
    ];

    #[test]
    fn logarithms_and_slopes_agree_with_fifty_digits() {
        for [z, log, slope] in LOG {
            let found = log_normal_cumulative(z);
            // The rounding of the argument, which the density multiplies by z².
            let bound = 5e-15 + 2e-16 * z.max(0.0).powi(2);
            assert!((found / log - 1.0).abs() < bound, "{z}: {found} not {log}");
            let found = normal_hazard(z);
            assert!((found / slope - 1.0).abs() < bound, "{z}: {found} not {slope}");
        }
    }

    #[test]
    fn infinities_have_limits() {
        assert!(log_normal_cumulative(f64::INFINITY).abs() < f64::MIN_POSITIVE);
        assert!(log_normal_cumulative(f64::NEG_INFINITY) < f64::MIN);
        assert!(normal_hazard(f64::INFINITY).abs() < f64::MIN_POSITIVE);
    }
}
