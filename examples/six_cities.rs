//! Fits the six-cities logistic mixed model over two hospitals that do not share data (SFVI paper, section 4.3, Figure 6).
//!
//! ```sh
//! cargo run --release --example six_cities
//! ```
//!
//! What you should see: a table of five posteriors, federated beside NUTS on the pooled data and beside each silo alone;
//! an ELBO of -827.3 nats or better; beta[1] (smoking) near 0.444 with sd 0.260. About 10 seconds on two cores after
//! the build. `--quick` takes 2,000 steps instead of 30,000 and has not converged.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, ValueEnum};
use partita::inference::{AlgorithmChoice, Metrics, Panel, plot};
use partita::models::{
    MixedLogistic, ReferencePosterior, RepeatedBinary, six_cities, six_cities_reference, six_cities_silos,
};
use partita::{
    Device, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, ImportanceGradient, NoiseKind, PviOptions, RoundOptions,
    Schedule, Settings, VisitSchedule, fit, partition_equally,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error>;

/// Fits the six-cities study over silos and compares with pooled NUTS.
#[derive(Parser, Debug)]
struct Options {
    /// The algorithm: `sfvi-avg` averages after many local steps, `pvi` keeps one factor a silo, `central` pools the data.
    #[arg(long, value_enum, default_value_t = AlgorithmName::Sfvi)]
    algorithm: AlgorithmName,
    /// Local steps in a round of `sfvi-avg` and `pvi`.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// Scales the entropy of the children's posteriors with their density in `sfvi-avg`, which the paper does not.
    #[arg(long)]
    scale_entropy: bool,
    /// Damping of `pvi`, whose rounds are synchronous; 1 over the number of silos where it is not given.
    #[arg(long)]
    damping: Option<f64>,
    /// Puts the children of mothers who smoke in a silo of their own, of two: silos that differ as much as they can.
    #[arg(long)]
    apart: bool,
    /// The variational family.
    #[arg(long, value_enum, default_value_t = FamilyName::Scale)]
    family: FamilyName,
    /// The bound: `local` averages over inner draws within every child.
    #[arg(long, value_enum, default_value_t = BoundName::Ordinary)]
    bound: BoundName,
    /// Inner draws a child of the local bound.
    #[arg(long, default_value_t = 16)]
    inner_draws: usize,
    /// The gradient estimator of the ordinary bound, or of the importance-weighted one over `--particles` draws.
    #[arg(long, value_enum, default_value_t = EstimatorName::Stl)]
    estimator: EstimatorName,
    /// Optimiser steps.
    #[arg(long, default_value_t = 30_000)]
    steps: u64,
    /// Monte Carlo draws a step.
    #[arg(long, default_value_t = 1)]
    particles: usize,
    /// How the noise of these draws hangs together.
    #[arg(long, value_enum, default_value_t = NoiseName::Independent)]
    noise: NoiseName,
    /// The seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The device: flex, ndarray, wgpu, vulkan or cuda; else the variable BURN_DEVICE, else flex.
    #[arg(long)]
    device: Option<String>,
    /// The number of silos: 2 is the split of the reference (300 and 237 children), others are equal at random.
    #[arg(long, default_value_t = 2)]
    silos: usize,
    /// Threads for silos and particles; the result does not depend on them.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json, metrics.jsonl and the plots.
    #[arg(long, default_value = "output/six_cities")]
    output: PathBuf,
    /// Writes a checkpoint there every 1,000 steps.
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Goes on from the checkpoint.
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    /// Does not fit each silo alone.
    #[arg(long)]
    no_alone: bool,
    /// Takes 2,000 steps: to see that it runs.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AlgorithmName {
    Sfvi,
    SfviAvg,
    Pvi,
    Central,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FamilyName {
    /// Diagonal q, nothing conditional.
    Diagonal,
    /// Full-rank globals, intercepts independent of them.
    Independent,
    /// The paper's: full-rank globals, means of centred intercepts linear in them.
    Paper,
    /// The same with non-centred intercepts.
    NonCentred,
    /// The same with log-scales linear in the globals too.
    Scale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BoundName {
    Ordinary,
    Local,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EstimatorName {
    Stl,
    Total,
    Entropy,
    /// Importance-weighted bound, its plain gradient.
    Iwae,
    /// Importance-weighted bound, sticking the landing.
    IwaeStl,
    /// Importance-weighted bound, doubly reparameterised gradient.
    Dreg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NoiseName {
    Independent,
    /// Draws in pairs of opposite noise.
    Antithetic,
    /// Draws that fill the space evenly: scrambled quasi-Monte-Carlo.
    Sobol,
}

impl Options {
    fn algorithm(&self) -> AlgorithmChoice {
        match self.algorithm {
            AlgorithmName::Sfvi => AlgorithmChoice::Sfvi,
            AlgorithmName::Central => AlgorithmChoice::Central,
            AlgorithmName::Pvi => AlgorithmChoice::Pvi(PviOptions {
                schedule: VisitSchedule::Synchronous,
                damping: self.damping,
                ..PviOptions::new(self.local_steps)
            }),
            AlgorithmName::SfviAvg => AlgorithmChoice::SfviAvg(RoundOptions {
                scale_entropy: self.scale_entropy,
                ..RoundOptions::paper(self.local_steps)
            }),
        }
    }
}

impl FamilyName {
    fn plan(self) -> FamilyPlan {
        let rows = Gaussian::diagonal();
        match self {
            Self::Diagonal => FamilyPlan::new().global(Gaussian::diagonal()).local(rows),
            Self::Independent => FamilyPlan::new().global(Gaussian::full_rank()).local(rows),
            Self::Paper | Self::NonCentred => {
                FamilyPlan::new().global(Gaussian::full_rank()).local(rows.given_globals())
            }
            Self::Scale => {
                FamilyPlan::new().global(Gaussian::full_rank()).local(rows.given_globals().scale_given_globals())
            }
        }
    }

    fn model(self) -> MixedLogistic {
        let model = MixedLogistic::new(4);
        if matches!(self, Self::NonCentred | Self::Scale) { model } else { model.centred() }
    }
}

fn main() -> Result<(), Failure> {
    let mut options = Options::parse();
    if options.quick {
        options.steps = 2_000;
    }
    let device = partita::gpu::device(options.device.as_deref())?;
    let model = options.family.model();
    let reference = six_cities_reference()?;
    let silos = silos(&options, &device)?;
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let fit_options = FitOptions {
        algorithm: options.algorithm(),
        settings: settings(&options),
        threads: options.threads,
        checkpoint: options.checkpoint.clone().map(|folder| (folder, 1_000)),
        resume: options.resume,
        interrupt: Some(interrupt),
        ..FitOptions::default()
    };
    let mut metrics =
        Metrics::new(options.steps, Some(&options.output.join("metrics.jsonl")), 100)?.resume(options.resume);
    let federated = fit(&model, &silos, &device, &fit_options, Some(&mut metrics))?;
    let mut alone = Vec::new();
    // References of each silo are of the usual split.
    if !options.no_alone && !options.apart && options.silos == 2 && options.algorithm != AlgorithmName::Central {
        for silo in &silos {
            let own = FitOptions { checkpoint: None, resume: false, threads: 1, ..fit_options.clone() };
            alone.push(fit(&model, std::slice::from_ref(silo), &device, &own, None)?);
        }
    }
    print_comparison(&federated, &alone, reference.pooled(), &reference.silos());
    println!("\n{}", federated.report);
    println!("What may leave a silo:\n{}", federated.algorithm.manifest());
    write(&options.output, &federated, &alone, reference.pooled())?;
    println!("Wrote result.json, metrics.jsonl, elbo.svg and marginals.svg to {}", options.output.display());
    Ok(())
}

fn settings(options: &Options) -> Settings {
    let weighted = |gradient| Estimator::ImportanceWeighted { gradient };
    Settings {
        steps: options.steps,
        seed: options.seed,
        particles: options.particles,
        family: options.family.plan(),
        estimator: match (options.bound, options.estimator) {
            (BoundName::Local, _) => Estimator::LocallyEnhanced { inner: options.inner_draws },
            (BoundName::Ordinary, EstimatorName::Stl) => Estimator::StickingTheLanding,
            (BoundName::Ordinary, EstimatorName::Total) => Estimator::Total,
            (BoundName::Ordinary, EstimatorName::Entropy) => Estimator::ClosedFormEntropy,
            (BoundName::Ordinary, EstimatorName::Iwae) => weighted(ImportanceGradient::Total),
            (BoundName::Ordinary, EstimatorName::IwaeStl) => weighted(ImportanceGradient::StickingTheLanding),
            (BoundName::Ordinary, EstimatorName::Dreg) => weighted(ImportanceGradient::DoublyReparameterised),
        },
        noise: match options.noise {
            NoiseName::Independent => NoiseKind::Independent,
            NoiseName::Antithetic => NoiseKind::Antithetic,
            NoiseName::Sobol => NoiseKind::Sobol,
        },
        schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
        ..Settings::default()
    }
}

fn silos(options: &Options, device: &Device) -> Result<Vec<(String, RepeatedBinary)>, Failure> {
    let children = six_cities();
    let groups = match (options.algorithm, options.silos) {
        (AlgorithmName::Central, _) | (_, 1) => vec![children],
        (_, 2) if options.apart => {
            let (smoking, other) = children.into_iter().partition(|child| child.smoke);
            vec![smoking, other]
        }
        (_, 2) => six_cities_silos().into(),
        (_, count) => {
            let rows = partition_equally(children.len(), count, &partita::Noise::new(options.seed))?;
            rows.into_iter().map(|rows| rows.into_iter().map(|row| children[row]).collect()).collect()
        }
    };
    let mut silos = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        silos.push((format!("hospital-{}", index + 1), RepeatedBinary::six_cities(group, device)?));
    }
    Ok(silos)
}

fn print_comparison(fit: &Fit, alone: &[Fit], pooled: &ReferencePosterior, silos: &[&ReferencePosterior; 2]) {
    println!("Posterior mean / sd of each global (NUTS columns: reference runs on the data named)\n");
    print!("{:<10} {:>17} {:>17}", "", "federated", "NUTS pooled");
    for (index, _) in alone.iter().enumerate() {
        print!(" {:>17} {:>17}", format!("silo {} alone", index + 1), format!("NUTS silo {}", index + 1));
    }
    println!();
    let pair = |mean: f64, sd: f64| format!("{mean:>8.3} / {sd:.3}");
    for (index, site) in fit.report.sites.iter().enumerate() {
        let nuts = pair(pooled.mean[index], pooled.sd[index]);
        print!("{:<10} {:>17} {nuts:>17}", site.label, pair(site.mean, site.sd));
        for (own, reference) in alone.iter().zip(silos) {
            let own = &own.report.sites[index];
            print!(" {:>17} {:>17}", pair(own.mean, own.sd), pair(reference.mean[index], reference.sd[index]));
        }
        println!();
    }
}

fn write(folder: &Path, fit: &Fit, alone: &[Fit], reference: &ReferencePosterior) -> Result<(), Failure> {
    fit.report.write_json(&folder.join("result.json"))?;
    #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
    let points: Vec<(f64, f64)> = fit.record.trace.iter().map(|(step, elbo)| (*step as f64, *elbo)).collect();
    if points.len() < 2 {
        println!("The run was cut before its second step: there is no trace to draw.");
        return Ok(());
    }
    plot::trace(&folder.join("elbo.svg"), &points, "ELBO of the six-cities model", plot::StepAxis::Linear)?;
    let panels: Vec<Panel> = fit
        .report
        .sites
        .iter()
        .enumerate()
        .map(|(index, site)| {
            let normal = |mean, sd| plot::Density::Normal { mean, sd };
            let mut curves = vec![
                ("federated".to_owned(), normal(site.mean, site.sd)),
                ("NUTS, pooled".to_owned(), normal(reference.mean[index], reference.sd[index])),
            ];
            for (number, own) in alone.iter().enumerate() {
                let own = &own.report.sites[index];
                curves.push((format!("silo {} alone", number + 1), normal(own.mean, own.sd)));
            }
            let unit = if site.site == "omega" { "minus log standard deviation" } else { "log odds" };
            Panel { title: site.label.clone(), unit: unit.into(), curves }
        })
        .collect();
    plot::marginals(&folder.join("marginals.svg"), &panels)?;
    Ok(())
}
