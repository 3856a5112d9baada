//! Evaluates the whole bound where one party has all data: prior, likelihood and locals in one pass of the tape.

use partita_core::{AnyModel, Key, Latents, Purpose};

use crate::engine::algorithm::finite;
use crate::engine::error::Result;
use crate::engine::estimator::{ElboTerm, Estimator, LayerMoments, add, draw_blocks, particles_join, with_latents};
use crate::engine::family::FamilyDraw;
use crate::engine::terms::Silo;
use crate::engine::terms::objective::{Drawn, LocalMove, LocalObjective};
use crate::engine::terms::particles::{
    AllEvaluated, Context, Draws, Evaluated, LocalGradients, Worker, number, spread,
};
use crate::engine::terms::silo::{fill_noise, global_key};

/// Numbers of a draw from which on its noise is made ahead.
const AHEAD: usize = 16_384;

/// Noise made ahead of its draw, which depends on its key alone: a run is the same without it.
///
/// It keeps the long vectors of a draw for the next one, so that the kernel need not clear new pages for them.
#[derive(Debug, Default)]
pub(crate) struct NoiseAhead {
    made: Option<(Key, Vec<f64>)>,
    /// Noise of draws that are done with.
    spare: Vec<Vec<f64>>,
    drawn: FamilyDraw,
    /// A gradient that is done with.
    gradient: Vec<f64>,
}

impl NoiseAhead {
    /// Evaluates a draw while another thread, if there is one, makes the noise of the draw after it.
    fn during<T>(
        &mut self,
        key: Key,
        next: Key,
        fill: impl Fn(Key, &mut Vec<f64>) + Sync,
        evaluate: impl FnOnce(&mut FamilyDraw, Vec<f64>) -> T,
    ) -> T {
        let noise = match self.made.take() {
            Some((known, noise)) if known == key => noise,
            _ => {
                let mut noise = self.spare.pop().unwrap_or_default();
                fill(key, &mut noise);
                noise
            }
        };
        let mut later = self.spare.pop().unwrap_or_default();
        let drawn = &mut self.drawn;
        let evaluated = rayon::in_place_scope(|scope| {
            scope.spawn(|_| fill(next, &mut later));
            evaluate(drawn, noise)
        });
        self.made = Some((next, later));
        evaluated
    }

    /// Keeps the memory of draws that are done with, as much of it as is needed at once.
    fn keep(&mut self, mut draws: Vec<Drawn>) {
        if let Some(last) = draws.last_mut().filter(|last| last.deviation.len() >= AHEAD) {
            self.drawn.deviation = std::mem::take(&mut last.deviation);
        }
        let noise = draws.into_iter().map(|own| own.noise).filter(|noise| noise.len() >= AHEAD);
        self.spare.extend(noise.take(2_usize.saturating_sub(self.spare.len())));
    }

    /// Keeps the gradient of an objective that is done with.
    pub(crate) fn keep_gradient(&mut self, gradient: Vec<f64>) {
        if gradient.len() >= AHEAD {
            self.gradient = gradient;
        }
    }
}

impl Context<'_> {
    /// The share of the globals at a draw: their prior and their posterior.
    pub(super) fn prior(&self, Worker { model, .. }: &Worker, global: &FamilyDraw) -> Result<ElboTerm> {
        let prior = self.density(model, 1.0).global(&global.latent)?;
        Ok(self.settings.estimator.global_elbo_term(prior, self.family, self.globals, global))
    }

    /// The whole bound where layers hold all globals and no row has a latent: the prior alone reads the draw.
    pub(super) fn of_layers(
        &self,
        Worker { model, data }: &Worker,
        layers: &LayerMoments<'_>,
        particle: u32,
        noise: &[f64],
        global: &mut FamilyDraw,
    ) -> Result<Drawn> {
        let estimator = self.settings.estimator;
        let prior_at = |model: &AnyModel, global: &mut FamilyDraw| -> Result<_> {
            estimator.draw_into(self.family, self.globals, noise, global);
            let prior = self.density(model, 1.0).global(&global.latent)?;
            Ok(estimator.global_terms(prior, self.family, self.globals, global))
        };
        let moments = self.locals.layer_moments(layers, self.key(particle));
        let locals = vec![Vec::new(); self.table.blocks().len()];
        let share = || {
            let latents = Latents { globals: moments.means, locals: &locals };
            self.density(model, self.draw.weight).moments(moments).local(latents, data)
        };
        let (prior, own) = if noise.len() < AHEAD {
            (prior_at(model, global), share())
        } else {
            // An idle thread draws and evaluates the prior of many weights meanwhile.
            let (mut prior, alone) = (None, model.clone());
            let (slot, prior_at) = (&mut prior, &prior_at);
            let own = rayon::in_place_scope(|scope| {
                scope.spawn(move |_| *slot = Some(prior_at(&alone, global)));
                share()
            });
            (prior.unwrap_or_else(|| unreachable!("invariant: a scope ends after its tasks")), own)
        };
        let ((elbo, grad_offset, mut theta), own) = (prior?, own?);
        let mut grad_mean = own.means;
        add(&mut grad_mean, &grad_offset);
        theta.resize(theta.len().max(own.theta.len()), 0.0);
        add(&mut theta[..own.theta.len()], &own.theta);
        let (elbo, grad_offset, variance) = (elbo + own.value, Some(grad_offset), own.variances);
        Ok(Drawn { elbo, grad_mean, grad_offset, variance, theta, ..Drawn::default() })
    }

    /// The whole bound at a draw of the globals.
    fn whole(&self, worker: &Worker, global: &FamilyDraw, particle: u32) -> Result<Evaluated<Drawn>> {
        let estimator = self.settings.estimator;
        if self.layers.is_some() || matches!(estimator, Estimator::LocallyEnhanced { .. }) {
            let mut found = self.prior(worker, global)?;
            let Evaluated { found: elbo_term, by_local } = self.elbo_term(worker, global, particle)?;
            found.take(elbo_term);
            return Ok(Evaluated { found: Drawn::of(found, Vec::new()), by_local });
        }
        let noise = self.locals.noise(self.rows, self.key(particle));
        let blocks = self.locals.draws(self.rows, &noise);
        let mut draws = draw_blocks(&blocks, &global.deviation);
        let Worker { model, data } = worker;
        let mut joint = with_latents(&mut draws, |locals| {
            self.density(model, 1.0).joint(Latents { globals: &global.latent, locals }, data)
        })?;
        let (by_draws, mut by_local) = (std::mem::take(&mut joint.locals), self.locals.zeros(self.rows));
        let (elbo, mut grad_mean, theta) = estimator.global_terms(joint, self.family, self.globals, global);
        let through = estimator.through_locals(&global.deviation, &blocks, &draws, by_draws, &mut by_local);
        let grad_offset = (!through.path.is_empty()).then(|| {
            add(&mut grad_mean, &through.direct);
            let mut grad_offset = grad_mean.clone();
            add(&mut grad_offset, &through.path);
            grad_offset
        });
        let elbo = elbo + through.elbo;
        Ok(Evaluated { found: Drawn { elbo, grad_mean, grad_offset, theta, ..Drawn::default() }, by_local })
    }

    /// The whole bound at every draw of a step; without the likelihood of particles that share it.
    fn wholes(&self, workers: &mut [Worker], is_joined: bool, ahead: &mut NoiseAhead) -> Result<Vec<Evaluated<Drawn>>> {
        let layers = self.layers.as_ref().filter(|_| particles_join(self.table));
        let whole = |worker: &Worker, particle: u32, global: &mut FamilyDraw, noise: Vec<f64>| {
            let draw = |global: &mut FamilyDraw| {
                self.settings.estimator.draw_into(self.family, self.globals, &noise, global);
            };
            let of_globals = |found| Evaluated { found, by_local: self.locals.zeros(self.rows) };
            let mut whole = match (layers, is_joined) {
                (_, true) => {
                    draw(global);
                    of_globals(Drawn::of(self.prior(worker, global)?, Vec::new()))
                }
                (Some(layers), false) => of_globals(self.of_layers(worker, layers, particle, &noise, global)?),
                (None, false) => {
                    draw(global);
                    let mut whole = self.whole(worker, global, particle)?;
                    whole.found.deviation = std::mem::take(&mut global.deviation);
                    whole
                }
            };
            (whole.found.noise, whole.found.has_entropy) = (noise, true);
            Ok(whole)
        };
        if is_joined || self.family.noise_len() < AHEAD {
            let local = LocalGradients::of_step(self.settings.estimator);
            return self.draws(workers, local, |worker, particle| {
                whole(worker, particle, &mut FamilyDraw::default(), self.global_noise(particle))
            });
        }
        // Tapes of large models wait for each other: their operations take the threads, and the noise of the next draw.
        let key = |step, particle| global_key(self.draw.purpose, step, self.draw.owner).particle(particle);
        let step = self.draw.step;
        let draws = (0..number(self.draw.count)).map(|particle| {
            let is_last = particle + 1 == number(self.draw.count);
            let next = if is_last { key(step + 1, 0) } else { key(step, particle + 1) };
            let fill = |key, noise: &mut Vec<f64>| fill_noise(self.family, self.settings, key, noise);
            let evaluate = |global: &mut FamilyDraw, noise| whole(&workers[0], particle, global, noise);
            ahead.during(key(step, particle), next, fill, evaluate)
        });
        draws.collect()
    }
}

impl Silo {
    /// The bound of all data with the model's prior, averaged over the draws of a step; moves nothing.
    pub(crate) fn joint_objective(
        &mut self,
        globals: &[f64],
        step: u64,
        ahead: &mut NoiseAhead,
    ) -> Result<LocalObjective> {
        let draw = Draws { may_join: true, ..Draws::shared(Purpose::Fit, step, self.settings.particles) };
        let (mut rows, mut joined) = (self.locals.rows(step), None);
        let AllEvaluated { draws: found, by_theta } = self.evaluate(globals, &mut rows, draw, |context, workers| {
            joined = context.joined(workers)?;
            context.wholes(workers, joined.is_some(), ahead)
        })?;
        let (mut draws, gradients): (Vec<_>, Vec<_>) = found.into_iter().map(|own| (own.found, own.by_local)).unzip();
        if let (Some(theta), Some(first)) = (by_theta, draws.first_mut()) {
            add(&mut first.theta, &theta);
        }
        gradients.iter().try_for_each(|gradient| self.check_local(gradient, step))?;
        // Nothing of it passes through a draw of the globals.
        let joined = joined.map(|likelihood| Drawn::of(likelihood, vec![0.0; self.family.noise_len()]));
        let private = self.locals.private_theta().len();
        let memory = std::mem::take(&mut ahead.gradient);
        let (weights, mut gradient) =
            self.weighed(globals, &draws, joined.as_ref(), self.theta_len + private, memory)?;
        ahead.keep(draws);
        finite(&self.name, step, |_| "the bound".into(), &[weights.bound])?;
        let private = gradient.split_off(globals.len() + self.theta_len);
        let gradient_norm = self.check_globals(step, &gradient)?;
        self.check_private(step, &private)?;
        let bound = weights.bound;
        let locals = LocalMove { rows, gradients, weights, private };
        Ok(LocalObjective { bound, likelihood: bound, gradient, gradient_norm, locals })
    }

    /// The bounds of report draws on all rows, with the model's prior; moves nothing.
    pub(crate) fn joint_bounds(&mut self, globals: &[f64], first: u64, count: usize) -> Result<Vec<f64>> {
        let mut bounds = vec![0.0; count];
        for mut rows in self.locals.all_rows() {
            let draw = Draws::shared(Purpose::Report, first, count);
            let AllEvaluated { draws: found, .. } = self.evaluate(globals, &mut rows, draw, |context, workers| {
                spread(workers, count, |worker, particle| {
                    let noise = context.global_noise(number(particle));
                    let global = context.settings.estimator.draw(context.family, globals, &noise);
                    let found = context.whole(worker, &global, number(particle))?.found.elbo;
                    Ok(Evaluated { found, by_local: Vec::new() })
                })
            })?;
            bounds.iter_mut().zip(found).for_each(|(sum, own)| *sum += rows.share() * own.found);
        }
        finite(&self.name, self.step, |_| "the bound".into(), &bounds)?;
        Ok(bounds)
    }
}
