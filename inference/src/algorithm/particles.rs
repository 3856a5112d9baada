//! Evaluates the particles of a silo's share, on as many threads as there are copies of the model.

use partita_core::{Device, Key, LogDensity, Model, Part, Purpose, SiteTable};
use rayon::prelude::*;

use super::sfvi_silo::{global_key, noise_of};
use crate::error::Result;
use crate::estimator::{Estimator, LayerMoments, Repeats, Share, enhanced_share};
use crate::family::{Family, FamilyDraw};
use crate::locals::{Locals, StepRows};
use crate::settings::Settings;

/// Which draws are made, and how the local part weighs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    pub(super) purpose: Purpose,
    pub(super) step: u64,
    pub(super) count: usize,
    /// Whose global noise it is: all parties' or, in local steps, the silo's own.
    pub(super) owner: u32,
    /// What the local log density is multiplied by.
    pub(super) weight: f64,
    /// What the entropy of the local posterior is multiplied by.
    pub(super) entropy_weight: f64,
}

impl Draws {
    /// Draws with the noise all parties share.
    pub(super) fn shared(purpose: Purpose, step: u64, count: usize) -> Self {
        Self { purpose, step, count, owner: Key::COORDINATOR, weight: 1.0, entropy_weight: 1.0 }
    }
}

/// What the evaluation of a particle reads, shared by threads.
pub(super) struct Context<'a> {
    pub(super) device: &'a Device,
    pub(super) settings: &'a Settings,
    pub(super) table: &'a SiteTable,
    pub(super) family: &'a dyn Family,
    pub(super) locals: &'a Locals,
    pub(super) globals: &'a [f64],
    pub(super) rows: &'a StepRows,
    pub(super) draw: Draws,
    /// What linear layers read under local reparameterisation.
    pub(super) layers: Option<LayerMoments>,
}

pub(super) type Evaluated = (Share, Vec<Vec<f64>>);

impl Context<'_> {
    /// All particles in order; worker k evaluates particles k, k + workers, ...
    pub(super) fn all<M: Model>(&self, workers: &mut [(M, M::Data)]) -> Result<Vec<Evaluated>> {
        let stride = workers.len();
        if let [worker] = workers {
            return (0..self.draw.count).map(|particle| self.one(worker, particle)).collect();
        }
        let mut lists: Vec<std::vec::IntoIter<Result<Evaluated>>> = workers
            .par_iter_mut()
            .enumerate()
            .map(|(first, worker)| {
                let own = (first..self.draw.count).step_by(stride).map(|particle| self.one(worker, particle));
                own.collect::<Vec<_>>().into_iter()
            })
            .collect();
        (0..self.draw.count).filter_map(|particle| lists[particle % stride].next()).collect()
    }

    fn one<M: Model>(&self, (model, data): &(M, M::Data), particle: usize) -> Result<Evaluated> {
        let particle = u32::try_from(particle).unwrap_or(u32::MAX);
        let Draws { purpose, step, owner, weight, entropy_weight, .. } = self.draw;
        let noise = self.locals.noise(self.rows, purpose, step, particle);
        let key = global_key(purpose, step, owner).particle(particle);
        let global = match &self.layers {
            Some(layers) if self.table.latents(Part::Global).all(|site| site.is_layer()) => layers.undrawn(),
            _ => self.family.draw(self.globals, &noise_of(self.family, self.settings, key)),
        };
        if let Estimator::LocallyEnhanced { inner } = self.settings.estimator {
            return self.enhanced((model, data), &global, inner, particle);
        }
        let density = LogDensity::new(model, self.device, self.table)
            .minibatch(&self.rows.minibatch)
            .weight(weight)
            .loss(self.settings.loss);
        let density = match &self.layers {
            Some(layers) => density.moments(layers.with_noise(self.locals.layer_noise(purpose, step, particle))),
            None => density,
        };
        let mut blocks = self.locals.draws(self.rows, &noise);
        blocks.iter_mut().for_each(|block| block.weight *= entropy_weight);
        let mut out = self.locals.zeros(self.rows);
        let share = self.settings.estimator.local_share(&density, data, &global, &blocks, &mut out)?;
        Ok((share, out))
    }
}

impl Context<'_> {
    /// A particle of the locally enhanced bound.
    fn enhanced<M: Model>(
        &self,
        (model, data): (&M, &M::Data),
        global: &FamilyDraw,
        inner: usize,
        particle: u32,
    ) -> Result<Evaluated> {
        let Draws { purpose, step, weight, .. } = self.draw;
        let rows = self.locals.repeated(self.rows, inner)?;
        let noise = self.locals.repeated_noise(&rows, (purpose, step, particle));
        let (family, blocks) = self.locals.family(rows.place);
        let density = LogDensity::new(model, self.device, self.table).minibatch(&rows.minibatch).weight(weight);
        let mut by_repeat = vec![0.0; rows.parameters.len()];
        let repeats = Repeats { family, parameters: &rows.parameters, noise: &noise, block: (rows.place, blocks) };
        let share = enhanced_share(&density, data, global, &repeats, &mut by_repeat)?;
        let mut out = self.locals.zeros(self.rows);
        out[rows.place] = family.sum_repeats(&by_repeat, inner);
        Ok((share, out))
    }
}
