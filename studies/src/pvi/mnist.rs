//! Fits a Bayesian network to MNIST digits of ten or a hundred silos, by partitioned variational inference.
//!
//! ```sh
//! cargo run --release -p partita-studies -- pvi_mnist
//! ```
//!
//! What you should see: the test error of a mean-field posterior over the 159,010 weights of a 784-200-10 network. Two
//! sweeps of sequential local updates of ten silos end at 2.80 %, global inference with as many steps at 2.94 %, and
//! synchronous updates later. Then committees and streaming; the damping factors for which the product of the silos'
//! factors is improper; local problems that start tight and stop early; silos that hold two digits each; Rényi
//! divergences; wrong training labels; and point estimates by federated averaging and its variants.
//!
//! `--part` chooses among these, `--times 4` takes four times as many sweeps, `--paper` the papers' settings (hours a
//! part). `--quick` tests that it runs, and `--quick --stand-in` that it does so without a file, on digits of a
//! seven-segment display. Runs are kept in the output folder: `--resume` skips finished ones and resumes an interrupted
//! one; `--kept` judges them again, and `--list` names all of them. Numbers: `docs/src/study-pvi.md`.
//!
//! Source: Ashman et al. (2022), Partitioned variational inference, arXiv:2202.12275, section 5.3; Mildner (2024),
//! Federated learning under misspecification, chapter 5.

mod claims;
mod plan;
mod study;
mod table;

use clap::{Args, ValueEnum};
use partita::Precision;
use partita::datasets::{Images, mnist, synthetic_digits};
use serde_json::json;

use crate::harness::{Claims, Result, Session, Shared};
use plan::{LONG, PAPER, Part, QUICK, REDUCED};
use study::{Curve, Run, World};

/// A Bayesian neural network on MNIST by partitioned variational inference.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// The parts of the study; all if none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    part: Vec<Part>,
    /// Only runs whose name in files contains this.
    #[arg(long)]
    only: Option<String>,
    /// The standard deviation at which posteriors start, instead of that of the setting.
    #[arg(long)]
    initial_scale: Option<f64>,
    /// Posterior means start uniformly between minus and plus this, 0.1 in the papers; N(0, 2 / inputs) by default.
    #[arg(long)]
    uniform_start: Option<f64>,
    /// The factor on sweeps, rounds, and steps of global inference of the setting.
    #[arg(long, default_value_t = 1)]
    times: u64,
    /// The papers' numbers of steps, draws and rows.
    #[arg(long, conflicts_with = "quick")]
    paper: bool,
    /// Local updates of a thousand steps: hours, instead of days for the papers' settings.
    #[arg(long, conflicts_with_all = ["quick", "paper"])]
    long: bool,
    /// Digits of a seven-segment display in place of MNIST, which need no file and are far easier; no claims are
    /// judged.
    #[arg(long)]
    stand_in: bool,
    /// Shows and judges the runs in the output folder, without running any.
    #[arg(long, conflicts_with = "resume")]
    kept: bool,
    /// Prints every run with its settings, one a line, without running any.
    #[arg(long)]
    list: bool,
}

impl Options {
    fn size(&self) -> plan::Size {
        let size = match (self.shared.quick, self.paper, self.long) {
            (true, ..) => QUICK,
            (_, true, _) => PAPER,
            (_, _, true) => LONG,
            _ => REDUCED,
        };
        size.longer(self.times.max(1))
    }

    fn parts(&self) -> Vec<Part> {
        if self.part.is_empty() { Part::value_variants().to_vec() } else { self.part.clone() }
    }
}

pub(crate) fn run(options: Options) -> Result<()> {
    let size = options.size();
    let planned = plan::of_parts(&options.parts(), |part| runs(&size, part, &options))?;
    if options.list {
        for (part, runs) in &planned {
            runs.iter().for_each(|run| println!("{}", json!({ "part": part, "run": run })));
        }
        return Ok(());
    }
    let session = Session::start("pvi_mnist", &options.shared)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.shared.threads).build()?;
    pool.install(|| study(&options, &session, planned))
}

fn study(options: &Options, session: &Session, planned: Vec<(Part, Vec<Run>)>) -> Result<()> {
    let size = options.size();
    let device = session.device()?.with_precision(Precision::Single);
    let burn_device = format!("{:?}", device.burn());
    let world = if options.kept { None } else { Some(World::new(session, device, digits(&size, options)?)) };
    // Runs of one kind of digits do not serve for the other.
    let folder = session.file(if options.stand_in { "runs_stand_in" } else { "runs" });
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
                (Some(world), None) => Some(world.curve(&run, &folder)?),
                (None, None) => Curve::kept(&run, &folder)?,
            });
        }
        sections.push((part, curves));
    }
    for (part, curves) in &sections {
        table::print(*part, curves);
        table::draw(session, *part, curves)?;
    }
    // Quick runs and other digits judge no claims.
    let is_held = !options.shared.quick && !options.stand_in;
    let mut claims = Claims::from(if is_held { claims::judge(&sections, &size) } else { Vec::new() });
    claims.print_new("Claims of the papers:");
    let result = json!({
        "setting": size,
        "digits": if options.stand_in { "seven-segment stand-in" } else { "MNIST" },
        "seed": options.shared.seed,
        "device": burn_device,
        "parts": sections.iter().map(|(part, curves)| json!({ "part": part, "runs": curves })).collect::<Vec<_>>(),
        "claims": claims,
    });
    session.finish(&result, " and the pictures")
}

/// The runs of a part that are requested.
fn runs(size: &plan::Size, part: Part, options: &Options) -> Vec<Run> {
    let wanted = |run: &Run| options.only.as_ref().is_none_or(|word| run.slug.contains(word.as_str()));
    let complete = |run: Run| {
        let initial_scale = options.initial_scale.unwrap_or(run.initial_scale);
        Run { seed: options.shared.seed, initial_scale, uniform: options.uniform_start, ..run }
    };
    size.runs(part).into_iter().filter(wanted).map(complete).collect()
}

/// Training and test digits.
fn digits(size: &plan::Size, options: &Options) -> Result<[Images; 2]> {
    let digits = if options.stand_in { synthetic_digits(size.digits, options.shared.seed) } else { mnist()? };
    Ok([first(&digits.train, size.digits[0])?, first(&digits.test, size.digits[1])?])
}

/// The first `count` digits.
fn first(digits: &Images, count: usize) -> Result<Images> {
    Ok(digits.select(&(0..count.min(digits.len())).collect::<Vec<_>>())?)
}
