//! Runs one method on one split of the digits, and measures test error and pruned weights at intervals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use partita::core::{Key, Noise, Purpose, partition_by_shards, partition_equally};
use partita::datasets::Images;
use partita::inference::metrics::{Predictions, accuracy, test_log_likelihood};
use partita::inference::{
    Algorithm, Counters, Error, Exchange, RunOptions, Silent, latest_checkpoint, parties, run, write_atomically,
};
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp};
use partita::{AlgorithmChoice, Device, Estimator, FamilyPlan, FitOptions, Gaussian, Loss, Normal, Schedule, Settings};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::harness::{Result, Session, improper_cavities, is_outcome};

/// Training digits on which a posterior is evaluated too: the first ones, with the labels that silos have.
const TRAINING: usize = 10_000;

/// A weight is pruned if the divergence of its posterior from its prior is below this, in nats.
const PRUNED: f64 = 0.1;

/// The widths of the network: pixels, hidden units, classes.
const WIDTHS: [usize; 3] = [784, 200, 10];

/// The distribution of training rows over silos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Split {
    /// All in one place.
    Pooled,
    /// Random equal parts.
    Alike(usize),
    /// Two shards of sorted labels each: at most a few digits a silo.
    Shards(usize),
}

impl Split {
    pub(crate) fn silos(self) -> usize {
        match self {
            Self::Pooled => 1,
            Self::Alike(silos) | Self::Shards(silos) => silos,
        }
    }
}

/// One run of the study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Run {
    /// Its name in files.
    pub(crate) slug: String,
    /// Its name in tables.
    pub(crate) label: String,
    pub(crate) split: Split,
    pub(crate) algorithm: AlgorithmChoice,
    /// Exchanges, and steps of each.
    pub(crate) exchanges: [u64; 2],
    pub(crate) loss: Loss,
    /// The share of training labels that are wrong.
    pub(crate) flipped: f64,
    pub(crate) schedule: Schedule,
    pub(crate) batch: usize,
    pub(crate) particles: usize,
    /// The standard deviation at which posteriors start.
    pub(crate) initial_scale: f64,
    /// Exchanges between two measurements.
    pub(crate) every: u64,
    /// Posterior draws of a prediction during the run, and at the end.
    pub(crate) draws: [u64; 2],
    pub(crate) seed: u64,
    /// Means start between minus and plus this, instead of at the usual values for rectified units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uniform: Option<f64>,
}

/// One measurement of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Exchanges so far.
    pub(crate) rounds: u64,
    /// Messages both ways so far.
    pub(crate) messages: u64,
    /// Gradient steps in sequence, and those of all silos together.
    pub(crate) parallel_steps: u64,
    pub(crate) steps: u64,
    /// The share of test digits classified wrongly.
    pub(crate) error: f64,
    /// The mean log probability of the test labels, in nats.
    #[serde(deserialize_with = "or_impossible")]
    pub(crate) log_likelihood: f64,
    /// The same for the first training digits; absent in results kept before it was measured.
    #[serde(default, deserialize_with = "some_or_impossible", skip_serializing_if = "Option::is_none")]
    pub(crate) train_log_likelihood: Option<f64>,
    /// Weights whose posterior is nearly their prior.
    pub(crate) pruned: usize,
}

/// A log likelihood read from JSON: that of labels without probability is minus infinity, and stored as null.
fn or_impossible<'de, D: Deserializer<'de>>(found: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(found)?.unwrap_or(f64::NEG_INFINITY))
}

fn some_or_impossible<'de, D: Deserializer<'de>>(found: D) -> std::result::Result<Option<f64>, D::Error> {
    or_impossible(found).map(Some)
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// The settings of the run, compared when a study resumes.
    pub(crate) run: Value,
    pub(crate) label: String,
    pub(crate) points: Vec<Point>,
    /// Whether the run is finished; derived from the points in results kept before it was recorded.
    #[serde(default)]
    pub(crate) over: bool,
    /// The error that ended it early.
    pub(crate) refused: Option<String>,
    /// Bytes that left silos.
    pub(crate) bytes_from_silos: u64,
    /// Local problems whose cavity was not a density.
    pub(crate) improper_cavities: u64,
    pub(crate) seconds: f64,
}

impl Curve {
    fn empty(plan: &Run) -> Result<Self> {
        Ok(Self {
            run: serde_json::to_value(plan)?,
            label: plan.label.clone(),
            points: Vec::new(),
            over: false,
            refused: None,
            bytes_from_silos: 0,
            improper_cavities: 0,
            seconds: 0.0,
        })
    }

    /// The kept result of a run, if its settings were the same.
    pub(crate) fn kept(plan: &Run, folder: &Path) -> Result<Option<Self>> {
        let file = plan.file(folder);
        if !file.is_file() {
            return Ok(None);
        }
        match serde_json::from_str::<Self>(&std::fs::read_to_string(file)?) {
            Ok(kept) if kept.run == serde_json::to_value(plan)? => {
                let over = kept.over || kept.refused.is_some() || kept.points.len() >= plan.ends().len();
                return Ok(Some(Self { over, ..kept }));
            }
            Ok(_) => println!("  {}: what is kept is of other settings, and does not count", plan.label),
            Err(error) => println!("  {}: what is kept cannot be read, and does not count: {error}", plan.label),
        }
        Ok(None)
    }

    pub(crate) fn last(&self) -> Option<&Point> {
        self.points.last()
    }

    fn say(&self) {
        if let Some(point) = self.last() {
            println!(
                "  {:<44} {:>6} rounds {:>7} steps: error {:>6.2} %, log likelihood {:>8.4}, {:>6} pruned, {:.0} s",
                self.label,
                point.rounds,
                point.steps,
                100.0 * point.error,
                point.log_likelihood,
                point.pruned,
                self.seconds
            );
        }
    }

    /// The last test error in per cent.
    pub(crate) fn error(&self) -> f64 {
        self.last().map_or(f64::NAN, |point| 100.0 * point.error)
    }
}

/// Digits with the labels to predict.
struct Known {
    rows: LabelledRows,
    labels: Vec<u8>,
}

/// The digits of a study, and its device.
pub(crate) struct World<'a> {
    session: &'a Session,
    device: Device,
    train: Images,
    test: Images,
}

impl<'a> World<'a> {
    pub(crate) fn new(session: &'a Session, device: Device, [train, test]: [Images; 2]) -> Self {
        Self { session, device, train, test }
    }

    /// Carries out a run, or the rest of it. A product or a cavity that is refused ends it early; other errors are
    /// returned.
    ///
    /// After each measurement the curve is saved in `folder`, and the state of all parties beside it until the run is
    /// finished.
    pub(crate) fn curve(&self, plan: &Run, folder: &Path) -> Result<Curve> {
        let (file, state) = (plan.file(folder), folder.join(&plan.slug));
        let kept = if self.session.shared.resume { Curve::kept(plan, folder)? } else { None };
        let mut curve = match kept {
            Some(curve) if curve.over => {
                remove(&state)?;
                return Ok(curve);
            }
            Some(curve) => curve,
            None => {
                remove(&state)?;
                Curve::empty(plan)?
            }
        };
        let (start, before) = (Instant::now(), curve.seconds);
        let model = self.model(plan);
        let known = self.known(plan)?;
        let silos = self.silos(plan)?;
        let ends = plan.ends();
        let options = FitOptions {
            algorithm: plan.algorithm.clone(),
            settings: plan.settings(ends.last().copied().unwrap_or(1)),
            threads: self.session.shared.threads,
            ..FitOptions::default()
        };
        let (mut algorithm, mut exchange) = parties(&model, &silos, &self.device, &options)?;
        drop(silos);
        for end in ends.iter().copied().skip(curve.points.len()) {
            self.session.check()?;
            match advance(&mut *algorithm, &mut exchange, end, &state) {
                Ok(counters) => {
                    let draws = plan.draws[usize::from(Some(&end) == ends.last())];
                    let point = self.judge(&model, &known, &*algorithm, (plan.seed, draws), &counters)?;
                    curve.points.push(point);
                    curve.bytes_from_silos = counters.bytes_from_silos;
                    curve.improper_cavities = improper_cavities(&*algorithm);
                }
                Err(error) if is_outcome(&error) => {
                    println!("  {}: {error}", plan.label);
                    curve.refused = Some(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
            curve.over = curve.refused.is_some() || Some(&end) == ends.last();
            curve.seconds = before + start.elapsed().as_secs_f64();
            write_atomically(&file, serde_json::to_string(&curve)?.as_bytes())?;
            if curve.refused.is_some() {
                break;
            }
            curve.say();
        }
        remove(&state)?;
        Ok(curve)
    }

    fn model(&self, plan: &Run) -> BayesianNetwork<Mlp> {
        let network = match plan.uniform {
            Some(half_width) => Mlp::uniform(&WIDTHS, Activation::Relu, half_width, plan.seed, &self.device),
            None => Mlp::new(&WIDTHS, Activation::Relu, plan.seed, &self.device),
        };
        BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 1.0))
    }

    /// The labels of the training digits as silos have them: a share is replaced by others.
    fn labels(&self, plan: &Run) -> Vec<u8> {
        flipped(self.train.labels(), self.train.classes(), plan.flipped, &Noise::new(plan.seed))
    }

    /// The digits on which posteriors are evaluated: the test digits, and the first training digits.
    fn known(&self, plan: &Run) -> Result<[Known; 2]> {
        let known = |digits: &Images, labels: Vec<u8>| -> Result<Known> {
            Ok(Known { rows: rows(digits, &labels, &self.device)?, labels })
        };
        let mut labels = self.labels(plan);
        labels.truncate(TRAINING);
        let first = self.train.select(&(0..labels.len()).collect::<Vec<_>>())?;
        Ok([known(&self.test, self.test.labels().to_vec())?, known(&first, labels)?])
    }

    /// The training rows of each silo.
    fn silos(&self, plan: &Run) -> Result<Vec<(String, LabelledRows)>> {
        let noise = Noise::new(plan.seed);
        let labels = self.labels(plan);
        let parts = match plan.split {
            Split::Pooled => vec![(0..self.train.len()).collect()],
            Split::Alike(silos) => partition_equally(self.train.len(), silos, &noise)?,
            Split::Shards(silos) => partition_by_shards(self.train.labels(), silos, 2, &noise)?,
        };
        let silo = |(index, part): (usize, &Vec<usize>)| -> Result<(String, LabelledRows)> {
            let own: Vec<u8> = part.iter().map(|row| labels[*row]).collect();
            Ok((format!("silo-{}", index + 1), rows(&self.train.select(part)?, &own, &self.device)?))
        };
        parts.iter().enumerate().map(silo).collect()
    }

    /// The measurement of the present posterior, with the counts so far.
    fn judge(
        &self,
        model: &BayesianNetwork<Mlp>,
        [test, train]: &[Known; 2],
        algorithm: &dyn Algorithm,
        (seed, draws): (u64, u64),
        counters: &Counters,
    ) -> Result<Point> {
        let posterior = algorithm.posterior();
        let noise = Noise::new(seed);
        let probabilities = |known: &Known| {
            let draws = (0..draws).map(|index| posterior.draw(&noise, index));
            model.predict(&self.device, known.rows.features(), draws)
        };
        let (tested, trained) = (probabilities(test)?.values, probabilities(train)?.values);
        let predictions = Predictions::new(&tested, self.test.classes(), &test.labels)?;
        let training = Predictions::new(&trained, self.test.classes(), &train.labels)?;
        let mean = posterior.family.mean(posterior.parameters);
        let deviations = posterior.family.covariance_matrix(posterior.parameters).deviations();
        // KL(N(m, s²) || N(0, 1)) of each weight.
        let divergence = |(mean, sd): (&f64, &f64)| 0.5 * (sd * sd + mean * mean - 1.0) - sd.ln();
        Ok(Point {
            rounds: counters.rounds,
            messages: counters.messages,
            parallel_steps: counters.gradient_steps,
            steps: counters.silo_steps,
            error: 1.0 - accuracy(&predictions),
            log_likelihood: test_log_likelihood(&predictions),
            train_log_likelihood: Some(test_log_likelihood(&training)),
            pruned: mean.iter().zip(&deviations).filter(|pair| divergence(*pair) < PRUNED).count(),
        })
    }
}

impl Run {
    /// The file of its curve.
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.slug))
    }

    /// The steps after which it is measured.
    fn ends(&self) -> Vec<u64> {
        let [all, each] = self.exchanges;
        let mut ends: Vec<u64> = (1..=all / self.every).map(|point| point * self.every * each).collect();
        if !all.is_multiple_of(self.every) {
            ends.push(all * each);
        }
        ends
    }

    fn settings(&self, steps: u64) -> Settings {
        Settings {
            steps,
            seed: self.seed,
            particles: self.particles,
            loss: self.loss,
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(self.initial_scale),
            estimator: Estimator::LocalReparameterisation,
            schedule: self.schedule,
            minibatch: BTreeMap::from([("row".to_owned(), self.batch)]),
            ..Settings::default()
        }
    }
}

/// Labels of which this share, drawn at random, is replaced by another class with equal probabilities.
fn flipped(labels: &[u8], classes: usize, share: f64, noise: &Noise) -> Vec<u8> {
    let mut stream = noise.stream(Key::new(Purpose::Partition, 1));
    let flip = |label: &u8| {
        if stream.uniform() >= share {
            return *label;
        }
        let other = stream.index(classes - 1);
        // Classes above the true one are shifted by one.
        u8::try_from(other + usize::from(other >= usize::from(*label))).unwrap_or(u8::MAX)
    };
    labels.iter().map(flip).collect()
}

fn rows(digits: &Images, labels: &[u8], device: &Device) -> Result<LabelledRows> {
    let labels = labels.iter().map(|&label| f64::from(label)).collect();
    Ok(LabelledRows::new(digits.scaled(), labels, digits.len(), device)?)
}

/// Continues a run from the checkpoint under `state`, if there is one, to `end` steps. Returns its costs since the
/// start.
fn advance(
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    end: u64,
    state: &Path,
) -> std::result::Result<Counters, Error> {
    let checkpoint = Some((state.to_owned(), end));
    let resume = latest_checkpoint(state)?.is_some();
    let options = RunOptions { steps: end, checkpoint, resume, ..RunOptions::default() };
    Ok(run(algorithm, exchange, &options, &mut Silent)?.counters)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}
