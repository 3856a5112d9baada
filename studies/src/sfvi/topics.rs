//! Finds topics of 20 Newsgroups over three silos that share no documents (SFVI paper, section 4.2).
//!
//! ```sh
//! cargo run --release -p partita-studies -- topics
//! ```
//!
//! What you should see: a table with a row for each method (SFVI; SFVI-Avg as printed and with the entropy of the local
//! posteriors scaled; SFVI with an encoder; each silo alone). It has the bound at several numbers of gradient
//! evaluations, the paper's claims and whether they were met, and words of topics. About 800 seconds of processor time
//! after the build (dev profile). `--quick` takes a few steps on some of the documents, to test that it runs. Numbers:
//! `docs/src/study-sfvi.md`.

mod fit;
mod memory;
mod table;
mod words;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use partita::core::{Key, Noise, Purpose, partition_equally};
use partita::datasets::{newsgroups, octis};
use partita::inference::held_out_bound;
use partita::models::{TopicEncoder, TopicLink, TopicModel};
use partita::{Amortised, Device, SparseRows};
use serde::Serialize;
use serde_json::json;

use crate::harness::{Claims, Pace, Result, Session, Shared, real};
use crate::pictures;
use fit::Fitted;

type Silos = Vec<(String, SparseRows)>;

/// The silos of the paper.
const SILOS: usize = 3;

/// Topics over silos, and of each silo alone.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    pace: Pace,
    /// The methods.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Way::ALL)]
    ways: Vec<Way>,
    /// Optimiser steps of every method.
    #[arg(long, default_value_t = 6_000)]
    steps: u64,
    /// Local steps in a round of SFVI-Avg.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// The number of estimates of the bound on all documents in a run.
    #[arg(long, default_value_t = 6)]
    stages: u64,
    /// Documents of each silo in a step.
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// The learning rate, which falls to zero along a cosine.
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    /// The scale of random starting topics, the same for all silos; with 0 every silo breaks their symmetry itself.
    #[arg(long, default_value_t = 1.0)]
    scatter: f64,
    /// Topics.
    #[arg(long, default_value_t = 21)]
    topics: usize,
    /// The link from weights and topics to word probabilities.
    #[arg(long, value_enum, default_value_t = LinkName::Experts)]
    link: LinkName,
    /// The starting value of alpha; 1 / topics by default.
    #[arg(long)]
    alpha: Option<f64>,
    /// Hidden units of the encoder.
    #[arg(long, default_value_t = 64)]
    hidden: usize,
    /// Documents held out of every fit.
    #[arg(long, default_value_t = 654)]
    held_out: usize,
    /// A folder with a corpus in the layout of OCTIS, in place of the 20 Newsgroups.
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Uses only this number of the other documents.
    #[arg(long)]
    documents: Option<usize>,
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

/// The data and options of all methods.
struct Setup {
    options: Options,
    session: Session,
    device: Device,
    silos: Silos,
    held_out: SparseRows,
    training: SparseRows,
    /// All documents, for the coherence of topics.
    reference: SparseRows,
    vocabulary: Vec<String>,
    link: TopicLink,
}

pub(crate) fn run(options: Options) -> Result<()> {
    let setup = Setup::new(options)?;
    println!(
        "{} documents in {SILOS} silos and {} held out, {} words, {} tokens",
        setup.training.rows(),
        setup.held_out.rows(),
        setup.vocabulary.len(),
        tokens(&setup.training)
    );
    let mut fits = Vec::new();
    for way in setup.options.ways.clone() {
        let fitted = setup.fitted(way)?;
        println!(
            "{}: bound {:.4} nats a token, coherence {:.3}",
            way.name(),
            fitted.elbo_per_token,
            fitted.mean_coherence
        );
        fits.push(fitted);
    }
    table::print(&fits);
    let mut claims = Claims::from(table::judge(&fits));
    claims.print_new("Claims of section 4.2:");
    draw(&setup.session, &fits)?;
    let result = json!({
        "seed": setup.options.shared.seed,
        "device": format!("{:?}", setup.device.burn()),
        "documents": setup.training.rows(),
        "held_out": setup.held_out.rows(),
        "options": format!("{:?}", setup.options),
        "fits": fits,
        "claims": claims,
        "peak_megabytes": table::peak_megabytes(&fits),
    });
    setup.session.finish(&result, ", elbo.svg and topics.svg")
}

impl Setup {
    fn new(mut options: Options) -> Result<Self> {
        if options.shared.quick {
            (options.steps, options.local_steps, options.stages) = (40, 10, 2);
            (options.batch, options.held_out, options.documents) = (64, 100, Some(1_500));
        }
        let session = Session::start("topics", &options.shared)?;
        let device = session.device()?;
        let corpus = match &options.corpus {
            Some(folder) => octis(folder)?,
            None => newsgroups()?,
        };
        let noise = Noise::new(options.shared.seed);
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
        Ok(Self { options, session, device, silos, held_out, training, reference, vocabulary, link })
    }

    /// One fit, and its measures.
    fn fitted(&self, way: Way) -> Result<Fitted> {
        let Options { topics, hidden, alpha, .. } = self.options;
        let (device, words) = (&self.device, self.vocabulary.len());
        let alpha = alpha.unwrap_or(1.0 / real(topics as u64).max(1.0));
        let plain = TopicModel::new(topics, words, device).link(self.link).starting(alpha, 0.1, device);
        if way != Way::Amortised {
            return self.one(way, &plain, |_, _| Ok(None));
        }
        let encoder = TopicEncoder::new(words, hidden, topics, self.options.shared.seed, device);
        let model = Amortised::new(plain, "document", encoder);
        self.one(way, &model, |algorithm, settings| {
            let bound = held_out_bound(&model, device, settings, algorithm.posterior(), &self.held_out, 10)?;
            Ok(Some(bound.elbo / tokens(&self.held_out)))
        })
    }
}

fn tokens(counts: &SparseRows) -> f64 {
    (0..counts.rows()).flat_map(|row| counts.row(row).1).sum()
}

/// Draws the bound a token against gradient evaluations, one line a method, and the words of the topics.
fn draw(session: &Session, fits: &[Fitted]) -> Result<()> {
    let line = |fit: &Fitted| {
        let points = fit.stages.iter().map(|stage| (real(stage.steps), stage.elbo / fit.tokens)).collect();
        (fit.name.to_owned(), points)
    };
    let lines: Vec<(String, Vec<(f64, f64)>)> = fits.iter().map(line).collect();
    let title = "Bound of each fit on its own documents";
    pictures::lines(&session.file("elbo.svg"), &lines, title, ["gradient evaluations", "nats a token"])?;
    words::draw(&session.file("topics.svg"), fits)
}
