//! Declares what coordinator and silos of PVI say to each other.

use crate::engine::wire::message::LARGEST_COUNT;
use crate::engine::wire::typed::message;

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Natural parameters of the posterior.
    pub(super) natural: u64,
    /// Numbers of θ that parties share.
    pub(super) theta: u64,
    /// The most local steps that a request may ask for.
    pub(super) local_steps: u64,
}

message! {
    /// Asks a silo to solve its local problem.
    struct Solve = "pvi.solve", sizes: &Sizes {
        /// the step of the run at which it begins
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// which posterior is sent
        version: u64 = Request <= u64::MAX,
        /// local steps
        local_steps: u64 = Request <= sizes.local_steps,
        /// what the change is multiplied by
        damping: f64 = Request <= 1,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
        /// the silo's factor, where the silo may have another
        factor: Option<Vec<f64>> = Request <= sizes.natural,
        /// the answer of which `share` was taken
        settled: Option<u64> = Request <= u64::MAX,
        /// how much of it was taken
        share: Option<f64> = Request <= 1,
        /// the part of the factor of all that stands for the silo
        shared: Option<Vec<f64>> = Request <= sizes.natural,
        /// natural parameters of the posterior
        natural: Vec<f64> = Request <= sizes.natural,
    }
}

message! {
    /// What a silo found.
    struct Answer = "pvi.answer", sizes: &Sizes {
        /// which posterior the answer started from
        version: u64 = Request <= u64::MAX,
        /// the change of the silo's factor, in natural parameters
        change: Vec<f64> = Data <= sizes.natural,
        /// the silo's expected log likelihood, in nats, where no privacy hides it
        log_likelihood: Option<f64> = Data <= 1,
        /// how many rows were longer than the clip, with noise, where the silo is private
        clipped_rows: Option<f64> = Noised <= 1,
        /// the local steps taken
        steps: u64 = Data <= LARGEST_COUNT,
        /// the local steps whose gradient was clipped
        clipped: u64 = Data <= LARGEST_COUNT,
        /// the local steps that were halved to stay where the divergence exists
        shortened: u64 = Data <= LARGEST_COUNT,
        /// the components of the factor that stayed what they were
        held: u64 = Data <= LARGEST_COUNT,
        /// whether the cavity was no density
        improper_cavity: bool = Data <= 1,
    }
}
