//! Declares what is said to the one party of a fit of pooled data, and what it says.

use crate::engine::family::Family;
use crate::engine::settings::Settings;
use crate::engine::wire::message::LARGEST_COUNT;
use crate::engine::wire::typed::{Written, message};

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Parameters of the global family.
    pub(super) parameters: u64,
    /// Numbers of θ that parties share.
    pub(super) theta: u64,
    /// The most steps that a request may ask for.
    pub(super) steps: u64,
    /// The draws that are answered, or the most.
    pub(super) draws: u64,
}

impl Sizes {
    /// The largest of a run.
    pub(super) fn largest(family: &dyn Family, theta: usize, steps: u64, settings: &Settings) -> Self {
        let (parameters, theta) = (family.parameter_len() as u64, theta as u64);
        Self { parameters, theta, steps, draws: settings.most_draws() as u64 }
    }
}

message! {
    /// Asks for steps, of which the last is reported.
    struct StepsRequest = "central.steps", sizes: &Sizes {
        /// the first step
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// how many steps
        count: u64 = Request <= sizes.steps,
    }
}

message! {
    /// Where the steps have led.
    struct Stepped = "central.stepped", sizes: &Sizes {
        /// the mean of the steps' bounds
        bound: f64 = Data <= 1,
        /// the norm of the last gradient
        gradient_norm: f64 = Data <= 1,
        /// whether it was clipped
        clipped: bool = Data <= 1,
        /// the global posterior's parameters
        global: Written = Data <= sizes.parameters,
        /// the model's trained parameters
        theta: Vec<f64> = Data <= sizes.theta,
        /// the learning rate, where it follows from the run
        rate: Option<f64> = Data <= 1,
        /// whether the run has converged
        converged: bool = Data <= 1,
    }
}

message! {
    /// Asks for sampled bounds on all rows.
    struct BoundsRequest = "central.estimate_elbo", sizes: &Sizes {
        /// the first draw
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// how many draws
        draws: u64 = Request <= sizes.draws,
    }
}

message! {
    /// Sampled bounds.
    struct Bounds = "central.evaluated", sizes: &Sizes {
        /// the sampled bounds
        elbo: Vec<f64> = Data <= sizes.draws,
    }
}
