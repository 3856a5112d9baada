//! Sums the terms of all parties to the bound and its gradient, in the order of the silos.

use partita_core::kernel::add_scaled;
use partita_core::{LogDensity, Model, Purpose};

use super::coordinator::Coordinator;
use super::messages::Terms;
use super::particles::Draws;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{DrawWeights, ElboTerm, add};

impl<M: Model> Coordinator<M> {
    /// The coordinator's own share for one particle.
    fn own_elbo_term(&self, purpose: Purpose, step: u64, particle: u32) -> Result<(Vec<f64>, ElboTerm)> {
        let noise = Draws::shared(purpose, step, 1).global_noise(self.family(), &self.settings, particle);
        let draw = self.trainer.family.draw(self.trainer.parameters(), &noise);
        let density = LogDensity::new(&self.model, &self.device, &self.table);
        let located = |error| Error::Model(error).in_silo("the coordinator", self.step);
        let prior = density.global(&draw.latent).map_err(located)?;
        Ok((
            noise,
            self.settings.estimator.global_elbo_term(prior, &*self.trainer.family, self.trainer.parameters(), &draw),
        ))
    }

    /// Sums the shares of all parties, in silo order, particle by particle: the sampled bounds, the gradient by the
    /// global parameters of each particle (silos that pulled back themselves enter the first), and the gradients by θ.
    pub(super) fn total(&self, terms: Vec<Terms>, Asked { purpose, first, draws }: Asked) -> Result<Total> {
        let globals = self.trainer.family.len();
        let mut total = Total::default();
        let parts: Vec<Part> = terms.into_iter().map(Part::of).collect::<Result<_>>()?;
        for (particle, index) in (0..draws).zip(0_u32..) {
            let (noise, mut elbo_term) = self.own_elbo_term(purpose, first, index)?;
            let range = particle * globals..(particle + 1) * globals;
            for part in &parts {
                elbo_term.elbo += part.elbos[particle];
                if let Some((grad_mean, grad_offset)) = &part.vectors {
                    add(&mut elbo_term.grad_mean, &grad_mean[range.clone()]);
                    add(&mut elbo_term.grad_offset, &grad_offset[range.clone()]);
                }
            }
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
            elbo_term.theta.truncate(self.trainer.theta().len());
            total.thetas.push((particle, elbo_term.theta));
            total.elbos.push(elbo_term.elbo);
            total.gradients.push(gradient);
        }
        for part in &parts {
            let thetas = part.theta.chunks_exact(self.trainer.theta().len().max(1)).map(<[f64]>::to_vec);
            total.thetas.extend(thetas.enumerate());
            if let (Some(gradient), Some(first)) = (&part.vjp, total.gradients.first_mut()) {
                add(first, gradient);
            }
        }
        Ok(total)
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
    /// The parties' gradients by θ with the draw they are of; the sums over draws of a silo stand at the first.
    thetas: Vec<(usize, Vec<f64>)>,
}

impl Total {
    /// The gradient of the bound by the global parameters, then by θ of this length.
    pub(super) fn gradient(&self, weights: &DrawWeights, theta: usize) -> Vec<f64> {
        let mut gradient = weighted(self.gradients.iter().zip(&weights.family));
        let start = gradient.len();
        gradient.resize(start + theta, 0.0);
        for (draw, own) in &self.thetas {
            add_scaled(&mut gradient[start..], weights.theta[*draw], own);
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

/// One silo's terms with what it left out.
struct Part {
    elbos: Vec<f64>,
    vectors: Option<(Vec<f64>, Vec<f64>)>,
    vjp: Option<Vec<f64>>,
    /// Of every draw where each has a weight, else their sum.
    theta: Vec<f64>,
}

impl Part {
    fn of(terms: Terms) -> Result<Self> {
        let theta = terms.theta_gradient.values;
        let grad_mean = terms.grad_mean.map(|rows| rows.values);
        if grad_mean.is_none() && terms.gradient.is_none() {
            let problem = "it has neither `grad_mean` nor `gradient`".to_owned();
            return Err(Error::Message { kind: Terms::KIND.into(), problem });
        }
        // Where nothing reaches the globals through local latents, b is a.
        let grad_offset = terms.grad_offset.map(|rows| rows.values);
        let vectors = grad_mean.filter(|_| terms.gradient.is_none()).map(|a| {
            let b = grad_offset.unwrap_or_else(|| a.clone());
            (a, b)
        });
        Ok(Self { elbos: terms.elbo, vectors, vjp: terms.gradient, theta })
    }
}
