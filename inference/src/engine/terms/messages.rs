//! Declares what coordinator and silos say to each other about terms of the bound.

use crate::engine::estimator::Estimator;
use crate::engine::family::Family;
use crate::engine::settings::Settings;
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::LARGEST_COUNT;
use crate::engine::wire::typed::{Rows, message};

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Global latents.
    pub(crate) globals: u64,
    /// Parameters of the global family.
    pub(crate) parameters: u64,
    /// Numbers of θ that parties share.
    pub(crate) theta: u64,
    /// The draws that are answered.
    pub(crate) draws: u64,
    /// The vectors of θ that are answered: one a draw where draws weigh differently.
    pub(crate) thetas: u64,
    /// The draws of a step.
    pub(crate) particles: u64,
}

impl Sizes {
    /// Those of a family with so many parameters θ and draws.
    pub(crate) fn new(family: &dyn Family, theta: usize, draws: usize, settings: &Settings) -> Self {
        Self {
            globals: family.len() as u64,
            parameters: family.parameter_len() as u64,
            theta: theta as u64,
            draws: draws as u64,
            thetas: vectors(settings.estimator, draws) as u64,
            particles: settings.particles as u64,
        }
    }

    /// The largest of a run: those that a manifest allows.
    pub(crate) fn largest(family: &dyn Family, theta: usize, settings: &Settings) -> Self {
        Self::new(family, theta, settings.most_draws(), settings)
    }
}

/// The gradients by θ in an answer of so many draws.
fn vectors(estimator: Estimator, draws: usize) -> usize {
    if estimator.weighs_draws() { draws } else { 1 }
}

message! {
    /// Asks for terms and gradients at the noise of a step, and that the silo moves its own parameters.
    struct StepRequest = "sfvi.step", sizes: &Sizes {
        /// the step
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// the step whose draws are weighed
        weighted_step: Option<u64> = Request <= LARGEST_COUNT,
        /// what its draws weigh
        weights: Option<Vec<f64>> = Request <= sizes.particles,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
        /// the learning rate, where it follows from the run and not from the step
        rate: Option<f64> = Request <= 1,
        /// 1 where steps were undone before this one: rules forget what they have seen
        undone: Option<u64> = Request <= 1,
    }
}

message! {
    /// Asks for terms of draws for a report, on all rows.
    struct EstimateRequest = "sfvi.estimate_elbo", sizes: &Sizes {
        /// the first draw
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// the step whose draws are weighed
        weighted_step: Option<u64> = Request <= LARGEST_COUNT,
        /// what its draws weigh
        weights: Option<Vec<f64>> = Request <= sizes.particles,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
        /// how many draws
        draws: u64 = Request <= sizes.draws,
    }
}

message! {
    /// Asks for the log likelihood and its gradient at a point of the globals, on all rows.
    struct SlopeRequest = "sfvi.slope", sizes: &Sizes {
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the global latents
        point: Vec<f64> = Request <= sizes.globals,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
    }
}

message! {
    /// What one silo finds there; nothing where it has local latents, or where the model has no density.
    struct Slope = "sfvi.slope_found", sizes: &Sizes {
        /// the silo's log likelihood at a point of the globals
        log_likelihood: Option<f64> = Data <= 1,
        /// its gradient by the globals
        slope: Option<Vec<f64>> = Data <= sizes.globals,
    }
}

message! {
    /// The terms of one silo.
    #[derive(Default)]
    struct Terms = "sfvi.terms", sizes: &Sizes {
        /// the step answered
        step: u64 = Request <= LARGEST_COUNT,
        /// a: gradient of the ELBO term by the global latents, one vector a particle
        grad_mean: Option<Rows> = Data <= sizes.draws * sizes.globals,
        /// b: the same with the path through local latents
        grad_offset: Option<Rows> = Data <= sizes.draws * sizes.globals,
        /// gradient of the ELBO term by the global posterior's parameters
        gradient: Option<Vec<f64>> = Data <= sizes.parameters,
        /// the silo's ELBO term, one number a particle
        elbo: Vec<f64> = Data <= sizes.draws,
        /// gradient of the ELBO term by the model's trained parameters
        theta_gradient: Rows = Data <= sizes.theta * sizes.thetas,
        /// whether rows have latents, in the first answer to a run of many parameters
        rows_have_latents: Option<bool> = Request <= 1,
    }
}

/// What these answers let leave a silo.
pub(crate) fn manifest(sizes: &Sizes) -> Manifest {
    let fields: Vec<Field> = Terms::fields(sizes);
    Manifest { fields }
}
