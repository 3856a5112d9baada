//! Regresses wealth on rugged terrain over three silos by partitioned inference (experiment B of the framework thesis).
//!
//! ```sh
//! cargo run --release -p partita-studies -- ruggedness
//! ```
//!
//! What you should see: outside Africa rugged countries are poorer, inside they are richer, by every schedule and
//! solver. Closed-form local solutions reach the exact mean-field posterior, and Adam comes near it. The published
//! table is no target: it has another, unstated noise near 0.03 (`--noise 0.03`), and its sequential run had diverged.
//! Numbers and times: `docs/src/study-framework-thesis.md`.

use clap::Args;
use partita::Device;
use partita::core::{Noise, partition_equally};
use partita::datasets::{RuggedCountry, rugged};
use partita::models::{LinearRegression, MeasuredRows};
use serde_json::json;

use super::schedules::{Experiment, Found, Runs, Small, Truth, draw_losses, print_costs, shown};
use crate::harness::{Result, Session, Shared, Table};
use crate::pictures::{self, Band, BandPanel, BandPoint};

const NAMES: [&str; 4] = ["intercept", "Africa", "ruggedness", "both"];

/// Table 4.2 by schedule: means, and variances, which it calls scales.
const PUBLISHED: [([f64; 4], [f64; 4]); 3] = [
    ([9.693, -3.431, -0.425, 0.906], [8.358e-5, 1.644e-4, 3.961e-5, 4.974e-5]),
    ([9.236, -1.944, -0.211, 0.388], [2.658e-6, 3.806e-6, 5.411e-7, 2.283e-6]),
    ([9.236, -1.968, -0.208, 0.407], [1.388e-6, 5.135e-6, 3.402e-7, 1.527e-6]),
];

/// Half the width of a 90 % interval in standard deviations.
const NINETY: f64 = 1.644_853_626_951;

/// Wealth and rugged terrain over three silos by every schedule, beside the exact posterior and the published table.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    runs: Runs,
    /// The standard deviation of log wealth around its line, which the thesis does not state.
    #[arg(long, default_value_t = 1.0)]
    noise: f64,
}

pub(crate) fn run(options: Options) -> Result<()> {
    let session = Session::start("ruggedness", &options.shared)?;
    let device = session.device()?;
    let countries = rugged()?;
    let model = LinearRegression::new(3, options.noise);
    let silos = silos(&countries, options.shared.seed, &device)?;
    let exact = model.posterior(&silos.iter().map(|(_, rows)| rows.clone()).collect::<Vec<_>>())?;
    let truth = Truth {
        mean: exact.coefficients.mean().to_vec(),
        variances: exact.mean_field_variances(),
        precision: exact.precision,
        log_evidence: exact.log_evidence,
    };
    let plan = options.runs.plan(&options.shared, 60, Small { visits: 20, local_steps: 400, samples: 4 });
    let experiment = Experiment { model: &model, silos: &silos, truth: &truth, device: &device, plan };
    let found = experiment.run_all(&options.runs, &session)?;
    print_table(&found, &truth, options.noise);
    print_costs(&found);
    draw(&session, &found, &countries)?;
    let published: Vec<_> =
        PUBLISHED.iter().map(|(mean, variances)| json!({"mean": mean, "variances": variances})).collect();
    let result = json!({
        "experiment": "B: wealth and rugged terrain",
        "options": plan,
        "noise": options.noise,
        "coefficients": NAMES,
        "exact": { "mean": truth.mean, "variances": truth.variances, "log_evidence": truth.log_evidence },
        "published": published,
        "runs": found,
    });
    session.finish(&result, ", losses.svg and lines.svg")
}

/// The countries in three silos.
fn silos(countries: &[RuggedCountry], seed: u64, device: &Device) -> Result<Vec<(String, MeasuredRows)>> {
    let mut silos = Vec::new();
    for (index, rows) in partition_equally(countries.len(), 3, &Noise::new(seed))?.into_iter().enumerate() {
        let own: Vec<RuggedCountry> = rows.into_iter().map(|row| countries[row].clone()).collect();
        let own = RuggedCountry::columns(&own);
        let rows = MeasuredRows::new(&own.covariates, 3, &own.log_gdp, device)?;
        silos.push((format!("silo-{}", index + 1), rows));
    }
    Ok(silos)
}

/// The slopes outside Africa and inside.
fn slopes(mean: &[f64]) -> [f64; 2] {
    [mean[2], mean[2] + mean[3]]
}

fn print_table(found: &[Found], truth: &Truth, noise: f64) {
    println!("Posterior mean (variance) of each coefficient, noise {noise}\n");
    let [intercept, africa, ruggedness, both] = NAMES;
    let mut table = Table::new(["", intercept, africa, ruggedness, both, "outside", "in Africa", "KL, nats"]);
    let mut row = |name: String, mean: &[f64], variances: &[f64], divergence: f64| {
        let cell = |(mean, variance): (&f64, &f64)| format!("{mean:.4} ({variance:.3e})");
        let slopes = slopes(mean).map(|slope| format!("{slope:.4}"));
        let cells = mean.iter().zip(variances).map(cell);
        table.row([name].into_iter().chain(cells).chain(slopes).chain([format!("{divergence:.2e}")]));
    };
    for run in found {
        row(run.name(), &run.mean, &run.variances, run.divergence);
    }
    row("exact, mean-field".into(), &truth.mean, &truth.variances, truth.divergence(&truth.mean, &truth.variances));
    for (name, (mean, variances)) in ["sequential", "synchronous", "asynchronous"].iter().zip(PUBLISHED) {
        row(format!("published, {name}"), &mean, &variances, truth.divergence(&mean, &variances));
    }
    println!("{table}The published rows state no noise, and their sequential run had diverged: they are no target.");
}

/// Draws the losses, and the lines through the countries by each schedule except threads.
fn draw(session: &Session, found: &[Found], countries: &[RuggedCountry]) -> Result<()> {
    let shown = shown(found);
    draw_losses(&session.file("losses.svg"), &shown, "Loss of the ruggedness regression that silos reported")?;
    let panel = |run: &&Found| BandPanel {
        title: run.way.name().into(),
        groups: [false, true].map(|africa| group(run, countries, africa)).into(),
    };
    let panels: Vec<BandPanel> = shown.iter().take(3).map(panel).collect();
    Ok(pictures::bands(&session.file("lines.svg"), &panels, ["ruggedness, 100 m", "log wealth"])?)
}

/// The countries in Africa or outside with the line through them and its 90 % interval.
fn group(run: &Found, countries: &[RuggedCountry], africa: bool) -> Band {
    let own = countries.iter().filter(|country| country.africa == africa);
    let points: Vec<(f64, f64)> = own.map(|country| (country.ruggedness, country.log_gdp)).collect();
    let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let line = (0..=40).map(|place| {
        let at = most * f64::from(place) / 40.0;
        let here = RuggedCountry { name: String::new(), log_gdp: 0.0, africa, ruggedness: at };
        let row: Vec<f64> = std::iter::once(1.0).chain(here.covariates()).collect();
        let mean: f64 = row.iter().zip(&run.mean).map(|(x, b)| x * b).sum();
        let variance: f64 = row.iter().zip(&run.variances).map(|(x, v)| x * x * v).sum();
        let half = NINETY * variance.sqrt();
        BandPoint { at, low: mean - half, mean, high: mean + half }
    });
    let name = if africa { "Africa" } else { "not Africa" }.to_owned();
    Band { name, points, line: line.collect() }
}
