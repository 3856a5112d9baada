//! Claims the properties of few rounds: exact integrals over rows, exact Gaussian cases, and answers in a handful of rounds.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod arviz;
mod choice;
mod drawn;
mod exact;
mod heavy_tails;
mod leave_one_out;
mod mixed_models;
mod not_converged;
mod on_device;
mod page;
mod pooled;
mod predictive;
mod private;
mod raw_scales;
mod refusals;
mod resume;
mod six_cities;
mod trust;
mod wards;

use partita::inference::{AlgorithmChoice, FewRoundsOptions};
use partita::{Fit, FitOptions, Model, fit};

/// The options of few rounds, every one at its default.
fn options() -> FitOptions {
    let algorithm = AlgorithmChoice::FewRounds(FewRoundsOptions::default());
    FitOptions { algorithm, threads: 2, ..FitOptions::default() }
}

/// A fit by few rounds with as many draws of its one global as it needs, for models whose rules have many nodes.
fn fitted_with_four_draws<M: Model>(model: &M, silos: &[(String, M::Data)]) -> Fit {
    let own = FewRoundsOptions { draws: Some(4), ..FewRoundsOptions::default() };
    let options = FitOptions { algorithm: AlgorithmChoice::FewRounds(own), elbo_draws: 4, ..options() };
    fit(model, silos, &partita::Device::flex(), &options, None).unwrap()
}

/// A fit by few rounds with default options.
fn fitted<M: Model>(model: &M, silos: &[(String, M::Data)]) -> Fit {
    fit(model, silos, &partita::Device::flex(), &options(), None).unwrap()
}

/// Means and standard deviations of the unconstrained globals.
fn moments(fit: &Fit) -> (Vec<f64>, Vec<f64>) {
    fixtures::moments(fit.posterior())
}
