//! Predicts rows never seen in training: each party sends its share of every draw, the label holder adds them up.

use std::time::Duration;

use partita_core::special::log_sum_exp;
use partita_core::vertical::{Labels, Party};
use partita_core::{Array, Device, Noise};

use super::{VerticalFit, lock};
use crate::engine::algorithm::{Algorithm, replies};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, Request};
use crate::engine::run::{Counters, counted};
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::Message;
use crate::methods::columns::PREDICT;

/// Draws in one request.
const DRAWS_A_REQUEST: u64 = 64;

/// What a fit expects of rows never seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The posterior-predictive mean of each label, `[rows, ...]`: a probability, probabilities of classes, a rate, a
    /// mean.
    pub mean: Array,
    /// $`\log \frac1S \sum_s p(y_i \mid \eta_i^s, \gamma^s)`$ of the labels given, row by row, in nats.
    pub log_density: Vec<f64>,
}

/// How rows are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predictive {
    /// Draws from the posterior.
    pub draws: u64,
    /// Whether parties add the noise $`N(0, \rho^2)`$ of the auxiliary variables: with it the prediction is the
    /// augmented model's, without it that of the model as declared at the same posterior.
    pub noise: bool,
    /// The seed of the fit.
    pub seed: u64,
    /// How long to wait for a party's answer to each request.
    pub deadline: Option<Duration>,
}

impl VerticalFit {
    /// Predicts rows of which each party holds its columns, over `draws` draws from the posterior.
    ///
    /// Each party sends $`g_j`$ of its draw, with the noise $`N(0, \rho^2)`$ of the auxiliary variables if `noise`:
    /// with it the prediction is the augmented model's, without it that of the model as declared at the same posterior.
    /// In the power-likelihood model one party in turn goes without, as in each of its factors. Labels whose values are
    /// not known may be any that the head allows, where only the mean is read.
    ///
    /// # Shapes
    /// `parties`: as in the fit, with columns of other rows; `labels`: of those rows.
    ///
    /// # Errors
    /// [`Error::Setting`] for other parties than those of the fit, other rows at a party than at the labels, or no
    /// draw; otherwise what contributions and head refuse.
    pub fn predict(&mut self, parties: &[Party], labels: &Labels, draws: u64, noise: bool) -> Result<Prediction> {
        let names = self.exchange.silos();
        if !parties.iter().map(Party::name).eq(names.iter().map(String::as_str)) {
            let found = parties.iter().map(Party::name).collect::<Vec<_>>().join(", ");
            return Err(Error::Setting {
                setting: "parties",
                found,
                expected: "the parties of the fit, in their order",
            });
        }
        for (party, own) in parties.iter().zip(&self.parties) {
            super::aligned(party, labels)?;
            lock(own).hold_out(party.clone());
        }
        let how = Predictive { draws, noise, seed: self.seed, deadline: None };
        let parties = (&*self.algorithm, &mut self.exchange as &mut dyn Exchange);
        predict(labels, &self.device, parties, how, &mut self.record.counters)
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
    (algorithm, exchange): (&dyn Algorithm, &mut dyn Exchange),
    how: Predictive,
    counters: &mut Counters,
) -> Result<Prediction> {
    if how.draws == 0 {
        return Err(Error::Setting { setting: "draws", found: "0".into(), expected: "at least 1" });
    }
    let table = labels.table(device)?;
    let size = labels.rows() * labels.outputs();
    let (mut sums, mut densities): (Vec<f64>, Vec<Vec<f64>>) = (Vec::new(), vec![Vec::new(); labels.rows()]);
    let mut shape = Vec::new();
    for first in (0..how.draws).step_by(usize::try_from(DRAWS_A_REQUEST).unwrap_or(1)) {
        let count = DRAWS_A_REQUEST.min(how.draws - first);
        let contributions = contributions((first, count), (labels, how), (algorithm, exchange), counters)?;
        for (draw, eta) in (first..).zip(contributions.chunks_exact(size.max(1))) {
            let head = algorithm.posterior().draw(&Noise::new(how.seed), draw);
            let mean = labels.mean(device, &table, &head, eta)?;
            sums.resize(mean.values.len(), 0.0);
            crate::engine::estimator::add(&mut sums, &mean.values);
            shape = mean.shape;
            let own = labels.pointwise(device, &table, &head, eta)?;
            densities.iter_mut().zip(own).for_each(|(row, value)| row.push(value));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 draws")]
    let count = how.draws as f64;
    sums.iter_mut().for_each(|sum| *sum /= count);
    let log_density = densities.iter().map(|row| log_sum_exp(row) - count.ln()).collect();
    Ok(Prediction { mean: Array::new(sums, shape)?, log_density })
}

/// The sums of all parties' contributions, draw by draw.
fn contributions(
    (first, count): (u64, u64),
    (labels, how): (&Labels, Predictive),
    (algorithm, exchange): (&dyn Algorithm, &mut dyn Exchange),
    counters: &mut Counters,
) -> Result<Vec<f64>> {
    let names = exchange.silos().to_vec();
    let draws = usize::try_from(count).unwrap_or(usize::MAX);
    let size = labels.rows() * labels.outputs() * draws;
    let field = |meaning| Field { name: "z", meaning, limit: size, depends_on_data: true };
    let meaning = "the party's contributions to held-out rows, draw by draw, with the noise of auxiliary variables where it was asked for";
    let manifest = Manifest { fields: vec![field(meaning)] };
    // The last step's gradient, if a party has yet to hear of it, comes with the request.
    let pending = algorithm.elbo_requests(0, 0);
    let one = |request: &Request| {
        let mut message = Message::new(PREDICT)
            .word("rows_in_all", labels.rows() as u64)
            .word("first", first)
            .word("draws", count)
            .word("parties", names.len() as u64)
            .word("noise", u64::from(how.noise));
        let kept = |name: &str| ["answered", "gradient"].contains(&name);
        message.records.extend(request.message.records.iter().filter(|record| kept(&record.name)).cloned());
        Request { silo: request.silo, message }
    };
    let requests = pending.iter().map(one).collect();
    let outcomes = counted(exchange, requests, &manifest, how.deadline, counters)?;
    let replies = replies(outcomes, &names, counters.gradient_steps)?;
    let mut sum = vec![0.0; size];
    for (reply, name) in replies.iter().zip(&names) {
        let own = reply.expect_floats("z", size).map_err(|error| error.in_silo(name, 0))?;
        crate::engine::estimator::add(&mut sum, &own);
    }
    Ok(sum)
}
