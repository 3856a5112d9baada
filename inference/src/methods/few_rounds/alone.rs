//! Fits a normal distribution to a log density that one party has to itself: the start of a silo, and their merger.

use super::gaussian::Normal;
use super::step::{Share, Step};
use crate::engine::error::Result;

/// Steps after which a start is taken as it is.
const MOST_STEPS: usize = 150;
/// A bound may fall by this much, in nats: the fixed point of Stein's rule is not quite the maximum of the bound.
pub(crate) const SLACK: f64 = 0.02;

/// A normal distribution near the posterior under `target`, from `start`, to what `tolerance` nats leave to gain.
///
/// A step to where the log density is no number is taken back, as one that lowers the bound.
///
/// # Errors
/// What `target` reports at the start.
pub(crate) fn fit_alone(
    start: Normal,
    tolerance: f64,
    mut target: impl FnMut(&Normal) -> Result<Share>,
) -> Result<(Normal, Share)> {
    let mut share = target(&start)?;
    let mut at = start;
    let mut bound = share.value + at.entropy();
    let mut fraction = 1.0;
    for _ in 0..MOST_STEPS {
        let step = Step::of(&share)?;
        if step.is_last(tolerance) || fraction < 1e-6 {
            break;
        }
        let next = step.take(&at, fraction);
        let found = match target(&next) {
            Err(error) if error.is_outside() => None,
            other => Some(other?),
        };
        match found {
            Some(found) if found.value + next.entropy() > bound - SLACK => {
                bound = found.value + next.entropy();
                (at, share) = (next, found);
                fraction = f64::min(1.0, 2.0 * fraction);
            }
            _ => fraction /= 4.0,
        }
    }
    Ok((at, share))
}
