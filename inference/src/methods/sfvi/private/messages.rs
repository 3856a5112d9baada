//! Declares what coordinator and silos say to each other in private SFVI: one noised sum a draw of the globals.

use crate::engine::natural::triangle::pairs;
use crate::engine::wire::message::LARGEST_COUNT;
use crate::engine::wire::typed::message;

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    globals: u64,
    parameters: u64,
}

impl Sizes {
    pub(super) fn of(globals: usize) -> Self {
        Self { globals: globals as u64, parameters: (globals + pairs(globals)) as u64 }
    }
}

message! {
    /// Asks a silo for its noised sum over clipped rows at a draw of the globals, which the step names.
    struct StepRequest = "private.step", sizes: &Sizes {
        /// the exchange
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of what is believed of the globals
        global: Vec<f64> = Request <= sizes.parameters,
        /// the norm to which a row's gradient is clipped
        clip: f64 = Request <= 1,
        /// the scale of the noise in units of the clip
        noise: f64 = Request <= 1,
        /// the probability with which each row is in the sum
        rate: f64 = Request <= 1,
    }
}

message! {
    /// The noised sum.
    struct StepAnswer = "private.stepped", sizes: &Sizes {
        /// the sum over clipped rows, with noise, of the gradient of their terms of the bound by the globals
        gradient: Vec<f64> = Noised <= sizes.globals,
        /// and of the marks of rows that are longer than the clip, each half of the clip
        clipped: f64 = Noised <= 1,
    }
}
