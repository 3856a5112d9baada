//! Evaluates a silo's own objective: its data against a prior of the globals, the model's or a cavity.

use partita_core::kernel::add_scaled;
use partita_core::{LogDensity, ValueAndGradient};

use crate::engine::algorithm::movable;
use crate::engine::divergence::{Diverged, Divergence};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{DrawWeights, ElboTerm};
use crate::engine::family::{DrawGradient, DrawNumber};
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};
use crate::engine::rows::StepRows;
use crate::engine::terms::noised::TermsAndLocal;
use crate::engine::terms::particles::{Draws, LocalGradients};
use crate::engine::terms::silo::{Silo, describe_global};

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
    /// The Euclidean norm of that.
    pub(crate) gradient_norm: f64,
    pub(super) locals: LocalMove,
}

/// What moves the silo's own parameters.
#[derive(Debug)]
pub(crate) struct LocalMove {
    pub(super) rows: StepRows,
    pub(super) gradients: Vec<Vec<Vec<f64>>>,
    pub(super) weights: DrawWeights,
    pub(super) private: Vec<f64>,
}

/// A draw of the objective, with what reaches the parameters of the global family and θ.
#[derive(Debug, Default)]
pub(super) struct Drawn<T = f64> {
    pub(super) elbo: f64,
    pub(super) noise: Vec<T>,
    /// $`Z_G - \mu_G`$, where it was kept.
    pub(super) deviation: Vec<T>,
    pub(super) grad_mean: Vec<T>,
    /// What reaches $`Z_G - \mu_G`$, where it differs from `grad_mean`: most models have no other, and many globals.
    pub(super) grad_offset: Option<Vec<T>>,
    /// The gradient by the variances of linear layers under local reparameterisation.
    pub(super) variance: Vec<T>,
    pub(super) theta: Vec<f64>,
    /// Whether the entropy of the global posterior is part of it, where the estimator adds its gradient apart.
    pub(super) has_entropy: bool,
}

impl Drawn {
    /// A term at a draw with this noise.
    pub(super) fn of(term: ElboTerm, noise: Vec<f64>) -> Self {
        let ElboTerm { elbo, grad_mean, grad_offset, theta, variance } = term;
        Self { elbo, grad_mean, grad_offset: Some(grad_offset), theta, variance, noise, ..Self::default() }
    }
}

impl Silo {
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
        let (mut elbo_terms, gradients) = self.step_terms(globals, &mut rows, draw)?;
        self.check(&elbo_terms, step)?;
        let private = self.locals.take_private(&mut elbo_terms);
        for gradient in &gradients {
            self.check_local(gradient, step)?;
        }
        let likelihood = crate::engine::moments::mean_and_variance(
            &elbo_terms.iter().map(|elbo_term| elbo_term.elbo).collect::<Vec<_>>(),
        )
        .0;
        let diverged = self.diverged(globals, prior)?;
        let (mut draws, joined) = match (&diverged, elbo_terms.len() < count) {
            (Some(_), _) => {
                let own = elbo_terms.into_iter().zip(0..);
                (
                    own.map(|(elbo_term, particle)| self.without_prior(elbo_term, draw, particle)).collect::<Vec<_>>(),
                    None,
                )
            }
            (None, false) => (self.with_prior(elbo_terms.into_iter().map(Some), globals, draw, prior)?, None),
            // The one share of all particles is that of each draw of the prior.
            (None, true) => {
                let joined = elbo_terms.pop().map(|elbo_term| self.without_prior(elbo_term, draw, 0));
                (self.with_prior((0..count).map(|_| None), globals, draw, prior)?, joined)
            }
        };
        // What has no gradient by θ gives zeros; of the prior's, what is private stays out.
        draws.iter_mut().for_each(|own| own.theta.resize(theta_len, 0.0));
        let (mut weights, mut gradient) = self.weighed(globals, &draws, joined.as_ref(), theta_len, Vec::new())?;
        if let Some(Diverged { value, gradient: by_moments }) = diverged {
            weights.bound -= value;
            self.family.vjp_moments(globals, &by_moments, &mut gradient[..globals.len()]);
        }
        let gradient_norm = self.check_globals(step, &gradient)?;
        // The one share of all particles is their mean already.
        let private = match private.len() < count {
            true => DrawWeights::equal(&[likelihood]).theta_descent(private),
            false => weights.theta_descent(private),
        };
        let bound = weights.bound;
        let locals = LocalMove { rows, gradients, weights, private };
        Ok(LocalObjective { bound, likelihood, gradient, gradient_norm, locals })
    }

    /// The terms of a local step: noised sums over rows where the silo is private.
    fn step_terms(&mut self, globals: &[f64], rows: &mut StepRows, draw: Draws) -> Result<TermsAndLocal> {
        let Some(mut noised) = self.noised.take() else {
            let local = LocalGradients::of_step(self.settings.estimator);
            let found = self.elbo_terms(globals, rows, draw, local)?.into_iter();
            return Ok(found.map(|own| (own.found, own.by_local)).unzip());
        };
        let found = self.noised_terms(&mut noised, globals, draw);
        self.noised = Some(noised);
        found
    }

    /// What draws weigh, and the gradient of the negative bound by the parameters of the global family, then by θ of
    /// this length, in the memory of an earlier one; `joined` is what all draws have in common.
    pub(super) fn weighed<T: DrawNumber>(
        &self,
        globals: &[f64],
        draws: &[Drawn<T>],
        joined: Option<&Drawn<T>>,
        theta_len: usize,
        memory: Vec<f64>,
    ) -> Result<(DrawWeights, Vec<f64>)> {
        let common = joined.map_or(0.0, |joined| joined.elbo);
        let elbos: Vec<f64> = draws.iter().map(|own| own.elbo + common).collect();
        let weights = self.settings.estimator.weigh(&elbos);
        // What is there of an earlier one is written over.
        let mut gradient = memory;
        gradient.resize(globals.len() + theta_len, 0.0);
        gradient[globals.len()..].fill(0.0);
        let all = draws.iter().zip(weights.family.iter().zip(&weights.theta));
        let all = all.map(|(own, (family, theta))| (own, [family, theta].map(|factor| -weights.share * factor)));
        for (index, (own, factors)) in all.chain(joined.map(|joined| (joined, [-1.0, -1.0]))).enumerate() {
            self.add_gradient(globals, own, factors, index == 0, &mut gradient)?;
        }
        Ok((weights, gradient))
    }

    /// Adds the gradients of a draw by the parameters of the global family and by θ, each times its factor; the first is written in
    /// place of what is there for the family.
    fn add_gradient<T: DrawNumber>(
        &self,
        globals: &[f64],
        own: &Drawn<T>,
        [family, theta]: [f64; 2],
        is_first: bool,
        out: &mut [f64],
    ) -> Result<()> {
        let (by_global, by_theta) = out.split_at_mut(globals.len());
        let gradient = DrawGradient {
            grad_mean: &own.grad_mean,
            grad_offset: own.grad_offset.as_ref().unwrap_or(&own.grad_mean),
            factor: family,
            with_entropy: own.has_entropy && self.settings.estimator.adds_entropy_gradient(),
            by_variance: &own.variance,
            deviation: &own.deviation,
            is_first,
        };
        add_scaled(&mut by_theta[..own.theta.len()], theta, &own.theta);
        T::add_gradient(&*self.family, globals, &own.noise, gradient, by_global)
    }

    /// The norm of a gradient by the parameters of the global family and θ; refuses one by which they could not move.
    pub(super) fn check_globals(&self, step: u64, gradient: &[f64]) -> Result<f64> {
        let site = |index: usize| describe_global(&self.table, index % self.family.len().max(1));
        movable(&self.name, step, self.settings.clip, site, gradient)
    }

    /// Refuses a gradient by private θ by which it could not move.
    pub(super) fn check_private(&self, step: u64, gradient: &[f64]) -> Result<()> {
        let quantity = |index: usize| format!("the gradient by private θ[{index}]");
        movable(&self.name, step, self.settings.clip, quantity, gradient).map(drop)
    }

    /// A share alone.
    fn without_prior(&self, elbo_term: ElboTerm, draw: Draws, particle: u32) -> Drawn {
        // Layers under local reparameterisation have no draw: then nothing is multiplied by its noise.
        let noise = match elbo_term.grad_offset.iter().any(|number| *number != 0.0) {
            true => draw.global_noise(&*self.family, &self.settings, particle),
            false => vec![0.0; self.family.noise_len()],
        };
        Drawn::of(elbo_term, noise)
    }

    /// Draws of the prior, each with its particle's share where it has one of its own.
    fn with_prior(
        &self,
        elbo_terms: impl Iterator<Item = Option<ElboTerm>>,
        globals: &[f64],
        draw: Draws,
        prior: GlobalPrior<'_>,
    ) -> Result<Vec<Drawn>> {
        let drawn = elbo_terms.zip(0_u32..).map(|(elbo_term, particle)| {
            let noise = draw.global_noise(&*self.family, &self.settings, particle);
            let global = self.settings.estimator.draw(&*self.family, globals, &noise);
            let prior = self.prior_at(prior, &global.latent)?;
            let mut own = self.settings.estimator.global_elbo_term(prior, &*self.family, globals, &global);
            if let Some(elbo_term) = elbo_term {
                own.take(elbo_term);
            }
            Ok(Drawn { has_entropy: true, deviation: global.deviation, ..Drawn::of(own, noise) })
        });
        drawn.collect()
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
                let mut own = LogDensity::new(&self.workers[0].model, &self.device, &self.table).global(latent)?;
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
        let moments = (self.family.mean(globals), self.family.covariance_matrix(globals));
        divergence.evaluate_at(natural, &moments.0, &moments.1, cavity).map(Some)
    }
}
