//! Declares what coordinator and silos say to each other in rounds of local steps.

use crate::engine::terms::Silo;
use crate::engine::wire::message::LARGEST_COUNT;
use crate::engine::wire::typed::message;

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Parameters of the global family.
    pub(super) parameters: u64,
    /// Numbers of θ that parties share.
    pub(super) theta: u64,
    /// The most local steps that a request may ask for.
    pub(super) local_steps: u64,
}

impl Sizes {
    /// Those of a silo, which takes rounds of so many local steps at most.
    pub(super) fn of_silo(silo: &Silo, local_steps: u64) -> Self {
        Self { parameters: silo.family.parameter_len() as u64, theta: silo.theta_len as u64, local_steps }
    }
}

/// The kind of a [`Round`] of point estimation: the owner of a silo allows it apart from a round of variational inference.
pub(super) const POINT_ROUND: &str = "fed.round";

message! {
    /// Asks for a round of local steps, of variational inference or of point estimation.
    struct Round = "avg.round", sizes: &Sizes {
        /// the step of the run at which it begins
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
        /// the round
        round: u64 = Request <= LARGEST_COUNT,
        /// local steps
        local_steps: u64 = Request <= sizes.local_steps,
        /// whether the optimiser of the globals goes on
        keep_optimiser: bool = Request <= 1,
        /// what the silo's own log density is multiplied by
        weight: f64 = Request <= 1,
        /// what the entropy of its local posterior is multiplied by
        entropy: f64 = Request <= 1,
        /// what the log density of the globals is multiplied by
        prior: f64 = Request <= 1,
        /// the strength of the pull towards the start
        proximal: f64 = Request <= 1,
        /// the learning rates of the first and the last local step, where they follow from the run and not from the step
        rates: Option<Vec<f64>> = Request <= 2,
        /// 1 where steps were undone before this round: rules forget what they have seen
        undone: Option<u64> = Request <= 1,
        /// whether parameters move in coordinates of the covariance at which the round begins, after a start at a mode
        whitened: Option<u64> = Request <= 1,
    }
}

message! {
    /// Where a silo's local steps have led.
    struct RoundAnswer = "avg.answer", sizes: &Sizes {
        /// the round answered
        round: u64 = Request <= LARGEST_COUNT,
        /// the silo's global posterior's parameters
        global: Vec<f64> = Data <= sizes.parameters,
        /// the mean bound of the last tenth of the local steps, where no privacy hides it
        elbo: Option<f64> = Data <= 1,
        /// how many rows were longer than the clip, with noise, where the silo is private
        clipped_rows: Option<f64> = Noised <= 1,
        /// the local steps whose gradient was clipped
        clipped: u64 = Data <= LARGEST_COUNT,
        /// the silo's trained parameters
        theta: Vec<f64> = Data <= sizes.theta,
    }
}
