//! Reads a model as a locally enhanced bound: inner draws of the latents of a row, weighted by how well they fit.

use super::density::LogDensity;
use super::gradient::ValueAndGradient;
use super::latents::Latents;
use crate::declare::model::Model;
use crate::declare::scope::{Outcome, RowTape, Score, Terms};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::linear_form;
use crate::math::special::log_sum_exp;

/// A locally enhanced bound's share with its gradients, and the weights of the inner draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Enhanced {
    /// Value and gradients.
    pub evaluated: ValueAndGradient,
    /// $\tilde w_{rk} N/B$: the normalised weight of each repeat of each row, times the scale of the row.
    pub weights: Vec<f64>,
    /// $N/B$, times the weight of the local part.
    pub scale: f64,
}

impl<M: Model> LogDensity<'_, M> {
    /// The locally enhanced bound's share of one silo, and its gradients.
    ///
    /// ```math
    /// \sum_r \frac NB \log \frac1K \sum_k \frac{p_\theta(y_r, z_{rk} \mid Z_G)}{q(z_{rk} \mid Z_G)}
    /// ```
    /// with the rows $r$ and repeats $K$ of the one minibatch given, `latents` the draws $z_{rk}$ and `log_q` their log
    /// densities, one a repeat of a row. Gradients are those of the numerators with the normalised weights of the
    /// repeats: a gradient by a draw $z_{rk}$ holds its weight $\tilde w_{rk}N/B$ as a factor.
    ///
    /// # Errors
    /// As for [`LogDensity::global`]; [`Error::Length`] if `log_q` is not one number for each repeat.
    ///
    /// # References
    /// Geffner and Domke (2022), arXiv:2203.04432; Burda, Grosse and Salakhutdinov (2016) for the inner average.
    pub fn locally_enhanced(&self, latents: Latents<'_>, data: &M::Data, log_q: &[f64]) -> Result<Enhanced> {
        self.table.check_minibatch(self.minibatch)?;
        self.table.check_latents(latents.globals, Some(latents.locals), |block| self.rows(block))?;
        if !self.loss.is_log() {
            let expected = "the negative log likelihood, whose exponential the bound averages; use another estimator";
            return Err(Error::argument("locally enhanced bound", "loss", self.loss, expected));
        }
        let mut scope = self.scope(latents.source(), self.reading(Terms::LocalByRow));
        let globals = scope.run(|scope| self.model.global(scope))?;
        scope.begin_local(self.local_part());
        scope.run(|scope| self.model.local(scope, &globals, data))?;
        scope.ended()?;
        let mut outcome = scope.outcome;
        let rows = self.rows_of_one_level(&mut outcome, log_q.len())?;
        let scale = self.row_scale(rows.len(), log_q.len())?;
        let row = RowWeight { scale, repeats: self.minibatch[0].repeats };
        let weights = weigh(&mut outcome, &rows, log_q, row);
        for RowTape { place, tape } in std::mem::take(&mut outcome.row_tapes) {
            outcome.add_tape(linear_form(Handle::from(tape), place.spread(&weights)).typed());
        }
        let evaluated = self.finish(outcome, self.blank(latents), &weights)?;
        Ok(Enhanced { evaluated, weights, scale })
    }

    /// The log densities of the rows of the one plate that inner draws are made for.
    fn rows_of_one_level(&self, outcome: &mut Outcome, log_q: usize) -> Result<Vec<f64>> {
        let mut levels = std::mem::take(&mut outcome.levels).into_iter();
        match (levels.next(), levels.next()) {
            (Some(only), None) => Ok(only.rows),
            (None, _) => Ok(Vec::new()),
            (Some(first), Some(second)) => Err(inner_draws(first.rows.len() + second.rows.len(), log_q)),
        }
    }

    /// $N/B$, times the weight of the local part; refuses anything but one number of `log_q` for each repeat of a row.
    fn row_scale(&self, rows: usize, log_q: usize) -> Result<f64> {
        let [batch] = self.minibatch else { return Err(inner_draws(rows, log_q)) };
        if log_q != rows {
            return Err(inner_draws(rows, log_q));
        }
        let total = self.table.blocks.iter().find(|block| block.plate.as_ref() == Some(&batch.plate));
        let scale = self.weight * total.map_or(1.0, |block| (block.rows * batch.repeats) as f64 / rows as f64);
        Ok(scale)
    }
}

/// What a row's bound enters with, and how many draws it is made of.
#[derive(Debug, Clone, Copy)]
struct RowWeight {
    scale: f64,
    repeats: usize,
}

/// Adds the bounds of all rows to the total; the weights of their repeats, which the host's gradients get as a factor.
fn weigh(outcome: &mut Outcome, rows: &[f64], log_q: &[f64], row: RowWeight) -> Vec<f64> {
    let mut weights = Vec::with_capacity(rows.len());
    let ratios: Vec<f64> = rows.iter().zip(log_q).map(|(log_p, log_q)| log_p - log_q).collect();
    for ratios in ratios.chunks(row.repeats) {
        let sum = log_sum_exp(ratios);
        let count = (ratios.len() as f64).ln();
        outcome.total += row.scale * (sum - count);
        weights.extend(ratios.iter().map(|ratio| row.scale * (ratio - sum).exp()));
    }
    for leaf in outcome.leaves.iter_mut().filter(|leaf| leaf.score == Score::ByRow) {
        let each = (leaf.host_gradient.len() / leaf.place.rows.max(1)).max(1);
        for (row, own) in leaf.host_gradient.chunks_mut(each).enumerate() {
            let weight = weights[leaf.place.level_row(row)];
            own.iter_mut().for_each(|gradient| *gradient *= weight);
        }
    }
    weights
}

fn inner_draws(rows: usize, log_q: usize) -> Error {
    Error::Length {
        operation: "log densities of inner draws".into(),
        found: log_q,
        expected: rows,
        remedy: "Give one number for each repeat of each row of one plate.".into(),
    }
}
