//! Runs every method on one split of one table, and measures the test loss after each exchange or sweep.

use std::collections::BTreeMap;
use std::time::Instant;

use partita::inference::metrics::{Predictions, accuracy, test_log_likelihood};
use partita::inference::{
    Algorithm, Counters, Exchange, Factors, InProcess, PriorShare, Pvi, PviSilo, RunOptions, Sfvi, Silent, Silo,
    SiloProgram, run,
};
use partita::models::{
    BinaryRows, Coefficients, CovariateRows, LabelledTable, LogisticRegression, PROBIT_CONSTANT, Standardisation,
};
use partita::{
    Device, FamilyPlan, Gaussian, Key, Noise, Purpose, PviOptions, Schedule, Settings, SmallLarge, VisitSchedule,
    partition_equally, partition_small_large,
};

use serde::{Deserialize, Serialize};

use super::{Failure, Options, Split};

/// The paper's number of silos, its learning rate, rows of a minibatch and damping of synchronous PVI.
const SILOS: usize = 10;
const RATE: f64 = 1e-2;
const MINIBATCH: usize = 128;
const DAMPING: f64 = 0.2;

/// Not in the paper: four rows of five for training, which its numbers of rows imply.
const TRAINING: f64 = 0.8;

/// A way to find the posterior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// The gradient of the pooled data, gathered from all silos at every step: SFVI, which without local latents is that.
    GlobalVi,
    Sequential,
    Synchronous,
    /// One undamped synchronous round, every silo with the whole prior.
    CommitteeSame,
    /// The same with the prior split by rows.
    CommitteeSplit,
    /// One sweep in which nothing is taken out again.
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

    /// PVI configured to be this method, and its rounds; nothing for global VI.
    fn options(self, options: &Options) -> Option<(PviOptions, u64)> {
        let base = PviOptions::new(options.local_steps);
        let together = |damping| PviOptions { schedule: VisitSchedule::Synchronous, damping: Some(damping), ..base };
        let forgotten = PviOptions { factors: Factors::Forgotten, ..base };
        Some(match self {
            Self::GlobalVi => return None,
            Self::Sequential => (base, options.rounds),
            Self::Synchronous => (together(DAMPING), options.rounds),
            Self::CommitteeSame => (together(1.0), 1),
            Self::CommitteeSplit => (PviOptions { prior: PriorShare::BySize, ..together(1.0) }, 1),
            Self::Continual => (forgotten, 1),
            Self::Streaming => (forgotten, options.rounds),
        })
    }
}

/// The test loss of a method as it goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Curve {
    pub(crate) points: Vec<Point>,
    pub(crate) seconds: f64,
}

/// Where a method is after an exchange or a sweep.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Sweeps of sequential methods, rounds of the others.
    pub(crate) round: u64,
    /// Messages both ways so far: two for each contact with a silo.
    pub(crate) messages: u64,
    /// Gradient steps of all silos so far.
    pub(crate) steps: u64,
    /// Minus the mean log probability of the test labels, in nats.
    pub(crate) loss: f64,
    /// The share of test rows whose more probable label is wrong.
    pub(crate) error: f64,
    /// Local problems so far whose cavity was no density: a sign of noisy local solutions.
    pub(crate) improper: u64,
}

/// What all methods share: the silos, the test rows and the settings of one seed.
pub(crate) struct World<'a> {
    options: &'a Options,
    device: &'a Device,
    model: LogisticRegression,
    silos: Vec<(String, BinaryRows)>,
    test: CovariateRows,
    settings: Settings,
}

impl<'a> World<'a> {
    pub(crate) fn new(
        table: &LabelledTable,
        (split, imbalance): (Split, SmallLarge),
        seed: u64,
        options: &'a Options,
        device: &'a Device,
    ) -> Result<Self, Failure> {
        let noise = Noise::new(seed);
        let [train, test] = table.split(TRAINING, Standardisation::TrainingRows, &noise)?;
        let mut rows = match split {
            Split::A => partition_equally(train.rows(), SILOS, &noise)?,
            Split::B => partition_small_large(train.labels(), SILOS, imbalance, &noise)?,
        };
        // Each seed visits the silos in an order of its own.
        noise.stream(Key::new(Purpose::Partition, 1)).shuffle(&mut rows);
        let silo = |(index, rows): (usize, &Vec<usize>)| -> Result<_, Failure> {
            Ok((format!("silo-{index}"), BinaryRows::encoded(&train.select(rows)?, device)?))
        };
        let silos = rows.iter().enumerate().map(silo).collect::<Result<_, _>>()?;
        let settings = Settings {
            seed,
            particles: options.particles,
            // All methods start at the prior.
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(1.0),
            schedule: Schedule::Cosine { initial: RATE, last: 0.0 },
            minibatch: BTreeMap::from([("row".to_owned(), MINIBATCH)]),
            ..Settings::default()
        };
        Ok(Self { options, device, model: LogisticRegression::new(train.columns()), silos, test, settings })
    }

    /// The curve of each method, in the order of [`Method::ALL`].
    pub(crate) fn curves(&self) -> Result<Vec<Curve>, Failure> {
        Method::ALL.iter().map(|method| self.curve(*method)).collect()
    }

    fn curve(&self, method: Method) -> Result<Curve, Failure> {
        let start = Instant::now();
        let names: Vec<String> = self.silos.iter().map(|(name, _)| name.clone()).collect();
        let how = method.options(self.options);
        // The steps after which the loss is measured.
        let ends: Vec<u64> = match how {
            Some((options, rounds)) => {
                let visits = if options.schedule == VisitSchedule::Synchronous { 1 } else { SILOS as u64 };
                (1..=rounds).map(|round| round * visits * options.local_steps).collect()
            }
            None => measured(self.options.global_steps),
        };
        let steps = ends.last().copied().unwrap_or(0);
        let settings = Settings { steps, ..self.settings.clone() };
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        let mut sizes = Vec::new();
        for ((name, data), index) in self.silos.iter().zip(0_u32..) {
            let silo = Silo::new(name, index, &self.model, data, self.device, &settings)?;
            sizes.push(data.rows());
            programs.push(match how {
                Some((options, _)) => Box::new(PviSilo::new(silo, index, options)?),
                None => Box::new(silo),
            });
        }
        let mut algorithm: Box<dyn Algorithm> = match how {
            Some((options, _)) => Box::new(Pvi::new(&self.model, self.device, &settings, (&names, sizes), options)?),
            None => Box::new(Sfvi::new(&self.model, self.device, &settings, &names)?),
        };
        let mut exchange = InProcess::new(programs, self.options.threads)?;
        let mut points = Vec::new();
        let mut counted = Counters::default();
        for (end, round) in ends.iter().zip(1..) {
            add(&mut counted, advance(&mut *algorithm, &mut exchange, *end)?);
            let (loss, error) = self.judge(&*algorithm)?;
            let (steps, improper) = (counted.silo_steps, counted.improper_cavities);
            let round = if how.is_some() { round } else { *end };
            points.push(Point { round, messages: counted.messages, steps, loss, error, improper });
        }
        Ok(Curve { points, seconds: start.elapsed().as_secs_f64() })
    }

    /// Test loss and error of the present posterior.
    fn judge(&self, algorithm: &dyn Algorithm) -> Result<(f64, f64), Failure> {
        let posterior = algorithm.posterior();
        let mean = posterior.family.mean(posterior.parameters);
        let covariance = posterior.family.covariance(posterior.parameters);
        let variances: Vec<f64> = covariance.iter().step_by(mean.len() + 1).copied().collect();
        let coefficients = Coefficients::mean_field(mean, &variances)?;
        let probabilities = self.model.predict(self.test.inputs(), &coefficients, PROBIT_CONSTANT)?;
        let labels: Vec<u8> = self.test.labels().iter().map(|label| u8::from(*label)).collect();
        let predictions = Predictions::new(&probabilities, 2, &labels)?;
        Ok((-test_log_likelihood(&predictions), 1.0 - accuracy(&predictions)))
    }
}

/// Lets a run go on until `end` steps are done.
fn advance(algorithm: &mut dyn Algorithm, exchange: &mut dyn Exchange, end: u64) -> Result<Counters, Failure> {
    // A run counts its steps from the algorithm's own, so that it goes on where the last one ended.
    Ok(run(algorithm, exchange, &RunOptions { steps: end, ..RunOptions::default() }, &mut Silent)?.counters)
}

fn add(sum: &mut Counters, more: Counters) {
    sum.rounds += more.rounds;
    sum.messages += more.messages;
    sum.silo_steps += more.silo_steps;
    sum.improper_cavities += more.improper_cavities;
}

/// The steps of global VI after which the loss is measured: the first, then each a tenth later than the one before.
fn measured(last: u64) -> Vec<u64> {
    let mut ends = vec![1];
    while ends.last().is_some_and(|end| *end < last) {
        let end = ends.last().copied().unwrap_or(last);
        ends.push((end + end.div_ceil(10)).min(last));
    }
    ends
}

/// What a curve depends on, to know those of an earlier run again.
pub(crate) fn settings_of(options: &Options) -> String {
    let Options { rounds, local_steps, global_steps, particles, .. } = options;
    format!("{rounds} rounds, {local_steps} local and {global_steps} global steps, {particles} draws")
}

/// The last losses of some curves in words.
pub(crate) fn ends(curves: &[Curve]) -> String {
    let one = |(method, curve): (&Method, &Curve)| {
        let loss = curve.points.last().map_or(f64::NAN, |point| point.loss);
        format!("{} {loss:.4} ({:.0} s)", method.label(), curve.seconds)
    };
    Method::ALL.iter().zip(curves).map(one).collect::<Vec<_>>().join(", ")
}

/// Counts as numbers to compute with.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}
