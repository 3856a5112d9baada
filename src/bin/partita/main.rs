//! Fits models over the data of silos from the command line.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "an executable tells its user what happens")]

mod describe;
mod fit;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bayesian models over data that cannot be pooled.
#[derive(Parser, Debug)]
#[command(name = "partita", version)]
struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Fits a formula over the CSV files of silos, in one process.
    Fit(fit::Options),
    /// Says what one CSV file holds, and which of it would leave its silo for a formula.
    Describe(describe::Options),
}

fn main() -> ExitCode {
    let done = match Options::parse().task {
        Task::Fit(options) => fit::run(&options),
        Task::Describe(options) => describe::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("partita: {error}");
            ExitCode::FAILURE
        }
    }
}
