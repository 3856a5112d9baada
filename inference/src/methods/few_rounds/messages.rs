//! Declares what coordinator and silos say to each other in few rounds.

use super::step::Share;
use crate::engine::error::Result;
use crate::engine::natural::triangle::pairs;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::message;

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Parameters of the posterior.
    pub(super) parameters: u64,
    /// The globals.
    pub(super) globals: u64,
    /// The entries of a triangle over them.
    pub(super) triangle: u64,
    /// The posteriors that a round asks for.
    pub(super) looks: u64,
}

/// The most posteriors that a round asks for.
pub(super) const MOST_LOOKS: u64 = 3;

impl Sizes {
    /// Those of a round that asks for one posterior.
    pub(super) fn of(globals: usize) -> Self {
        Self::of_looks(globals, 1)
    }

    /// Those of a round that asks for so many.
    pub(super) fn of_looks(globals: usize, looks: u64) -> Self {
        let (globals, triangle) = (globals as u64, pairs(globals) as u64);
        Self { parameters: globals + triangle, globals, triangle, looks }
    }
}

message! {
    /// Asks a silo for a start: a normal distribution near its own posterior.
    struct StartRequest = "few.start", sizes: &() {
        /// the round
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
    }
}

message! {
    /// Asks a silo for its share of a round, at every posterior that may come next.
    struct RoundRequest = "few.round", sizes: &Sizes {
        /// the round
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// how many posteriors it asks for
        looks: u64 = Request <= MOST_LOOKS,
        /// the parameters of these global posteriors, one after another
        global: Vec<f64> = Request <= sizes.looks * sizes.parameters,
    }
}

message! {
    /// A silo's share of posteriors, sums over its rows: of its own in a start, of those it was sent in a round.
    struct Answer = "few.answer", sizes: &Sizes {
        /// in a start, parameters of a normal distribution near the posterior of this silo alone
        own: Option<Vec<f64>> = Data <= sizes.parameters,
        /// mean over draws of the log marginal likelihood of its rows, minus infinity where that is no number
        value: Vec<f64> = Data <= sizes.looks,
        /// mean over draws of the gradient of that log likelihood by the globals
        gradient: Vec<f64> = Data <= sizes.looks * sizes.globals,
        /// mean over draws of its curvature by the globals
        curvature: Vec<f64> = Data <= sizes.looks * sizes.triangle,
        /// points of the rules that integrate rows, along one latent
        points: u64 = Data <= LARGEST_COUNT,
        /// in a start, how many rows the silo has
        rows: Option<u64> = Data <= LARGEST_COUNT,
        /// in a start of levels in levels, rows times the combinations of points at which each is evaluated
        evaluations: Option<u64> = Data <= LARGEST_COUNT,
    }
}

impl RoundRequest {
    /// How many posteriors a message asks for, which its sizes follow from.
    pub(super) fn looks(message: &Message) -> Result<u64> {
        message.get_count("looks", MOST_LOOKS)
    }
}

impl Answer {
    /// The shares of the posteriors asked for.
    pub(super) fn shares(&self, sizes: &Sizes) -> Vec<Share> {
        let length = |numbers: u64| usize::try_from(numbers).unwrap_or(usize::MAX).max(1);
        let gradients = self.gradient.chunks_exact(length(sizes.globals));
        let curvatures = self.curvature.chunks_exact(length(sizes.triangle));
        let parts = self.value.iter().zip(gradients).zip(curvatures);
        parts
            .map(|((value, gradient), curvature)| Share {
                value: *value,
                gradient: gradient.into(),
                curvature: curvature.into(),
            })
            .collect()
    }
}
