//! Measures how far the means of a posterior move over the last tenth of a run.

use std::collections::VecDeque;

use crate::engine::algorithm::Posterior;
use crate::engine::error::Result;
use crate::engine::explosion::{real, whole};
use crate::engine::trust::round::MOST_GLOBALS;
use crate::engine::wire::message::Message;

/// How far the mean of one global moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LateMovement {
    /// The global, of those of the unconstrained vector.
    pub(crate) component: usize,
    /// How far, in standard deviations of the posterior.
    pub(crate) distance: f64,
}

/// The part of the steps after which a mark counts, and the part of them from mark to mark.
const EARLY: f64 = 0.9;
const APART: u64 = 50;

/// Means of the posterior at some steps, of which those around nine tenths of a run are kept, however long it is.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Marks {
    marks: VecDeque<(u64, Vec<f64>)>,
    /// Whether the globals are too many to be marked.
    is_off: bool,
}

fn is_early(mark: u64, step: u64) -> bool {
    mark as f64 <= EARLY * step as f64
}

impl Marks {
    /// Marks a step, where one is due: the posterior of a large model is not asked for otherwise.
    pub(super) fn take<'p>(&mut self, step: u64, posterior: impl FnOnce() -> Posterior<'p>) {
        let last = self.marks.back().map_or(0, |(step, _)| *step);
        if self.is_off || step < last + (last / APART).max(1) {
            return;
        }
        let posterior = posterior();
        self.is_off = !(1..=MOST_GLOBALS).contains(&posterior.family.len());
        if self.is_off {
            return;
        }
        self.marks.push_back((step, posterior.family.mean(posterior.parameters)));
        // The last of those that count is the one to compare with.
        while self.marks.get(1).is_some_and(|(mark, _)| is_early(*mark, step)) {
            self.marks.pop_front();
        }
    }

    /// How far the mean that moved farthest since nine tenths of so many steps has come.
    pub(super) fn movement(&self, step: u64, posterior: &Posterior<'_>) -> Option<LateMovement> {
        let (_, before) = self.marks.iter().rev().find(|(mark, _)| is_early(*mark, step))?;
        let now = posterior.family.mean(posterior.parameters);
        let deviations = posterior.family.deviations(posterior.parameters);
        let all = now.iter().zip(before).zip(&deviations).enumerate().filter(|(_, (_, deviation))| **deviation > 0.0);
        let all = all.map(|(component, ((now, before), deviation))| LateMovement {
            component,
            distance: ((now - before) / deviation).abs(),
        });
        all.max_by(|one, other| one.distance.total_cmp(&other.distance))
    }

    /// Adds all marks to the state of a run.
    pub(super) fn save(&self, state: Message) -> Message {
        let (steps, means): (Vec<f64>, Vec<&[f64]>) =
            self.marks.iter().map(|(step, mean)| (real(*step), mean.as_slice())).unzip();
        state.floats(STEPS, &steps).floats(MEANS, &means.concat())
    }

    /// Takes them back; there are none where nothing was saved.
    pub(super) fn load(&mut self, state: &Message) -> Result<()> {
        if state.has(STEPS) {
            let (steps, means) = (state.get_floats(STEPS)?, state.get_floats(MEANS)?);
            let length = means.len().checked_div(steps.len()).unwrap_or_default().max(1);
            self.marks = steps.iter().copied().map(whole).zip(means.chunks(length).map(<[f64]>::to_vec)).collect();
        }
        Ok(())
    }
}

/// What holds the marks of a run in its state.
const STEPS: &str = "run.tenth.steps";
const MEANS: &str = "run.tenth.means";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::DiagonalGaussian;

    #[test]
    fn a_mean_that_wanders_is_measured_from_nine_tenths_of_the_run() {
        let family = DiagonalGaussian::new(2);
        // The second mean goes a hundredth a step, in standard deviations of a half.
        let at = |step: u64| [0.0, 0.01 * f64::from(u32::try_from(step).unwrap()), 0.0, 0.5_f64.ln()];
        let mut marks = Marks::default();
        for step in 1..=1_000 {
            let now = at(step);
            marks.take(step, || Posterior { family: &family, parameters: &now, theta: &[] });
            let mut restored = Marks::default();
            restored.load(&Message::decode(&marks.save(Message::new("run")).encode()).unwrap()).unwrap();
            assert_eq!(restored, marks);
        }
        let end = at(1_000);
        let found = marks.movement(1_000, &Posterior { family: &family, parameters: &end, theta: &[] }).unwrap();
        // A tenth is 100 steps, one mark more is 18 at most: 2 to 2.4 standard deviations.
        assert!(found.component == 1 && (2.0..2.4).contains(&found.distance), "{found:?}");
        assert!(marks.marks.len() < 12, "{}", marks.marks.len());
    }
}
