//! Coordinates a federated run: it receives the messages that the manifest allows, and never a row.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "an executable tells its owner what happens")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use partita::Metrics;
use partita::compiled_in::{CompiledIn, binary_head};
use partita::executables::{CoordinatorFile, Desk, Planned, Start, run_coordinator, run_label_holder};
use partita::flower::{Log, LongRuns, Result, RunFile, read_toml};
use partita::inference::Report;
use partita::models::{LogisticRegression, MixedLogistic};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The coordinator of a federated run over Flower.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// The run's file, the same at all parties.
    #[arg(long, default_value = "run.toml")]
    run: PathBuf,
    /// The coordinator's own file.
    #[arg(long, default_value = "coordinator.toml")]
    coordinator: PathBuf,
    /// Resumes from the latest checkpoint.
    #[arg(long)]
    resume: bool,
    /// Begins a run even if it will take days.
    #[arg(long)]
    long: bool,
    /// The covariates of a `logistic-regression`, without the intercept.
    #[arg(long, default_value_t = 0)]
    columns: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    if let Err(error) = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)) {
        eprintln!("Ctrl-C will end the run at once: {error}");
    }
    match coordinate(&options, interrupt) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("partita-coordinator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn coordinate(options: &Options, interrupt: Arc<AtomicBool>) -> Result<Report> {
    let run = RunFile::read(&options.run)?;
    let file: CoordinatorFile = read_toml(&options.coordinator)?;
    let model = CompiledIn::named(&run.model)?;
    let base = model.settings();
    let mut metrics = Metrics::new(run.steps, Some(&file.output.join("metrics.jsonl")), 1)?.resume(options.resume);
    let log: Log = Arc::new(|line: &str| eprintln!("{line}"));
    let long = if options.long { LongRuns::Welcome } else { LongRuns::Refused };
    let start = Start { resume: options.resume, long };
    let desk = Desk { file: &file, start, interrupt, progress: &mut metrics, log: &log };
    let run = Planned { file: &run, base: &base };
    match model {
        CompiledIn::SixCities => run_coordinator(&MixedLogistic::new(4), run, desk),
        CompiledIn::LogisticRegression => run_coordinator(&LogisticRegression::new(options.columns), run, desk),
        CompiledIn::VerticalLogistic => run_label_holder(run, desk, binary_head),
    }
}
