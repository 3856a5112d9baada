//! Coordinates a federated run: it receives the messages that the manifest allows, and never a row.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::Metrics;
use crate::compiled_in::{CompiledIn, binary_head};
use crate::executables::{
    CoordinatorFile, Desk, Planned, Start, StudyFile, StudyQuestions, StudyResult, UnfinishedRun, run_coordinator,
    run_label_holder, run_study_coordinator,
};
use crate::flower::{FolderLock, Log, LongRuns, Result, RunFile};
use crate::formula::Contrast;
use crate::inference::Report;
use crate::models::{LogisticRegression, MixedLogistic};
use clap::Args;

use super::say::{note, say, text};
use super::shared::{Shared, SharedFile, clock, own_file};

/// The files of a coordinator, and how it starts.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    shared: SharedFile,
    /// The coordinator's own file.
    #[arg(long, default_value = "coordinator.toml")]
    coordinator: PathBuf,
    /// Resumes from the latest checkpoint.
    #[arg(long)]
    resume: bool,
    /// Gives up a run in its folder that has not ended, and begins another.
    #[arg(long, conflicts_with = "resume")]
    restart: bool,
    /// Begins a run even if it will take days.
    #[arg(long)]
    long: bool,
    /// Compares two values of a variable in a study, such as 'smoke: 1 - 0 at age = 0'; any number of them. Averaged ones stand in
    /// study.toml.
    #[arg(long = "contrast")]
    contrasts: Vec<Contrast>,
    /// Predicts the rows of a CSV file of the coordinator's own in a study, as rows of a silo never seen; any number of them.
    #[arg(long, value_name = "FILE")]
    predict: Vec<PathBuf>,
    /// Draws so many data sets from the prior of a study for the rows of the files of --predict, and fits nothing.
    #[arg(long, value_name = "DATA_SETS", requires = "predict")]
    prior_predictive: Option<u32>,
    /// Writes draws of a study for ArviZ, draws.zarr, replacing one that is there, without a row of a silo. Needs the feature
    /// `arviz`.
    #[arg(long, conflicts_with = "prior_predictive")]
    arviz: bool,
    /// The covariates of a `logistic-regression`, without the intercept; as many as `columns` of the run file names, where it is
    /// there.
    #[arg(long, default_value_t = 0)]
    columns: usize,
}

pub(super) fn run(options: &Options, interrupt: &Arc<AtomicBool>) -> std::result::Result<(), Box<dyn Error>> {
    let file: CoordinatorFile = own_file(&options.coordinator, "coordinator --link ADDRESS")?;
    let log: Log = Arc::new(|line: &str| note(format_args!("{} {line}", clock())));
    let long = if options.long { LongRuns::Welcome } else { LongRuns::Refused };
    let unfinished = if options.restart { UnfinishedRun::Replaced } else { UnfinishedRun::Kept };
    let start = Start { resume: options.resume, unfinished, long };
    // A second coordinator in them would overwrite the files of the first.
    let _locks = [FolderLock::take(&file.state)?, FolderLock::take(&file.output)?];
    let steps = |steps| -> Result<Metrics> {
        Ok(Metrics::new(steps, Some(&file.output.join("metrics.jsonl")), 1)?.resume(options.resume))
    };
    let interrupt = Arc::clone(interrupt);
    match options.shared.find()? {
        Shared::Study(path) => {
            let study = StudyFile::read(&path)?;
            let mut metrics = steps(study.most_rounds()?)?;
            let desk = Desk { file: &file, start, interrupt, progress: &mut metrics, log: &log };
            let asked = StudyQuestions {
                contrasts: options.contrasts.clone(),
                predict: options.predict.clone(),
                prior_predictive: options.prior_predictive,
                arviz: options.arviz,
            };
            match run_study_coordinator(&study, desk, &asked)? {
                StudyResult::Fitted { report, plan, contrasts } => {
                    text(format_args!("{report}{}", plan.readings(&report.answer())))?;
                    contrasts.iter().try_for_each(say)?;
                }
                StudyResult::Prior(drawn) => say(drawn)?,
            }
        }
        Shared::Run(path) => {
            if options.arviz {
                return Err("--arviz for a run of a model that is compiled in: it is of studies. Leave it out".into());
            }
            let run = RunFile::read(&path)?;
            let mut metrics = steps(run.steps)?;
            let desk = Desk { file: &file, start, interrupt, progress: &mut metrics, log: &log };
            say(compiled_in(&run, desk, options.columns)?)?;
        }
    }
    Ok(())
}

/// Coordinates a run of a model that is compiled in.
fn compiled_in(run: &RunFile, desk: Desk<'_>, columns: usize) -> Result<Report> {
    let model = CompiledIn::named(&run.model)?;
    model.check_columns(run)?;
    let columns = covariates(run, columns)?;
    let base = model.settings();
    let run = Planned { file: run, base: &base };
    match model {
        CompiledIn::SixCities => run_coordinator(&MixedLogistic::new(4), run, desk),
        CompiledIn::LogisticRegression => run_coordinator(&LogisticRegression::new(columns), run, desk),
        CompiledIn::VerticalLogistic => run_label_holder(run, desk, binary_head),
    }
}

/// The number of covariates: that of the command line, or of the names in the run file.
fn covariates(run: &RunFile, columns: usize) -> Result<usize> {
    match &run.columns {
        None => Ok(columns),
        Some(names) if columns == 0 || columns == names.len() => Ok(names.len()),
        Some(names) => Err(crate::flower::Error::Unwelcome {
            what: "the number of covariates",
            found: format!("--columns {columns}"),
            expected: format!("{}, the names in `columns` of the run file", names.len()),
            remedy: "Leave --columns out.",
        }),
    }
}
