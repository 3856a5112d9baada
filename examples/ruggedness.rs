//! Regresses wealth on rugged terrain over three silos by partitioned inference (experiment B of the framework thesis).
//!
//! ```sh
//! cargo run --release --example ruggedness
//! ```
//!
//! What you should see: outside Africa rugged countries are poorer, inside they are richer, by every schedule and solver;
//! closed-form local solutions reach the exact mean-field posterior, Adam comes near it. The published table is of another,
//! unstated noise near 0.03 (`--noise 0.03`), and its sequential row is of a run that had diverged: they are no target.
//! Numbers and times: `docs/src/reference-pvi-thesis.md`.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "framework_thesis/schedules.rs"]
mod schedules;

use std::path::PathBuf;

use clap::Parser;
use partita::datasets::{RuggedCountry, rugged};
use partita::inference::plot::{Band, BandPanel, BandPoint};
use partita::inference::{plot, write_atomically};
use partita::models::{LinearRegression, MeasuredRows};
use partita::{Noise, partition_equally};
use serde_json::json;

use schedules::{Failure, Found, Plan, Solver, Truth, WAYS, draw_losses, print_costs};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NAMES: [&str; 4] = ["intercept", "Africa", "ruggedness", "both"];

/// Table 4.2 by schedule: means, and what it calls scales, which are variances.
const PUBLISHED: [([f64; 4], [f64; 4]); 3] = [
    ([9.693, -3.431, -0.425, 0.906], [8.358e-5, 1.644e-4, 3.961e-5, 4.974e-5]),
    ([9.236, -1.944, -0.211, 0.388], [2.658e-6, 3.806e-6, 5.411e-7, 2.283e-6]),
    ([9.236, -1.968, -0.208, 0.407], [1.388e-6, 5.135e-6, 3.402e-7, 1.527e-6]),
];

/// Half the width of a 90 % interval in standard deviations.
const NINETY: f64 = 1.644_853_626_951;

/// Wealth and rugged terrain over three silos by every schedule, beside the exact posterior and the published table.
#[derive(Parser, Debug)]
struct Options {
    /// One local solver; both if it is not named.
    #[arg(long, value_enum)]
    solver: Option<Solver>,
    /// The standard deviation of log wealth around its line, which the thesis does not state.
    #[arg(long, default_value_t = 1.0)]
    noise: f64,
    /// Visits of each silo in damped runs; sequential ones take one more than that over the number of silos.
    #[arg(long, default_value_t = 60)]
    visits: u64,
    /// Gradient steps of a visit.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// Monte Carlo draws of a gradient.
    #[arg(long, default_value_t = 10)]
    samples: usize,
    /// The rate of Adam, from which it falls to zero in each visit.
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    /// Lets silos go on from their own last solution, with the state of Adam and a constant rate (the thesis's was 0.02).
    #[arg(long)]
    keep: bool,
    /// The seed of all randomness, the split of the countries included.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The device: flex, ndarray, wgpu, vulkan or cuda; else the variable BURN_DEVICE, else flex.
    #[arg(long)]
    device: Option<String>,
    /// Silos that work side by side in a synchronous round; the result does not depend on it.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json and the plots.
    #[arg(long, default_value = "output/ruggedness")]
    output: PathBuf,
    /// Takes 20 visits of 400 steps with 4 draws at rate 0.1: to see that it runs.
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<(), Failure> {
    let mut options = Options::parse();
    if options.quick {
        (options.visits, options.local_steps, options.samples, options.rate) = (20, 400, 4, 0.1);
    }
    let device = partita::gpu::device(options.device.as_deref())?;
    let countries = rugged()?;
    let model = LinearRegression::new(3, options.noise);
    let mut silos = Vec::new();
    for (index, rows) in partition_equally(countries.len(), 3, &Noise::new(options.seed))?.into_iter().enumerate() {
        let own: Vec<RuggedCountry> = rows.into_iter().map(|row| countries[row].clone()).collect();
        let own = RuggedCountry::columns(&own);
        let rows = MeasuredRows::new(&own.covariates, 3, &own.log_gdp, &device)?;
        silos.push((format!("silo-{}", index + 1), rows));
    }
    let exact = model.posterior(&silos.iter().map(|(_, rows)| rows.clone()).collect::<Vec<_>>())?;
    let truth = Truth {
        mean: exact.coefficients.mean().to_vec(),
        variances: exact.mean_field_variances(),
        precision: exact.precision,
        log_evidence: exact.log_evidence,
    };
    let Options { visits, local_steps, samples, rate, keep, seed, threads, .. } = options;
    let plan = Plan { visits, local_steps, samples, rate, keep, seed, threads };
    let mut found = Vec::new();
    for solver in options.solver.map_or_else(|| vec![Solver::Conjugate, Solver::Adam], |only| vec![only]) {
        for way in WAYS {
            found.push(plan.run((&model, &silos), &truth, &device, (solver, way))?);
        }
    }
    print_table(&found, &truth, options.noise);
    print_costs(&found);
    write(&options, plan, &found, (&truth, &countries))?;
    println!("Wrote result.json, losses.svg and lines.svg to {}", options.output.display());
    Ok(())
}

/// The slopes outside Africa and inside.
fn slopes(mean: &[f64]) -> [f64; 2] {
    [mean[2], mean[2] + mean[3]]
}

fn print_table(found: &[Found], truth: &Truth, noise: f64) {
    println!("Posterior mean (variance) of each coefficient, noise {noise}\n");
    print!("{:<24}", "");
    NAMES.iter().for_each(|name| print!(" {name:>20}"));
    println!(" {:>9} {:>9} {:>9}", "outside", "in Africa", "KL, nats");
    let row = |name: String, mean: &[f64], variances: &[f64], divergence: f64| {
        print!("{name:<24}");
        mean.iter().zip(variances).for_each(|(mean, variance)| print!(" {mean:>8.4} ({variance:>9.3e})"));
        let [outside, inside] = slopes(mean);
        println!(" {outside:>9.4} {inside:>9.4} {divergence:>9.2e}");
    };
    for run in found {
        let name = format!("{}, {}", format!("{:?}", run.solver).to_lowercase(), run.way.name());
        row(name, &run.mean, &run.variances, run.divergence);
    }
    row("exact, mean-field".into(), &truth.mean, &truth.variances, truth.divergence(&truth.mean, &truth.variances));
    for (name, (mean, variances)) in ["sequential", "synchronous", "asynchronous"].iter().zip(PUBLISHED) {
        row(format!("published, {name}"), &mean, &variances, truth.divergence(&mean, &variances));
    }
    println!("The published rows state no noise, and their sequential run had diverged: they are no target.");
}

fn write(
    options: &Options,
    plan: Plan,
    found: &[Found],
    (truth, countries): (&Truth, &[RuggedCountry]),
) -> Result<(), Failure> {
    let folder = &options.output;
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
    std::fs::create_dir_all(folder)?;
    write_atomically(&folder.join("result.json"), serde_json::to_string_pretty(&result)?.as_bytes())?;
    let shown: Vec<&Found> = found.iter().filter(|run| run.solver == found[found.len() - 1].solver).collect();
    draw_losses(&folder.join("losses.svg"), &shown, "Loss of the ruggedness regression that silos reported")?;
    let panels: Vec<BandPanel> = shown[..3]
        .iter()
        .map(|run| BandPanel {
            title: run.way.name().into(),
            groups: [false, true].map(|africa| group(run, countries, africa)).into(),
        })
        .collect();
    plot::bands(&folder.join("lines.svg"), &panels, ["ruggedness, 100 m", "log wealth"])?;
    Ok(())
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
