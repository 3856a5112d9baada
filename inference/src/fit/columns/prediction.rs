//! Predicts rows never seen in training: each party sends its contributions of every draw, the label holder adds them up.

use std::ops::Range;
use std::time::Duration;

use partita_core::kernel::add_scaled;
use partita_core::special::log_sum_exp;
use partita_core::vertical::{Labels, Party};
use partita_core::{Array, Device, Noise};

use super::{VerticalFit, lock};
use crate::engine::algorithm::{Algorithm, finite, replies};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, Request};
use crate::engine::run::{Counters, counted};
use crate::engine::settings::DRAWS_A_REQUEST;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::typed::length;
use crate::methods::columns::messages::{Contributions, EstimateRequest, PredictRequest, Sizes};

/// What a fit expects of rows never seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The posterior-predictive mean of each label, `[rows, ...]`: a probability, probabilities of classes, a rate, a
    /// mean.
    pub mean: Array,
    /// $`\log \frac1S \sum_s p(y_i \mid \eta_i^s, \gamma^s)`$ of the labels given, row by row, in nats.
    pub log_density: Vec<f64>,
}

/// The model whose prediction is asked for, at the same posterior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredictedModel {
    /// The augmented model: parties add the noise $`N(0, \rho^2)`$ of the auxiliary variables.
    Augmented,
    /// The model as it is declared, without that noise.
    Declared,
}

/// How rows are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predictive {
    /// Draws from the posterior.
    pub draws: u64,
    /// Whose prediction it is.
    pub model: PredictedModel,
    /// The seed of the fit.
    pub seed: u64,
    /// How long to wait for a party's answer to each request.
    pub deadline: Option<Duration>,
}

impl VerticalFit {
    /// Predicts rows of which each party holds its columns, over `draws` draws from the posterior.
    ///
    /// Each party sends $`g_j`$ of its draw, with the noise $`N(0, \rho^2)`$ of the auxiliary variables where `model` is
    /// the augmented one. In the power-likelihood model one party in turn goes without, as in each of its factors. Labels whose values are
    /// not known may be any that the head allows, where only the mean is read.
    ///
    /// # Shapes
    /// `parties`: as in the fit, with columns of other rows; `labels`: of those rows.
    ///
    /// # Errors
    /// [`Error::Setting`] for other parties than those of the fit, other rows at a party than at the labels, or no
    /// draw; otherwise what contributions and head refuse.
    pub fn predict(
        &mut self,
        parties: &[Party],
        labels: &Labels,
        draws: u64,
        model: PredictedModel,
    ) -> Result<Prediction> {
        let names = self.exchange.silos();
        let own: Vec<&str> = parties.iter().map(Party::name).collect();
        Error::unless(own == names, "parties", own.join(", "), "the parties of the fit, in their order")?;
        for (party, own) in parties.iter().zip(&self.parties) {
            super::aligned(party, labels)?;
            lock(own).hold_out(party.clone());
        }
        let how = Predictive { draws, model, seed: self.seed, deadline: None };
        predict(labels, &self.device, &*self.algorithm, &mut self.exchange, how, &mut self.record.counters)
    }

    /// Which model was fitted, and with which auxiliary variables.
    #[must_use]
    pub fn options(&self) -> super::VerticalOptions {
        self.options
    }
}

/// The same as [`VerticalFit::predict`] with parties behind any exchange, who hold columns of the rows that `labels`
/// are of.
///
/// # Errors
/// As for [`VerticalFit::predict`]; of a party without such rows, or with others, [`Error::InSilo`];
/// [`Error::SiloLost`] for one that has not answered by the deadline.
pub fn predict(
    labels: &Labels,
    device: &Device,
    algorithm: &dyn Algorithm,
    exchange: &mut dyn Exchange,
    how: Predictive,
    counters: &mut Counters,
) -> Result<Prediction> {
    Error::unless(how.draws > 0, "draws", how.draws, "at least 1")?;
    let table = labels.table(device)?;
    let size = labels.rows() * labels.outputs();
    let (mut sums, mut densities): (Vec<f64>, Vec<Vec<f64>>) = (Vec::new(), vec![Vec::new(); labels.rows()]);
    let mut shape = Vec::new();
    for first in (0..how.draws).step_by(DRAWS_A_REQUEST) {
        let draws = first..how.draws.min(first + DRAWS_A_REQUEST as u64);
        let contributions = contributions(labels, draws.clone(), algorithm, exchange, how, counters)?;
        for (draw, eta) in draws.zip(contributions.chunks_exact(size.max(1))) {
            let head = algorithm.posterior().draw(&Noise::new(how.seed), draw);
            let mean = labels.mean(device, &table, &head, eta)?;
            sums.resize(mean.values.len(), 0.0);
            add_scaled(&mut sums, 1.0, &mean.values);
            shape = mean.shape;
            let own = labels.pointwise(device, &table, &head, eta)?;
            densities.iter_mut().zip(own).for_each(|(row, value)| row.push(value));
        }
    }
    let count = how.draws as f64;
    sums.iter_mut().for_each(|sum| *sum /= count);
    let log_density = densities.iter().map(|row| log_sum_exp(row) - count.ln()).collect();
    Ok(Prediction { mean: Array::new(sums, shape)?, log_density })
}

/// The sums of all parties' contributions, draw by draw.
fn contributions(
    labels: &Labels,
    draws: Range<u64>,
    algorithm: &dyn Algorithm,
    exchange: &mut dyn Exchange,
    how: Predictive,
    counters: &mut Counters,
) -> Result<Vec<f64>> {
    let names = exchange.silos().to_vec();
    let count = draws.end - draws.start;
    let numbers = (labels.rows() * labels.outputs()) as u64 * count;
    let sizes = Sizes { values: numbers, ..Sizes::default() };
    // The last step's gradient, if a party has yet to hear of it, comes with the request.
    let any = Sizes { values: u64::MAX, ..Sizes::default() };
    let one = |request: Request| {
        let message = PredictRequest {
            rows_in_all: labels.rows() as u64,
            first: draws.start,
            draws: count,
            parties: names.len() as u64,
            noise: how.model == PredictedModel::Augmented,
            gradient: EstimateRequest::read(&request.message, &any)?.gradient,
        };
        Ok(Request { silo: request.silo, message: message.write() })
    };
    let requests = algorithm.elbo_requests(0, 0).into_iter().map(one).collect::<Result<_>>()?;
    let manifest = Manifest { fields: Contributions::fields(&sizes) };
    let outcomes = counted(exchange, requests, &manifest, how.deadline, counters)?;
    let mut sum = vec![0.0; length(numbers)];
    for (reply, name) in replies(outcomes, &names, counters.gradient_steps)?.iter().zip(&names) {
        let own = Contributions::read(reply, &sizes).map_err(|error| error.in_silo(name, 0))?;
        finite(name, counters.gradient_steps, |_| "its contributions".into(), &own.z)?;
        add_scaled(&mut sum, 1.0, &own.z);
    }
    Ok(sum)
}
