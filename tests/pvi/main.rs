//! Claims the properties of partitioned variational inference, generalised and over networks.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod cavity;
mod clutter_pvi;
mod configurations;
mod divergences;
mod early_stopping;
mod fixed_point;
mod fixed_points;
mod framework_thesis;
mod generalised;
mod held_factors;
mod minibatches;
mod missing_silos;
mod options;
mod prior_classes;
mod priors;
mod private;
mod properties;
mod sampled;
mod schedules;
mod solvers;
mod structured;
mod two_modes;
