//! Fits a normal distribution to a log density that one party has to itself: the start of a silo, and their merger.

use super::step::{Share, Step};
use crate::engine::error::Result;
use crate::engine::normal::Normal;

/// Steps after which a start is taken as it is.
const MOST_STEPS: usize = 150;
/// A bound may fall by this much, in nats: the fixed point of Stein's rule is not quite the maximum of the bound.
pub(crate) const SLACK: f64 = 0.02;

/// A log density below which, in nats, rounding in double precision comes near the gains that steps are judged by.
const LOWEST: f64 = -1e9;
/// What is left of such a log density where a narrower start has much more.
const MUCH_MORE: f64 = 0.5;
/// The factor on the standard deviations of a start that reaches to where there is no log density, and how often.
const NARROWER: f64 = 0.1;
const TIMES: usize = 12;

/// A normal distribution near a posterior.
#[derive(Debug)]
pub(crate) struct Alone<S> {
    pub(crate) at: Normal,
    /// What the log density is there.
    pub(crate) share: Share,
    /// Where evaluations stand there, such as the rules over rows.
    pub(crate) state: S,
}

/// Fits a normal distribution near the posterior under `target`, from `start`, to what `tolerance` nats leave to gain.
///
/// `target` begins where the given state says, and gives the state that it ends in. A step that lowers the bound, or
/// leads to where the log density is no number, is taken back with its state.
///
/// # Errors
/// What `target` reports at the start, however narrow it is.
pub(crate) fn fit_alone<S>(
    start: Normal,
    state: &S,
    tolerance: f64,
    mut target: impl FnMut(&Normal, &S) -> Result<(Share, S)>,
) -> Result<Alone<S>> {
    let (mut at, (mut share, mut state)) = begin(start, state, &mut target)?;
    let mut bound = share.value + at.entropy();
    let mut fraction = 1.0;
    for _ in 0..MOST_STEPS {
        let step = Step::of(&share)?;
        if step.left() < tolerance || fraction < 1e-6 {
            break;
        }
        let next = step.take(&at, fraction);
        let found = match target(&next, &state) {
            Err(error) if error.is_outside() => None,
            other => Some(other?),
        };
        match found {
            Some((found, moved)) if found.value + next.entropy() > bound - SLACK => {
                bound = found.value + next.entropy();
                (at, share, state) = (next, found, moved);
                fraction = f64::min(1.0, 2.0 * fraction);
            }
            _ => fraction /= 4.0,
        }
    }
    Ok(Alone { at, share, state })
}

/// Where a search begins: at `start`, or as much narrower around its middle as `target` needs. In the units of some
/// columns a usual start is very wide.
fn begin<S>(
    start: Normal,
    state: &S,
    target: &mut impl FnMut(&Normal, &S) -> Result<(Share, S)>,
) -> Result<(Normal, (Share, S))> {
    let mut at = start;
    let mut found = target(&at, state);
    for _ in 0..TIMES {
        let is_wide = match &found {
            Ok((share, _)) => share.value <= LOWEST,
            Err(error) => error.is_outside(),
        };
        if !is_wide {
            break;
        }
        let narrower = Normal { mean: at.mean.clone(), factor: &at.factor * faer::Scale(NARROWER) };
        let next = target(&narrower, state);
        if let (Ok((before, _)), Ok((after, _))) = (&found, &next)
            && after.value < MUCH_MORE * before.value
        {
            // It is the middle that is far off, or there are many rows.
            break;
        }
        (at, found) = (narrower, next);
    }
    Ok((at, found?))
}
