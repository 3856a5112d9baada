//! Gives the distribution function of the skew normal distribution: Owen's T, in a form that keeps relative accuracy.

use super::log_normal_cumulative;

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, LN_2, PI};

/// $\log F(z)$ of the standard skew normal distribution with slant $\alpha$, density
/// $2\thinspace\varphi(z)\thinspace\Phi(\alpha z)$.
///
/// # Numerics
/// With $w = |z|$, $F = \Phi(z) - 2\thinspace T(z, \alpha)$ (Owen's T) is a sum of positive terms of
/// $J(w, \beta) = \tfrac1\pi\int_\beta^\infty e^{-w^2(1+x^2)/2}/(1+x^2)\thinspace dx$, so that relative accuracy holds
/// in both tails: 1e-12. $1 - F(z; \alpha) = F(-z; -\alpha)$.
///
/// # References
/// Owen (1956), *Tables for computing bivariate normal probabilities*; Azzalini (1985).
///
/// # Example
/// ```
/// // Without slant it is the normal distribution.
/// let found = partita_core::special::log_skew_normal_cumulative(-3.0, 0.0);
/// assert!((found - partita_core::special::log_normal_cumulative(-3.0)).abs() < 1e-12);
/// ```
#[must_use]
pub fn log_skew_normal_cumulative(z: f64, slant: f64) -> f64 {
    let log = log_of_sum(z, slant);
    // Close to one: from the other tail.
    if log < -LN_2 { log } else { (-log_of_sum(-z, -slant).exp()).ln_1p() }
}

fn log_of_sum(z: f64, slant: f64) -> f64 {
    let w = z.abs();
    match (z <= 0.0, slant >= 0.0) {
        // F = J, F = 2 Φ(-w) - J: the second is at least Φ(-w).
        (true, true) => log_tail(w, slant),
        (true, false) => {
            let normal = log_normal_cumulative(-w);
            normal + (2.0 - (log_tail(w, -slant) - normal).exp()).ln()
        }
        // 1 - F(-z, -α), as sums: erf(w/√2) + J.
        (false, true) => (libm::erf(w * FRAC_1_SQRT_2) + log_tail(w, slant).exp()).ln(),
        (false, false) => (-log_tail(w, -slant).exp()).ln_1p(),
    }
}

/// $\log J(w, \beta)$ for $w, \beta \ge 0$ by double exponential quadrature in the angle $\arctan(1/x)$.
fn log_tail(w: f64, beta: f64) -> f64 {
    const STEP: f64 = 1.0 / 32.0;
    const STEPS: i32 = 116;
    let largest = 1.0_f64.atan2(beta);
    if w.is_infinite() {
        return f64::NEG_INFINITY;
    }
    // The smallest angle at which the integrand is not below e^-45 of that at the largest.
    let square = w * w;
    let smallest = 1.0_f64.atan2((beta * beta + 90.0 / square).sqrt());
    let from = if square > 0.0 { smallest.min(largest) } else { 0.0 };
    // The part of [0, largest] that counts; its lower end is 0 where the integrand is wide.
    let width = largest - from;
    let mut sum = 0.0;
    for index in -STEPS..=STEPS {
        let t = f64::from(index) * STEP;
        let inner = FRAC_PI_2 * t.sinh();
        // The distance from the nearer end, without cancellation.
        let distance = width / (1.0 + (2.0 * inner.abs()).exp());
        let weight = width * 0.5 * FRAC_PI_2 * t.cosh() / inner.cosh().powi(2);
        let below = if inner > 0.0 { distance } else { width - distance };
        let exponent = if below < 0.5 * largest { near(below, beta) } else { far(from + distance, beta) };
        sum += weight * (-0.5 * square * exponent).exp();
    }
    -0.5 * square * (1.0 + beta * beta) + (STEP * sum / PI).ln()
}

/// $x^2 - \beta^2$ at the angle `distance` below the largest, $\arctan(1/\beta)$.
fn near(distance: f64, beta: f64) -> f64 {
    // tan of a difference: x - β = (1 + β²) tan d / (1 - β tan d).
    let tangent = distance.tan();
    let step = (1.0 + beta * beta) * tangent / (1.0 - beta * tangent);
    step * (2.0 * beta + step)
}

/// $x^2 - \beta^2$ at an angle.
fn far(angle: f64, beta: f64) -> f64 {
    let x = 1.0 / angle.tan();
    if x.is_infinite() { f64::INFINITY } else { (x - beta) * (x + beta) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // mpmath 1.4.1, 50 digits.
    const LOG: [[f64; 3]; 19] = [
        [-3.0, 0.0, -6.607726221510349],
        [-3.0, 2.0, -28.211442956043765],
        [-30.0, 5.0, -11712.814788994481],
        [-0.3, 0.7, -1.6222325845248085],
        [-1e-06, 3.0, -2.2787124905907454],
        [0.0, -4.0, -0.08118742051617168],
        [-1.5, -2.0, -2.013101953488753],
        [-25.0, -3.0, -315.9462608274603],
        [0.3, 4.0, -1.402055606998485],
        [3.0, -2.0, -5.596622287837933e-13],
        [3.0, 1.0, -0.0027016199294963876],
        [30.0, -0.5, -2.8800871686109405e-248],
        [-0.01, 50.0, -5.758584581939111],
        [-2.0, -50.0, -3.0900371531220867],
        [2.0, -300.0, -0.0],
        [0.1, 1000.0, -2.5300420015472382],
        [-7.0, 0.1, -28.12786522044082],
        [-0.5, 0.0, -1.1759117615936185],
        [-100.0, 1.0, -10011.04841738842],
    ];

    #[test]
    fn logarithms_agree_with_fifty_digits() {
        for [z, slant, expected] in LOG {
            let found = log_skew_normal_cumulative(z, slant);
            assert!(
                (found - expected).abs() <= 1e-12 * expected.abs().max(1e-3),
                "{z} {slant}: {found} not {expected}"
            );
        }
    }
}
