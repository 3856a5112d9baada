//! Finds the mean of 10,000 numbers in ten silos by partitioned inference (experiment A of the framework thesis, Table 4.1).
//!
//! ```sh
//! cargo run --release --example gaussian_mean
//! ```
//!
//! What you should see: with closed-form local solutions and with Adam, every schedule ends within 0.1 standard deviations
//! of the exact mean 5.010508 and near the exact variance 9.999e-5. The published variances are 0.024, 3.3 and 4.5 times the
//! exact one, and the table says so. `--quick` takes seconds and has not converged. Numbers and times:
//! `docs/src/reference-pvi-thesis.md`.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "framework_thesis/schedules.rs"]
mod schedules;

use std::path::{Path, PathBuf};

use clap::Parser;
use partita::inference::{Panel, plot, write_atomically};
use partita::models::{GaussianMean, gaussian_mean_silos};
use serde_json::json;

use schedules::{Failure, Found, Plan, Solver, Truth, WAYS, Way, draw_losses, print_costs};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Table 4.1: mean and variance of the sequential, synchronous and asynchronous schedule.
const PUBLISHED: [(f64, f64); 3] =
    [(5.018_900_084, 2.443_137e-6), (5.037_540_012, 3.311_824e-4), (4.967_460_475, 4.480_414e-4)];

/// The mean of a Gaussian over ten silos by every schedule, beside the exact posterior and the published table.
#[derive(Parser, Debug)]
struct Options {
    /// One local solver; both if it is not named.
    #[arg(long, value_enum)]
    solver: Option<Solver>,
    /// Visits of each silo in damped runs; sequential ones take one more than that over the number of silos.
    #[arg(long, default_value_t = 30)]
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
    /// The seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The device: flex, ndarray, wgpu, vulkan or cuda; else the variable BURN_DEVICE, else flex.
    #[arg(long)]
    device: Option<String>,
    /// Silos that work side by side in a synchronous round; the result does not depend on it.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json and the plots.
    #[arg(long, default_value = "output/gaussian_mean")]
    output: PathBuf,
    /// Takes 5 visits of 200 steps with 2 draws at rate 0.1: to see that it runs.
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<(), Failure> {
    let mut options = Options::parse();
    if options.quick {
        (options.visits, options.local_steps, options.samples, options.rate) = (5, 200, 2, 0.1);
    }
    let device = partita::gpu::device(options.device.as_deref())?;
    let numbers = gaussian_mean_silos();
    let exact = GaussianMean::posterior(&numbers);
    let truth = Truth {
        mean: vec![exact.mean],
        variances: vec![exact.variance],
        precision: vec![1.0 / exact.variance],
        log_evidence: exact.log_evidence,
    };
    let silo = |(index, own): (usize, &Vec<f64>)| (format!("silo-{}", index + 1), GaussianMean::data(own, &device));
    let silos: Vec<_> = numbers.iter().enumerate().map(silo).collect();
    let Options { visits, local_steps, samples, rate, keep, seed, threads, .. } = options;
    let plan = Plan { visits, local_steps, samples, rate, keep, seed, threads };
    let mut found = Vec::new();
    for solver in options.solver.map_or_else(|| vec![Solver::Conjugate, Solver::Adam], |only| vec![only]) {
        for way in WAYS {
            found.push(plan.run((&GaussianMean {}, &silos), &truth, &device, (solver, way))?);
        }
    }
    print_table(&found, &truth);
    print_costs(&found);
    write(&options, plan, &found, &truth)?;
    println!("Wrote result.json, losses.svg and posterior.svg to {}", options.output.display());
    Ok(())
}

/// The published row that a run belongs beside: both kinds of asynchrony beside the one of the thesis.
fn published(way: Way) -> (f64, f64) {
    PUBLISHED[match way {
        Way::Sequential => 0,
        Way::Synchronous => 1,
        Way::Asynchronous | Way::Threads => 2,
    }]
}

fn print_table(found: &[Found], truth: &Truth) {
    let (mean, variance) = (truth.mean[0], truth.variances[0]);
    println!("Posterior of the mean; exact: {mean:.6}, variance {variance:.4e}\n");
    println!(
        "{:<10} {:<13} {:>9} {:>8} {:>11} {:>8} {:>10}   {:>9} {:>8} {:>10} {:>8}",
        "solver",
        "schedule",
        "mean",
        "off, sd",
        "variance",
        "/ exact",
        "KL, nats",
        "published",
        "off, sd",
        "variance",
        "/ exact"
    );
    for run in found {
        let (published_mean, published_variance) = published(run.way);
        let off = |found: f64| (found - mean) / variance.sqrt();
        println!(
            "{:<10} {:<13} {:>9.5} {:>8.3} {:>11.4e} {:>8.3} {:>10.2e}   {:>9.3} {:>8.2} {:>10.3e} {:>8.3}",
            format!("{:?}", run.solver).to_lowercase(),
            run.way.name(),
            run.mean[0],
            off(run.mean[0]),
            run.variances[0],
            run.variances[0] / variance,
            run.divergence,
            published_mean,
            off(published_mean),
            published_variance,
            published_variance / variance
        );
    }
    println!("The published rows are far from the exact posterior of their own data: they are no target.");
}

fn write(options: &Options, plan: Plan, found: &[Found], truth: &Truth) -> Result<(), Failure> {
    let folder: &Path = &options.output;
    let rows: Vec<_> = PUBLISHED.iter().map(|(mean, variance)| json!({"mean": mean, "variance": variance})).collect();
    let result = json!({
        "experiment": "A: the mean of a Gaussian",
        "options": plan,
        "exact": { "mean": truth.mean, "variances": truth.variances, "log_evidence": truth.log_evidence },
        "published": rows,
        "runs": found,
    });
    std::fs::create_dir_all(folder)?;
    write_atomically(&folder.join("result.json"), serde_json::to_string_pretty(&result)?.as_bytes())?;
    let shown: Vec<&Found> = found.iter().filter(|run| run.solver == found[found.len() - 1].solver).collect();
    draw_losses(&folder.join("losses.svg"), &shown, "Loss of the Gaussian mean that silos reported")?;
    let normal = |mean: f64, variance: f64| plot::Density::Normal { mean, sd: variance.sqrt() };
    let panels: Vec<Panel> = found
        .iter()
        .filter(|run| run.way != Way::Threads)
        .map(|run| {
            let (mean, variance) = published(run.way);
            let name = format!("{:?}", run.solver).to_lowercase();
            let curves = vec![
                ("exact".to_owned(), normal(truth.mean[0], truth.variances[0])),
                ("found".to_owned(), normal(run.mean[0], run.variances[0])),
                ("published".to_owned(), normal(mean, variance)),
            ];
            Panel { title: format!("{}, {name}", run.way.name()), unit: "mean".into(), curves }
        })
        .collect();
    plot::marginals(&folder.join("posterior.svg"), &panels)?;
    Ok(())
}
