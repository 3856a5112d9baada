//! Sums the terms of all parties to the bound and its gradient, in the order of the silos.

use partita_core::kernel::add_scaled;
use partita_core::{LogDensity, Purpose};

use super::coordinator::Coordinator;
use super::messages::Terms;
use super::particles::Draws;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{DrawWeights, ElboTerm, add};

impl Coordinator {
    /// The coordinator's own share for one particle.
    fn own_elbo_term(&self, purpose: Purpose, step: u64, particle: u32) -> Result<(Vec<f64>, ElboTerm)> {
        let noise = Draws::shared(purpose, step, 1).global_noise(self.family(), &self.settings, particle);
        let draw = self.settings.estimator.draw(self.family(), self.trainer.parameters(), &noise);
        let density = LogDensity::new(&self.model, &self.device, &self.table);
        let located = |error| Error::Model(error).in_silo("the coordinator", self.step);
        let prior = density.global(&draw.latent).map_err(located)?;
        Ok((
            noise,
            self.settings.estimator.global_elbo_term(prior, &*self.trainer.family, self.trainer.parameters(), &draw),
        ))
    }

    /// The coordinator's own share of all draws, to which those of silos are added.
    pub(super) fn own_terms(&self, Asked { purpose, first, draws }: Asked) -> Result<Sum> {
        let theta = self.trainer.theta().len();
        let own = |(_, index): (usize, u32)| {
            let (noise, mut elbo_term) = self.own_elbo_term(purpose, first, index)?;
            elbo_term.theta.resize(theta, 0.0);
            Ok(OfDraw { noise, elbo_term })
        };
        let draws = (0..draws).zip(0_u32..).map(own).collect::<Result<_>>()?;
        Ok(Sum { draws, pulled_back: Vec::new(), rows_have_latents: None })
    }

    /// The sampled bounds, the gradient by the global parameters of each draw (silos that pulled back themselves enter
    /// the first), and the gradients by θ.
    pub(super) fn total(&self, Sum { draws, pulled_back, rows_have_latents }: Sum) -> Total {
        let mut total = Total { rows_have_latents, ..Total::default() };
        for OfDraw { noise, elbo_term } in draws {
            let mut gradient = vec![0.0; self.trainer.parameters().len()];
            self.trainer.family.vjp(
                self.trainer.parameters(),
                &noise,
                &elbo_term.grad_mean,
                &elbo_term.grad_offset,
                &mut gradient,
            );
            if self.settings.estimator.adds_entropy_gradient() {
                self.trainer.family.add_entropy_gradient(self.trainer.parameters(), &mut gradient);
            }
            total.thetas.push(elbo_term.theta);
            total.elbos.push(elbo_term.elbo);
            total.gradients.push(gradient);
        }
        if let Some(first) = total.gradients.first_mut().filter(|_| !pulled_back.is_empty()) {
            add(first, &pulled_back);
        }
        total
    }
}

/// What parties have said of some draws so far: the coordinator first, then silos in their order, one by one.
pub(super) struct Sum {
    draws: Vec<OfDraw>,
    /// The gradients by the global parameters of silos that pulled back themselves; empty where none has.
    pulled_back: Vec<f64>,
    /// Whether rows of any silo have latents, where silos say so.
    rows_have_latents: Option<bool>,
}

/// The sum of one draw, with its noise.
struct OfDraw {
    noise: Vec<f64>,
    elbo_term: ElboTerm,
}

/// Adds what a silo says. Where the coordinator's own share is an error what silos say is read, and nothing more: that
/// of a silo comes before it.
pub(super) fn add_terms(sum: &mut Result<Sum>, terms: &Terms) -> Result<()> {
    let has_gradient = terms.grad_mean.is_some() || terms.gradient.is_some();
    Error::well_formed(has_gradient, Terms::KIND, "it has neither `grad_mean` nor `gradient`")?;
    if let Ok(sum) = sum {
        sum.add(terms);
    }
    Ok(())
}

impl Sum {
    fn add(&mut self, terms: &Terms) {
        for (draw, OfDraw { elbo_term, .. }) in self.draws.iter_mut().enumerate() {
            elbo_term.elbo += terms.elbo[draw];
            if let Some(grad_mean) = terms.grad_mean.as_ref().filter(|_| terms.gradient.is_none()) {
                let globals = elbo_term.grad_mean.len();
                let own = draw * globals..(draw + 1) * globals;
                add(&mut elbo_term.grad_mean, &grad_mean.values[own.clone()]);
                // Where nothing reaches the globals through local latents, b is a.
                let grad_offset = terms.grad_offset.as_ref().unwrap_or(grad_mean);
                add(&mut elbo_term.grad_offset, &grad_offset.values[own]);
            }
        }
        // Of every draw where each has a weight, else their sum, which stands at the first.
        let length = self.draws.first().map_or(0, |first| first.elbo_term.theta.len()).max(1);
        for (own, silo) in self.draws.iter_mut().zip(terms.theta_gradient.values.chunks_exact(length)) {
            add(&mut own.elbo_term.theta, silo);
        }
        if let Some(own) = terms.rows_have_latents {
            self.rows_have_latents = Some(own || self.rows_have_latents == Some(true));
        }
        if let Some(gradient) = &terms.gradient {
            self.pulled_back.resize(gradient.len(), 0.0);
            add(&mut self.pulled_back, gradient);
        }
    }
}

/// Which draws parties were asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) purpose: Purpose,
    /// Their step, or the first of a report.
    pub(super) first: u64,
    pub(super) draws: usize,
}

/// What all parties say of some draws together.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) elbos: Vec<f64>,
    pub(super) gradients: Vec<Vec<f64>>,
    /// The gradient by θ of each draw; the sums over draws of a silo stand at the first.
    thetas: Vec<Vec<f64>>,
    /// Whether rows of any silo have latents: in the first step of a run of many parameters.
    pub(super) rows_have_latents: Option<bool>,
}

impl Total {
    /// The gradient of the bound by the global parameters, then by θ of this length.
    pub(super) fn gradient(&self, weights: &DrawWeights, theta: usize) -> Vec<f64> {
        let mut gradient = weighted(self.gradients.iter().zip(&weights.family));
        let start = gradient.len();
        gradient.resize(start + theta, 0.0);
        for (own, weight) in self.thetas.iter().zip(&weights.theta) {
            add_scaled(&mut gradient[start..], *weight, own);
        }
        gradient.iter_mut().for_each(|g| *g *= weights.share);
        gradient
    }
}

/// The sum of vectors, each times its factor.
pub(super) fn weighted<'a>(terms: impl Iterator<Item = (&'a Vec<f64>, &'a f64)>) -> Vec<f64> {
    let mut sum = Vec::new();
    for (term, factor) in terms {
        sum.resize(term.len(), 0.0);
        add_scaled(&mut sum, *factor, term);
    }
    sum
}
