//! Trains a variational autoencoder on the digits of two silos; its encoder then serves a third silo without training.
//!
//! ```sh
//! cargo run --release --example vae
//! ```
//!
//! What you should see: bounds in nats a picture, -101.4 and -101.3 for the two silos that trained and -103.0 for the third,
//! which did not; independent pixels have -206. `generated.png` shows digits the model imagines, `reconstructions.png` digits
//! of the third silo, each above what is left of it after its passage through ten latents. The networks' weights are θ: they
//! travel, pictures and latents do not. It takes two minutes of processor time on two cores, built for development.
//! `--quick` takes 300 steps on fewer pictures, four seconds, and has not converged.
//!
//! Kingma and Welling (2014), Auto-encoding variational Bayes, on MNIST with pixels white from half of the largest grey;
//! silos as in Hassan, Salomone and Mengersen (2023), Algorithms 1 and 2.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, ValueEnum};
use partita::datasets::mnist;
use partita::inference::plot::{SheetOptions, Tile, contact_sheet};
use partita::inference::{
    ElboEstimate, Metrics, encoded_posterior, held_out_bound, latest_checkpoint, plot, write_atomically,
};
use partita::models::{BinaryPictures, DeepLatentGaussian, PictureEncoder};
use partita::{
    AlgorithmChoice, Amortised, Device, Fit, FitOptions, Key, Noise, Precision, Purpose, RoundOptions, Schedule,
    Settings, fit, partition_equally,
};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error>;
type Autoencoder = Amortised<DeepLatentGaussian, PictureEncoder>;

/// The grey from which on a pixel counts as white.
const WHITE: u8 = 128;

/// Trains a variational autoencoder over two silos and serves a third with its encoder.
#[derive(Parser, Debug)]
struct Options {
    /// The algorithm: `sfvi-avg` averages θ after many local steps.
    #[arg(long, value_enum, default_value_t = AlgorithmName::Sfvi)]
    algorithm: AlgorithmName,
    /// Local steps in a round of `sfvi-avg`.
    #[arg(long, default_value_t = 200)]
    local_steps: u64,
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
    /// The seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The device: flex, ndarray, wgpu, vulkan or cuda; else the variable BURN_DEVICE, else flex.
    #[arg(long)]
    device: Option<String>,
    /// Computes in double precision.
    #[arg(long)]
    double: bool,
    /// Threads for silos; the result does not depend on them.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json, metrics.jsonl and the pictures.
    #[arg(long, default_value = "output/vae")]
    output: PathBuf,
    /// Writes a checkpoint there every 500 steps.
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Goes on from the checkpoint.
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    /// Takes 300 steps on fewer pictures: to see that it runs.
    #[arg(long)]
    quick: bool,
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
            seed: self.seed,
            schedule: Schedule::Cosine { initial: self.rate, last: 0.0 },
            minibatch: [(DeepLatentGaussian::PLATE.to_owned(), self.batch)].into(),
            ..Settings::default()
        }
    }

    fn algorithm(&self) -> AlgorithmChoice {
        match self.algorithm {
            AlgorithmName::Sfvi => AlgorithmChoice::Sfvi,
            AlgorithmName::SfviAvg => {
                AlgorithmChoice::SfviAvg(RoundOptions { keep_optimiser: true, ..RoundOptions::paper(self.local_steps) })
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut options = Options::parse();
    if options.quick {
        (options.pictures, options.hidden, options.epochs, options.rate) = (1_000, 100, 30, 0.005);
    }
    if options.resume && latest_checkpoint(options.checkpoint.as_deref().unwrap_or(Path::new("")))?.is_none() {
        return Err("there is no checkpoint to resume from".into());
    }
    let precision = if options.double { Precision::Double } else { Precision::Single };
    let device = partita::gpu::device(options.device.as_deref())?.with_precision(precision);
    let (mut silos, shape) = silos(&options, &device)?;
    let Some((_, third)) = silos.pop() else { return Err("no silo".into()) };
    let model = DeepLatentGaussian::new(options.latents, &[options.hidden], third.pixels(), options.seed, &device)
        .with_encoder(&[options.hidden], options.seed + 1, &device);
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let fit_options = FitOptions {
        algorithm: options.algorithm(),
        settings: options.settings(),
        threads: options.threads,
        elbo_draws: options.draws,
        checkpoint: options.checkpoint.clone().map(|folder| (folder, 500)),
        resume: options.resume,
        interrupt: Some(interrupt),
        ..FitOptions::default()
    };
    let mut metrics =
        Metrics::new(options.steps(), Some(&options.output.join("metrics.jsonl")), 50)?.resume(options.resume);
    let fit = fit(&model, &silos, &device, &fit_options, Some(&mut metrics))?;
    let trained = fit.model(&model, &device)?;
    let mut bounds = Vec::new();
    for (name, own) in silos.iter().map(|(name, own)| (name.as_str(), own)).chain([("silo-3 (held out)", &third)]) {
        let bound = held_out_bound(&trained, &device, &options.settings(), fit.posterior(), (own, options.draws))?;
        bounds.push((name.to_owned(), own.len(), bound));
    }
    print_bounds(&bounds);
    println!("\n{}", fit.report);
    println!("What may leave a silo:\n{}", fit.algorithm.manifest());
    write(&options, &fit, &bounds)?;
    draw(&options, &trained, (&third, shape), &device)?;
    println!("Wrote result.json, metrics.jsonl, elbo.svg and the pictures to {}", options.output.display());
    Ok(())
}

/// Three silos of different digits, and the shape of a picture.
#[allow(clippy::type_complexity, reason = "named silos, as `fit` takes them")]
fn silos(options: &Options, device: &Device) -> Result<(Vec<(String, BinaryPictures)>, [usize; 2]), Failure> {
    let images = mnist()?.train;
    let count = 3 * options.pictures;
    if count > images.len() || options.pictures == 0 {
        return Err(format!("three silos of {} pictures: there are {}", options.pictures, images.len()).into());
    }
    let parts = partition_equally(images.len(), 3, &Noise::new(options.seed))?;
    let mut silos = Vec::new();
    for (rows, number) in parts.iter().zip(1..) {
        let own = images.select(&rows[..options.pictures])?;
        let size = own.shape().iter().product();
        silos.push((format!("silo-{number}"), BinaryPictures::new(own.pixels(), size, WHITE, device)?));
    }
    Ok((silos, images.shape()))
}

/// A bound in nats a picture, with its standard error.
fn each(bound: &ElboEstimate, pictures: usize) -> [f64; 2] {
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 pictures")]
    let count = pictures as f64;
    [bound.elbo / count, bound.standard_error / count]
}

fn print_bounds(bounds: &[(String, usize, ElboEstimate)]) {
    println!("Bound in nats a picture\n");
    for (name, pictures, bound) in bounds {
        let [nats, error] = each(bound, *pictures);
        println!("{name:<20} {pictures:>6} pictures {nats:>9.2} (Monte Carlo standard error {error:.3})");
    }
}

fn write(options: &Options, fit: &Fit, bounds: &[(String, usize, ElboEstimate)]) -> Result<(), Failure> {
    let mut result = serde_json::to_value(&fit.report)?;
    // Weights of networks are for checkpoints, not for a result that people read.
    result["theta"] = json!({ "numbers": fit.report.theta.len() });
    result["silos"] = bounds
        .iter()
        .map(|(name, pictures, bound)| {
            let [nats, error] = each(bound, *pictures);
            json!({ "name": name, "pictures": pictures, "bound_a_picture": nats, "standard_error": error })
        })
        .collect();
    write_atomically(&options.output.join("result.json"), serde_json::to_string_pretty(&result)?.as_bytes())?;
    #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
    let points: Vec<(f64, f64)> = fit.record.trace.iter().map(|(step, elbo)| (*step as f64, *elbo)).collect();
    if points.len() > 1 {
        let title = "ELBO of the autoencoder, two silos";
        plot::trace(&options.output.join("elbo.svg"), &points, title, plot::StepAxis::Linear)?;
    }
    Ok(())
}

/// Digits that the model imagines, and digits of the third silo above their reconstructions.
fn draw(
    options: &Options,
    model: &Autoencoder,
    (third, shape): (&BinaryPictures, [usize; 2]),
    device: &Device,
) -> Result<(), Failure> {
    const ACROSS: usize = 10;
    let tiles = |intensities: Vec<f64>| {
        let tile = |values: &[f64]| Tile { title: "digit".into(), values: values.to_vec(), shape };
        intensities.chunks_exact(third.pixels()).map(tile).collect::<Vec<_>>()
    };
    let mut latents = vec![0.0; 8 * ACROSS * options.latents];
    Noise::new(options.seed).stream(Key::new(Purpose::Predictive, 0)).normal(&mut latents);
    let generated = tiles(model.model().intensities(&latents, device)?);
    contact_sheet(&options.output.join("generated.png"), &generated, &SheetOptions::default())?;
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
    contact_sheet(&options.output.join("reconstructions.png"), &pairs, &SheetOptions::default())?;
    Ok(())
}
