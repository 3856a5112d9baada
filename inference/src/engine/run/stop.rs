//! Decides whether a run has converged: from how far the posterior still moves.

use crate::engine::algorithm::StepInfo;
use crate::engine::error::Result;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// Stops once so many exchanges in a row have each moved the posterior by less than `change`.
///
/// The measure is [`StepInfo::movement`], in PVI of the natural parameters; where there is none it is the norm of the
/// gradient. Let `exchanges` cover every silo: a sweep where one is visited at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// What counts as no movement.
    pub change: f64,
    /// How many exchanges in a row.
    pub exchanges: usize,
}

/// What the tolerance of a run has seen.
#[derive(Debug)]
pub(super) struct Watch {
    tolerance: Option<Tolerance>,
    /// Exchanges in a row that moved the posterior by less.
    still: usize,
}

impl Watch {
    pub(super) fn new(tolerance: Option<Tolerance>) -> Self {
        Self { tolerance, still: 0 }
    }

    /// Adds what has been seen to the state of a run.
    pub(super) fn save(&self, state: Message) -> Message {
        state.word("run.stop.tolerance", self.still as u64)
    }

    /// Takes it back; nothing was seen where nothing was saved.
    pub(super) fn load(&mut self, state: &Message) -> Result<()> {
        if state.has("run.stop.tolerance") {
            self.still = usize::try_from(state.get_count("run.stop.tolerance", LARGEST_COUNT)?).unwrap_or(usize::MAX);
        }
        Ok(())
    }

    /// Takes what is known of a step; true once the tolerance is met.
    pub(super) fn is_over(&mut self, info: &StepInfo) -> bool {
        let Some(Tolerance { change, exchanges }) = self.tolerance else { return false };
        let measure = info.movement.or(info.gradient_norm);
        self.still = if measure.is_some_and(|measure| measure < change) { self.still + 1 } else { 0 };
        self.still >= exchanges.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::algorithm::Tally;

    #[test]
    fn what_a_tolerance_has_seen_goes_on_after_a_checkpoint() {
        let tolerance = Some(Tolerance { change: 0.1, exchanges: 10 });
        let info = StepInfo { gradient_norm: Some(0.01), ..StepInfo::still(0, Tally::default()) };
        let mut watch = Watch::new(tolerance);
        for _ in 0..9 {
            assert!(!watch.is_over(&info));
            let state = Message::decode(&watch.save(Message::new("run")).encode()).unwrap();
            watch = Watch::new(tolerance);
            watch.load(&state).unwrap();
        }
        assert!(watch.is_over(&info));
    }
}
