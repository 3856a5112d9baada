//! Fits Bayesian models to data that cannot be pooled: one declaration, many silos, on Burn.
#![doc = include_str!("../README.md")]

#[cfg(feature = "cli")]
pub mod commands;
#[cfg(feature = "cli")]
pub mod compiled_in;
#[cfg(doctest)]
mod doctests;
#[cfg(feature = "cli")]
pub mod executables;
#[cfg(feature = "formula")]
pub mod formula;
#[cfg(feature = "privacy")]
pub mod private;

pub use partita_core as core;
pub use partita_core::burn;
#[cfg(feature = "datasets")]
pub use partita_datasets as datasets;
#[cfg(feature = "flower")]
pub use partita_flower as flower;
pub use partita_gpu as gpu;
pub use partita_inference as inference;
#[cfg(feature = "laws")]
pub use partita_laws as laws;
pub use partita_models as models;
#[cfg(feature = "privacy")]
pub use partita_privacy as privacy;

// The prelude: the names of most programs. All others are under their crates, `partita::core`, `partita::inference` and
// so on.
pub use partita_core::{
    Amortised, BayesianLinear, Bernoulli, Beta, Binomial, Categorical, Cauchy, Censoring, Chance, Design, Device,
    Dirichlet, Encoder, Encoding, Error, Exponential, Gamma, Groups, HalfCauchy, HalfNormal, InverseGamma, Laplace,
    LogNormal, Loss, Mixture, Model, Multinomial, MultivariateNormal, NegativeBinomial, Normal, Poisson, Precision,
    Result, Rows, Scope, SiteTable, SparseRows, StudentT, Table, Uniform,
};
pub use partita_inference::{
    AlgorithmChoice, Clip, Estimator, FamilyPlan, FedOptOptions, Fit, FitOptions, Gaussian, Metrics, Plug, PviOptions,
    Report, RoundOptions, Schedule, Settings, SiloSchedule, check, fit,
};
#[cfg(feature = "sampler")]
pub use partita_inference::{Nuts, NutsFit};

/// Models of columns held by different parties: declarations, ready-made parts, and the fit.
pub mod vertical {
    pub use partita_core::vertical::*;
    pub use partita_inference::vertical::*;
    pub use partita_models::vertical::*;
}
