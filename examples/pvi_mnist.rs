//! Fits a Bayesian neural network to MNIST digits that ten or a hundred silos hold, by partitioned variational inference.
//!
//! ```sh
//! cargo run --release --example pvi_mnist
//! ```
//!
//! What you should see: the test error of a mean-field posterior over the 159,010 weights of a 784-200-10 network. Two sweeps
//! of sequential visits to ten silos end at 2.80 %, global inference with as many steps at 2.94 %, and synchronous visits later.
//! Then committees and streaming; which damping makes the product of the silos' factors improper; local problems that start tight
//! and stop early; silos that hold two digits each; divergences of Rényi; wrong training labels; and point estimates by federated
//! averaging and its kin. `--part` chooses among these,
//! `--times 4` takes four times as many sweeps, `--paper` the papers' settings (hours a part), `--quick` shows that it runs, and
//! `--quick --stand-in` that it does without a file, on digits of a seven-segment display.
//! Runs are kept in the output folder: `--resume` does not repeat them, and goes on where one was interrupted; `--kept` judges
//! them again, and `--list` names all there are. Numbers: `docs/src/reference-pvi-mnist.md`.
//!
//! Source: Ashman et al. (2022), Partitioned variational inference, arXiv:2202.12275, section 5.3; Mildner (2024), Federated
//! learning under misspecification, chapter 5.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "pvi_mnist/claims.rs"]
mod claims;
#[path = "claims/outcome.rs"]
mod outcome;
#[path = "pvi_mnist/plan.rs"]
mod plan;
#[path = "pvi_mnist/study.rs"]
mod study;
#[path = "pvi_mnist/table.rs"]
mod table;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use partita::Device;
use partita::datasets::{Images, mnist, synthetic_digits};
use partita::inference::write_atomically;
use serde_json::json;

use plan::{LONG, PAPER, Part, QUICK, REDUCED};
use study::{Curve, Run, World};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A Bayesian neural network on MNIST by partitioned variational inference.
#[derive(Parser, Debug, Clone)]
struct Options {
    /// Which parts of the study; all if none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    part: Vec<Part>,
    /// Only runs whose name in files contains this.
    #[arg(long)]
    only: Option<String>,
    /// The standard deviation at which posteriors start, where it is not that of the setting.
    #[arg(long)]
    initial_scale: Option<f64>,
    /// Posterior means start uniformly between minus and plus this, 0.1 in the papers; N(0, 2 / inputs) if it is not given.
    #[arg(long)]
    uniform_start: Option<f64>,
    /// So many times as many sweeps and rounds, and steps of global inference, as in the setting.
    #[arg(long, default_value_t = 1)]
    times: u64,
    /// The seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads for silos; the result does not depend on them.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json, the runs and the pictures.
    #[arg(long, default_value = "output/pvi_mnist")]
    output: PathBuf,
    /// Does not repeat runs that are finished in the output folder, and goes on with those that are not.
    #[arg(long)]
    resume: bool,
    /// The papers' numbers of steps, draws and rows.
    #[arg(long, conflicts_with = "quick")]
    paper: bool,
    /// Visits of a thousand steps: hours, where the papers' settings take days.
    #[arg(long, conflicts_with_all = ["quick", "paper"])]
    long: bool,
    /// Few digits and steps: to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Digits of a seven-segment display in place of MNIST, which need no file and are far easier; held to no claim.
    #[arg(long)]
    stand_in: bool,
    /// Shows and judges what is kept in the output folder, and carries out nothing.
    #[arg(long, conflicts_with = "resume")]
    kept: bool,
    /// Prints every run with its settings, one a line, and carries out none.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    pool.install(|| study(&options))
}

fn study(options: &Options) -> Result<(), Failure> {
    let size = if options.quick {
        QUICK
    } else if options.paper {
        PAPER
    } else if options.long {
        LONG
    } else {
        REDUCED
    };
    let size = size.longer(options.times.max(1));
    let parts = if options.part.is_empty() { Part::value_variants().to_vec() } else { options.part.clone() };
    let planned = plan::of_parts(&parts, |part| runs(&size, part, options))?;
    if options.list {
        for (part, runs) in &planned {
            runs.iter().for_each(|run| println!("{}", json!({ "part": part, "run": run })));
        }
        return Ok(());
    }
    let device = Device::flex().with_precision(partita::Precision::Single);
    let world = if options.kept { None } else { Some(world(&size, &device, options)?) };
    // What is kept of one kind of digits is not that of another.
    let folder = options.output.join(if options.stand_in { "runs_stand_in" } else { "runs" });
    let mut sections: Vec<(Part, Vec<Curve>)> = Vec::new();
    for (part, runs) in planned {
        println!("{} ({} setting)", part.title(), size.name);
        let mut curves = Vec::new();
        for run in runs {
            // Parts share runs.
            let key = serde_json::to_value(&run)?;
            let known = sections.iter().flat_map(|(_, curves)| curves).find(|curve| curve.run == key).cloned();
            curves.extend(match (&world, known) {
                (_, Some(curve)) => Some(curve),
                (Some(world), None) => Some(world.curve(&run, &folder, options.resume)?),
                (None, None) => Curve::kept(&run, &folder)?,
            });
        }
        sections.push((part, curves));
    }
    for (part, curves) in &sections {
        table::print(*part, curves);
        table::draw(&options.output, *part, curves)?;
    }
    // What is only to run, or not of the papers' digits, holds to nothing.
    let claims = if options.quick || options.stand_in { Vec::new() } else { claims::judge(&sections, &size) };
    claims.iter().for_each(|claim| println!("{claim}"));
    let result = json!({
        "setting": size,
        "digits": if options.stand_in { "seven-segment stand-in" } else { "MNIST" },
        "seed": options.seed,
        "device": format!("{:?}", device.burn()),
        "parts": sections.iter().map(|(part, curves)| json!({ "part": part, "runs": curves })).collect::<Vec<_>>(),
        "claims": claims.iter().map(claims::Claim::json).collect::<Vec<_>>(),
    });
    let path = options.output.join("result.json");
    write_atomically(&path, serde_json::to_string_pretty(&result)?.as_bytes())?;
    println!("Wrote {}", path.display());
    Ok(())
}

/// The runs of a part that are asked for.
fn runs(size: &plan::Size, part: Part, options: &Options) -> Vec<Run> {
    let wanted = |run: &Run| options.only.as_ref().is_none_or(|word| run.slug.contains(word.as_str()));
    let complete = |run: Run| {
        let initial_scale = options.initial_scale.unwrap_or(run.initial_scale);
        Run { seed: options.seed, initial_scale, uniform: options.uniform_start, ..run }
    };
    size.runs(part).into_iter().filter(wanted).map(complete).collect()
}

fn world(size: &plan::Size, device: &Device, options: &Options) -> Result<World, Failure> {
    let digits = if options.stand_in { synthetic_digits(size.digits, options.seed) } else { mnist()? };
    let [train, test] = [first(&digits.train, size.digits[0])?, first(&digits.test, size.digits[1])?];
    Ok(World { device: device.clone(), train, test, threads: options.threads })
}

/// The first so many digits.
fn first(digits: &Images, count: usize) -> Result<Images, Failure> {
    Ok(digits.select(&(0..count.min(digits.len())).collect::<Vec<_>>())?)
}
