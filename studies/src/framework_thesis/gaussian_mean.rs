//! Finds the mean of 10,000 numbers in ten silos by partitioned inference (framework thesis, Table 4.1).
//!
//! ```sh
//! cargo run --release -p partita-studies -- gaussian_mean
//! ```
//!
//! What you should see: with closed-form local solutions and with Adam, every schedule ends within 0.1 standard
//! deviations of the exact mean 5.010508 and near the exact variance 9.999e-5. The published variances are 0.024, 3.3
//! and 4.5 times the exact one, as the table notes. `--quick` takes seconds and does not converge. Numbers and times:
//! `docs/src/study-framework-thesis.md`.

use clap::Args;
use partita::inference::{Panel, plot};
use partita::models::GaussianMean;
use serde_json::json;

use super::gaussian_mean_silos;
use super::schedules::{Experiment, Found, Plan, Runs, Small, Truth, Way, draw_losses, print_costs, shown};
use crate::harness::{Result, Session, Shared, Table};

/// Table 4.1: mean and variance of the sequential, synchronous and asynchronous schedule.
const PUBLISHED: [(f64, f64); 3] =
    [(5.018_900_084, 2.443_137e-6), (5.037_540_012, 3.311_824e-4), (4.967_460_475, 4.480_414e-4)];

/// The mean of a Gaussian over ten silos by every schedule, beside the exact posterior and the published table.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    runs: Runs,
}

pub(crate) fn run(options: Options) -> Result<()> {
    let session = Session::start("gaussian_mean", &options.shared)?;
    let device = session.device()?;
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
    let plan = options.runs.plan(&options.shared, 30, Small { visits: 5, local_steps: 200, samples: 2 });
    let experiment = Experiment { model: &GaussianMean {}, silos: &silos, truth: &truth, device: &device, plan };
    let found = experiment.run_all(&options.runs, &session)?;
    print_table(&found, &truth);
    print_costs(&found);
    write(&session, plan, &found, &truth)
}

/// The published row for a run: both kinds of asynchrony belong to that of the thesis.
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
    let mut table = Table::new([
        "solver, schedule",
        "mean",
        "off, sd",
        "variance",
        "/ exact",
        "KL, nats",
        "published",
        "off, sd",
        "variance",
        "/ exact",
    ]);
    let off = |found: f64| (found - mean) / variance.sqrt();
    for run in found {
        let (other, wide) = published(run.way);
        table.row([
            run.name(),
            format!("{:.5}", run.mean[0]),
            format!("{:.3}", off(run.mean[0])),
            format!("{:.4e}", run.variances[0]),
            format!("{:.3}", run.variances[0] / variance),
            format!("{:.2e}", run.divergence),
            format!("{other:.3}"),
            format!("{:.2}", off(other)),
            format!("{wide:.3e}"),
            format!("{:.3}", wide / variance),
        ]);
    }
    println!("{table}The published rows are far from the exact posterior of their own data: they are no target.");
}

fn write(session: &Session, plan: Plan, found: &[Found], truth: &Truth) -> Result<()> {
    let rows: Vec<_> = PUBLISHED.iter().map(|(mean, variance)| json!({"mean": mean, "variance": variance})).collect();
    let result = json!({
        "experiment": "A: the mean of a Gaussian",
        "options": plan,
        "exact": { "mean": truth.mean, "variances": truth.variances, "log_evidence": truth.log_evidence },
        "published": rows,
        "runs": found,
    });
    let title = "Loss of the Gaussian mean that silos reported";
    draw_losses(&session.file("losses.svg"), &shown(found), title)?;
    let normal = |mean: f64, variance: f64| plot::Density::Normal { mean, sd: variance.sqrt() };
    let panel = |run: &Found| {
        let (mean, variance) = published(run.way);
        let curves = vec![
            ("exact".to_owned(), normal(truth.mean[0], truth.variances[0])),
            ("found".to_owned(), normal(run.mean[0], run.variances[0])),
            ("published".to_owned(), normal(mean, variance)),
        ];
        Panel { title: format!("{}, {}", run.way.name(), run.solver.name()), unit: "mean".into(), curves }
    };
    let panels: Vec<Panel> = found.iter().filter(|run| run.way != Way::Threads).map(panel).collect();
    plot::marginals(&session.file("posterior.svg"), &panels)?;
    session.finish(&result, ", losses.svg and posterior.svg")
}
