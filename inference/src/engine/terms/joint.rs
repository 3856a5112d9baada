//! Evaluates the whole bound where one party has all data: prior, likelihood and locals in one pass of the tape.

use partita_core::{AnyModel, Key, Latents, Precision, Purpose};

use crate::engine::algorithm::finite;
use crate::engine::error::Result;
use crate::engine::estimator::{
    ElboTerm, Estimator, LayerMoments, LayerNumber, add, draw_blocks, particles_join, with_latents,
};
use crate::engine::family::{DrawNumber, FamilyDraw};
use crate::engine::terms::Silo;
use crate::engine::terms::objective::{Drawn, LocalMove, LocalObjective};
use crate::engine::terms::particles::{
    AllEvaluated, Context, Draws, Evaluated, LocalGradients, Worker, number, spread,
};
use crate::engine::terms::silo::{fill_noise, global_key};

/// Numbers of a draw from which on its noise is made ahead.
const AHEAD: usize = 16_384;

/// What pooled steps keep of one another: noise made ahead in either precision, and memory.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    double: NoiseAhead<f64>,
    single: NoiseAhead<f32>,
    /// A gradient that is done with.
    gradient: Vec<f64>,
}

impl Ahead {
    /// Keeps the gradient of an objective that is done with.
    pub(crate) fn keep_gradient(&mut self, gradient: Vec<f64>) {
        if gradient.len() >= AHEAD {
            self.gradient = gradient;
        }
    }
}

/// Noise made ahead of its draw, which depends on its key alone: a run is the same without it.
///
/// It keeps the long vectors of a draw for the next one, so that the kernel need not clear new pages for them.
#[derive(Debug, Default)]
struct NoiseAhead<T> {
    made: Option<(Key, Vec<T>)>,
    /// Noise of draws that are done with.
    spare: Vec<Vec<T>>,
    drawn: FamilyDraw<T>,
}

impl<T: DrawNumber> NoiseAhead<T> {
    /// Evaluates a draw while another thread, if there is one, makes the noise of the draw after it.
    fn during<F>(
        &mut self,
        key: Key,
        next: Key,
        fill: impl Fn(Key, &mut Vec<T>) + Sync,
        evaluate: impl FnOnce(&mut FamilyDraw<T>, Vec<T>) -> F,
    ) -> F {
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
    fn keep(&mut self, mut draws: Vec<Drawn<T>>) {
        if let Some(last) = draws.last_mut().filter(|last| last.deviation.len() >= AHEAD) {
            self.drawn.deviation = std::mem::take(&mut last.deviation);
        }
        let noise = draws.into_iter().map(|own| own.noise).filter(|noise| noise.len() >= AHEAD);
        self.spare.extend(noise.take(2_usize.saturating_sub(self.spare.len())));
    }
}

/// What the draws of a step have in common, and what each finds.
type JoinedAndDraws<T> = (Option<Drawn<T>>, Vec<Evaluated<Drawn<T>>>);

impl Context<'_> {
    /// The share of the globals at a draw: their prior and their posterior.
    pub(super) fn prior(&self, Worker { model, .. }: &Worker, global: &FamilyDraw) -> Result<ElboTerm> {
        let prior = self.density(model, 1.0).global(&global.latent)?;
        Ok(self.settings.estimator.global_elbo_term(prior, self.family, self.globals, global))
    }

    /// The whole bound where layers hold all globals and no row has a latent: the prior alone reads the draw.
    pub(super) fn of_layers<T: LayerNumber>(
        &self,
        Worker { model, data }: &Worker,
        layers: &LayerMoments<'_>,
        particle: u32,
        noise: &[T],
        global: &mut FamilyDraw<T>,
    ) -> Result<Drawn<T>> {
        let estimator = self.settings.estimator;
        let prior_at = |model: &AnyModel, global: &mut FamilyDraw<T>| -> Result<_> {
            estimator.draw_into(self.family, self.globals, noise, global);
            let prior = self.density(model, 1.0).global_of(&global.latent)?;
            Ok(estimator.global_terms(prior, self.family, self.globals, global))
        };
        let moments = self.locals.layer_moments::<T>(layers, self.key(particle));
        let locals = vec![Vec::new(); self.table.blocks().len()];
        let share = || {
            let latents = Latents { globals: moments.means, locals: &locals };
            self.density(model, self.draw.weight).moments(moments).local_of(latents, data)
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

    /// Whether no row has a latent, and layers, where they are integrated, hold all globals.
    fn is_of_globals(&self) -> bool {
        let is_whole = self.layers.is_none() || particles_join(self.table);
        is_whole
            && !self.table.has_local_latents()
            && !matches!(self.settings.estimator, Estimator::LocallyEnhanced { .. })
    }

    /// The whole bound at the draw of this noise where [`Context::is_of_globals`].
    fn of_globals<T: LayerNumber>(
        &self,
        worker: &Worker,
        particle: u32,
        global: &mut FamilyDraw<T>,
        noise: Vec<T>,
    ) -> Result<Evaluated<Drawn<T>>> {
        let mut found = if let Some(layers) = &self.layers {
            self.of_layers(worker, layers, particle, &noise, global)?
        } else {
            let (estimator, Worker { model, data }) = (self.settings.estimator, worker);
            estimator.draw_into(self.family, self.globals, &noise, global);
            let locals = vec![Vec::new(); self.table.blocks().len()];
            let joint =
                self.density(model, 1.0).joint_of(Latents { globals: &global.latent, locals: &locals }, data)?;
            let (elbo, grad_mean, theta) = estimator.global_terms(joint, self.family, self.globals, global);
            Drawn { elbo, grad_mean, theta, deviation: std::mem::take(&mut global.deviation), ..Drawn::default() }
        };
        (found.noise, found.has_entropy) = (noise, true);
        Ok(Evaluated { found, by_local: self.locals.zeros(self.rows) })
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
    fn wholes(
        &self,
        workers: &mut [Worker],
        is_joined: bool,
        ahead: &mut NoiseAhead<f64>,
    ) -> Result<Vec<Evaluated<Drawn>>> {
        let is_of_globals = !is_joined && self.is_of_globals();
        let whole = |worker: &Worker, particle: u32, global: &mut FamilyDraw, noise: Vec<f64>| {
            if is_of_globals {
                return self.of_globals(worker, particle, global, noise);
            }
            self.settings.estimator.draw_into(self.family, self.globals, &noise, global);
            let mut whole = if is_joined {
                let found = Drawn::of(self.prior(worker, global)?, Vec::new());
                Evaluated { found, by_local: self.locals.zeros(self.rows) }
            } else {
                let mut whole = self.whole(worker, global, particle)?;
                whole.found.deviation = std::mem::take(&mut global.deviation);
                whole
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
        self.one_by_one(ahead, |particle, global, noise| whole(&workers[0], particle, global, noise))
    }

    /// What `evaluate` gives of every draw of a step, in order, with the noise of the next made meanwhile.
    ///
    /// Tapes of large models wait for each other: their operations take the threads, and the noise of the next draw.
    fn one_by_one<T: DrawNumber>(
        &self,
        ahead: &mut NoiseAhead<T>,
        evaluate: impl Fn(u32, &mut FamilyDraw<T>, Vec<T>) -> Result<Evaluated<Drawn<T>>>,
    ) -> Result<Vec<Evaluated<Drawn<T>>>> {
        let key = |step, particle| global_key(self.draw.purpose, step, self.draw.owner).particle(particle);
        let step = self.draw.step;
        let draws = (0..number(self.draw.count)).map(|particle| {
            let is_last = particle + 1 == number(self.draw.count);
            let next = if is_last { key(step + 1, 0) } else { key(step, particle + 1) };
            let fill = |key, noise: &mut Vec<T>| fill_noise(self.family, self.settings, key, noise);
            ahead.during(key(step, particle), next, fill, |global, noise| evaluate(particle, global, noise))
        });
        draws.collect()
    }
}

impl Silo {
    /// The bound of all data with the model's prior, averaged over the draws of a step; moves nothing.
    pub(crate) fn joint_objective(&mut self, globals: &[f64], step: u64, ahead: &mut Ahead) -> Result<LocalObjective> {
        let memory = std::mem::take(&mut ahead.gradient);
        if self.draws_in_single() {
            let single = &mut ahead.single;
            return self.objective_of(globals, step, single, memory, |context, workers, ahead| {
                let found = context.one_by_one(ahead, |particle, global, noise| {
                    context.of_globals(&workers[0], particle, global, noise)
                });
                Ok((None, found?))
            });
        }
        self.objective_of(globals, step, &mut ahead.double, memory, |context, workers, ahead| {
            let joined = context.joined(workers)?;
            let found = context.wholes(workers, joined.is_some(), ahead)?;
            // Nothing of what is joined passes through a draw of the globals.
            let noise = || vec![0.0; context.family.noise_len()];
            Ok((joined.map(|likelihood| Drawn::of(likelihood, noise())), found))
        })
    }

    /// Whether draws of the globals are in single precision from their noise to their gradient: where tensors are, and
    /// many independent globals are alone.
    fn draws_in_single(&self) -> bool {
        let Silo { settings, table, family, .. } = self;
        let is_known = match settings.estimator {
            Estimator::StickingTheLanding | Estimator::Total | Estimator::ClosedFormEntropy => true,
            Estimator::LocalReparameterisation => settings.particles == 1 && particles_join(table),
            _ => false,
        };
        let is_long = family.noise_len() >= AHEAD && family.diagonal().is_some();
        is_known && is_long && self.device.precision() == Precision::Single && !table.has_local_latents()
    }

    /// The objective of draws that `evaluate` finds, beside what they have in common, in the memory of an earlier gradient.
    fn objective_of<T: DrawNumber>(
        &mut self,
        globals: &[f64],
        step: u64,
        ahead: &mut NoiseAhead<T>,
        memory: Vec<f64>,
        evaluate: impl FnOnce(&Context<'_>, &mut [Worker], &mut NoiseAhead<T>) -> Result<JoinedAndDraws<T>>,
    ) -> Result<LocalObjective> {
        let draw = Draws { may_join: true, ..Draws::shared(Purpose::Fit, step, self.settings.particles) };
        let (mut rows, mut joined) = (self.locals.rows(step), None);
        let AllEvaluated { draws: found, by_theta } = self.evaluate(globals, &mut rows, draw, |context, workers| {
            let (common, found) = evaluate(context, workers, ahead)?;
            joined = common;
            Ok(found)
        })?;
        let (mut draws, gradients): (Vec<_>, Vec<_>) = found.into_iter().map(|own| (own.found, own.by_local)).unzip();
        if let (Some(theta), Some(first)) = (by_theta, draws.first_mut()) {
            add(&mut first.theta, &theta);
        }
        gradients.iter().try_for_each(|gradient| self.check_local(gradient, step))?;
        let private = self.locals.private_theta().len();
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use partita_core::burn::module::Module;
    use partita_core::burn::tensor::Tensor;
    use partita_core::{BayesianLinear, Device, Model, Noise, NoiseStream, Normal, Scope};

    use super::*;
    use crate::engine::family::{FamilyPlan, Gaussian};
    use crate::engine::settings::Settings;

    #[derive(Module, Debug)]
    struct Layer {
        #[module(skip)]
        layer: BayesianLinear,
    }

    impl Model for Layer {
        type Globals = BayesianLinear;
        type Data = Tensor<2>;
        fn global(&self, scope: &mut Scope<'_>) -> partita_core::Result<BayesianLinear> {
            scope.linear("layer", &self.layer, Normal::new(0.1, 0.8))
        }
        fn local(&self, scope: &mut Scope<'_>, layer: &BayesianLinear, x: &Tensor<2>) -> partita_core::Result<()> {
            scope.plate("row", x.dims()[0], |scope, rows| {
                let x = rows.take(x)?;
                scope.observe("y", Normal::new(layer.forward(x.clone()).tanh(), 1.0), x.repeat_dim(1, 4))
            })
        }
    }

    fn stream(block: u32) -> NoiseStream {
        Noise::new(5).stream(Key::new(Purpose::Check, 0).block(block))
    }

    /// A silo of ten rows, with a layer of 16,640 weights.
    fn silo(estimator: Estimator, particles: usize, precision: Precision) -> Silo {
        let device = Device::flex().with_precision(precision);
        let layer = BayesianLinear::rectified([64, 256], &mut stream(0), &device);
        let mut x = vec![0.0; 640];
        stream(1).normal(&mut x);
        let settings = Settings {
            particles,
            estimator,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            minibatch: if estimator.weighs_draws() { BTreeMap::new() } else { [("row".to_owned(), 4)].into() },
            ..Settings::default()
        };
        Silo::new("a", 0, &Layer { layer }, &device.tensor(x, [10, 64]), &device, &settings).unwrap()
    }

    fn in_double(silo: &mut Silo, globals: &[f64]) -> LocalObjective {
        let ahead = &mut NoiseAhead::default();
        let found = silo.objective_of(globals, 3, ahead, Vec::new(), |context, workers, ahead| {
            Ok((None, context.wholes(workers, false, ahead)?))
        });
        found.unwrap()
    }

    #[test]
    fn draws_in_single_precision_have_the_objective_of_double_precision() {
        for (estimator, particles) in [
            (Estimator::StickingTheLanding, 2),
            (Estimator::Total, 1),
            (Estimator::ClosedFormEntropy, 2),
            (Estimator::LocalReparameterisation, 1),
        ] {
            let mut silo = silo(estimator, particles, Precision::Single);
            assert!(silo.draws_in_single());
            let globals = silo.settings.family.start(&*silo.family, &silo.table);
            let mut ahead = Ahead::default();
            let single = silo.joint_objective(&globals, 3, &mut ahead).unwrap();
            assert!(ahead.single.made.is_some() && ahead.double.made.is_none());
            let double = in_double(&mut silo, &globals);
            // Sums over 1,024 outcomes and 16,640 weights, of which each is rounded by some 1e-7.
            assert!((single.bound / double.bound - 1.0).abs() < 1e-6, "{} {}", single.bound, double.bound);
            let size = double.gradient.iter().fold(0.0, |size: f64, own| size.max(own.abs()));
            for (index, (own, other)) in single.gradient.iter().zip(&double.gradient).enumerate() {
                assert!((own - other).abs() < 2e-6 * size, "{estimator:?} {index}: {own} {other}");
            }
            // Neither the number of threads nor memory and noise of the step before change a bit.
            ahead.keep_gradient(single.gradient.clone());
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let again = pool.install(|| silo.joint_objective(&globals, 3, &mut ahead)).unwrap();
                assert!(again.gradient == single.gradient && again.bound.to_bits() == single.bound.to_bits());
            }
        }
    }

    #[test]
    fn draws_that_are_joined_or_weighed_or_of_double_precision_are_in_double_precision() {
        let importance = Estimator::ImportanceWeighted { gradient: crate::ImportanceGradient::Total };
        for (estimator, particles, precision) in [
            (Estimator::ClosedFormEntropy, 1, Precision::Double),
            (Estimator::LocalReparameterisation, 2, Precision::Single),
            (importance, 2, Precision::Single),
        ] {
            assert!(!silo(estimator, particles, precision).draws_in_single(), "{estimator:?}");
        }
    }
}
