//! Runs every example and every study small, as a user would, and checks their output.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod bayesian_mnist;
mod clutter;
mod clutter_tables;
mod gaussian_mean;
mod mnist_regression;
mod packages;
mod programs;
mod pvi_mnist;
mod pvi_uci;
mod ruggedness;
mod topics;
mod vae;
mod verdicts;
mod vertical_heart;
mod vertical_logistic;
mod vertical_poisson;

use std::process::Command;

use fixtures::{example, executable};

/// The command of the study of this name, built by the same `cargo test` that runs this test.
fn study(name: &str) -> Command {
    let mut command = Command::new(executable("partita-studies"));
    command.arg(name);
    command
}
