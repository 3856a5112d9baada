//! Evaluates a silo's own objective: its data against a prior of the globals, the model's or a cavity.

use partita_core::kernel::add_scaled;
use partita_core::{LogDensity, Model, ValueAndGradient};

use crate::engine::algorithm::finite;
use crate::engine::divergence::{Diverged, Divergence};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{DrawWeights, ElboTerm, add};
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};
use crate::engine::rows::StepRows;
use crate::engine::terms::particles::Draws;
use crate::engine::terms::silo::{Silo, describe_global, global_key, noise_of};

/// What stands before the silo's likelihood.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GlobalPrior<'a> {
    /// The model's prior to this power.
    Model(f64),
    /// An unnormalised factor, such as a cavity, with precisions of any sign.
    Factor(&'a NormalFamily, &'a [f64]),
    /// A cavity that the posterior has a divergence from, in place of an expectation of its logarithm.
    Diverging(&'a NormalFamily, &'a [f64], &'a dyn Divergence),
}

/// A sampled objective with its gradients, before anything has moved.
#[derive(Debug)]
pub(crate) struct LocalObjective {
    /// The sampled bound in nats; with a factor as prior, up to the factor's constant.
    pub(crate) bound: f64,
    /// The part of the bound that is the silo's own: the mean of its shares, in nats.
    pub(crate) likelihood: f64,
    /// The gradient of the negative bound by the parameters of the global family, then by shared θ.
    pub(crate) gradient: Vec<f64>,
    locals: LocalMove,
}

/// What moves the silo's own parameters.
#[derive(Debug)]
pub(crate) struct LocalMove {
    rows: StepRows,
    gradients: Vec<Vec<Vec<f64>>>,
    weights: DrawWeights,
    private: Vec<f64>,
}

/// A part of the objective with its gradient by the parameters of the global family, and by θ where there is one.
#[derive(Debug)]
struct Pulled {
    elbo: f64,
    gradient: Vec<f64>,
    theta: Vec<f64>,
}

impl Pulled {
    /// Adds what has gradients of the same lengths, or of none.
    fn add(&mut self, other: &Self) {
        self.elbo += other.elbo;
        for (own, other) in [(&mut self.gradient, &other.gradient), (&mut self.theta, &other.theta)] {
            own.resize(own.len().max(other.len()), 0.0);
            add(&mut own[..other.len()], other);
        }
    }
}

impl<M: Model> Silo<M> {
    /// The objective at global parameters, averaged over the draws that `draw` says; moves nothing.
    pub(crate) fn local_objective(
        &mut self,
        globals: &[f64],
        theta_len: usize,
        draw: Draws,
        prior: GlobalPrior<'_>,
    ) -> Result<LocalObjective> {
        let Draws { step, count, .. } = draw;
        let mut rows = self.locals.rows(step);
        let (mut shares, gradients): (Vec<ElboTerm>, Vec<_>) =
            self.shares(globals, &mut rows, draw)?.into_iter().unzip();
        self.check(&shares, step)?;
        let private = self.locals.keep_private(&mut shares);
        for gradient in &gradients {
            self.check_local(gradient, step)?;
        }
        let likelihood = crate::engine::trust::estimate::mean_and_variance(
            &shares.iter().map(|share| share.elbo).collect::<Vec<_>>(),
        )
        .0;
        let estimator = self.settings.estimator;
        let diverged = self.diverged(globals, prior)?;
        let mut by_draw = match (&diverged, shares.len() < count) {
            (Some(_), _) => self.without_prior(shares, globals, draw)?,
            (None, false) => self.with_prior(shares.into_iter().map(Some), globals, draw, prior)?,
            // The one share of all particles is that of each draw of the prior.
            (None, true) => {
                let own = self.without_prior(shares, globals, draw)?;
                let mut by_draw = self.with_prior((0..count).map(|_| None), globals, draw, prior)?;
                by_draw.iter_mut().for_each(|prior| own.iter().for_each(|own| prior.add(own)));
                by_draw
            }
        };
        // What has no gradient by θ gives zeros; of the prior's, what is private stays out.
        by_draw.iter_mut().for_each(|own| own.theta.resize(theta_len, 0.0));
        let elbos: Vec<f64> = by_draw.iter().map(|own| own.elbo).collect();
        let mut weights = estimator.weigh(&elbos);
        let mut gradient = vec![0.0; globals.len() + theta_len];
        let (by_global, by_theta) = gradient.split_at_mut(globals.len());
        for (own, (family, theta)) in by_draw.iter().zip(weights.family.iter().zip(&weights.theta)) {
            add_scaled(by_global, *family, &own.gradient);
            add_scaled(by_theta, *theta, &own.theta);
        }
        gradient.iter_mut().for_each(|g| *g *= -weights.share);
        if let Some(Diverged { value, gradient: by_moments }) = diverged {
            weights.bound -= value;
            self.family.vjp_moments(globals, &by_moments, &mut gradient[..globals.len()]);
        }
        finite(&self.name, step, |index| describe_global(&self.table, index % self.family.len().max(1)), &gradient)?;
        let bound = weights.bound;
        Ok(LocalObjective { bound, likelihood, gradient, locals: LocalMove { rows, gradients, weights, private } })
    }

    /// Shares alone, pulled back to the parameters of the global family.
    fn without_prior(&self, shares: Vec<ElboTerm>, globals: &[f64], draw: Draws) -> Result<Vec<Pulled>> {
        let pulled = shares.into_iter().zip(0_u32..).map(|(share, particle)| {
            // Layers under local reparameterisation have no draw: then nothing is multiplied by its noise.
            let noise = match share.grad_offset.iter().any(|number| *number != 0.0) {
                true => self.global_noise(draw, particle),
                false => vec![0.0; self.family.noise_len()],
            };
            let mut gradient = vec![0.0; globals.len()];
            share.vjp(&*self.family, globals, &noise, &mut gradient)?;
            Ok(Pulled { elbo: share.elbo, gradient, theta: share.theta })
        });
        pulled.collect()
    }

    /// Draws of the prior, each with its particle's share where it has one of its own, pulled back likewise.
    fn with_prior(
        &self,
        shares: impl Iterator<Item = Option<ElboTerm>>,
        globals: &[f64],
        draw: Draws,
        prior: GlobalPrior<'_>,
    ) -> Result<Vec<Pulled>> {
        let estimator = self.settings.estimator;
        let pulled = shares.zip(0_u32..).map(|(share, particle)| {
            let noise = self.global_noise(draw, particle);
            let global = self.family.draw(globals, &noise);
            let prior = self.prior_at(prior, &global.latent)?;
            let mut own = estimator.global_share(prior, &*self.family, globals, &global);
            if let Some(share) = share {
                own.elbo += share.elbo;
                add(&mut own.grad_mean, &share.grad_mean);
                add(&mut own.grad_offset, &share.grad_offset);
                own.variance = share.variance;
                let both = own.theta.len().max(share.theta.len());
                own.theta.resize(both, 0.0);
                add(&mut own.theta[..share.theta.len()], &share.theta);
            }
            let mut gradient = vec![0.0; globals.len()];
            own.vjp(&*self.family, globals, &noise, &mut gradient)?;
            if estimator.adds_entropy_gradient() {
                self.family.add_entropy_gradient(globals, &mut gradient);
            }
            Ok(Pulled { elbo: own.elbo, gradient, theta: own.theta })
        });
        pulled.collect()
    }

    fn global_noise(&self, Draws { purpose, step, owner, .. }: Draws, particle: u32) -> Vec<f64> {
        noise_of(&*self.family, &self.settings, global_key(purpose, step, owner).particle(particle))
    }

    /// Moves the silo's own parameters by what an objective said.
    pub(crate) fn move_locals(&mut self, objective: LocalObjective, rate: f64) {
        let LocalMove { rows, gradients, weights, private } = objective.locals;
        self.locals.descend(&rows, weights.descent(gradients), &private, rate);
    }

    /// Moves the local posterior alone, and leaves private θ as it is.
    pub(crate) fn move_rows(&mut self, objective: LocalObjective, rate: f64) {
        let LocalMove { rows, gradients, weights, .. } = objective.locals;
        self.locals.descend_rows(&rows, weights.descent(gradients), rate);
    }

    /// The prior's logarithm at a draw; zero where a divergence takes its place.
    fn prior_at(&self, prior: GlobalPrior<'_>, latent: &[f64]) -> Result<ValueAndGradient> {
        match prior {
            GlobalPrior::Model(power) => {
                let mut own = LogDensity::new(&self.workers[0].0, &self.device, &self.table).global(latent)?;
                own.value *= power;
                own.globals.iter_mut().chain(&mut own.theta).for_each(|g| *g *= power);
                Ok(own)
            }
            GlobalPrior::Factor(family, natural) => Ok(ValueAndGradient {
                value: dot(natural, &family.statistics(latent)),
                globals: family.score(natural, latent),
                ..ValueAndGradient::default()
            }),
            GlobalPrior::Diverging(..) => {
                Ok(ValueAndGradient { globals: vec![0.0; latent.len()], ..ValueAndGradient::default() })
            }
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
        let moments = (self.family.mean(globals), self.family.spread(globals));
        divergence.evaluate_at(natural, &moments.0, &moments.1, cavity).map(Some)
    }
}
