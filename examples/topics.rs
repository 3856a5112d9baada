//! Finds topics of 20 Newsgroups over three silos that do not share documents (SFVI paper, section 4.2, Figures 4 and 5).
//!
//! ```sh
//! cargo run --release --example topics
//! ```
//!
//! What you should see: a table with a row for each way to fit (SFVI; SFVI-Avg as printed and with the entropy of the
//! local posteriors scaled; SFVI with an encoder; each silo alone), the bound at several numbers of gradient
//! evaluations, what the paper claims and whether it came out so, and words of topics. See the book's page "Topics".
//! About 800 seconds of processor time after the build (dev profile). `--quick` takes a few steps on some of the documents: to see that it
//! runs.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use partita::datasets::{newsgroups, octis};
use partita::inference::metrics::{top_words, umass_coherence};
use partita::inference::{
    Algorithm, AveragingSilo, Barycentre, InProcess, Rounds, RunOptions, RunRecord, Sfvi, SfviAvg, Silent, Silo,
    SiloProgram, assess, held_out_bound, run, write_atomically,
};
use partita::models::{KnownTopics, TopicEncoder, TopicLink, TopicModel};
use partita::{
    AlgorithmChoice, Amortised, Array, Device, FamilyPlan, FitOptions, Gaussian, Key, Model, Noise, Purpose, Schedule,
    Settings, SiteTable, SparseRows, fit, partition_equally,
};
use serde::{Deserialize, Serialize};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error>;
type Silos = Vec<(String, SparseRows)>;

/// The silos of the paper.
const SILOS: usize = 3;
/// Words of a topic that are compared, and of which the coherence is taken.
const TOP: usize = 10;
/// Draws of the posterior of the topics that are averaged.
const TOPIC_DRAWS: u32 = 32;
/// How far below the bound of SFVI another bound counts as about the same: a hundredth of it.
const ABOUT: f64 = 0.01;

/// Fits topics over silos, and each silo alone, and compares them.
#[derive(Parser, Debug, Clone)]
struct Options {
    /// The ways to fit.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Way::ALL)]
    ways: Vec<Way>,
    /// Optimiser steps of every way.
    #[arg(long, default_value_t = 6_000)]
    steps: u64,
    /// Local steps in a round of SFVI-Avg.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// How often in a run the bound is estimated on all documents.
    #[arg(long, default_value_t = 6)]
    stages: u64,
    /// Documents of each silo in a step.
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// The learning rate, which falls to zero as a cosine.
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    /// How far the topics are scattered at the start, alike for all silos; 0 lets every silo break their symmetry itself.
    #[arg(long, default_value_t = 1.0)]
    scatter: f64,
    /// Topics.
    #[arg(long, default_value_t = 21)]
    topics: usize,
    /// How weights and topics make word probabilities.
    #[arg(long, value_enum, default_value_t = LinkName::Experts)]
    link: LinkName,
    /// Where alpha starts; else 1 / topics.
    #[arg(long)]
    alpha: Option<f64>,
    /// Hidden units of the encoder.
    #[arg(long, default_value_t = 64)]
    hidden: usize,
    /// Documents that no fit sees.
    #[arg(long, default_value_t = 654)]
    held_out: usize,
    /// A folder with a corpus in the layout of OCTIS, in place of the 20 Newsgroups.
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Uses only so many of the other documents.
    #[arg(long)]
    documents: Option<usize>,
    /// The seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The device: flex, ndarray, wgpu, vulkan or cuda; else the variable BURN_DEVICE, else flex.
    #[arg(long)]
    device: Option<String>,
    /// Threads for silos; the result does not depend on them.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json and the pictures.
    #[arg(long, default_value = "output/topics")]
    output: PathBuf,
    /// Writes checkpoints there at every stage, one folder for each way.
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Goes on from the checkpoints.
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    /// A few steps on 1,500 documents: to see that it runs.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// A message at every step.
    Sfvi,
    /// Rounds of local steps, as the paper prints them.
    Avg,
    /// The same with the entropy of local posteriors scaled like their density.
    AvgScaled,
    /// SFVI with an encoder in place of a posterior for each document.
    Amortised,
    /// The first silo alone.
    Alone1,
    /// The second silo alone.
    Alone2,
    /// The third silo alone.
    Alone3,
}

impl Way {
    const ALL: [Self; 7] =
        [Self::Sfvi, Self::Avg, Self::AvgScaled, Self::Amortised, Self::Alone1, Self::Alone2, Self::Alone3];

    fn alone(self) -> Option<usize> {
        [Self::Alone1, Self::Alone2, Self::Alone3].iter().position(|way| *way == self)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sfvi => "SFVI",
            Self::Avg => "SFVI-Avg",
            Self::AvgScaled => "SFVI-Avg, scaled entropy",
            Self::Amortised => "SFVI, amortised",
            Self::Alone1 => "silo 1 alone",
            Self::Alone2 => "silo 2 alone",
            Self::Alone3 => "silo 3 alone",
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = self.to_possible_value().map(|value| value.get_name().to_owned());
        formatter.write_str(&word.unwrap_or_default())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LinkName {
    /// The softmax of W log T, a product of experts.
    Experts,
    /// The softmax of W T, as the paper prints it.
    Printed,
}

/// The bound on all documents of a way after some steps.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Stage {
    steps: u64,
    rounds: u64,
    bytes: u64,
    seconds: f64,
    cpu_seconds: f64,
    elbo: f64,
    elbo_se: f64,
    /// The largest resident memory of this way so far.
    peak_megabytes: f64,
}

/// What came out of one way to fit.
#[derive(Debug, Serialize)]
struct Fitted {
    way: Way,
    name: &'static str,
    stages: Vec<Stage>,
    gradient_evaluations: u64,
    tokens: f64,
    elbo_per_token: f64,
    /// With weights trained for each document not seen before, the topics and alpha known.
    held_out_per_token: f64,
    /// The same bound with the encoder alone; nothing is trained.
    encoder_held_out_per_token: Option<f64>,
    coherence: Vec<f64>,
    mean_coherence: f64,
    alpha: f64,
    beta: f64,
    peak_megabytes: f64,
    local_numbers: usize,
    topics: Vec<Vec<String>>,
}

impl Fitted {
    fn last(&self) -> Stage {
        self.stages[self.stages.len() - 1]
    }
}

#[derive(Debug, Serialize)]
struct Claim {
    claim: &'static str,
    met: bool,
    found: String,
}

/// What all ways share.
struct Setup {
    options: Options,
    device: Device,
    silos: Silos,
    held_out: SparseRows,
    training: SparseRows,
    /// All documents, over which coherence is taken.
    reference: SparseRows,
    vocabulary: Vec<String>,
    link: TopicLink,
}

fn main() -> Result<(), Failure> {
    let setup = setup(Options::parse())?;
    let Options { topics, hidden, seed, .. } = setup.options;
    println!(
        "{} documents in {SILOS} silos and {} held out, {} words, {} tokens",
        setup.training.rows(),
        setup.held_out.rows(),
        setup.vocabulary.len(),
        tokens(&setup.training)
    );
    let device = &setup.device;
    let plain = TopicModel::new(topics, setup.vocabulary.len(), device).link(setup.link);
    let alpha = setup.options.alpha.unwrap_or(1.0 / f64::from(u32::try_from(topics)?.max(1)));
    let plain = plain.starting(alpha, 0.1, device);
    let mut fits = Vec::new();
    for way in setup.options.ways.clone() {
        let fitted = if way == Way::Amortised {
            let encoder = TopicEncoder::new(setup.vocabulary.len(), hidden, topics, seed, device);
            let model = Amortised::new(plain.clone(), "document", encoder);
            one(&setup, way, &model, |algorithm, settings| {
                let bound = held_out_bound(&model, device, settings, algorithm.posterior(), (&setup.held_out, 10))?;
                Ok(Some(bound.elbo / tokens(&setup.held_out)))
            })?
        } else {
            one(&setup, way, &plain, |_, _| Ok(None))?
        };
        println!(
            "{}: bound {:.4} nats a token, coherence {:.3}",
            way.name(),
            fitted.elbo_per_token,
            fitted.mean_coherence
        );
        fits.push(fitted);
    }
    let claims = claims(&fits);
    print_tables(&fits, &claims);
    write(&setup, &fits, &claims)?;
    println!("Wrote result.json, elbo.svg and topics.svg to {}", setup.options.output.display());
    Ok(())
}

fn setup(mut options: Options) -> Result<Setup, Failure> {
    if options.quick {
        (options.steps, options.local_steps, options.stages) = (40, 10, 2);
        (options.batch, options.held_out, options.documents) = (64, 100, Some(1_500));
    }
    let device = partita::gpu::device(options.device.as_deref())?;
    let corpus = match &options.corpus {
        Some(folder) => octis(folder)?,
        None => newsgroups()?,
    };
    let noise = Noise::new(options.seed);
    let mut order: Vec<usize> = (0..corpus.len()).collect();
    noise.stream(Key::new(Purpose::Partition, 1)).shuffle(&mut order);
    let (held_out, rest) = order.split_at(options.held_out.min(order.len() / 2));
    let rest = &rest[..options.documents.unwrap_or(rest.len()).min(rest.len())];
    let training = corpus.counts().select(rest)?;
    let mut silos = Vec::new();
    for (rows, number) in partition_equally(training.rows(), SILOS, &noise)?.iter().zip(1..) {
        silos.push((format!("silo-{number}"), training.select(rows)?));
    }
    let link = match options.link {
        LinkName::Experts => TopicLink::Experts,
        LinkName::Printed => TopicLink::Printed,
    };
    let (held_out, vocabulary) = (corpus.counts().select(held_out)?, corpus.vocabulary().to_vec());
    let reference = corpus.counts().clone();
    Ok(Setup { options, device, silos, held_out, training, reference, vocabulary, link })
}

fn tokens(counts: &SparseRows) -> f64 {
    (0..counts.rows()).flat_map(|row| counts.row(row).1).sum()
}

/// Fits one way, stage by stage, and judges it.
fn one<M: Model<Data = SparseRows> + 'static>(
    setup: &Setup,
    way: Way,
    model: &M,
    encoder_alone: impl FnOnce(&dyn Algorithm, &Settings) -> Result<Option<f64>, Failure>,
) -> Result<Fitted, Failure> {
    let options = &setup.options;
    let silos = match way.alone() {
        Some(silo) => &setup.silos[silo..=silo],
        None => &setup.silos,
    };
    let settings = Settings {
        steps: options.steps,
        seed: options.seed,
        family: FamilyPlan::new().global(Gaussian::diagonal()).scattered(options.scatter, options.seed),
        schedule: Schedule::Cosine { initial: options.rate, last: 0.0 },
        minibatch: [("document".to_owned(), options.batch)].into(),
        ..Settings::default()
    };
    reset_peak();
    let (mut algorithm, mut exchange) = parties(setup, way, model, silos, &settings)?;
    let stages = stages(options, way, &mut *algorithm, &mut exchange)?;
    let posterior = algorithm.posterior();
    let topics = mean_topics(model, &setup.device, posterior, options.seed)?;
    let mut words = Vec::new();
    let mut coherence = Vec::new();
    for topic in topics.values.chunks_exact(topics.shape[1]) {
        let top = top_words(topic, TOP)?;
        coherence.push(umass_coherence(&top, &setup.reference)?);
        words.push(top.into_iter().map(|word| setup.vocabulary[word].clone()).collect());
    }
    let alpha = posterior.theta[0];
    let beta = posterior.theta[1].exp();
    let count: f64 = silos.iter().map(|(_, counts)| tokens(counts)).sum();
    let local_numbers = match way {
        Way::Amortised => posterior.theta.len() - 2,
        _ => silos.iter().map(|(_, counts)| 2 * options.topics * counts.rows()).sum(),
    };
    let last = stages[stages.len() - 1];
    let size = f64::from(u32::try_from(coherence.len())?);
    Ok(Fitted {
        way,
        name: way.name(),
        gradient_evaluations: last.steps,
        tokens: count,
        elbo_per_token: last.elbo / count,
        held_out_per_token: held_out(setup, topics, alpha)?,
        encoder_held_out_per_token: encoder_alone(&*algorithm, &settings)?,
        mean_coherence: coherence.iter().sum::<f64>() / size,
        coherence,
        alpha,
        beta,
        peak_megabytes: last.peak_megabytes,
        local_numbers,
        topics: words,
        stages,
    })
}

fn parties<M: Model<Data = SparseRows> + 'static>(
    setup: &Setup,
    way: Way,
    model: &M,
    silos: &[(String, SparseRows)],
    settings: &Settings,
) -> Result<(Box<dyn Algorithm>, InProcess), Failure> {
    let device = &setup.device;
    let averages = matches!(way, Way::Avg | Way::AvgScaled);
    let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
    for ((name, counts), index) in silos.iter().zip(0_u32..) {
        let silo = Silo::new(name, index, model, counts, device, settings)?;
        programs.push(if averages { Box::new(AveragingSilo::new(silo, index)) } else { Box::new(silo) });
    }
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    let algorithm: Box<dyn Algorithm> = if averages {
        let rounds = Rounds {
            local_steps: setup.options.local_steps,
            averaging: Box::new(Barycentre),
            sizes: silos.iter().map(|(_, counts)| counts.rows()).collect(),
            by_size: false,
            keep_optimiser: false,
            most: None,
            scale_entropy: way == Way::AvgScaled,
        };
        Box::new(SfviAvg::new(model, device, settings, &names, rounds)?)
    } else {
        Box::new(Sfvi::new(model, device, settings, &names)?)
    };
    Ok((algorithm, InProcess::new(programs, setup.options.threads)?))
}

/// Runs to the end, with the bound on all documents at every stage.
fn stages(
    options: &Options,
    way: Way,
    algorithm: &mut dyn Algorithm,
    exchange: &mut InProcess,
) -> Result<Vec<Stage>, Failure> {
    let folder = options.checkpoint.as_ref().map(|folder| folder.join(way.to_string()));
    let curve = folder.as_ref().map(|folder| folder.join("stages.json"));
    let mut stages: Vec<Stage> = match &curve {
        Some(curve) if options.resume && curve.exists() => serde_json::from_str(&std::fs::read_to_string(curve)?)?,
        _ => Vec::new(),
    };
    let start = stages.last().copied();
    let (done, count) = (start.map_or(0, |stage| stage.steps), options.stages.max(1));
    let mut spent = start.map_or((0.0, 0.0), |stage| (stage.seconds, stage.cpu_seconds));
    let (mut rounds, mut bytes) = start.map_or((0, 0), |stage| (stage.rounds, stage.bytes));
    // A run may have been cut after its checkpoint and before its bound was written down.
    let mut resumed = None;
    if let (Some(folder), true) = (&folder, done > 0) {
        let how =
            RunOptions { steps: done, checkpoint: Some((folder.clone(), done)), resume: true, ..RunOptions::default() };
        resumed = Some(run(algorithm, exchange, &how, &mut Silent)?);
    }
    for target in (1..=count).map(|stage| options.steps * stage / count).filter(|target| *target > done) {
        let before = cpu_seconds();
        let how = RunOptions {
            steps: target,
            checkpoint: folder.clone().map(|folder| (folder, target)),
            ..RunOptions::default()
        };
        let mut record = match resumed.take().filter(|record| reached(record) >= target) {
            Some(record) => record,
            None => run(algorithm, exchange, &how, &mut Silent)?,
        };
        spent = (spent.0 + record.seconds, spent.1 + cpu_seconds() - before);
        let counters = record.counters;
        rounds += counters.rounds;
        bytes += counters.bytes_to_silos + counters.bytes_from_silos;
        let bound = assess(algorithm, exchange, 4, &mut record.counters)?;
        stages.push(Stage {
            steps: reached(&record),
            rounds,
            bytes,
            seconds: spent.0,
            cpu_seconds: spent.1,
            elbo: bound.elbo,
            elbo_se: bound.standard_error,
            peak_megabytes: peak().max(stages.last().map_or(0.0, |stage| stage.peak_megabytes)),
        });
        if let Some(curve) = &curve {
            write_atomically(curve, serde_json::to_string(&stages)?.as_bytes())?;
        }
    }
    Ok(stages)
}

/// The exponential of the posterior mean of the topics' logarithms, `[topics, vocabulary]`.
fn mean_topics<M: Model>(
    model: &M,
    device: &Device,
    posterior: partita::inference::Posterior<'_>,
    seed: u64,
) -> Result<Array, Failure> {
    let table = SiteTable::globals(model, device)?;
    let mut mean: Option<Array> = None;
    for draw in 0..TOPIC_DRAWS {
        let mut noise = vec![0.0; posterior.family.noise_len()];
        Noise::new(seed).stream(Key::new(Purpose::Report, 1).particle(draw)).normal(&mut noise);
        let latent = posterior.family.draw(posterior.parameters, &noise).latent;
        let Some((_, topics)) = table.natural_globals(model, device, &latent)?.into_iter().next() else {
            return Err("the model has no topics".into());
        };
        let sum = mean.get_or_insert_with(|| Array { values: vec![0.0; topics.len()], shape: topics.shape.clone() });
        sum.values.iter_mut().zip(&topics.values).for_each(|(slot, x)| *slot += x.ln() / f64::from(TOPIC_DRAWS));
    }
    let mut topics = mean.ok_or("no draw of the topics")?;
    topics.values.iter_mut().for_each(|x| *x = x.exp());
    Ok(topics)
}

/// The bound a token of documents that no fit has seen, with weights trained for them and the topics known.
fn held_out(setup: &Setup, topics: Array, alpha: f64) -> Result<f64, Failure> {
    let model = KnownTopics::new(topics, alpha, setup.link)?;
    let settings = Settings {
        steps: if setup.options.quick { 30 } else { 300 },
        seed: setup.options.seed,
        family: FamilyPlan::new().local(Gaussian::diagonal()),
        schedule: Schedule::Cosine { initial: 0.1, last: 0.0 },
        ..Settings::default()
    };
    let options = FitOptions {
        algorithm: AlgorithmChoice::Central,
        settings,
        elbo_draws: 10,
        summary_draws: 2,
        ..FitOptions::default()
    };
    let silos = [("held out".to_owned(), setup.held_out.clone())];
    Ok(fit(&model, &silos, &setup.device, &options, None)?.report.elbo / tokens(&setup.held_out))
}

fn claims(fits: &[Fitted]) -> Vec<Claim> {
    let of = |way: Way| fits.iter().find(|fit| fit.way == way);
    let mut claims = Vec::new();
    for (way, claim) in [
        (Way::Avg, "SFVI-Avg reaches about the bound of SFVI at equal gradient evaluations"),
        (Way::AvgScaled, "SFVI-Avg with scaled entropy reaches about the bound of SFVI at equal gradient evaluations"),
    ] {
        if let (Some(sfvi), Some(own)) = (of(Way::Sfvi), of(way)) {
            let (a, b) = (own.elbo_per_token, sfvi.elbo_per_token);
            let rounds = (own.last().rounds, sfvi.last().rounds);
            let found = format!("{a:.4} against {b:.4} nats a token in {} against {} rounds", rounds.0, rounds.1);
            claims.push(Claim { claim, met: a >= b - ABOUT * b.abs(), found });
        }
    }
    let alone: Vec<f64> = fits.iter().filter(|fit| fit.way.alone().is_some()).map(|fit| fit.mean_coherence).collect();
    let federated: Vec<f64> =
        fits.iter().filter(|fit| fit.way.alone().is_none()).map(|fit| fit.mean_coherence).collect();
    if !alone.is_empty() && !federated.is_empty() {
        let (best, worst) =
            (alone.iter().copied().fold(f64::MIN, f64::max), federated.iter().copied().fold(f64::MAX, f64::min));
        claims.push(Claim {
            claim: "the mean coherence of every federated fit beats every silo alone",
            met: worst > best,
            found: format!("worst federated {worst:.3}, best alone {best:.3}"),
        });
    }
    if let (Some(sfvi), Some(avg)) = (of(Way::Sfvi), of(Way::Avg)) {
        let (a, b) = (avg.mean_coherence, sfvi.mean_coherence);
        let claim = "SFVI-Avg has the better coherence although SFVI has the better bound";
        let met = a > b && avg.elbo_per_token < sfvi.elbo_per_token;
        claims.push(Claim { claim, met, found: format!("coherence {a:.3} against {b:.3}") });
    }
    claims
}

fn print_tables(fits: &[Fitted], claims: &[Claim]) {
    println!("\nThe bound in nats a token on all documents of a fit, against gradient evaluations");
    for fit in fits {
        print!("{:<26}", fit.name);
        for stage in &fit.stages {
            print!(" {:>6}: {:.4}", stage.steps, stage.elbo / fit.tokens);
        }
        println!();
    }
    println!(
        "\n{:<26} {:>12} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7} {:>6} {:>7}",
        "",
        "ELBO",
        "rounds",
        "MB sent",
        "per token",
        "held out",
        "(encoder)",
        "coherence",
        "worst",
        "best",
        "CPU s",
        "MB",
        "beta"
    );
    for fit in fits {
        let last = fit.last();
        let megabytes = f64::from(u32::try_from(last.bytes / 1_000_000).unwrap_or(u32::MAX));
        let encoder = fit.encoder_held_out_per_token.map_or_else(|| "-".into(), |bound| format!("{bound:.4}"));
        let (worst, best) =
            fit.coherence.iter().fold((f64::MAX, f64::MIN), |(low, high), c| (low.min(*c), high.max(*c)));
        println!(
            "{:<26} {:>12.0} {:>7} {megabytes:>8.0} {:>9.4} {:>9.4} {encoder:>9} {:>9.3} {worst:>7.2} {best:>7.2} {:>7.1} {:>6.0} {:>7.3}",
            fit.name,
            last.elbo,
            last.rounds,
            fit.elbo_per_token,
            fit.held_out_per_token,
            fit.mean_coherence,
            last.cpu_seconds,
            fit.peak_megabytes,
            fit.beta
        );
    }
    println!();
    for claim in claims {
        println!("{} ({}): {}", claim.claim, claim.found, if claim.met { "met" } else { "NOT met" });
    }
    if let Some(fit) = fits.first() {
        println!("\nTopics of {}:", fit.name);
        for (words, coherence) in fit.topics.iter().zip(&fit.coherence) {
            println!("{coherence:>7.2}  {}", words.join(" "));
        }
    }
    println!(
        "\nPeak memory of the whole run (VmHWM): {:.0} MB",
        fits.iter().map(|fit| fit.peak_megabytes).fold(0.0, f64::max)
    );
}

fn write(setup: &Setup, fits: &[Fitted], claims: &[Claim]) -> Result<(), Failure> {
    let options = &setup.options;
    std::fs::create_dir_all(&options.output)?;
    let result = serde_json::json!({
        "seed": options.seed,
        "device": format!("{:?}", setup.device.burn()),
        "documents": setup.training.rows(),
        "held_out": setup.held_out.rows(),
        "options": format!("{options:?}"),
        "fits": fits,
        "claims": claims,
        "peak_megabytes": fits.iter().map(|fit| fit.peak_megabytes).fold(0.0, f64::max),
    });
    write_atomically(&options.output.join("result.json"), serde_json::to_string_pretty(&result)?.as_bytes())?;
    write_atomically(&options.output.join("elbo.svg"), chart(fits).as_bytes())?;
    write_atomically(&options.output.join("topics.svg"), words(fits).as_bytes())?;
    Ok(())
}

const COLOURS: [&str; 7] = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

fn svg(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn label(body: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// The bound a token against gradient evaluations, one line a way.
fn chart(fits: &[Fitted]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
    let lines: Vec<Vec<(f64, f64)>> = fits
        .iter()
        .map(|fit| fit.stages.iter().map(|stage| (stage.steps as f64, stage.elbo / fit.tokens)).collect())
        .collect();
    let all = || lines.iter().flatten();
    let right = all().map(|point| point.0).fold(1.0, f64::max);
    let low = all().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = all().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let span = (high - low).max(1e-6);
    let place = |(x, y): (f64, f64)| (70.0 + 480.0 * x / right, 30.0 + 300.0 * (high - y) / span);
    let mut body = String::new();
    label(
        &mut body,
        70.0,
        18.0,
        "start",
        "Bound in nats a token (each fit on its own documents) against gradient evaluations",
    );
    for tick in 0..=4 {
        let share = f64::from(tick) / 4.0;
        let (x, y) = (right * share, low + span * share);
        let (left, top) = (place((x, low)).0, place((0.0, y)).1);
        let _ = writeln!(body, "<path d=\"M70 {top:.1}H550\" stroke=\"#e4e4e4\"/>");
        label(&mut body, 64.0, top + 4.0, "end", &format!("{y:.2}"));
        label(&mut body, left, 350.0, "middle", &format!("{x:.0}"));
    }
    for (((fit, line), colour), row) in fits.iter().zip(&lines).zip(COLOURS.iter().cycle()).zip(0_u32..) {
        let points: Vec<String> =
            line.iter().map(|point| place(*point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        let y = 50.0 + 20.0 * f64::from(row);
        let _ = writeln!(body, "<path d=\"M565 {y:.1}h20\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        label(&mut body, 591.0, y + 4.0, "start", fit.name);
    }
    svg(760.0, 365.0, &body)
}

/// The words of each topic of every federated fit, the most coherent first, one column a fit.
fn words(fits: &[Fitted]) -> String {
    let mut shown: Vec<&Fitted> = fits.iter().filter(|fit| fit.way.alone().is_none()).collect();
    if shown.is_empty() {
        shown = fits.iter().collect();
    }
    let mut body = String::new();
    let mut height = 0.0_f64;
    for (fit, column) in shown.iter().zip(0_u32..) {
        let x = 12.0 + 470.0 * f64::from(column);
        label(&mut body, x, 20.0, "start", &format!("{}: mean UMass coherence {:.2}", fit.name, fit.mean_coherence));
        let mut order: Vec<usize> = (0..fit.topics.len()).collect();
        order.sort_by(|a, b| fit.coherence[*b].total_cmp(&fit.coherence[*a]));
        for (topic, row) in order.into_iter().zip(0_u32..) {
            let y = 44.0 + 18.0 * f64::from(row);
            let length = (30.0 / -fit.coherence[topic].min(-0.1)).min(30.0);
            let _ = writeln!(
                body,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"9\" fill=\"#0072b2\"/>",
                y - 9.0
            );
            label(&mut body, x + 36.0, y, "start", &fit.topics[topic][..7].join(" "));
            height = height.max(y);
        }
    }
    svg(24.0 + 470.0 * f64::from(u32::try_from(shown.len()).unwrap_or(1)), height + 16.0, &body)
}

/// Lets the kernel forget the largest memory so far, where it can.
fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The largest resident memory since the last reset in megabytes; zero where the system does not say.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: f64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    kibibytes * 1024.0 / 1e6
}

/// The step of the whole fit at which a part of it ended.
fn reached(record: &RunRecord) -> u64 {
    record.trace.last().map_or(0, |(step, _)| *step)
}

/// Processor time of this process in seconds; zero where the system does not say.
fn cpu_seconds() -> f64 {
    let path = Path::new("/proc/self/stat");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let after = text.rsplit(')').next().unwrap_or_default();
    // User and system time in hundredths of a second, the 14th and 15th field of the line.
    let ticks = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
