//! Fits a formula over the CSV files of silos, or a model that is compiled in, and writes what was found.

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::answers::{Fitted, made, opened, rows_asked, say_written};
use super::asked::{Asked, Subject};
use super::found::{Found, How};
use super::models::{Compiled, ModelFit, Models};
use super::private_fit::Promised;
use super::say::{note, say, text};
use crate::executables::questions::{Answers, PRIOR_PREDICTIVE, Questions, RowsAsked, write};
use crate::executables::{MOST_STEPS, StudyFile, write_report};
use crate::formula::{Contrast, Prepared, SiloTable, Study};
use crate::inference::{FewRoundsOptions, HtmlOptions, Nuts, PredictiveCheck};
use crate::{AlgorithmChoice, Device, FitOptions, Schedule, Settings};

/// What is fitted to what.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    asked: Asked,
    /// The folder of the results: report.html, result.json and posterior.csv, and what else is asked for.
    #[arg(long)]
    pub(super) output: Option<PathBuf>,
    /// Draws so many data sets from the prior for the rows of the files, and fits nothing.
    #[arg(long, value_name = "DATA_SETS", conflicts_with = "model")]
    pub(super) prior_predictive: Option<u32>,
    /// A posterior predictive check, such as 'zeros of y'; any number of them.
    #[arg(long = "check-rows")]
    pub(super) checks: Vec<PredictiveCheck>,
    /// Writes draws for ArviZ, draws.zarr, replacing one that is there. Needs --output, and the feature `arviz`.
    #[arg(long, requires = "output", conflicts_with = "model")]
    pub(super) arviz: bool,
    /// A silo whose rows go into draws.zarr too, for whoever has that file: data, log likelihoods and predictive draws;
    /// any number of them.
    #[arg(long, requires = "arviz", value_name = "NAME")]
    pub(super) arviz_rows: Vec<String>,
    /// Predicts the rows of a CSV file, which needs no outcome, as FILE or, for rows of a silo, whose groups are known,
    /// NAME=FILE; any number of them. Needs --output.
    #[arg(long, requires = "output", conflicts_with = "model")]
    pub(super) predict: Vec<String>,
    /// Compares two values of a variable, such as 'smoke: 1 - 0 at age = 0', or 'smoke: 1 - 0 averaged' over all rows; any
    /// number of them.
    #[arg(long = "contrast", conflicts_with = "model")]
    pub(super) contrasts: Vec<Contrast>,
    /// Predicts the rows that were fitted. Needs --output.
    #[arg(long, requires = "output", conflicts_with = "model")]
    pub(super) fitted: bool,
    /// In a study with `[privacy]`, the folder in which each silo keeps what it has spent, NAME.ledger, over all fits: beyond the
    /// study's epsilon it refuses. Without it nothing is kept.
    #[arg(long, value_name = "FOLDER", requires = "study")]
    pub(super) ledgers: Option<PathBuf>,
    /// The seed; 1, or that of the study, if it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// The method; without it few rounds where they serve the model, else SFVI. A study has it as `algorithm` of `[run]`.
    /// `nuts` samples with the rows of all silos in this process, of a study too: no engine does.
    #[arg(long)]
    pub(super) method: Option<Method>,
    /// The draws that each of the four chains of `--method nuts` keeps, after 1,000 that are not kept; 1,000 without it.
    #[arg(long, value_name = "NUMBER", requires = "method")]
    draws: Option<usize>,
    /// The mean acceptance probability of `--method nuts`, 0.8 without it: nearer to 1 means smaller steps.
    #[arg(long, value_name = "PROBABILITY", requires = "method")]
    target_accept: Option<f64>,
    /// The largest depth of a tree of `--method nuts`, 10 without it: a trajectory has fewer than 2 to this power steps.
    #[arg(long, value_name = "DEPTH", requires = "method")]
    max_depth: Option<u32>,
}

/// A method by its name in the files of studies.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    FewRounds,
    Sfvi,
    /// The no-U-turn sampler, over the rows of all silos in this process.
    Nuts,
}

impl Method {
    fn options(self) -> FitOptions {
        let usual = FitOptions::default();
        match self {
            Self::FewRounds => {
                FitOptions { algorithm: AlgorithmChoice::FewRounds(FewRoundsOptions::default()), ..usual }
            }
            Self::Sfvi => {
                let settings = Settings { schedule: Schedule::adaptive(), steps: MOST_STEPS, ..usual.settings };
                FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, ..usual }
            }
            // It has options of its own, and the seed and the threads of these.
            Self::Nuts => usual,
        }
    }
}

pub(super) fn run(options: &Options, models: &Models) -> Result<(), Box<dyn Error>> {
    let asked = [
        ("--draws", options.draws.is_some()),
        ("--target-accept", options.target_accept.is_some()),
        ("--max-depth", options.max_depth.is_some()),
    ];
    if let (Some((name, _)), true) = (asked.iter().find(|own| own.1), options.method != Some(Method::Nuts)) {
        return Err(format!("{name} is of --method nuts. Leave it out, or take that method").into());
    }
    let subject = options.asked.subject(models)?;
    made(options.output.as_ref())?;
    match subject {
        Subject::Formula(study, file) => formula(options, &study, file.as_deref()),
        Subject::Model(model) => compiled_in(options, model),
        Subject::List => Ok(text(models)?),
    }
}

impl Options {
    /// The files of the silos.
    pub(super) fn tables(&self, study: Option<&StudyFile>) -> Result<Vec<SiloTable>, Box<dyn Error>> {
        self.asked.tables(study)
    }

    /// How it is fitted: as the study says, else by the method that was named, else as the model calls for.
    fn how(&self, file: Option<&StudyFile>, checks: Vec<PredictiveCheck>) -> Result<How, Box<dyn Error>> {
        let usual = match (file, self.method) {
            (Some(_), Some(Method::FewRounds | Method::Sfvi)) => {
                return Err(
                    "--method beside --study: the study names its method, `algorithm` of `[run]`. Correct it there; \
                            `--method nuts` alone is for a study too"
                        .into(),
                );
            }
            (Some(file), _) => file.fit_options()?,
            (None, Some(method)) => method.options(),
            (None, None) => FitOptions::default(),
        };
        let options = FitOptions {
            settings: Settings { seed: self.seed.unwrap_or(usual.settings.seed), ..usual.settings },
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            checks: usual.checks.into_iter().chain(checks).collect(),
            ..usual
        };
        let sampler = (self.method == Some(Method::Nuts)).then(|| self.sampler(&options));
        if sampler.is_some() && options.leave_one_out_draws > 0 {
            note("`leave_one_out_draws` of the study: --method nuts leaves no row out, and its report has none of it");
        }
        Ok(How { options, sampler })
    }

    /// The sampler, with the seed and the threads of a fit.
    fn sampler(&self, how: &FitOptions) -> Nuts {
        let usual = Nuts { seed: how.settings.seed, threads: how.threads, ..Nuts::default() };
        Nuts {
            draws: self.draws.unwrap_or(usual.draws),
            target_accept: self.target_accept.unwrap_or(usual.target_accept),
            max_depth: self.max_depth.unwrap_or(usual.max_depth),
            ..usual
        }
    }

    /// The questions, which are found to be of the study before it is fitted.
    fn questions(
        &self,
        file: Option<&StudyFile>,
        prepared: &Prepared,
        device: &Device,
    ) -> Result<Questions, Box<dyn Error>> {
        let predict: Vec<RowsAsked> =
            self.predict.iter().map(|text| rows_asked(text, prepared)).collect::<Result<_, _>>()?;
        let of_study = file.map(|own| own.contrasts.clone()).unwrap_or_default();
        let contrasts: Vec<Contrast> = of_study.into_iter().chain(self.contrasts.clone()).collect();
        Ok(Questions::of(&prepared.shared(), &contrasts, predict, device)?)
    }
}

fn formula(options: &Options, study: &Study, file: Option<&StudyFile>) -> Result<(), Box<dyn Error>> {
    let (device, how) = (Device::flex(), options.how(file, study.checks(&options.checks)?)?);
    if let Some((file, privacy)) = file.and_then(|file| Some((file, file.privacy.as_ref()?))) {
        return Promised { study, file, privacy, options, how: how.options }.fit();
    }
    if options.ledgers.is_some() {
        return Err("--ledgers for a study without `[privacy]`: nothing is spent. Leave it out".into());
    }
    let prepared = study.prepare(&options.tables(file)?, &device)?;
    say_prepared(&prepared)?;
    if let Some(count) = options.prior_predictive {
        let drawn = prepared.prior_predictive(count, how.options.settings.seed, &device)?;
        say(format_args!("\n{drawn}"))?;
        if let Some(folder) = &options.output {
            write(folder, PRIOR_PREDICTIVE, &drawn.csv())?;
            say(format_args!("{PRIOR_PREDICTIVE} is in {}", folder.display()))?;
        }
        return Ok(());
    }
    let questions = options.questions(file, &prepared, &device)?;
    opened(&prepared, &options.arviz_rows)?;
    let mut found = Found::of(&prepared.plan.model, &prepared.silos, &device, &how)?;
    let prior = found.tell_priors(&prepared.plan.model, &prepared.plan.priors, &device)?;
    let report = found.report();
    text(format_args!("\n{report}{}", prepared.plan.readings(&report.answer())))?;
    let title = options.asked.title(file);
    Fitted { options, title, prepared: &prepared, questions, prior, found, device: &device }.write()
}

/// Says what one should know of the files, and the priors.
pub(super) fn say_prepared(prepared: &Prepared) -> std::io::Result<()> {
    prepared.notes.iter().for_each(note);
    prepared.plan.priors.iter().try_for_each(|line| say(format_args!("prior: {line}")))
}

fn compiled_in(options: &Options, model: &dyn Compiled) -> Result<(), Box<dyn Error>> {
    let how = options.how(None, options.checks.clone())?;
    let ModelFit { found, draws, prior } = model.fit(&options.tables(None)?, &how, &Device::flex())?;
    text(found.report())?;
    let Some(folder) = &options.output else { return Ok(()) };
    let page = HtmlOptions { title: options.asked.title(None), prior, ..HtmlOptions::default() };
    let mut written = write_report(found.report(), &found.page(&page), folder)?;
    written.extend(Answers::default().write(&draws, folder)?);
    say_written(&written, folder)
}
