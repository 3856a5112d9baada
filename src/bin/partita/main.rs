//! Fits models over the data of silos from the command line.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "an executable tells its user what happens")]

mod answers;
mod coordinator;
mod describe;
mod fit;
mod reading;
mod shared;
mod silo;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Serves as a silo of a federated run over Flower.
    Silo(silo::Options),
    /// Coordinates a federated run over Flower.
    Coordinator(coordinator::Options),
}

fn main() -> ExitCode {
    let done = match Options::parse().task {
        Task::Fit(options) => fit::run(&options),
        Task::Describe(options) => describe::run(&options),
        Task::Silo(options) => interruptible(|stop| silo::run(&options, stop)),
        Task::Coordinator(options) => interruptible(|stop| coordinator::run(&options, stop)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("partita: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a task that Ctrl-C asks to stop.
fn interruptible(task: impl FnOnce(&Arc<AtomicBool>) -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    task(&stop)
}
