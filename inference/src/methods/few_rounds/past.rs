//! Remembers the latest rounds near the optimum: what all parties said of which posterior.

use super::step::{Share, Step};
use crate::engine::error::Result;
use crate::engine::natural::triangle;
use crate::engine::normal::Normal;

/// The most rounds that are remembered.
const MOST: usize = 3;
/// What the mean may have left to gain, in nats, in a round that is remembered: farther away, what was heard differs by
/// more than is linear in the way from there.
const NEAR: f64 = 1.0;

/// A posterior that was accepted, with what all parties said of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Round {
    pub(super) at: Normal,
    pub(super) gradient: Vec<f64>,
    pub(super) curvature: Vec<f64>,
}

/// The latest rounds before the present one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Past {
    pub(super) rounds: Vec<Round>,
}

impl Past {
    /// Remembers an accepted posterior if it is near the optimum, and forgets the oldest where there are too many.
    ///
    /// # Errors
    /// As for [`Step::of`].
    pub(crate) fn push(&mut self, at: &Normal, share: &Share) -> Result<()> {
        if Step::of(share)?.decrement() > NEAR {
            return Ok(());
        }
        if self.rounds.len() == MOST {
            self.rounds.remove(0);
        }
        self.rounds.push(Round {
            at: at.clone(),
            gradient: share.gradient.clone(),
            curvature: share.curvature.clone(),
        });
        Ok(())
    }

    /// Forgets all, as after a step that was taken back.
    pub(crate) fn clear(&mut self) {
        self.rounds.clear();
    }

    /// All numbers in one vector.
    pub(crate) fn flat(&self) -> Vec<f64> {
        let rounds = self.rounds.iter();
        rounds.flat_map(|round| [round.at.flat(), round.gradient.clone(), round.curvature.clone()].concat()).collect()
    }

    /// From [`Past::flat`]; `None` if the length is that of no number of rounds.
    pub(crate) fn of_flat(values: &[f64], len: usize) -> Option<Self> {
        let size = 2 * (len + triangle::pairs(len));
        if !values.len().is_multiple_of(size) || values.len() > MOST * size {
            return None;
        }
        let round = |part: &[f64]| {
            let (at, rest) = part.split_at(len + triangle::pairs(len));
            let (gradient, curvature) = rest.split_at(len);
            Some(Round { at: Normal::of_flat(at, len)?, gradient: gradient.into(), curvature: curvature.into() })
        };
        values.chunks_exact(size).map(round).collect::<Option<_>>().map(|rounds| Self { rounds })
    }
}
