//! Fits adult by PVI under differential privacy of its rows, over identical and over very different silos.
//!
//! ```sh
//! cargo run --release -p partita-studies -- private_adult
//! ```
//!
//! What you should see: `docs/src/study-privacy.md`.

use clap::Args;
use partita::core::{Key, Noise, Purpose, SmallLarge, partition_equally, partition_small_large};
use partita::datasets::{CovariateRows, Standardisation, adult};
use partita::inference::StartFrom;
use partita::inference::metrics::{Predictions, accuracy, test_log_likelihood};
use partita::models::{BinaryRows, Coefficients, LogisticRegression, PROBIT_CONSTANT};
use partita::privacy::{Accountant, Conversion, Cost, SeededBits};
use partita::private::{PrivateMethod, PrivateOptions, simulate};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, Report, Schedule, Settings, SiloSchedule,
    fit,
};
use serde::{Deserialize, Serialize};

use crate::harness::{Result, Session, Shared, Table, mean, sample_sd};

/// Adult over ten silos by PVI with perturbed local steps, at delta 1e-5, beside PVI without noise.
#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// Splits into training and test rows and over silos, each with its own noise.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Epsilon of everything that a silo sends; 0 for plain PVI with as many steps.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.5, 1.0, 3.0])]
    epsilon: Vec<f64>,
    /// The noise in units of the clip, as papers state it, in place of epsilon, which follows from it and the number of sums.
    #[arg(long, conflicts_with = "epsilon")]
    noise: Option<f64>,
    /// Visits of every silo.
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// Steps of a visit.
    #[arg(long, default_value_t = 20)]
    local_steps: u64,
    /// The probability with which a row is in the sum of a step.
    #[arg(long, default_value_t = 0.02)]
    rate: f64,
    /// The norm to which a row's gradient is clipped.
    #[arg(long, default_value_t = 2.0)]
    clip: f64,
    /// The learning rate of a local step.
    #[arg(long, default_value_t = 0.02)]
    learning_rate: f64,
    /// What of a local solution is taken.
    #[arg(long, default_value_t = 0.1)]
    damping: f64,
}

const SILOS: usize = 10;
const DELTA: f64 = 1e-5;
/// Not in the papers: four rows of five for training.
const TRAINING: f64 = 0.8;

/// The test rows' scores of one fit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Scores {
    loss: f64,
    accuracy: f64,
    /// The scale of the noise in units of the clip; 0 for none.
    noise: f64,
}

/// The fits at one epsilon over silos of one kind.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    alike: bool,
    epsilon: f64,
    seeds: Vec<Scores>,
}

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.shared.quick {
        (options.seeds, options.rounds, options.epsilon) = (1, 2, vec![1.0]);
    }
    if let Some(noise) = options.noise {
        let sums = options.rounds.saturating_mul(options.local_steps);
        let spent = Accountant::of([Cost::sampled(noise, options.rate, sums)?]).epsilon(DELTA, Conversion::Improved)?;
        println!("{sums} sums with noise of {noise} clips: epsilon is {spent:.4} at delta {DELTA:e}.");
        options.epsilon = vec![spent];
    }
    let session = Session::start("private_adult", &options.shared)?;
    let device = session.device()?;
    let mut rows = Vec::new();
    for alike in [true, false] {
        for &epsilon in &options.epsilon {
            let Options { seeds, rounds, local_steps, rate, clip, learning_rate, damping, .. } = options;
            let settings = (alike, epsilon, seeds, (rounds, local_steps, rate, clip, learning_rate, damping));
            let name = format!("{}-epsilon-{epsilon}", if alike { "alike" } else { "different" });
            rows.push(session.kept(&name, &settings, || {
                let seeds = (1..=seeds).map(|seed| scores(&options, &device, alike, epsilon, seed));
                Ok(Row { alike, epsilon, seeds: seeds.collect::<Result<_>>()? })
            })?);
        }
    }
    let mut table = Table::new(["silos, epsilon", "noise", "test log likelihood", "accuracy, %"]);
    for row in &rows {
        let of = |number: &dyn Fn(&Scores) -> f64| {
            let all: Vec<f64> = row.seeds.iter().map(number).collect();
            (mean(&all), if all.len() > 1 { sample_sd(&all) } else { 0.0 })
        };
        let [(noise, _), (loss, of_loss), (right, of_right)] =
            [of(&|own| own.noise), of(&|own| -own.loss), of(&|own| 100.0 * own.accuracy)];
        table.row([
            format!("{}, {}", if row.alike { "alike" } else { "different" }, (1e3 * row.epsilon).round() / 1e3),
            format!("{noise:.2}"),
            format!("{loss:.3} ({of_loss:.3})"),
            format!("{right:.1} ({of_right:.1})"),
        ]);
    }
    println!("Mean over seeds, and its standard deviation over them in brackets; epsilon 0 is without noise:");
    println!("{table}");
    session.finish(&rows, "")
}

/// One fit, judged by its test rows.
fn scores(options: &Options, device: &Device, alike: bool, epsilon: f64, seed: u64) -> Result<Scores> {
    let noise = Noise::new(seed);
    let [train, test] = adult()?.split(TRAINING, Standardisation::TrainingRows, &noise)?;
    let parts = if alike {
        partition_equally(train.rows(), SILOS, &noise)?
    } else {
        // Split B of the PVI paper.
        let imbalance = SmallLarge { size_imbalance: 0.7, label_imbalance: -3.0 };
        let mut parts = partition_small_large(train.labels(), SILOS, imbalance, &noise)?;
        noise.stream(Key::new(Purpose::Partition, 1)).shuffle(&mut parts);
        parts
    };
    let silo = |(index, rows): (usize, &Vec<usize>)| -> Result<_> {
        let own = train.select(rows)?;
        Ok((format!("silo-{index}"), BinaryRows::new(own.inputs(), own.columns(), own.labels(), device)?))
    };
    let silos: Vec<_> = parts.iter().enumerate().map(silo).collect::<Result<_>>()?;
    let (model, schedule) = (LogisticRegression::new(train.columns()), SiloSchedule::Synchronous);
    let how = PviOptions { schedule, damping: Some(options.damping), ..PviOptions::new(options.local_steps) };
    let settings = Settings {
        seed,
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(1.0),
        schedule: Schedule::Constant { rate: options.learning_rate },
        start: StartFrom::Declared,
        threads: Some(options.shared.threads),
        steps: options.rounds * options.local_steps,
        ..Settings::default()
    };
    let fitting = FitOptions { settings, threads: 1, ..FitOptions::default() };
    if epsilon > 0.0 {
        let method = PrivateMethod::Pvi { options: how, rate: options.rate, clip: options.clip };
        let promise = PrivateOptions { method, rounds: options.rounds, ..PrivateOptions::new(epsilon, DELTA) };
        let mut bits = |silo: usize| Box::new(SeededBits::new(seed * 1_000 + silo as u64)) as Box<_>;
        let report = simulate(&model, &silos, device, &fitting, &promise, &mut bits)?.report;
        return judged(&model, &test, &report);
    }
    // As many rows as a sample has on average.
    let rows = (options.rate * f64::from(u32::try_from(train.rows() / SILOS)?)).round();
    let minibatch = [("row".to_owned(), rows as usize)].into();
    let settings = Settings { minibatch, ..fitting.settings };
    let algorithm = AlgorithmChoice::Pvi(how);
    let fitting = FitOptions { algorithm, trust_draws: Some(0), elbo_draws: 2, settings, ..fitting };
    judged(&model, &test, &fit(&model, &silos, device, &fitting, None)?.report)
}

/// How the test rows are predicted, by the probit approximation.
fn judged(model: &LogisticRegression, test: &CovariateRows, report: &Report) -> Result<Scores> {
    let variances: Vec<f64> = report.sites.iter().map(|site| site.sd * site.sd).collect();
    let coefficients = Coefficients::mean_field(report.sites.iter().map(|site| site.mean).collect(), &variances)?;
    let labels: Vec<u8> = test.labels().iter().map(|label| u8::from(*label)).collect();
    let probabilities = model.predict(test.inputs(), &coefficients, PROBIT_CONSTANT)?;
    let predictions = Predictions::new(&probabilities, 2, &labels)?;
    let noise = report.privacy.as_ref().map_or(0.0, |own| own.noise);
    Ok(Scores { loss: -test_log_likelihood(&predictions), accuracy: accuracy(&predictions), noise })
}
