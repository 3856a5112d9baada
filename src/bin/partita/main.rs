//! Fits models over the data of silos from the command line.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "an executable tells its user what happens")]

mod answers;
mod coordinator;
mod describe;
mod fit;
mod init;
mod keys;
mod pages;
mod reading;
mod shared;
mod silo;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory, Parser, Subcommand};

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
    /// Writes the files of a party of a study, with comments.
    Init(init::Options),
    /// Makes the keys and certificates of a party.
    Keys(keys::Options),
    /// Serves as a silo of a federated run over Flower.
    Silo(silo::Options),
    /// Coordinates a federated run over Flower.
    Coordinator(coordinator::Options),
    /// Prints what completes commands in a shell.
    Completions(pages::Completions),
    /// Writes the manual pages.
    Manual(pages::Manual),
}

fn main() -> ExitCode {
    let done = match Options::parse().task {
        Task::Fit(options) => fit::run(&options),
        Task::Describe(options) => describe::run(&options),
        Task::Init(options) => init::run(&options),
        Task::Keys(options) => keys::run(&options),
        Task::Completions(options) => pages::completions(&options, Options::command()),
        Task::Manual(options) => pages::manual(&options, Options::command()),
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

/// Runs a task that Ctrl-C or SIGTERM asks to stop; the second one ends it at once.
fn interruptible(task: impl FnOnce(&Arc<AtomicBool>) -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            // What a shell reports of a program that Ctrl-C has ended.
            std::process::exit(130);
        }
        eprintln!("stopping after what is under way is saved; once more ends at once");
    })?;
    task(&stop)
}
