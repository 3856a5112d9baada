//! Claims exact answers: exact posteriors, exact splits, exact gradients.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod calibration;
mod conjugate;
mod cookbook;
mod device_points;
mod device_rounds;
mod device_visits;
mod devices;
mod empirical_bayes;
mod family_by_site;
mod federation;
mod gpu;
mod importance;
mod isotropic;
mod levels;
mod levels_encoded;
mod levels_fits;
mod levels_sampled;
mod local_bound;
mod local_report;
mod multinomial_regression;
mod nesting;
mod network;
mod nuts;
mod on_device;
mod priors;
mod regressions;
