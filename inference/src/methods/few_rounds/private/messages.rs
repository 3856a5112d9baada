//! Declares what coordinator and silos say to each other in private rounds: one noised sum a round.

use super::super::messages::Sizes;
use crate::engine::wire::message::LARGEST_COUNT;
use crate::engine::wire::typed::message;

message! {
    /// Asks a silo for its noised sum over clipped rows.
    struct PrivateRequest = "private.round", sizes: &Sizes {
        /// the round
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of what is believed of the globals
        global: Vec<f64> = Request <= sizes.parameters,
        /// the norm to which a row's numbers are clipped
        clip: f64 = Request <= 1,
        /// what a row's curvature is multiplied by before
        curvature: f64 = Request <= 1,
        /// the scale of the noise in units of the clip
        noise: f64 = Request <= 1,
    }
}

message! {
    /// The noised sum.
    struct PrivateAnswer = "private.answer", sizes: &Sizes {
        /// sums over clipped rows, with noise, of the gradient of their log marginal likelihood by the globals
        gradient: Vec<f64> = Noised <= sizes.globals,
        /// and of its curvature
        curvature: Vec<f64> = Noised <= sizes.triangle,
        /// and of the marks of rows that are longer than the clip, each half of the clip
        clipped: f64 = Noised <= 1,
    }
}
