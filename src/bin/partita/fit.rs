//! Fits a formula over the CSV files of silos, and writes what was found.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use partita::formula::{Contrast, MissingCells, ResponseFamily, SiloTable, StatedPrior, Study};
use partita::inference::{PredictiveCheck, write_atomically};
use partita::{Device, FitOptions, Settings};

use crate::answers::Answers;
use crate::reading::Reading;

/// What is fitted to what.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The formula, as in 'wheeze ~ smoke * age + (1 | child)'.
    pub(crate) formula: String,
    /// The family of the outcome, with a link where it is not the usual one: gaussian, 'bernoulli(probit)', poisson,
    /// hurdle_gamma, cumulative, categorical, weibull, piecewise_exponential; a word that is none lists all.
    #[arg(long)]
    family: ResponseFamily,
    /// The formula of another parameter of the family, as in 'sigma ~ age'; any number of them.
    #[arg(long = "parameter")]
    parameters: Vec<String>,
    /// The CSV file of a silo, as FILE or NAME=FILE; once for each silo.
    #[arg(long = "silo", required = true)]
    silos: Vec<String>,
    /// The folder of the results: report.html, result.json and posterior.csv, and what else is asked for.
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// The prior of a number or a class in place of the usual one, such as 'smoke ~ normal(0, 1)' or 'sd ~ exponential(1)';
    /// any number of them. Classes are b (all coefficients but the intercept), sd and cor.
    #[arg(long = "prior")]
    priors: Vec<String>,
    /// A grouping whose groups have rows in several silos, such as school: their effects, by name, are known to all silos; any
    /// number of them.
    #[arg(long, value_name = "GROUPING")]
    across_silos: Vec<String>,
    /// Draws so many data sets from the prior for the rows of the files, and fits nothing.
    #[arg(long, value_name = "DATA_SETS")]
    prior_predictive: Option<u32>,
    /// A posterior predictive check, such as 'zeros of y'; any number of them.
    #[arg(long = "check-rows")]
    checks: Vec<PredictiveCheck>,
    /// Writes draws for ArviZ, draws.zarr, replacing one that is there. Needs --output, and the feature `arviz`.
    #[arg(long, requires = "output")]
    pub(crate) arviz: bool,
    /// Predicts the rows of a CSV file, which needs no outcome, as FILE or, for rows of a silo, whose groups are known,
    /// NAME=FILE; any number of them. Needs --output.
    #[arg(long, requires = "output")]
    pub(crate) predict: Vec<String>,
    /// Compares two values of a variable, such as 'smoke: 1 - 0 at age = 0', or 'smoke: 1 - 0 averaged' over all rows; any
    /// number of them.
    #[arg(long = "contrast")]
    pub(crate) contrasts: Vec<Contrast>,
    /// Predicts the rows that were fitted. Needs --output.
    #[arg(long, requires = "output")]
    pub(crate) fitted: bool,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    let mut study = Study::new(&options.formula, options.family)?;
    for formula in &options.parameters {
        study = study.with_parameter(formula)?;
    }
    study.missing = if options.reading.drop_missing { MissingCells::Drop } else { MissingCells::Refuse };
    study.read = options.reading.options();
    study.declared.groups_across_silos.extend(options.across_silos.iter().cloned());
    study.priors = priors(&options.priors)?;
    let silos = silos(&options.silos)?;
    let prepared = study.prepare(&silos, &device)?;
    prepared.notes.iter().for_each(|note| eprintln!("{note}"));
    for line in &prepared.plan.priors {
        println!("prior: {line}");
    }
    if let Some(count) = options.prior_predictive {
        let drawn = prepared.prior_predictive(count, options.seed, &device)?;
        println!("\n{drawn}");
        if let Some(folder) = &options.output {
            std::fs::create_dir_all(folder)?;
            write_atomically(&folder.join("prior_predictive.csv"), drawn.csv().as_bytes())?;
            println!("prior_predictive.csv is in {}", folder.display());
        }
        return Ok(());
    }
    let settings = Settings { seed: options.seed, ..Settings::default() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let how = FitOptions { settings, threads, checks: options.checks.clone(), ..FitOptions::default() };
    let fit = partita::fit(&prepared.plan.model, &prepared.silos, &device, &how, None)?;
    print!("\n{}{}", fit.report, prepared.plan.readings(&fit.report));
    Answers { options, study: &study, prepared: &prepared, fit, device: &device }.write()
}

/// Names and files: a silo without a name has that of its file.
fn silos(given: &[String]) -> Result<Vec<SiloTable>, Box<dyn Error>> {
    let table = |text: &String| {
        let (name, path) = named(text);
        let stem = || path.file_stem().map_or_else(|| text.clone(), |stem| stem.to_string_lossy().into_owned());
        SiloTable { name: name.unwrap_or_else(stem), path }
    };
    let all: Vec<SiloTable> = given.iter().map(table).collect();
    match all.iter().enumerate().find(|(place, own)| all[..*place].iter().any(|other| other.name == own.name)) {
        Some((_, twice)) => {
            Err(format!("two silos are called `{}`. Name them apart: --silo NAME=FILE", twice.name).into())
        }
        None => Ok(all),
    }
}

/// `NAME=FILE` or `FILE`.
pub(crate) fn named(text: &str) -> (Option<String>, PathBuf) {
    match text.split_once('=') {
        Some((name, path)) => (Some(name.to_owned()), PathBuf::from(path)),
        None => (None, PathBuf::from(text)),
    }
}

/// The priors that were stated, each once.
fn priors(given: &[String]) -> Result<BTreeMap<String, StatedPrior>, Box<dyn Error>> {
    let mut all = BTreeMap::new();
    for text in given {
        let (name, prior) = StatedPrior::parse_named(text)?;
        if all.insert(name.clone(), prior).is_some() {
            return Err(format!("two priors of `{name}`. State one of them").into());
        }
    }
    Ok(all)
}
