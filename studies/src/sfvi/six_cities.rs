//! Fits the six-cities logistic mixed model by every method in the book (SFVI paper, section 4.3, Figure 6).
//!
//! ```sh
//! cargo run --release -p partita-studies -- six_cities --bound local --steps 20000 --no-alone
//! ```
//!
//! What you should see: the table of `examples/six_cities.rs` for the algorithm, the family, the bound, the estimator
//! and the silos of the options. With the locally enhanced bound at sixteen draws a child all five marginals agree with
//! those of the no-U-turn sampler on the pooled data. Numbers: `docs/src/explanation-estimators.md`,
//! `docs/src/explanation-rounds.md`.

use clap::{Args, ValueEnum};
use partita::core::{NoiseKind, partition_equally};
use partita::inference::{
    AlgorithmChoice, Effect, HtmlOptions, ImportanceGradient, Metrics, Panel, Scale, SiteSummary, plot,
};
use partita::models::{
    MixedLogistic, ReferencePosterior, RepeatedBinary, six_cities, six_cities_reference, six_cities_silos,
};
use partita::{
    Device, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, PviOptions, RoundOptions, Schedule, Settings,
    SiloSchedule, fit,
};

use crate::harness::{Result, Session, Shared, State, curve_of};

/// The six-cities study over silos, beside the no-U-turn sampler on pooled data.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// The algorithm: `sfvi-avg` averages after many local steps, `pvi` keeps one factor a silo, `central` pools the
    /// data.
    #[arg(long, value_enum, default_value_t = AlgorithmName::Sfvi)]
    algorithm: AlgorithmName,
    /// Local steps in a round of `sfvi-avg` and `pvi`.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// Scales the entropy of the children's posteriors like their density in `sfvi-avg`, unlike the paper.
    #[arg(long)]
    scale_entropy: bool,
    /// Damping of `pvi`, whose rounds are synchronous; 1 over the number of silos by default.
    #[arg(long)]
    damping: Option<f64>,
    /// Puts the children of mothers who smoke in one of two silos, so that the silos differ as much as possible.
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
    /// The dependence between the noise of these draws.
    #[arg(long, value_enum, default_value_t = NoiseName::Independent)]
    noise: NoiseName,
    /// The number of silos: 2 is the split of the reference (300 and 237 children), others are equal at random.
    #[arg(long, default_value_t = 2)]
    silos: usize,
    /// Does not fit each silo alone.
    #[arg(long)]
    no_alone: bool,
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
    /// Draws that fill the space evenly: randomised quasi-Monte Carlo.
    Sobol,
}

impl Options {
    fn algorithm(&self) -> AlgorithmChoice {
        match self.algorithm {
            AlgorithmName::Sfvi => AlgorithmChoice::Sfvi,
            AlgorithmName::Central => AlgorithmChoice::Central,
            AlgorithmName::Pvi => AlgorithmChoice::Pvi(PviOptions {
                schedule: SiloSchedule::Synchronous,
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

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.shared.quick {
        options.steps = 2_000;
    }
    let session = Session::start("six_cities", &options.shared)?;
    let device = session.device()?;
    let model = options.family.model();
    let reference = six_cities_reference()?;
    let silos = silos(&options, &device)?;
    let State { folder, resume } = session.state("fit")?;
    let fit_options = FitOptions {
        algorithm: options.algorithm(),
        settings: settings(&options),
        threads: options.shared.threads,
        checkpoint: Some((folder, 1_000)),
        resume,
        interrupt: Some(session.interrupt()),
        ..FitOptions::default()
    };
    let mut metrics = Metrics::new(options.steps, Some(&session.file("metrics.jsonl")), 100)?.resume(resume);
    let federated = fit(&model, &silos, &device, &fit_options, Some(&mut metrics))?;
    let mut alone = Vec::new();
    // The references for single silos belong to the default split.
    if !options.no_alone && !options.apart && options.silos == 2 && options.algorithm != AlgorithmName::Central {
        for silo in &silos {
            let own = FitOptions { checkpoint: None, resume: false, threads: 1, ..fit_options.clone() };
            alone.push(fit(&model, std::slice::from_ref(silo), &device, &own, None)?);
        }
    }
    let silos = reference.silos();
    let mut others = vec![("NUTS pooled".to_owned(), moments(reference.pooled()))];
    for (place, own) in alone.iter().enumerate() {
        others.push((format!("silo {} alone", place + 1), found(own)));
        others.push((format!("NUTS silo {}", place + 1), moments(silos[place])));
    }
    println!("Posterior mean / sd of each global (NUTS columns: reference runs on the data named)\n");
    print_comparison(&federated, &others);
    println!("\n{}", federated.report);
    println!("What may leave a silo:\n{}", federated.algorithm.manifest());
    draw(&session, &federated, &others)?;
    let ratio = |(label, name): (&str, &str)| Effect {
        label: label.into(),
        name: name.into(),
        unit: "odds ratio".into(),
        scale: Scale::Exponential,
    };
    let effects = [("beta[1]", "Mother smokes"), ("beta[2]", "A year of age"), ("beta[3]", "Both")].map(ratio).into();
    let prior = federated.prior(&model, &device)?;
    let page = HtmlOptions { title: "Wheezing in six cities".into(), effects, prior, ..HtmlOptions::default() };
    federated.write_html(&session.file("report.html"), &page)?;
    session.finish(&federated.report, ", report.html, metrics.jsonl, elbo.svg and marginals.svg")
}

fn settings(options: &Options) -> Settings {
    let weighted = |gradient| Estimator::ImportanceWeighted { gradient };
    Settings {
        steps: options.steps,
        seed: options.shared.seed,
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

fn silos(options: &Options, device: &Device) -> Result<Vec<(String, RepeatedBinary)>> {
    let children = six_cities();
    let groups = match (options.algorithm, options.silos) {
        (AlgorithmName::Central, _) | (_, 1) => vec![children],
        (_, 2) if options.apart => {
            let (smoking, other) = children.into_iter().partition(|child| child.smoke);
            vec![smoking, other]
        }
        (_, 2) => six_cities_silos().into(),
        (_, count) => {
            let rows = partition_equally(children.len(), count, &partita::core::Noise::new(options.shared.seed))?;
            rows.into_iter().map(|rows| rows.into_iter().map(|row| children[row]).collect()).collect()
        }
    };
    let mut silos = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        silos.push((format!("hospital-{}", index + 1), RepeatedBinary::six_cities(group, device)?));
    }
    Ok(silos)
}

/// Mean and standard deviation of each global.
type Moments = Vec<(f64, f64)>;

fn found(fit: &Fit) -> Moments {
    fit.report.sites.iter().map(|site| (site.mean, site.sd)).collect()
}

fn moments(reference: &ReferencePosterior) -> Moments {
    reference.mean.iter().copied().zip(reference.sd.iter().copied()).collect()
}

fn print_comparison(fit: &Fit, others: &[(String, Moments)]) {
    print!("{:<10} {:>17}", "", "federated");
    others.iter().for_each(|(name, _)| print!(" {name:>17}"));
    println!();
    let pair = |(mean, sd): (f64, f64)| format!("{mean:>8.3} / {sd:.3}");
    for (index, site) in fit.report.sites.iter().enumerate() {
        print!("{:<10} {:>17}", site.label, pair((site.mean, site.sd)));
        others.iter().for_each(|(_, own)| print!(" {:>17}", pair(own[index])));
        println!();
    }
}

/// Draws the trace of the bound, and the marginals of all except the references of single silos.
fn draw(session: &Session, fit: &Fit, others: &[(String, Moments)]) -> Result<()> {
    let points = curve_of(&fit.record.trace);
    if points.len() < 2 {
        println!("The run was cut before its second step: there is no trace to draw.");
        return Ok(());
    }
    let title = format!("ELBO of the six-cities model, settled: {}", fit.report.settled_in_words());
    plot::trace(&session.file("elbo.svg"), &points, &title)?;
    let panel = |(index, site): (usize, &SiteSummary)| {
        // Omega is minus the logarithm of a standard deviation: the picture shows that itself.
        let is_deviation = site.site == "omega";
        let normal = |(mean, sd): (f64, f64)| match is_deviation {
            true => plot::Density::LogNormal { mean: -mean, sd },
            false => plot::Density::Normal { mean, sd },
        };
        let shown = others.iter().filter(|(name, _)| !name.starts_with("NUTS silo"));
        let curves = shown.map(|(name, own)| (name.clone(), normal(own[index])));
        let title = if is_deviation { "standard deviation between children" } else { &site.label };
        let federated = ("federated".to_owned(), normal((site.mean, site.sd)));
        Panel { title: title.into(), unit: "log odds".into(), curves: [federated].into_iter().chain(curves).collect() }
    };
    let panels: Vec<Panel> = fit.report.sites.iter().enumerate().map(panel).collect();
    Ok(plot::marginals(&session.file("marginals.svg"), &panels)?)
}
