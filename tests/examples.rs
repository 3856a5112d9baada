//! Runs every example and every study small, as a user would, and holds what they write to their contracts.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

#[path = "examples/bayesian_mnist.rs"]
mod bayesian_mnist;
#[path = "examples/clutter.rs"]
mod clutter;
#[path = "examples/clutter_tables.rs"]
mod clutter_tables;
mod fixtures;
#[path = "examples/gaussian_mean.rs"]
mod gaussian_mean;
#[path = "examples/mnist_regression.rs"]
mod mnist_regression;
#[path = "examples/programs.rs"]
mod programs;
#[path = "examples/pvi_mnist.rs"]
mod pvi_mnist;
#[path = "examples/pvi_uci.rs"]
mod pvi_uci;
#[path = "examples/ruggedness.rs"]
mod ruggedness;
#[path = "examples/topics.rs"]
mod topics;
#[path = "examples/vae.rs"]
mod vae;
#[path = "examples/vertical_heart.rs"]
mod vertical_heart;
#[path = "examples/vertical_logistic.rs"]
mod vertical_logistic;
#[path = "examples/vertical_poisson.rs"]
mod vertical_poisson;

use std::process::Command;

use fixtures::example;

/// The command of the study of this name, built by the same `cargo test` that runs this test.
fn study(name: &str) -> Command {
    // What cargo builds lies one folder above its examples.
    let program = example("six_cities").with_file_name("../partita-studies");
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    let shown = program.display();
    assert!(program.exists(), "{shown} is not built: run `cargo test --workspace`, which builds it for its own test");
    let mut command = Command::new(program);
    command.arg(name);
    command
}
