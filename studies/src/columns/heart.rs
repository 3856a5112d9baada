//! Repeats the split networks of the vertical paper: two parties hold different columns of the same 918 heart patients.
//!
//! ```sh
//! cargo run --release -p partita-studies -- vertical_heart
//! ```
//!
//! What you should see: the methods over ten folds beside the paper's Table 3, each with its accuracy, the mean log
//! likelihood of test rows, and that of wrongly predicted rows. The methods are a split network by maximum likelihood,
//! hierarchical Bayes split networks with rho of 1, 5 and 10, and a split network whose weights have the prior of the
//! Bayesian ones. Then each claim, met or not met. The standard deviation of that prior is chosen in each fold by its
//! training rows alone. `--quick` shows on two folds that it runs. Times and numbers:
//! `docs/src/study-vertical.md`.
//!
//! Source: Hassan, Sutton, Mira and Mengersen (2024), Scalable vertical federated learning via data augmentation and
//! amortized inference, section 5.3, Table 3.

mod study;
mod table;

use std::path::PathBuf;

use clap::Args;
use partita::datasets::{heart_failure, heart_failure_from};
use partita::inference::metrics::{Predictions, calibration};
use serde_json::json;

use crate::harness::{Claims, Result, Session, Shared};
use crate::pictures;
use study::{Method, Outcome, Study};

/// Split networks on the heart-failure data, by ten-fold cross-validation.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// The file heart.csv, if it is neither in the folder of data nor can be downloaded.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Folds of the cross-validation.
    #[arg(long, default_value_t = 10)]
    folds: usize,
    /// The first folds only, for a shorter run.
    #[arg(long)]
    first: Option<usize>,
    /// Optimiser steps of each fit; the paper takes 50,000.
    #[arg(long, default_value_t = 50_000)]
    steps: u64,
    /// Adam's learning rate; the default is the paper's.
    #[arg(long, default_value_t = 1e-3)]
    rate: f64,
    /// Lets the rate fall to zero along a cosine: a tenth of the steps at ten times the rate gives about the same
    /// result.
    #[arg(long)]
    cosine: bool,
    /// Standard deviations of the prior of network weights to choose from in each fold, by a part of its training rows.
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.25,0.125")]
    weights: Vec<f64>,
    /// Draws from the posterior for a prediction.
    #[arg(long, default_value_t = 1_000)]
    draws: u64,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.shared.quick {
            (self.first, self.steps, self.draws, self.weights) = (Some(2), 300, 200, vec![0.5, 0.25]);
            (self.rate, self.cosine) = (0.01, true);
        }
        self
    }

    /// The settings on which an outcome depends.
    fn settings(&self) -> String {
        let Self { shared, folds, steps, rate, cosine, weights, draws, .. } = self;
        let seed = shared.seed;
        format!("{folds} folds, {steps} steps, rate {rate} {cosine}, weights {weights:?}, {draws} draws, seed {seed}")
    }
}

pub(crate) fn run(options: Options) -> Result<()> {
    let options = options.settled();
    let session = Session::start("vertical_heart", &options.shared)?;
    let data = match &options.file {
        Some(path) => heart_failure_from(path)?,
        None => heart_failure()?,
    };
    let study = Study::new(data, &options, session.device()?)?;
    let mut found: Vec<(Method, Vec<Outcome>)> = Method::ALL.iter().map(|method| (*method, Vec::new())).collect();
    for fold in 0..options.first.unwrap_or(options.folds).min(options.folds) {
        let mut chosen = None;
        for (method, outcomes) in &mut found {
            // Larger noise takes the prior of weights that was chosen for noise of 1.
            let weights = chosen.filter(|_| matches!(method, Method::Hierarchical(_)));
            let name = format!("{}_{}", method.slug(), fold + 1);
            let outcome = session.kept(&name, &options.settings(), || study.fit(*method, fold, weights))?;
            chosen = if *method == Method::Hierarchical(1.0) { outcome.weights } else { chosen };
            println!("fold {:>2}, {}: {}", fold + 1, method.label(), outcome.words());
            outcomes.push(outcome);
        }
    }
    let rows: Vec<table::Row> = found.iter().map(|(method, outcomes)| table::Row::new(*method, outcomes)).collect();
    table::print(&rows);
    let mut claims = Claims::from(table::judge(&rows));
    claims.print_new("Reach:");
    draw(&session, &found)?;
    let result = json!({
        "rows": rows.iter().map(table::Row::json).collect::<Vec<_>>(),
        "reach": claims,
        "options": format!("{options:?}"),
    });
    session.finish(&result, " and the pictures")
}

/// Draws the bounds of the first fold, the mean log likelihood of every fold, and the calibration of probabilities.
fn draw(session: &Session, found: &[(Method, Vec<Outcome>)]) -> Result<()> {
    let name = |method: &Method| method.label().to_owned();
    let by_fold = |outcomes: &[Outcome]| {
        outcomes.iter().zip(1_u32..).map(|(outcome, fold)| (f64::from(fold), outcome.mean_log_likelihood())).collect()
    };
    let lines: Vec<_> = found.iter().map(|(method, outcomes)| (name(method), by_fold(outcomes))).collect();
    let title = "Mean log likelihood of the test rows of each fold";
    pictures::lines(&session.file("folds.svg"), &lines, title, ["fold", "nats a row"])?;
    let traces: Vec<_> =
        found.iter().filter_map(|(method, outcomes)| Some((name(method), outcomes.first()?.trace.clone()))).collect();
    pictures::curves(&session.file("bounds.svg"), &traces, ["Bound of fold 1", "step", "nats a training row"], None)?;
    let mut predictors = Vec::new();
    for (method, outcomes) in found {
        let pairs: Vec<[f64; 2]> =
            outcomes.iter().flat_map(|own| own.positive.iter().map(|yes| [1.0 - yes, *yes])).collect();
        let labels: Vec<u8> = outcomes.iter().flat_map(|own| own.labels.iter().copied().map(u8::from)).collect();
        predictors.push((name(method), calibration(&Predictions::new(&pairs.concat(), 2, &labels)?)));
    }
    pictures::reliability(&session.file("reliability.svg"), &predictors, "Test rows of all folds")?;
    Ok(())
}
