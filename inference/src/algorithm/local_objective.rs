//! Evaluates a silo's own objective: its data against a prior of the globals, the model's or a cavity.

use partita_core::kernel::add_scaled;
use partita_core::{Assessment, LogDensity, Model};

use super::finite;
use super::particles::Draws;
use super::sfvi_silo::{Silo, describe_global, global_key, noise_of};
use crate::divergence::{Diverged, Divergence};
use crate::error::{Error, Result};
use crate::estimator::{DrawWeights, Share, add};
use crate::exponential_family::{ExponentialFamily, NormalFamily, dot};
use crate::locals::StepRows;

/// What stands before the silo's likelihood.
#[derive(Debug, Clone, Copy)]
pub(super) enum GlobalPrior<'a> {
    /// The model's prior to this power.
    Model(f64),
    /// An unnormalised factor, such as a cavity, with precisions of any sign.
    Factor(&'a NormalFamily, &'a [f64]),
    /// A cavity that the posterior has a divergence from, in place of an expectation of its logarithm.
    Diverging(&'a NormalFamily, &'a [f64], &'a dyn Divergence),
}

/// A sampled objective with its gradients, before anything has moved.
#[derive(Debug)]
pub(super) struct LocalObjective {
    /// The sampled bound in nats; with a factor as prior, up to the factor's constant.
    pub(super) bound: f64,
    /// The part of the bound that is the silo's own: the mean of its shares, in nats.
    pub(super) likelihood: f64,
    /// The gradient of the negative bound by the parameters of the global family, then by shared θ.
    pub(super) gradient: Vec<f64>,
    locals: LocalMove,
}

/// What moves the silo's own parameters.
#[derive(Debug)]
pub(super) struct LocalMove {
    rows: StepRows,
    gradients: Vec<Vec<Vec<f64>>>,
    weights: DrawWeights,
    private: Vec<f64>,
}

impl<M: Model> Silo<M> {
    /// The objective at global parameters, averaged over the draws that `draw` says; moves nothing.
    pub(super) fn local_objective(
        &mut self,
        globals: &[f64],
        theta_len: usize,
        draw: Draws,
        prior: GlobalPrior<'_>,
    ) -> Result<LocalObjective> {
        let Draws { purpose, step, owner, .. } = draw;
        let mut rows = self.locals.rows(step);
        let (mut shares, gradients): (Vec<Share>, Vec<_>) = self.shares(globals, &mut rows, draw)?.into_iter().unzip();
        self.check(&shares, step)?;
        let private = self.locals.keep_private(&mut shares);
        for gradient in &gradients {
            self.check_local(gradient, step)?;
        }
        let likelihood = crate::assess::mean_and_variance(&shares.iter().map(|share| share.elbo).collect::<Vec<_>>()).0;
        let estimator = self.settings.estimator;
        let diverged = self.diverged(globals, prior)?;
        let (mut elbos, mut by_draw) = (Vec::new(), Vec::new());
        for (share, particle) in shares.into_iter().zip(0_u32..) {
            let key = global_key(purpose, step, owner).particle(particle);
            let mut gradient = vec![0.0; globals.len()];
            let mut own = if diverged.is_some() {
                // Layers under local reparameterisation have no draw: then nothing is multiplied by its noise.
                let noise = match share.deviation.iter().any(|number| *number != 0.0) {
                    true => noise_of(&*self.family, &self.settings, key),
                    false => vec![0.0; self.family.noise_len()],
                };
                share.pull_back(&*self.family, globals, &noise, &mut gradient)?;
                share
            } else {
                let noise = noise_of(&*self.family, &self.settings, key);
                let global = self.family.draw(globals, &noise);
                let prior = self.prior_at(prior, &global.latent)?;
                let mut own = estimator.global_share(prior, &*self.family, globals, &global);
                own.elbo += share.elbo;
                add(&mut own.location, &share.location);
                add(&mut own.deviation, &share.deviation);
                own.variance = share.variance;
                own.pull_back(&*self.family, globals, &noise, &mut gradient)?;
                if estimator.adds_entropy_gradient() {
                    self.family.add_entropy_gradient(globals, &mut gradient);
                }
                own.theta.resize(theta_len, 0.0);
                add(&mut own.theta, &share.theta);
                own
            };
            own.theta.resize(theta_len, 0.0);
            elbos.push(own.elbo);
            by_draw.push((gradient, own.theta));
        }
        let mut weights = estimator.weigh(&elbos);
        let mut gradient = vec![0.0; globals.len() + theta_len];
        let (by_global, by_theta) = gradient.split_at_mut(globals.len());
        for ((own, own_theta), (family, theta)) in by_draw.iter().zip(weights.family.iter().zip(&weights.theta)) {
            add_scaled(by_global, *family, own);
            add_scaled(by_theta, *theta, own_theta);
        }
        gradient.iter_mut().for_each(|g| *g *= -weights.share);
        if let Some(Diverged { value, gradient: by_moments }) = diverged {
            weights.bound -= value;
            self.family.pull_back_moments(globals, &by_moments, &mut gradient[..globals.len()]);
        }
        finite(&self.name, step, |index| describe_global(&self.table, index % self.family.len().max(1)), &gradient)?;
        let bound = weights.bound;
        Ok(LocalObjective { bound, likelihood, gradient, locals: LocalMove { rows, gradients, weights, private } })
    }

    /// Moves the silo's own parameters by what an objective said.
    pub(super) fn move_locals(&mut self, objective: LocalObjective, rate: f64) {
        let LocalMove { rows, gradients, weights, private } = objective.locals;
        self.locals.descend(&rows, weights.descent(gradients), &private, rate);
    }

    /// The prior's logarithm at a draw; zero where a divergence takes its place.
    fn prior_at(&self, prior: GlobalPrior<'_>, latent: &[f64]) -> Result<Assessment> {
        match prior {
            GlobalPrior::Model(power) => {
                let mut own = LogDensity::new(&self.workers[0].0, &self.device, &self.table).global(latent)?;
                own.value *= power;
                own.globals.iter_mut().chain(&mut own.theta).for_each(|g| *g *= power);
                Ok(own)
            }
            GlobalPrior::Factor(family, natural) => Ok(Assessment {
                value: dot(natural, &family.statistics(latent)),
                globals: family.score(natural, latent),
                ..Assessment::default()
            }),
            GlobalPrior::Diverging(..) => Ok(Assessment { globals: vec![0.0; latent.len()], ..Assessment::default() }),
        }
    }

    /// The divergence from a cavity, where there is one.
    fn diverged(&self, globals: &[f64], prior: GlobalPrior<'_>) -> Result<Option<Diverged>> {
        let GlobalPrior::Diverging(natural, cavity, divergence) = prior else { return Ok(None) };
        if self.settings.estimator.weighs_draws() {
            return Err(Error::Setting {
                setting: "divergence",
                found: format!("{divergence:?} with {:?}", self.settings.estimator),
                expected: "an estimator whose draws weigh the same, such as StickingTheLanding",
            });
        }
        let posterior = natural.natural_of_member(&*self.family, globals)?;
        divergence.evaluate(natural, &posterior, cavity).map(Some)
    }
}
