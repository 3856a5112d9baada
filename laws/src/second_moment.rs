//! Checks that a second moment stays one: never negative, and moved towards the squares that it hears of.

use partita_inference::SecondMoment;

/// Moments and squares of changes, from the smallest that rules divide by to large ones.
const SIZES: [f64; 6] = [0.0, 1e-12, 1e-3, 0.5, 1.0, 1e6];

/// A law of [`SecondMoment`] that does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{rule}: after {before} and a squared change of {square} comes {found}, expected {expected}")]
pub struct SecondMomentViolation {
    /// The rule.
    pub rule: String,
    /// The moment before.
    pub before: f64,
    /// The squared change.
    pub square: f64,
    /// The moment after.
    pub found: f64,
    /// What it should be.
    pub expected: &'static str,
}

/// Checks that $`v_t \ge 0`$ is finite, that it does not fall below $`\min(v_{t-1}, \Delta_t^2)`$, and that without a
/// change it does not rise.
///
/// # Errors
/// The first [`SecondMomentViolation`] found.
///
/// # Example
/// ```
/// use partita_inference::FedYogi;
/// use partita_laws as laws;
/// laws::second_moment("FedYogi", &FedYogi { rate: 0.1, decay: [0.9, 0.99], adaptivity: 1e-3 })?;
/// # Ok::<(), laws::SecondMomentViolation>(())
/// ```
pub fn second_moment(name: &str, rule: &dyn SecondMoment) -> Result<(), SecondMomentViolation> {
    for before in SIZES {
        for square in SIZES {
            let found = rule.next(before, square);
            // Rounding: a mean of two equal numbers may lie a last digit below them.
            let least = before.min(square) * (1.0 - 4.0 * f64::EPSILON);
            let expected = if !(found.is_finite() && found >= 0.0) {
                "a finite number that is not negative"
            } else if found < least {
                "no less than both"
            } else if square == 0.0 && found > before {
                "no more than before, since nothing changed"
            } else {
                continue;
            };
            return Err(SecondMomentViolation { rule: name.to_owned(), before, square, found, expected });
        }
    }
    Ok(())
}
