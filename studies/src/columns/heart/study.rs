//! Fits one method to the training rows of one fold over two parties, and predicts the fold's test rows.

use std::time::Instant;

use partita::core::Noise;
use partita::core::data::{Fold, folds, stratified_folds};
use partita::datasets::{CovariateRows, HEART_FAILURE_PARTIES, LabelledTable};
use partita::inference::{VerticalOptions, vertical};
use partita::models::vertical::{BernoulliHead, LastLayer, PointNetwork, binary_labels};
use partita::models::{Activation, Mlp};
use partita::vertical::{Labels, Party, PredictedModel};
use partita::{AlgorithmChoice, Device, Estimator, FitOptions, Schedule, Settings};
use serde::{Deserialize, Serialize};

use super::Options;
use crate::harness::{Result, mean, real, thinned};

const NAMES: [&str; 2] = ["party 1", "party 2"];

/// Units of each of the two hidden layers, and outputs of a party's network.
const HIDDEN: usize = 8;
const FEATURES: usize = 2;

/// One in this many training rows is kept back for choices.
const KEPT_BACK: usize = 5;

/// The method of a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Method {
    /// The split network of the paper: maximum likelihood.
    Split,
    /// The same with the prior on weights of the Bayesian networks.
    SplitWithPrior,
    /// The hierarchical Bayes split network with this standard deviation of auxiliary variables.
    Hierarchical(f64),
}

impl Method {
    pub(crate) const ALL: [Self; 5] =
        [Self::Split, Self::SplitWithPrior, Self::Hierarchical(1.0), Self::Hierarchical(5.0), Self::Hierarchical(10.0)];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Split => "split network",
            Self::SplitWithPrior => "split network, prior",
            Self::Hierarchical(rho) if rho < 2.0 => "hierarchical, rho = 1",
            Self::Hierarchical(rho) if rho < 7.0 => "hierarchical, rho = 5",
            Self::Hierarchical(_) => "hierarchical, rho = 10",
        }
    }

    /// Its name in files.
    pub(crate) fn slug(self) -> String {
        self.label().replace([',', '='], "").split_whitespace().collect::<Vec<_>>().join("_")
    }
}

/// The predictions of a fit for its test rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The test rows' labels.
    pub(crate) labels: Vec<bool>,
    /// The predictive probability of a positive label.
    pub(crate) positive: Vec<f64>,
    /// The log predictive probability of the label, in nats.
    pub(crate) log_likelihood: Vec<f64>,
    /// The standard deviation of the prior of weights, chosen by training rows; none without a prior.
    pub(crate) weights: Option<f64>,
    /// Step and bound per training row.
    pub(crate) trace: Vec<(f64, f64)>,
    pub(crate) exchanges: u64,
    /// Bytes of messages, both ways.
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

impl Outcome {
    pub(crate) fn is_right(&self, row: usize) -> bool {
        (self.positive[row] > 0.5) == self.labels[row]
    }

    pub(crate) fn accuracy(&self) -> f64 {
        let right = (0..self.labels.len()).filter(|row| self.is_right(*row)).count();
        real(right as u64) / real(self.labels.len() as u64)
    }

    pub(crate) fn mean_log_likelihood(&self) -> f64 {
        mean(&self.log_likelihood)
    }

    pub(crate) fn words(&self) -> String {
        let (accuracy, mean) = (100.0 * self.accuracy(), self.mean_log_likelihood());
        let weights = self.weights.map_or(String::new(), |chosen| format!(", weights from {chosen}"));
        format!("accuracy {accuracy:.1} %, log likelihood {mean:.3}{weights} ({:.0} s)", self.seconds)
    }
}

/// The data in folds, and the options of the fits.
pub(crate) struct Study {
    table: LabelledTable,
    parties: Vec<LabelledTable>,
    folds: Vec<Fold>,
    options: Options,
    device: Device,
}

impl Study {
    pub(crate) fn new(table: LabelledTable, options: &Options, device: Device) -> Result<Self> {
        Ok(Self {
            parties: table.by_columns(&HEART_FAILURE_PARTIES)?,
            folds: folds(table.rows(), options.folds, &Noise::new(options.shared.seed))?,
            table,
            options: options.clone(),
            device,
        })
    }

    /// Fits a method to the training rows of a fold and predicts its test rows; the prior of weights is chosen unless
    /// given.
    pub(crate) fn fit(&self, method: Method, fold: usize, weights: Option<f64>) -> Result<Outcome> {
        let start = Instant::now();
        let seed = 1_000 * self.options.shared.seed + fold as u64;
        let weights = match (method, weights) {
            (Method::Split, _) => None,
            (_, Some(given)) => Some(given),
            (_, None) => Some(self.choose(method, fold, seed)?),
        };
        let outcome = self.fit_with(method, weights, &self.folds[fold], seed)?;
        Ok(Outcome { seconds: start.elapsed().as_secs_f64(), ..outcome })
    }

    /// The prior of weights whose fit to most of the training rows predicts the others best; test rows are not used.
    fn choose(&self, method: Method, fold: usize, seed: u64) -> Result<f64> {
        let Fold { training, .. } = &self.folds[fold];
        if let [only] = self.options.weights[..] {
            return Ok(only);
        }
        let labels: Vec<bool> = training.iter().map(|row| self.table.labels()[*row]).collect();
        let inner = stratified_folds(&labels, KEPT_BACK, &Noise::new(seed))?.swap_remove(0);
        let rows = |places: &[usize]| places.iter().map(|place| training[*place]).collect();
        let inner = Fold { training: rows(&inner.training), test: rows(&inner.test) };
        let mut best: Option<(f64, f64)> = None;
        for &weights in &self.options.weights {
            let found = self.fit_with(method, Some(weights), &inner, seed)?.mean_log_likelihood();
            if best.is_none_or(|(_, highest)| found > highest) {
                best = Some((weights, found));
            }
        }
        Ok(best.ok_or("no standard deviation of weights to choose from")?.0)
    }

    fn settings(&self, seed: u64) -> Settings {
        let Options { steps, rate, cosine, .. } = self.options;
        let schedule = match cosine {
            true => Schedule::Cosine { initial: rate, last: 0.0 },
            false => Schedule::Constant { rate },
        };
        Settings { steps, seed, estimator: Estimator::ClosedFormEntropy, schedule, ..Settings::default() }
    }

    fn fit_with(&self, method: Method, weights: Option<f64>, fold: &Fold, seed: u64) -> Result<Outcome> {
        let Fold { training, test } = fold;
        let parties = |rows: &[usize]| self.parties(method, weights, (rows, training), seed);
        let how = match method {
            Method::Hierarchical(rho) => VerticalOptions::augmented(rho),
            _ => VerticalOptions::direct(),
        };
        let options = FitOptions {
            algorithm: AlgorithmChoice::Vertical(how),
            settings: self.settings(seed),
            elbo_draws: 1,
            summary_draws: 0,
            ..FitOptions::default()
        };
        let labels = |rows: &[usize]| {
            let own: Vec<bool> = rows.iter().map(|row| self.table.labels()[*row]).collect();
            (Labels::new(BernoulliHead {}, binary_labels(&own, &self.device)), own)
        };
        let mut fit = vertical::fit(&parties(training)?, &labels(training).0, &self.device, &options, None)?;
        let (held_out, own) = labels(test);
        // Point estimates have no draws that differ.
        let draws = if let Method::Hierarchical(_) = method { self.options.draws } else { 1 };
        let predicted = fit.predict(&parties(test)?, &held_out, draws, PredictedModel::Augmented)?;
        let (counters, rows) = (fit.record.counters, real(training.len() as u64));
        let trace = thinned(&fit.record.trace, 200);
        Ok(Outcome {
            labels: own,
            positive: predicted.mean.values,
            log_likelihood: predicted.log_density,
            weights,
            trace: trace.into_iter().map(|(step, bound)| (step, bound / rows)).collect(),
            exchanges: counters.rounds,
            bytes: counters.bytes_to_silos + counters.bytes_from_silos,
            seconds: fit.record.seconds,
        })
    }

    /// The parties with the columns of `rows`, standardised by the training rows.
    fn parties(
        &self,
        method: Method,
        weights: Option<f64>,
        (rows, training): (&[usize], &[usize]),
        seed: u64,
    ) -> Result<Vec<Party>> {
        let mut parties = Vec::new();
        for ((table, name), index) in self.parties.iter().zip(NAMES).zip(0_u64..) {
            let encoded: CovariateRows = table.encode(rows, training)?;
            let shape = [encoded.rows(), encoded.columns()];
            let inputs = self.device.tensor(encoded.inputs().to_vec(), shape);
            let network = |outputs| {
                let widths = [encoded.columns(), HIDDEN, HIDDEN, outputs];
                Mlp::new(&widths, Activation::Relu, 2 * seed + index, &self.device)
            };
            // The last layer is linear: two features times two point weights make one output.
            let point = || PointNetwork::new(network(1));
            let last = || LastLayer::new(network(FEATURES), FEATURES);
            parties.push(match (method, weights) {
                (Method::Hierarchical(_), Some(sd)) => Party::new(name, last().weights_from(sd), inputs),
                (Method::Hierarchical(_), None) => Party::new(name, last(), inputs),
                (_, Some(sd)) => Party::new(name, point().weights_from(sd), inputs),
                (_, None) => Party::new(name, point(), inputs),
            });
        }
        Ok(parties)
    }
}
