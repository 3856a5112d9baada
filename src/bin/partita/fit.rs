//! Fits a formula over the CSV files of silos, and writes what was found.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use partita::formula::{MissingCells, Prepared, ResponseFamily, SiloTable, Study};
use partita::inference::{HtmlOptions, PredictiveCheck, write_atomically};
use partita::{Device, Fit, FitOptions, Settings};

/// What is fitted to what.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The formula, as in 'wheeze ~ smoke * age + (1 | child)'.
    formula: String,
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
    /// The folder of the results: report.html, result.json and draws.csv.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Leaves rows with missing cells out; without it they are refused.
    #[arg(long)]
    drop_missing: bool,
    /// A posterior predictive check, such as 'zeros of y'; any number of them.
    #[arg(long = "check-rows")]
    checks: Vec<PredictiveCheck>,
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
    if options.drop_missing {
        study.missing = MissingCells::Drop;
    }
    let silos = silos(&options.silos)?;
    let prepared = study.prepare(&silos, &device)?;
    prepared.notes.iter().for_each(|note| eprintln!("{note}"));
    for line in &prepared.plan.priors {
        println!("prior: {line}");
    }
    let settings = Settings { seed: options.seed, ..Settings::default() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let how = FitOptions { settings, threads, checks: options.checks.clone(), ..FitOptions::default() };
    let fit = partita::fit(&prepared.plan.model, &prepared.silos, &device, &how, None)?;
    print!("\n{}{}", fit.report, prepared.plan.readings(&fit.report));
    if let Some(folder) = &options.output {
        write(folder, options, &prepared, &fit, &device)?;
    }
    Ok(())
}

/// Names and files: a silo without a name has that of its file.
fn silos(given: &[String]) -> Result<Vec<SiloTable>, Box<dyn Error>> {
    let table = |text: &String| {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name.to_owned(), PathBuf::from(path)),
            None => {
                let path = PathBuf::from(text);
                (path.file_stem().map_or_else(|| text.clone(), |stem| stem.to_string_lossy().into_owned()), path)
            }
        };
        SiloTable { name, path }
    };
    let all: Vec<SiloTable> = given.iter().map(table).collect();
    match all.iter().enumerate().find(|(place, own)| all[..*place].iter().any(|other| other.name == own.name)) {
        Some((_, twice)) => {
            Err(format!("two silos are called `{}`. Name them apart: --silo NAME=FILE", twice.name).into())
        }
        None => Ok(all),
    }
}

fn write(
    folder: &Path,
    options: &Options,
    prepared: &Prepared,
    fit: &Fit,
    device: &Device,
) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let prior = fit.prior(&prepared.plan.model, device)?;
    let page = HtmlOptions { title: options.formula.clone(), effects: prepared.plan.effects.clone(), prior };
    fit.write_html(&folder.join("report.html"), &page)?;
    fit.report.write_json(&folder.join("result.json"))?;
    write_atomically(&folder.join("draws.csv"), draws(fit).as_bytes())?;
    println!("\nreport.html, result.json and draws.csv are in {}", folder.display());
    Ok(())
}

/// Draws of the posterior as it is, one a line.
fn draws(fit: &Fit) -> String {
    let quoted = |label: &String| format!("\"{}\"", label.replace('"', "\"\""));
    let header: Vec<String> = fit.draws.iter().map(|(_, label, _)| quoted(label)).collect();
    let count = fit.draws.first().map_or(0, |(_, _, draws)| draws.len());
    let line = |draw: usize| fit.draws.iter().map(|(_, _, own)| own[draw].to_string()).collect::<Vec<_>>().join(",");
    [header.join(",")].into_iter().chain((0..count).map(line)).collect::<Vec<_>>().join("\n") + "\n"
}
