//! Repeats the split networks of the vertical paper: two parties hold different columns of the same 918 heart patients.
//!
//! ```sh
//! cargo run --release --example vertical_heart
//! ```
//!
//! What you should see: for a split network by maximum likelihood and hierarchical Bayes split networks with rho of 1, 5 and
//! 10, the accuracy, the mean log likelihood of test rows, and that of wrongly predicted ones, over ten folds, beside the
//! paper's Table 3; the same for a split network whose weights have the prior of the Bayesian ones; then each reach, met or
//! not met. The standard deviation of that prior is chosen in each fold by its training rows alone. `--quick` shows on two folds that it runs. Times and numbers: `docs/src/reference-vertical-heart.md`.
//!
//! Source: Hassan, Sutton, Mira and Mengersen (2024), Scalable vertical federated learning via data augmentation and
//! amortized inference, section 5.3, Table 3.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "vertical_heart/study.rs"]
mod study;
#[path = "vertical_heart/table.rs"]
mod table;

use std::path::PathBuf;

use clap::Parser;
use partita::datasets::{heart_failure, heart_failure_from};
use partita::inference::metrics::{Predictions, calibration};
use partita::inference::{plot, write_atomically};
use serde_json::json;

use study::{Method, Outcome, Study};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Split networks on the heart-failure data, by ten-fold cross-validation.
#[derive(Parser, Debug, Clone)]
struct Options {
    /// The file heart.csv, where it is neither in `PARTITA_DATA` nor to be downloaded.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folds of the cross-validation.
    #[arg(long, default_value_t = 10)]
    folds: usize,
    /// The first folds alone, for a run that is cut short.
    #[arg(long)]
    first: Option<usize>,
    /// Optimiser steps of each fit; the paper takes 50,000.
    #[arg(long, default_value_t = 50_000)]
    steps: u64,
    /// Adam's rate, the paper's unless another is given.
    #[arg(long, default_value_t = 1e-3)]
    rate: f64,
    /// Lets the rate fall to zero as half a cosine: a tenth of the steps at ten times the rate lead about as far.
    #[arg(long)]
    cosine: bool,
    /// Standard deviations of the prior of network weights to choose from in each fold, by a part of its training rows.
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.25,0.125")]
    weights: Vec<f64>,
    /// Draws from the posterior for a prediction.
    #[arg(long, default_value_t = 1_000)]
    draws: u64,
    /// The seed of folds, starts and noise.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The folder for result.json and the pictures.
    #[arg(long, default_value = "output/vertical_heart")]
    output: PathBuf,
    /// Takes the fits that an earlier run with the same settings has finished from the folder of the result.
    #[arg(long)]
    resume: bool,
    /// Two folds with few steps: to see that it runs.
    #[arg(long)]
    quick: bool,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.quick {
            (self.first, self.steps, self.draws, self.weights) = (Some(2), 300, 200, vec![0.5, 0.25]);
            (self.rate, self.cosine) = (0.01, true);
        }
        self
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::parse().settled();
    std::fs::create_dir_all(&options.output)?;
    let table = match &options.data {
        Some(path) => heart_failure_from(path)?,
        None => heart_failure()?,
    };
    let study = Study::new(table, &options)?;
    let mut found: Vec<(Method, Vec<Outcome>)> = Method::ALL.iter().map(|method| (*method, Vec::new())).collect();
    for fold in 0..options.first.unwrap_or(options.folds).min(options.folds) {
        let mut chosen = None;
        for (method, outcomes) in &mut found {
            // Wider noise takes the prior of weights that was chosen for noise of 1.
            let weights = chosen.filter(|_| matches!(method, Method::Hierarchical(_)));
            let outcome = kept(&options, *method, fold, || study.fit(*method, fold, weights))?;
            chosen = if *method == Method::Hierarchical(1.0) { outcome.weights } else { chosen };
            println!("fold {:>2}, {}: {}", fold + 1, method.label(), outcome.words());
            outcomes.push(outcome);
        }
    }
    let rows: Vec<table::Row> = found.iter().map(|(method, outcomes)| table::Row::new(*method, outcomes)).collect();
    table::print(&rows);
    let verdicts = table::judge(&rows);
    println!("\nReach:");
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    draw(&options, &found)?;
    let result = json!({
        "rows": rows.iter().map(table::Row::json).collect::<Vec<_>>(),
        "reach": verdicts.iter().map(table::Verdict::json).collect::<Vec<_>>(),
        "options": format!("{options:?}"),
    });
    let path = options.output.join("result.json");
    write_atomically(&path, serde_json::to_string_pretty(&result)?.as_bytes())?;
    println!("\nWrote {}", path.display());
    Ok(())
}

/// The outcome of a fit, kept beside the result by an earlier run or fitted now.
fn kept(
    options: &Options,
    method: Method,
    fold: usize,
    fit: impl FnOnce() -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let Options { folds, steps, rate, cosine, weights, draws, seed, .. } = options;
    let settings =
        format!("{folds} folds, {steps} steps, rate {rate} {cosine}, weights {weights:?}, {draws} draws, seed {seed}");
    let place = options.output.join(format!("{}_{}.json", method.slug(), fold + 1));
    if options.resume && place.exists() {
        let earlier: (String, Outcome) = serde_json::from_str(&std::fs::read_to_string(&place)?)?;
        if earlier.0 == settings {
            return Ok(earlier.1);
        }
    }
    let outcome = fit()?;
    write_atomically(&place, serde_json::to_string(&(settings, &outcome))?.as_bytes())?;
    Ok(outcome)
}

/// Draws the bounds of the first fold, the mean log likelihood of every fold, and how far probabilities can be believed.
fn draw(options: &Options, found: &[(Method, Vec<Outcome>)]) -> Result<(), Failure> {
    let name = |method: &Method| method.label().to_owned();
    let by_fold = |outcomes: &[Outcome]| {
        outcomes.iter().zip(1_u32..).map(|(outcome, fold)| (f64::from(fold), outcome.mean_log_likelihood())).collect()
    };
    let lines: Vec<_> = found.iter().map(|(method, outcomes)| (name(method), by_fold(outcomes))).collect();
    let title = "Mean log likelihood of the test rows of each fold";
    plot::lines(&options.output.join("folds.svg"), &lines, title, ["fold", "nats a row"])?;
    let traces: Vec<_> =
        found.iter().filter_map(|(method, outcomes)| Some((name(method), outcomes.first()?.trace.clone()))).collect();
    plot::curves(&options.output.join("bounds.svg"), &traces, "Bound a training row, fold 1", None)?;
    let mut predictors = Vec::new();
    for (method, outcomes) in found {
        let pairs: Vec<[f64; 2]> =
            outcomes.iter().flat_map(|own| own.positive.iter().map(|yes| [1.0 - yes, *yes])).collect();
        let labels: Vec<u8> = outcomes.iter().flat_map(|own| own.labels.iter().copied().map(u8::from)).collect();
        predictors.push((name(method), calibration(&Predictions::new(&pairs.concat(), 2, &labels)?)));
    }
    plot::reliability(&options.output.join("reliability.svg"), &predictors, "Test rows of all folds")?;
    Ok(())
}
