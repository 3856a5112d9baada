//! Checks that the two methods of a generator are of one convex function that vanishes at one.

use partita_inference::Generator;

use crate::difference::within;
use crate::{Violation, derivative};

/// Log ratios $`\log q - \log p`$ at which generators are looked at.
const LOG_RATIOS: [f64; 9] = [-6.0, -2.5, -1.0, -0.2, 0.0, 0.3, 1.1, 2.5, 6.0];
/// Differences of differences: rounding 1e-13 divided by 1e-3 twice.
const SECOND: f64 = 1e-6;

/// A law of [`Generator`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorLaw {
    /// $`f(1)`$ is not zero.
    #[error("f(1)/2 is {found}, expected 0")]
    AtOne {
        /// Its value.
        found: f64,
    },
    /// The curvature is not that of the value, or is negative.
    #[error("curvature at the log ratio {log_ratio} is {found}, expected {expected}, which is not negative")]
    Curvature {
        /// Where.
        log_ratio: f64,
        /// What the generator says.
        found: f64,
        /// What differences of the value give.
        expected: f64,
    },
}

/// Checks that $`f(1) = 0`$, $`f'' \ge 0`$, and that value and curvature are of one $`f`$.
///
/// With $`g(x) = (1 + e^{-x})`$ [`Generator::value`], which is $`f(e^{-x})`$, the curvature is $`(g'' + g')/(1 +
/// e^{-x})`$.
///
/// # Errors
/// The first [`GeneratorLaw`] that does not hold.
///
/// # Example
/// ```
/// use partita_inference::JensenShannon;
/// use partita_laws as laws;
/// laws::generator("Jensen-Shannon", &JensenShannon)?;
/// # Ok::<(), laws::Violation<laws::GeneratorLaw>>(())
/// ```
pub fn generator(name: &str, generator: &dyn Generator) -> Result<(), Violation<GeneratorLaw>> {
    let found = generator.value(0.0);
    if !within(found, 0.0, f64::EPSILON) {
        return Violation::of(name, GeneratorLaw::AtOne { found });
    }
    let scale = |x: f64| 1.0 + (-x).exp();
    let value = |x: &[f64]| scale(x[0]) * generator.value(x[0]);
    let slope = |x: &[f64]| derivative(value, x, 0);
    for log_ratio in LOG_RATIOS {
        let at = [log_ratio];
        let (found, expected) = (generator.curvature(log_ratio), derivative(slope, &at, 0) + slope(&at));
        let expected = expected / scale(log_ratio);
        let is_same = within(found, expected, SECOND * (1.0 + expected.abs()));
        if !(is_same && found >= 0.0) {
            return Violation::of(name, GeneratorLaw::Curvature { log_ratio, found, expected });
        }
    }
    Ok(())
}
