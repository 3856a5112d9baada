//! Evaluates the particles of a silo's share, on as many threads as there are copies of the model.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use partita_core::{
    AnyData, AnyModel, Device, Key, LogDensity, Part, Precision, Purpose, SiteTable, at_work, keep_awake,
};
use rayon::prelude::*;

use crate::engine::error::Result;
use crate::engine::estimator::{
    ElboTerm, Estimator, LayerMoments, Repeats, add, enhanced_elbo_term, particles_join, tapes,
};
use crate::engine::family::{Family, FamilyDraw};
use crate::engine::rows::{Locals, StepRows};
use crate::engine::settings::Settings;
use crate::engine::terms::silo::{global_key, noise_of};

/// All draws of a step, with the gradient by θ that encoders pull back for it.
#[derive(Debug)]
pub(crate) struct AllEvaluated<T> {
    pub(crate) draws: Vec<Evaluated<T>>,
    pub(crate) by_theta: Option<Vec<f64>>,
}

/// Which draws are made, and how the local part weighs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws {
    pub(crate) purpose: Purpose,
    pub(crate) step: u64,
    pub(crate) count: usize,
    /// Whose global noise it is: all parties' or, in local steps, the silo's own.
    pub(crate) owner: u32,
    /// What the local log density is multiplied by.
    pub(crate) weight: f64,
    /// What the entropy of the local posterior is multiplied by.
    pub(crate) entropy_weight: f64,
    /// Whether particles may be evaluated on one tape and give one share together, where nothing tells them apart.
    pub(crate) may_join: bool,
}

impl Draws {
    /// Draws with the noise all parties share.
    pub(crate) fn shared(purpose: Purpose, step: u64, count: usize) -> Self {
        Self { purpose, step, count, owner: Key::COORDINATOR, weight: 1.0, entropy_weight: 1.0, may_join: false }
    }

    /// The global noise of a particle: every party makes the same of the owner's, from seed and key.
    pub(crate) fn global_noise(&self, family: &dyn Family, settings: &Settings, particle: u32) -> Vec<f64> {
        noise_of(family, settings, global_key(self.purpose, self.step, self.owner).particle(particle))
    }
}

/// What the evaluation of a particle reads, shared by threads.
pub(crate) struct Context<'a> {
    pub(crate) device: &'a Device,
    pub(crate) settings: &'a Settings,
    pub(crate) table: &'a SiteTable,
    pub(crate) family: &'a dyn Family,
    pub(crate) locals: &'a Locals,
    pub(crate) globals: &'a [f64],
    pub(crate) rows: &'a StepRows,
    pub(crate) draw: Draws,
    /// What linear layers read under local reparameterisation.
    pub(crate) layers: Option<LayerMoments<'a>>,
}

/// A copy of model and data: one thread evaluates particles with each.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) model: AnyModel,
    pub(crate) data: AnyData,
}

/// What is found at a draw, with the gradient by the silo's own parameters, one vector a block.
#[derive(Debug)]
pub(crate) struct Evaluated<T> {
    pub(crate) found: T,
    pub(crate) by_local: Vec<Vec<f64>>,
}

/// Which gradients by the silo's own parameters are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalGradients {
    /// Those of every draw.
    OfDraws,
    /// Sums over groups of draws, for a step whose draws weigh the same: the first draw of a group has the sum, and the
    /// others have none.
    OfGroups,
}

impl LocalGradients {
    /// What a step needs.
    pub(crate) fn of_step(estimator: Estimator) -> Self {
        if estimator.weighs_draws() { Self::OfDraws } else { Self::OfGroups }
    }
}

/// The most draws of a group.
const GROUP: usize = 3;

/// An even number of groups, the larger first: two threads have equal work. They depend on the count alone, and so do the
/// bits of their sums.
fn groups(count: usize) -> Vec<Range<usize>> {
    let groups = count.div_ceil(GROUP).next_multiple_of(2).min(count);
    let start = |group: usize| group * (count / groups) + group.min(count % groups);
    (0..groups).map(|group| start(group)..start(group + 1)).collect()
}

/// Puts a draw into its group.
fn join<T>(group: &mut Vec<Evaluated<T>>, mut draw: Evaluated<T>) {
    if let Some(first) = group.first_mut() {
        let own = std::mem::take(&mut draw.by_local);
        first.by_local.iter_mut().zip(&own).for_each(|(sum, own)| add(sum, own));
    }
    group.push(draw);
}

impl Context<'_> {
    /// The shares of all particles in order, or, where they join, their mean as the only one: with the same bits for
    /// any number of workers.
    pub(crate) fn all(&self, workers: &mut [Worker], local: LocalGradients) -> Result<Vec<Evaluated<ElboTerm>>> {
        if let Some(mean) = self.joined(workers)? {
            return Ok(vec![Evaluated { found: mean, by_local: self.locals.zeros(self.rows) }]);
        }
        self.draws(workers, local, |worker, particle| self.one(worker, particle))
    }

    /// What `evaluate` gives for all draws, in order.
    pub(super) fn draws<T: Send>(
        &self,
        workers: &mut [Worker],
        local: LocalGradients,
        evaluate: impl Fn(&Worker, u32) -> Result<Evaluated<T>> + Sync,
    ) -> Result<Vec<Evaluated<T>>> {
        let (count, groups) = (self.draw.count, groups(self.draw.count));
        // Threads of which some would have a group more than others take draw by draw.
        if local == LocalGradients::OfGroups && groups.len().is_multiple_of(workers.len()) {
            let parts = spread(workers, groups.len(), |worker, group| {
                let mut draws = Vec::with_capacity(GROUP);
                for particle in groups[group].clone() {
                    join(&mut draws, evaluate(worker, number(particle))?);
                }
                Ok(draws)
            })?;
            return Ok(parts.into_iter().flatten().collect());
        }
        let draws = spread(workers, count, |worker, particle| evaluate(worker, number(particle)))?;
        if local == LocalGradients::OfDraws {
            return Ok(draws);
        }
        let (mut draws, mut all) = (draws.into_iter(), Vec::with_capacity(count));
        for group in groups {
            let mut own = Vec::with_capacity(GROUP);
            draws.by_ref().take(group.len()).for_each(|draw| join(&mut own, draw));
            all.append(&mut own);
        }
        Ok(all)
    }

    /// The mean of the ELBO terms of particles that join; `None` where they do not.
    pub(super) fn joined(&self, workers: &mut [Worker]) -> Result<Option<ElboTerm>> {
        let Draws { count, weight, may_join, .. } = self.draw;
        let Some(layers) = self.layers.as_ref().filter(|_| may_join && count > 1 && particles_join(self.table)) else {
            return Ok(None);
        };
        let weight = weight / count as f64;
        let (tapes, means) = (tapes(count), self.family.location(self.globals));
        let parts = spread(workers, tapes.len(), |Worker { model, data }: &Worker, tape| {
            let density = self.with_layers(self.density(model, weight), layers, 0);
            Ok(ElboTerm::of_layers(density.local_sum(&means, data, &tapes[tape])?))
        })?;
        Ok(Some(parts.into_iter().reduce(ElboTerm::plus).unwrap_or_default()))
    }

    /// The log density at the rows of the step, its local part multiplied by `weight`.
    pub(super) fn density<'a>(&'a self, model: &'a AnyModel, weight: f64) -> LogDensity<'a, AnyModel> {
        let density = LogDensity::new(model, self.device, self.table);
        density.minibatch(&self.rows.minibatch).weight(weight).loss(self.settings.loss)
    }

    /// The same with moments of layers, in the precision of tensors where the family has them in it.
    fn with_layers<'a>(
        &'a self,
        density: LogDensity<'a, AnyModel>,
        layers: &'a LayerMoments<'_>,
        particle: u32,
    ) -> LogDensity<'a, AnyModel> {
        let key = self.key(particle);
        if self.device.precision() == Precision::Single && self.family.diagonal().is_some() {
            density.moments(self.locals.layer_moments::<f32>(layers, key))
        } else {
            density.moments(self.locals.layer_moments::<f64>(layers, key))
        }
    }

    /// The key of a particle; whose noise it is, is for its maker to say.
    pub(super) fn key(&self, particle: u32) -> Key {
        Key::new(self.draw.purpose, self.draw.step).particle(particle)
    }

    /// The global noise of a particle.
    pub(super) fn global_noise(&self, particle: u32) -> Vec<f64> {
        self.draw.global_noise(self.family, self.settings, particle)
    }

    fn one(&self, worker: &Worker, particle: u32) -> Result<Evaluated<ElboTerm>> {
        let global = match &self.layers {
            Some(layers) if self.table.latents(Part::Global).all(|site| site.is_layer()) => layers.undrawn(),
            _ => self.settings.estimator.draw(self.family, self.globals, &self.global_noise(particle)),
        };
        self.elbo_term(worker, &global, particle)
    }

    /// The silo's own share of a particle at a draw of the globals.
    pub(super) fn elbo_term(&self, worker: &Worker, global: &FamilyDraw, particle: u32) -> Result<Evaluated<ElboTerm>> {
        let Draws { weight, entropy_weight, .. } = self.draw;
        if let Estimator::LocallyEnhanced { inner } = self.settings.estimator {
            return self.enhanced(worker, global, inner, particle);
        }
        let Worker { model, data } = worker;
        let density = match &self.layers {
            Some(layers) => self.with_layers(self.density(model, weight), layers, particle),
            None => self.density(model, weight),
        };
        let noise = self.locals.noise(self.rows, self.key(particle));
        let mut blocks = self.locals.draws(self.rows, &noise);
        blocks.iter_mut().for_each(|block| block.weight *= entropy_weight);
        let mut by_local = self.locals.zeros(self.rows);
        let found = self.settings.estimator.local_elbo_term(&density, data, global, &blocks, &mut by_local)?;
        Ok(Evaluated { found, by_local })
    }
}

/// The number of a particle.
pub(super) fn number(particle: usize) -> u32 {
    u32::try_from(particle).unwrap_or(u32::MAX)
}

/// What `evaluate` gives for 0 to `count`, in order; every worker takes the next number that none has taken.
///
/// Workers are alike, so that no result depends on which of them found it.
pub(crate) fn spread<W: Send, T: Send>(
    workers: &mut [W],
    count: usize,
    evaluate: impl Fn(&W, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if let [worker] = workers {
        return (0..count).map(|index| evaluate(worker, index)).collect();
    }
    let next = AtomicUsize::new(0);
    let lists: Vec<Vec<(usize, Result<T>)>> = workers
        .par_iter_mut()
        .map(|worker| {
            let taken =
                std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count));
            at_work(|| taken.map(|index| (index, evaluate(worker, index))).collect())
        })
        .collect();
    keep_awake(workers.len() - 1);
    let mut found: Vec<Option<Result<T>>> = (0..count).map(|_| None).collect();
    lists.into_iter().flatten().for_each(|(index, own)| found[index] = Some(own));
    found.into_iter().flatten().collect()
}

impl Context<'_> {
    /// A particle of the locally enhanced bound.
    fn enhanced(
        &self,
        Worker { model, data }: &Worker,
        global: &FamilyDraw,
        inner: usize,
        particle: u32,
    ) -> Result<Evaluated<ElboTerm>> {
        let Draws { weight, .. } = self.draw;
        let rows = self.locals.repeated(self.rows, inner)?;
        let noise = self.locals.repeated_noise(self.rows, &rows, self.key(particle));
        let family = self.locals.family(rows.place);
        let density = LogDensity::new(model, self.device, self.table).minibatch(&rows.minibatch).weight(weight);
        let mut by_repeat = vec![0.0; rows.parameters.len()];
        let (place, blocks) = (rows.place, self.table.blocks().len());
        let repeats = Repeats { family, parameters: &rows.parameters, noise: &noise, place, blocks };
        let elbo_term = enhanced_elbo_term(&density, data, global, &repeats, &mut by_repeat)?;
        let mut by_local = self.locals.zeros(self.rows);
        by_local[rows.place] = family.sum_repeats(&by_repeat, inner);
        Ok(Evaluated { found: elbo_term, by_local })
    }
}

#[cfg(test)]
mod tests {
    use partita_core::burn::module::Module;
    use partita_core::burn::tensor::Tensor;
    use partita_core::{BayesianLinear, Model, NoiseStream, Normal, Result, Scope};

    use super::*;
    use crate::engine::family::{FamilyPlan, Gaussian};
    use crate::engine::terms::objective::GlobalPrior;
    use crate::engine::terms::silo::Silo;

    // Sums of a few dozen terms in another order.
    const TOLERANCE: f64 = 1e-12;

    #[derive(Module, Debug)]
    struct TwoLayers {
        #[module(skip)]
        layers: [BayesianLinear; 2],
    }

    impl Model for TwoLayers {
        type Globals = [BayesianLinear; 2];
        type Data = Tensor<2>;
        fn global(&self, scope: &mut Scope<'_>) -> Result<[BayesianLinear; 2]> {
            let [first, second] = &self.layers;
            let prior = || Normal::new(0.0, 1.0);
            Ok([scope.linear("first", first, prior())?, scope.linear("second", second, prior())?])
        }
        fn local(&self, scope: &mut Scope<'_>, [first, second]: &[BayesianLinear; 2], x: &Tensor<2>) -> Result<()> {
            scope.plate("row", x.dims()[0], |scope, rows| {
                let outputs = second.forward(first.forward(rows.take(x)?).tanh());
                scope.observe("y", Normal::new(outputs, 1.0), rows.take(x)?)
            })
        }
    }

    fn stream(block: u32) -> NoiseStream {
        partita_core::Noise::new(5).stream(Key::new(Purpose::Check, 0).block(block))
    }

    /// What is found of seven particles of a minibatch, at the start.
    fn found<T>(how: (usize, bool), find: impl FnOnce(&mut Silo, &[f64], Draws) -> T) -> T {
        found_of(3, how, find)
    }

    /// The same with so many hidden units.
    fn found_of<T>(
        hidden: usize,
        (threads, may_join): (usize, bool),
        find: impl FnOnce(&mut Silo, &[f64], Draws) -> T,
    ) -> T {
        let device = Device::flex();
        let layers =
            [[2, hidden], [hidden, 2]].map(|widths| BayesianLinear::rectified(widths, &mut stream(0), &device));
        let mut x = vec![0.0; 20];
        stream(1).normal(&mut x);
        let settings = Settings {
            threads: Some(threads),
            particles: 7,
            estimator: Estimator::LocalReparameterisation,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            minibatch: [("row".to_owned(), 4)].into(),
            ..Settings::default()
        };
        let mut silo =
            Silo::new("a", 0, &TwoLayers { layers }, &device.tensor(x, [10, 2]), &device, &settings).unwrap();
        let globals = settings.family.start(&*silo.family, &silo.table);
        let draw = Draws { may_join, ..Draws::shared(Purpose::Fit, 3, 7) };
        find(&mut silo, &globals, draw)
    }

    fn elbo_terms(threads: usize, may_join: bool) -> Vec<ElboTerm> {
        found((threads, may_join), |silo, globals, draw| {
            let mut rows = silo.locals.rows(3);
            let found = silo.elbo_terms(globals, &mut rows, draw, LocalGradients::OfDraws).unwrap();
            found.into_iter().map(|own| own.found).collect()
        })
    }

    /// The bound, the likelihood and the gradient of a local objective with a power of the model's prior.
    fn objective(may_join: bool) -> Vec<f64> {
        found((1, may_join), |silo, globals, draw| {
            let own = silo.local_objective(globals, 0, draw, GlobalPrior::Model(0.3)).unwrap();
            [vec![own.bound, own.likelihood], own.gradient].concat()
        })
    }

    fn numbers(elbo_term: &ElboTerm) -> Vec<f64> {
        [&[elbo_term.elbo], elbo_term.grad_mean.as_slice(), &elbo_term.grad_offset, &elbo_term.variance].concat()
    }

    fn mean(elbo_terms: &[ElboTerm]) -> Vec<f64> {
        let mut sum = vec![0.0; numbers(&elbo_terms[0]).len()];
        elbo_terms
            .iter()
            .for_each(|elbo_term| sum.iter_mut().zip(numbers(elbo_term)).for_each(|(slot, own)| *slot += own));
        sum.iter().map(|sum| sum / elbo_terms.len() as f64).collect()
    }

    fn agree(joined: &[f64], apart: &[f64]) {
        let size = apart.iter().fold(0.0, |size: f64, own| size.max(own.abs()));
        assert!(size > 0.0 && joined.len() == apart.len());
        assert!(joined.iter().zip(apart).all(|(a, b)| (a - b).abs() < TOLERANCE * size), "{joined:?} {apart:?}");
    }

    #[test]
    fn two_threads_have_equal_work_in_groups_of_up_to_three_draws() {
        for count in 1..=40 {
            let (mut next, mut threads) = (0, [0, 0]);
            for group in groups(count) {
                assert!(group.start == next && (1..=GROUP).contains(&group.len()), "{count}: {group:?}");
                next = group.end;
                let idle = usize::from(threads[1] < threads[0]);
                threads[idle] += group.len();
            }
            assert_eq!((next, threads[0].max(threads[1])), (count, count.div_ceil(2)));
        }
    }

    #[test]
    fn the_mean_of_joined_shares_is_the_mean_over_particles() {
        let (joined, apart) = (elbo_terms(1, true), elbo_terms(1, false));
        assert_eq!([joined.len(), apart.len()], [1, 7]);
        agree(&mean(&joined), &mean(&apart));
    }

    #[test]
    fn an_objective_with_the_prior_is_the_same_with_joined_shares() {
        agree(&objective(true), &objective(false));
    }

    #[test]
    fn the_whole_bound_of_layers_in_one_pass_has_the_bits_of_prior_and_share() {
        // The prior of few weights is evaluated first, that of many meanwhile.
        let compare = |silo: &mut Silo, globals: &[f64], draw: Draws| {
            let mut rows = silo.locals.rows(3);
            let compare = |context: &Context<'_>, workers: &mut [Worker]| -> crate::engine::error::Result<_> {
                for particle in 0..7 {
                    let worker = &workers[0];
                    let (noise, mut global) = (context.global_noise(particle), FamilyDraw::default());
                    let layers = context.layers.as_ref().unwrap();
                    let whole = context.of_layers(worker, layers, particle, &noise, &mut global)?;
                    let global = context.settings.estimator.draw(context.family, globals, &noise);
                    let mut apart = context.prior(worker, &global)?;
                    apart.take(context.elbo_term(worker, &global, particle)?.found);
                    let whole = ElboTerm {
                        elbo: whole.elbo,
                        grad_mean: whole.grad_mean,
                        grad_offset: whole.grad_offset.unwrap(),
                        theta: whole.theta,
                        variance: whole.variance,
                    };
                    assert!(whole.variance.iter().all(|slope| *slope != 0.0) && whole == apart, "{whole:?} {apart:?}");
                }
                Ok(Vec::<Evaluated<ElboTerm>>::new())
            };
            silo.evaluate(globals, &mut rows, draw, compare).unwrap();
        };
        found((1, false), compare);
        found_of(3_300, (1, false), compare);
    }

    #[test]
    fn joined_shares_have_the_same_bits_for_any_number_of_threads() {
        assert_eq!(elbo_terms(1, true), elbo_terms(2, true));
        assert_eq!(elbo_terms(1, true), elbo_terms(3, true));
    }
}
