//! Holds the commands of the program `partita`, for a program of your own with further models too.

mod answers;
mod asked;
mod audit;
mod calibrate;
mod check;
mod coordinator;
mod course;
mod describe;
mod fit;
mod found;
mod init;
mod keys;
mod models;
mod page;
mod pages;
mod private_fit;
mod reading;
mod say;
mod shared;
mod silo;
mod simulate;

pub use models::Models;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory, Parser, Subcommand};
use say::note;

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
    Fit(Box<fit::Options>),
    /// Says before a fit what a formula makes of the files: priors, columns, groups, gradients, whether silos give what pooled rows
    /// give.
    Check(check::Options),
    /// Draws a data set from the prior, or at given numbers, for the covariates of the files: one CSV file a silo.
    Simulate(simulate::Options),
    /// Tests by simulation whether fits over these files can be believed: data drawn from the prior are fitted, and the truth is
    /// ranked among the draws.
    Calibrate(calibrate::Options),
    /// Audits the noise of private studies: what canaries betray of themselves without it and with it.
    Audit(audit::Options),
    /// Prints the report of a fit that was written, or writes its page anew; it fits nothing.
    Report(page::Options),
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

/// Runs the command that the arguments of this process name; what failed is on standard error.
pub fn run(models: &Models) -> ExitCode {
    let done = match Options::parse().task {
        Task::Fit(options) => fit::run(&options, models),
        Task::Check(options) => check::run(&options, models),
        Task::Simulate(options) => simulate::run(&options),
        Task::Calibrate(options) => interruptible(|stop| calibrate::run(&options, models, stop)),
        Task::Audit(options) => audit::run(&options),
        Task::Report(options) => page::run(&options),
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
            note(format_args!("partita: {error}"));
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
        note("stopping after what is under way is saved; once more ends at once");
    })?;
    task(&stop)
}
