//! Runs every method on one split of one table, and measures the test loss after each exchange or sweep.

use std::collections::BTreeMap;
use std::time::Instant;

use partita::core::{Key, Noise, Purpose, partition_equally, partition_small_large};
use partita::datasets::{CovariateRows, LabelledTable, Standardisation};
use partita::inference::metrics::{Predictions, accuracy, test_log_likelihood};
use partita::inference::{
    Algorithm, Counters, Error, Exchange, Factors, Posterior, PriorShare, RunOptions, Silent, StartFrom, parties, run,
};
use partita::models::{BinaryRows, Coefficients, LogisticRegression, PROBIT_CONSTANT};
use partita::{AlgorithmChoice, FamilyPlan, FitOptions, Gaussian, Model, PviOptions, Settings, SiloSchedule};

use serde::{Deserialize, Serialize};

use super::{Options, RowDistribution, Study};
use crate::harness::{Result, improper_cavities, is_outcome};

/// The paper's number of silos, its learning rate, rows of a minibatch and damping of synchronous PVI.
const SILOS: usize = 10;
const RATE: f64 = 1e-2;
pub(crate) const MINIBATCH: usize = 128;
const DAMPING: f64 = 0.2;

/// Not in the paper: four rows of five for training, which its numbers of rows imply.
pub(crate) const TRAINING: f64 = 0.8;

/// A method of inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// The gradient of the pooled data, gathered from all silos at every step: SFVI without local latents.
    GlobalVi,
    Sequential,
    Synchronous,
    /// One undamped synchronous round, every silo with the whole prior.
    CommitteeSame,
    /// The same with the prior split by rows.
    CommitteeSplit,
    /// One sweep in which no factor is removed.
    Continual,
    /// More such sweeps.
    Streaming,
}

impl Method {
    pub(crate) const ALL: [Self; 7] = [
        Self::GlobalVi,
        Self::Sequential,
        Self::Synchronous,
        Self::CommitteeSame,
        Self::CommitteeSplit,
        Self::Continual,
        Self::Streaming,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::GlobalVi => "global VI",
            Self::Sequential => "sequential PVI",
            Self::Synchronous => "synchronous PVI",
            Self::CommitteeSame => "BCM, same prior",
            Self::CommitteeSplit => "BCM, split prior",
            Self::Continual => "VCL",
            Self::Streaming => "streaming VB",
        }
    }

    /// The configuration of PVI that gives this method, with `damping` if it is synchronous, and its rounds; `None` for
    /// global VI.
    fn configuration(self, options: &Options, damping: f64) -> Option<(PviOptions, u64)> {
        let base = PviOptions::new(options.local_steps);
        let together =
            |damping| PviOptions { schedule: SiloSchedule::Synchronous, damping: Some(damping), ..base.clone() };
        let forgotten = PviOptions { factors: Factors::Forgotten, ..base.clone() };
        Some(match self {
            Self::GlobalVi => return None,
            Self::Sequential => (base.clone(), options.rounds),
            Self::Synchronous => (together(damping), options.rounds),
            Self::CommitteeSame => (together(1.0), 1),
            Self::CommitteeSplit => (PviOptions { prior: PriorShare::BySize, ..together(1.0) }, 1),
            Self::Continual => (forgotten, 1),
            Self::Streaming => (forgotten, options.rounds),
        })
    }
}

/// The test loss of a method over its run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Curve {
    pub(crate) points: Vec<Point>,
    pub(crate) seconds: f64,
    /// The error that ended it early.
    #[serde(default)]
    pub(crate) refused: Option<String>,
}

/// One measurement, after an exchange or a sweep.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Sweeps of sequential methods, rounds of the others.
    pub(crate) round: u64,
    /// Messages both ways so far: two for each exchange with a silo.
    pub(crate) messages: u64,
    /// Gradient steps of all silos so far.
    pub(crate) steps: u64,
    /// Minus the mean log probability of the test labels, in nats.
    pub(crate) loss: f64,
    /// The share of test rows whose more probable label is wrong.
    pub(crate) error: f64,
    /// Local problems so far whose cavity was not a density: a sign of noisy local solutions.
    pub(crate) improper: u64,
    /// Gradient steps in sequence so far; absent in results kept before they were counted.
    #[serde(default)]
    pub(crate) parallel_steps: Option<u64>,
    /// Bytes of messages so far, to silos and from them; absent in results kept before they were counted.
    #[serde(default)]
    pub(crate) bytes: Option<[u64; 2]>,
}

/// The state that all methods share: the silos, the test rows and the settings of one seed.
pub(crate) struct World<'a> {
    study: &'a Study,
    model: LogisticRegression,
    silos: Vec<(String, BinaryRows)>,
    test: CovariateRows,
    settings: Settings,
}

impl<'a> World<'a> {
    pub(crate) fn new(study: &'a Study, table: &LabelledTable, spread: RowDistribution, seed: u64) -> Result<Self> {
        let noise = Noise::new(seed);
        let [train, test] = table.split(TRAINING, Standardisation::TrainingRows, &noise)?;
        let mut rows = match spread {
            RowDistribution::Alike => partition_equally(train.rows(), SILOS, &noise)?,
            RowDistribution::SmallLarge(imbalance) => partition_small_large(train.labels(), SILOS, imbalance, &noise)?,
        };
        // Each seed has its own order of the silos.
        noise.stream(Key::new(Purpose::Partition, 1)).shuffle(&mut rows);
        let silo = |(index, rows): (usize, &Vec<usize>)| -> Result<_> {
            let own = train.select(rows)?;
            Ok((format!("silo-{index}"), BinaryRows::new(own.inputs(), own.columns(), own.labels(), &study.device)?))
        };
        let silos = rows.iter().enumerate().map(silo).collect::<Result<_>>()?;
        let settings = Settings {
            seed,
            particles: study.options.particles,
            // All methods start at the prior.
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(1.0),
            schedule: study.options.pace.schedule(RATE),
            minibatch: BTreeMap::from([("row".to_owned(), MINIBATCH)]),
            start: StartFrom::Declared,
            ..Settings::default()
        };
        Ok(Self { study, model: LogisticRegression::new(train.columns()), silos, test, settings })
    }

    /// The curve of each method, in the order of [`Method::ALL`].
    pub(crate) fn curves(&self) -> Result<Vec<Curve>> {
        let setting = Setting {
            study: self.study,
            model: &self.model,
            silos: &self.silos,
            damping: DAMPING,
            settings: &self.settings,
        };
        let judge = |posterior: Posterior<'_>| regression_loss(&self.model, &self.test, posterior);
        Method::ALL.iter().map(|method| setting.curve(*method, judge)).collect()
    }
}

/// The model of a fit, its settings, and its damping for synchronous updates.
pub(crate) struct Setting<'a, M: Model> {
    pub(crate) study: &'a Study,
    pub(crate) model: &'a M,
    pub(crate) silos: &'a [(String, M::Data)],
    pub(crate) damping: f64,
    pub(crate) settings: &'a Settings,
}

impl<M: Model> Setting<'_, M> {
    /// Fits by a method, and measures loss and error after each sweep or round, for global VI at growing intervals. A
    /// product or a local solution that is not a density ends it early.
    pub(crate) fn curve(&self, method: Method, judge: impl Fn(Posterior<'_>) -> Result<Scores>) -> Result<Curve> {
        let (start, options) = (Instant::now(), &self.study.options);
        let how = method.configuration(options, self.damping);
        let ends = self.ends(how.as_ref());
        let fit = FitOptions {
            algorithm: how.clone().map_or(AlgorithmChoice::Sfvi, |(how, _)| AlgorithmChoice::Pvi(how)),
            settings: Settings { steps: ends.last().copied().unwrap_or(0), ..self.settings.clone() },
            threads: options.shared.threads,
            ..FitOptions::default()
        };
        let (mut algorithm, mut exchange) = parties(self.model, self.silos, &self.study.device, &fit)?;
        let (mut points, mut refused) = (Vec::new(), None);
        let mut counted = Counters::default();
        for (end, round) in ends.iter().zip(1..) {
            self.study.session.check()?;
            match advance(&mut *algorithm, &mut exchange, *end) {
                Ok(more) => counted += more,
                Err(error) if is_outcome(&error) => {
                    println!("{} in round {round}: {error}", method.label());
                    refused = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            let round = if how.is_some() { round } else { *end };
            let (scores, improper) = (judge(algorithm.posterior())?, improper_cavities(&*algorithm));
            points.push(Point::new(round, counted, improper, scores));
        }
        Ok(Curve { points, seconds: start.elapsed().as_secs_f64(), refused })
    }

    /// The steps after which the loss is measured.
    fn ends(&self, how: Option<&(PviOptions, u64)>) -> Vec<u64> {
        let Some((how, rounds)) = how else { return measured(self.study.options.global_steps) };
        let visits = if how.schedule == SiloSchedule::Synchronous { 1 } else { self.silos.len() as u64 };
        (1..=*rounds).map(|round| round * visits * how.local_steps).collect()
    }
}

/// The quality of predictions of test rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scores {
    /// Minus the mean log probability of the labels, in nats.
    loss: f64,
    /// The share of rows whose more probable label is wrong.
    error: f64,
}

impl Point {
    fn new(round: u64, counted: Counters, improper: u64, scores: Scores) -> Self {
        Self {
            round,
            messages: counted.messages,
            steps: counted.silo_steps,
            loss: scores.loss,
            error: scores.error,
            improper,
            parallel_steps: Some(counted.gradient_steps),
            bytes: Some([counted.bytes_to_silos, counted.bytes_from_silos]),
        }
    }
}

/// Test loss and error of a posterior of coefficients, by the probit approximation.
pub(crate) fn regression_loss(
    model: &LogisticRegression,
    test: &CovariateRows,
    posterior: Posterior<'_>,
) -> Result<Scores> {
    let mean = posterior.family.mean(posterior.parameters);
    let covariance = posterior.family.covariance(posterior.parameters);
    let variances: Vec<f64> = covariance.iter().step_by(mean.len() + 1).copied().collect();
    let coefficients = Coefficients::mean_field(mean, &variances)?;
    loss_and_error(&model.predict(test.inputs(), &coefficients, PROBIT_CONSTANT)?, test)
}

/// Loss and error of the probabilities of no and yes, row by row.
pub(crate) fn loss_and_error(probabilities: &[f64], test: &CovariateRows) -> Result<Scores> {
    let labels: Vec<u8> = test.labels().iter().map(|label| u8::from(*label)).collect();
    let predictions = Predictions::new(probabilities, 2, &labels)?;
    Ok(Scores { loss: -test_log_likelihood(&predictions), error: 1.0 - accuracy(&predictions) })
}

/// Continues a run to `end` steps.
fn advance(
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    end: u64,
) -> std::result::Result<Counters, Error> {
    // A run counts its steps from those of the algorithm, so that it continues where the last one ended.
    Ok(run(algorithm, exchange, &RunOptions { steps: end, ..RunOptions::default() }, &mut Silent)?.counters)
}

/// The steps of global VI after which the loss is measured: the first, then each later by a tenth than the one before.
fn measured(last: u64) -> Vec<u64> {
    let mut ends = vec![1];
    while ends.last().is_some_and(|end| *end < last) {
        let end = ends.last().copied().unwrap_or(last);
        ends.push((end + end.div_ceil(10)).min(last));
    }
    ends
}

/// The settings on which a curve depends, to recognise those of an earlier run.
pub(crate) fn settings_of(options: &Options) -> String {
    let Options { rounds, local_steps, global_steps, particles, .. } = options;
    format!("{rounds} rounds, {local_steps} local and {global_steps} global steps, {particles} draws")
}

/// The last losses of some curves, as text.
pub(crate) fn ends(curves: &[Curve]) -> String {
    let one = |(method, curve): (&Method, &Curve)| {
        let loss = curve.points.last().map_or(f64::NAN, |point| point.loss);
        format!("{} {loss:.4} ({:.0} s)", method.label(), curve.seconds)
    };
    Method::ALL.iter().zip(curves).map(one).collect::<Vec<_>>().join(", ")
}
