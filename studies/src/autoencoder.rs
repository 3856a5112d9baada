//! Trains a variational autoencoder on the digits of two silos; its encoder then serves a third silo untrained.
//!
//! ```sh
//! cargo run --release -p partita-studies -- vae
//! ```
//!
//! What you should see: bounds in nats a picture, -101.4 and -101.3 for the two silos that trained and -103.0 for the
//! third, which did not; independent pixels have -206. `generated.png` shows digits drawn from the model,
//! `reconstructions.png` digits of the third silo, each above its reconstruction from ten latents. The networks'
//! weights are θ: they travel, pictures and latents do not. It takes two minutes of processor time on two cores, built
//! for development. `--quick` takes 300 steps on fewer pictures, four seconds, and does not converge.
//!
//! Kingma and Welling (2014), Auto-encoding variational Bayes, on MNIST with pixels white from half of the largest
//! grey; silos as in Hassan, Salomone and Mengersen (2023), Algorithms 1 and 2.

use clap::{Args, ValueEnum};
use partita::core::{Key, Noise, Purpose, partition_equally};
use partita::datasets::mnist;
use partita::inference::{ElboEstimate, Metrics, encoded_posterior, held_out_bound, plot};
use partita::models::{BinaryPictures, DeepLatentGaussian, PictureEncoder};
use partita::{AlgorithmChoice, Amortised, Device, Fit, FitOptions, Precision, RoundOptions, Settings, fit};
use serde::Serialize;
use serde_json::json;

use crate::harness::{Pace, Result, Session, Shared, State, curve_of, real};
use crate::pictures::{SheetOptions, Tile, contact_sheet};

type Autoencoder = Amortised<DeepLatentGaussian, PictureEncoder>;

/// Pixels of at least this grey are white.
const WHITE: u8 = 128;

/// Trains a variational autoencoder over two silos and serves a third with its encoder.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    pace: Pace,
    /// The algorithm: `sfvi-avg` averages θ after many local steps.
    #[arg(long, value_enum, default_value_t = AlgorithmName::Sfvi)]
    algorithm: AlgorithmName,
    /// Local steps in a round of `sfvi-avg`.
    #[arg(long, default_value_t = 200)]
    local_steps: u64,
    /// Leaves the local steps of a round on the device, which is read once a round.
    #[arg(long)]
    on_device: bool,
    /// Pictures of each silo.
    #[arg(long, default_value_t = 20_000)]
    pictures: usize,
    /// Latents of a picture.
    #[arg(long, default_value_t = 10)]
    latents: usize,
    /// Units of the hidden layer of decoder and encoder.
    #[arg(long, default_value_t = 200)]
    hidden: usize,
    /// Pictures of each silo in a step.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Passes over the pictures.
    #[arg(long, default_value_t = 20)]
    epochs: usize,
    /// The learning rate at the start.
    #[arg(long, default_value_t = 0.002)]
    rate: f64,
    /// Draws for each reported bound.
    #[arg(long, default_value_t = 4)]
    draws: usize,
    /// Computes in double precision.
    #[arg(long)]
    double: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AlgorithmName {
    Sfvi,
    SfviAvg,
}

impl Options {
    fn steps(&self) -> u64 {
        (self.epochs * self.pictures.div_ceil(self.batch)) as u64
    }

    fn settings(&self) -> Settings {
        Settings {
            steps: self.steps(),
            seed: self.shared.seed,
            schedule: self.pace.schedule(self.rate),
            minibatch: [(DeepLatentGaussian::PLATE.to_owned(), self.batch)].into(),
            ..Settings::default()
        }
    }

    fn algorithm(&self) -> AlgorithmChoice {
        match self.algorithm {
            AlgorithmName::Sfvi => AlgorithmChoice::Sfvi,
            AlgorithmName::SfviAvg => {
                let rounds = RoundOptions::paper(self.local_steps);
                let on_device = self.on_device;
                AlgorithmChoice::SfviAvg(RoundOptions { keep_optimiser: true, on_device, ..rounds })
            }
        }
    }
}

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.shared.quick {
        (options.pictures, options.hidden, options.epochs, options.rate) = (1_000, 100, 30, 0.005);
    }
    let session = Session::start("vae", &options.shared)?;
    let precision = if options.double { Precision::Double } else { Precision::Single };
    let device = session.device()?.with_precision(precision);
    let Pictures { mut silos, shape } = silos(&options, &device)?;
    let Some((_, third)) = silos.pop() else { return Err("no silo".into()) };
    let seed = options.shared.seed;
    let model = DeepLatentGaussian::new(options.latents, &[options.hidden], third.pixels(), seed, &device)
        .with_encoder(&[options.hidden], seed + 1, &device);
    let fit = fitted(&options, &session, &model, &silos, &device)?;
    let trained = fit.model(&model, &device)?;
    let mut bounds = Vec::new();
    for (name, own) in silos.iter().map(|(name, own)| (name.as_str(), own)).chain([("silo-3 (held out)", &third)]) {
        let bound = held_out_bound(&trained, &device, &options.settings(), fit.posterior(), own, options.draws)?;
        bounds.push(Bound::new(name, own.len(), &bound));
    }
    println!("Bound in nats a picture\n");
    bounds.iter().for_each(Bound::print);
    println!("\n{}", fit.report);
    println!("What may leave a silo:\n{}", fit.algorithm.manifest());
    draw(&options, &session, &trained, &Drawn { third: &third, shape, device: &device })?;
    let mut result = serde_json::to_value(&fit.report)?;
    // Weights of networks belong in checkpoints, not in a result for readers.
    result["theta"] = json!({ "numbers": fit.report.theta.len() });
    result["silos"] = json!(bounds);
    let points = curve_of(&fit.record.trace);
    if points.len() > 1 {
        let title = format!("ELBO of the autoencoder, two silos, settled: {}", fit.report.settled_in_words());
        plot::trace(&session.file("elbo.svg"), &points, &title)?;
    }
    session.finish(&result, ", metrics.jsonl, elbo.svg and the pictures")
}

fn fitted(
    options: &Options,
    session: &Session,
    model: &Autoencoder,
    silos: &[(String, BinaryPictures)],
    device: &Device,
) -> Result<Fit> {
    let State { folder, resume } = session.state("fit")?;
    let fit_options = FitOptions {
        algorithm: options.algorithm(),
        settings: options.settings(),
        threads: options.shared.threads,
        elbo_draws: options.draws,
        checkpoint: Some((folder, 500)),
        resume,
        interrupt: Some(session.interrupt()),
        ..FitOptions::default()
    };
    let mut metrics = Metrics::new(options.steps(), Some(&session.file("metrics.jsonl")), 50)?.resume(resume);
    Ok(fit(model, silos, device, &fit_options, Some(&mut metrics))?)
}

/// Silos of different digits, and the shape of a picture.
struct Pictures {
    silos: Vec<(String, BinaryPictures)>,
    shape: [usize; 2],
}

/// Three silos of different digits.
fn silos(options: &Options, device: &Device) -> Result<Pictures> {
    let images = mnist()?.train;
    let count = 3 * options.pictures;
    if count > images.len() || options.pictures == 0 {
        return Err(format!("three silos of {} pictures: there are {}", options.pictures, images.len()).into());
    }
    let parts = partition_equally(images.len(), 3, &Noise::new(options.shared.seed))?;
    let mut silos = Vec::new();
    for (rows, number) in parts.iter().zip(1..) {
        let own = images.select(&rows[..options.pictures])?;
        let size = own.shape().iter().product();
        silos.push((format!("silo-{number}"), BinaryPictures::new(own.pixels(), size, WHITE, device)?));
    }
    Ok(Pictures { silos, shape: images.shape() })
}

/// The bound of a silo in nats a picture, with its standard error.
#[derive(Serialize)]
struct Bound {
    name: String,
    pictures: usize,
    bound_a_picture: f64,
    standard_error: f64,
}

impl Bound {
    fn new(name: &str, pictures: usize, bound: &ElboEstimate) -> Self {
        let [bound_a_picture, standard_error] =
            [bound.elbo, bound.standard_error].map(|nats| nats / real(pictures as u64));
        Self { name: name.to_owned(), pictures, bound_a_picture, standard_error }
    }

    fn print(&self) {
        let Self { name, pictures, bound_a_picture, standard_error } = self;
        println!(
            "{name:<20} {pictures:>6} pictures {bound_a_picture:>9.2} (Monte Carlo standard error {standard_error:.3})"
        );
    }
}

/// The silo whose digits are drawn, the shape of a digit, and the device.
struct Drawn<'a> {
    third: &'a BinaryPictures,
    shape: [usize; 2],
    device: &'a Device,
}

/// Draws digits from the model, and digits of the third silo above their reconstructions.
fn draw(options: &Options, session: &Session, model: &Autoencoder, drawn: &Drawn<'_>) -> Result<()> {
    let Drawn { third, shape, device } = *drawn;
    const ACROSS: usize = 10;
    let tiles = |intensities: Vec<f64>| {
        let tile = |values: &[f64]| Tile { title: "digit".into(), values: values.to_vec(), shape };
        intensities.chunks_exact(third.pixels()).map(tile).collect::<Vec<_>>()
    };
    let mut latents = vec![0.0; 8 * ACROSS * options.latents];
    Noise::new(options.shared.seed).stream(Key::new(Purpose::Predictive, 0)).normal(&mut latents);
    let generated = tiles(model.model().intensities(&latents, device)?);
    contact_sheet(&session.file("generated.png"), &generated, &SheetOptions::default())?;
    let shown = third.select(&(0..4 * ACROSS).collect::<Vec<_>>())?;
    let posterior = encoded_posterior(model, device, &shown)?;
    let means = posterior.first().map(|rows| rows.mean.clone()).unwrap_or_default();
    let rebuilt = tiles(model.model().intensities(&means, device)?);
    let originals = tiles((0..shown.len()).flat_map(|index| shown.picture(index)).collect());
    let pairs: Vec<Tile> = originals
        .chunks(ACROSS)
        .zip(rebuilt.chunks(ACROSS))
        .flat_map(|(above, below)| [above, below].concat())
        .collect();
    contact_sheet(&session.file("reconstructions.png"), &pairs, &SheetOptions::default())?;
    Ok(())
}
