//! Evaluates draws on the device: their bounds, and the gradients that they sum up.

use std::ops::Range;

use burn::tensor::Tensor;
use partita_core::{DeviceEncoded, Handle, Key, LogDensity, Minibatch, Noise, Precision, Purpose};
use rayon::prelude::*;

use super::fit::{DeviceFit, Place, Weights};
use super::{
    BlockNoise, Cavity, GlobalsDraw, GlobalsGradient, ParticleNoise, Ready, RowBlock, RowStep, RowsDraw, RowsGradient,
    ThroughRows, plus,
};
use crate::engine::error::Result;
use crate::engine::estimator::Estimator;
use crate::engine::rows::Chosen;
use crate::engine::terms::silo::global_key;

/// The most rows of all draws that are evaluated at once, so that memory stays bounded.
const ROWS_AT_ONCE: usize = 1 << 18;

/// Which draws: the first `count` of a step's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    pub(super) purpose: Purpose,
    pub(super) step: u64,
    pub(super) count: usize,
    /// Whose noise that of the globals is.
    pub(super) owner: u32,
}

/// What the draws of some rows are evaluated with.
pub(super) struct DeviceRows {
    pub(super) chosen: Chosen,
    weights: Weights,
    /// Whether the globals have a cavity in place of a prior: then what is said of the bound is the part of the rows.
    has_cavity: bool,
    minibatch: Vec<Minibatch>,
    ready: Vec<Ready>,
    /// One entry a block with latents.
    pub(super) steps: Vec<RowStep>,
    pub(super) encodings: Vec<Option<DeviceEncoded>>,
}

/// A draw of all latents.
struct Draw {
    globals: GlobalsDraw,
    rows: Vec<RowsDraw>,
    /// What its entropy adds to the bound: the part that moves, and the part that is known on the host.
    entropy: Option<Tensor<1>>,
    constant: f64,
}

/// What the particles of a step sum up.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) bound: Option<Tensor<1>>,
    pub(super) constant: f64,
    pub(super) globals: GlobalsGradient,
    pub(super) rows: Vec<RowsGradient>,
    pub(super) theta: Vec<Option<Tensor<1>>>,
}

impl Draw {
    fn bound(&self, joint: Tensor<1>) -> Tensor<1> {
        match &self.entropy {
            Some(entropy) => joint + entropy.clone(),
            None => joint,
        }
    }
}

impl DeviceFit {
    /// The parameters of the rows that are evaluated.
    pub(super) fn device_rows(&self, chosen: Chosen, weights: Weights, cavity: Option<&Cavity>) -> Result<DeviceRows> {
        let (mut steps, mut encodings) = (Vec::new(), Vec::new());
        for block in &self.rows {
            let encoded = self.encode(block, chosen.rows(block.index))?;
            let parameters = encoded.as_ref().map(DeviceEncoded::parameters);
            let mut step = block.step(chosen.blocks[block.index].as_ref(), parameters, &self.device);
            step.weight *= weights.entropy;
            steps.push(step);
            encodings.push(encoded);
        }
        let (minibatch, ready) = (self.choices.minibatch(&chosen), self.globals.ready(cavity));
        let has_cavity = cavity.is_some();
        Ok(DeviceRows { chosen, weights, has_cavity, minibatch, ready, steps, encodings })
    }

    /// What a block's encoder gives for these rows, or for all.
    pub(super) fn encode(&self, block: &RowBlock, rows: Option<&[usize]>) -> Result<Option<DeviceEncoded>> {
        if !block.is_encoded() {
            return Ok(None);
        }
        Ok(DeviceEncoded::of(&self.model, &self.table, block.index, &self.data, rows)?)
    }

    /// The noise of draws, made on the host by all its threads; `together` of them are evaluated at once.
    pub(super) fn noises(&self, rows: &DeviceRows, draws: Draws, together: usize) -> Vec<ParticleNoise> {
        let Draws { purpose, step, count, owner } = draws;
        let (noise, local) = (Noise::new(self.settings.seed).kind(self.settings.noise), self.local_noise());
        let silo = self.owner.silo;
        // What threads share: a model is not.
        let (choices, points, chosen) = (&self.choices, &self.points, &rows.chosen);
        let particles: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
        let groups: Vec<&[u32]> = particles.chunks(together.max(1)).collect();
        let blocks = |group: &&[u32]| {
            let key = Key::new(purpose, step).silo(silo).particle(group[0]);
            BlockNoise::new(choices.noise(chosen, &local, key), points)
        };
        let blocks: Vec<BlockNoise> = match self.settings.silo_threads() {
            0 | 1 => groups.iter().map(blocks).collect(),
            _ => groups.par_iter().map(blocks).collect(),
        };
        let one = |(group, blocks): (&[u32], BlockNoise)| {
            let key = global_key(purpose, step, owner);
            let keys: Vec<Key> = group.iter().map(|particle| key.particle(*particle)).collect();
            let shape = [group.len(), self.noise_len];
            let globals = (self.noise_len > 0).then(|| self.device.noise(noise, &keys, shape));
            ParticleNoise { particles: group.len(), globals, blocks }
        };
        groups.into_iter().zip(blocks).map(one).collect()
    }

    /// How many draws of these rows are evaluated at once.
    pub(super) fn together(&self, rows: &DeviceRows) -> usize {
        if self.has_draws_together { (ROWS_AT_ONCE / self.choices.evaluated(&rows.chosen).max(1)).max(1) } else { 1 }
    }

    /// Whether draws may be evaluated together: latents are those of linear layers, and what two draws have together is what
    /// each of them has alone. A model that mixes rows, by a mean over them say, fails this.
    pub(super) fn agrees_together(&self) -> Result<bool> {
        if !self.table.is_of_layers() || self.settings.particles == 1 {
            return Ok(false);
        }
        let rows = self.device_rows(self.choices.at(0, &self.local_noise(), self.owner.silo), Weights::ONE, None)?;
        let draws = Draws { purpose: Purpose::Check, step: 0, count: 2, owner: self.owner.globals };
        let read = |together: usize| -> Result<Vec<f64>> {
            let sums = self.sums(&rows, &self.noises(&rows, draws, together))?;
            let gradients = sums.globals.flat();
            let all: Vec<Tensor<1>> =
                sums.bound.into_iter().chain(gradients).chain(sums.theta.into_iter().flatten()).collect();
            Ok(Handle::from(Tensor::cat(all, 0)).read()?.values)
        };
        let (Ok(found), expected) = (read(2), read(1)?) else { return Ok(false) };
        let rounding = if self.device.precision() == Precision::Double { 1e-9 } else { 1e-4 };
        let size = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|own| own * own).sum::<f64>().sqrt();
        let is_near = |range: Range<usize>| {
            let off = size(&mut range.clone().map(|place| found[place] - expected[place]));
            off <= rounding * size(&mut range.map(|place| expected[place]))
        };
        Ok(found.len() == expected.len() && is_near(0..1) && is_near(1..found.len()))
    }

    /// The bound of each draw.
    pub(super) fn bounds_of(&self, rows: &DeviceRows, noises: &[ParticleNoise]) -> Result<Vec<Tensor<1>>> {
        let density = LogDensity::new(&self.model, &self.device, &self.table).minibatch(&rows.minibatch);
        let bound = |noise: &ParticleNoise| {
            let draw = self.draw(rows, noise);
            Ok(draw.bound(density.value_on_device(&self.latents(&draw), &self.data)?) + draw.constant)
        };
        noises.iter().map(bound).collect()
    }

    /// The sums of bounds and gradients over draws.
    pub(super) fn sums(&self, rows: &DeviceRows, noises: &[ParticleNoise]) -> Result<Sums> {
        let mut sums = Sums::default();
        for noise in noises {
            let draw = self.draw(rows, noise);
            let minibatch = match noise.particles {
                1 => None,
                draws => Some(self.choices.minibatch_for_draws(&rows.chosen, draws)),
            };
            let density = LogDensity::new(&self.model, &self.device, &self.table);
            let density = density.minibatch(minibatch.as_deref().unwrap_or(&rows.minibatch));
            let prior = if rows.has_cavity { 0.0 } else { rows.weights.prior };
            let density = density.weight(rows.weights.density).prior(prior);
            let joint = density.on_device(&self.latents(&draw), &self.data)?;
            plus(&mut sums.bound, draw.bound(joint.value));
            sums.constant += draw.constant;
            self.add_gradients(rows, &draw, joint.latents, &mut sums);
            sums.theta.resize_with(joint.theta.len(), || None);
            sums.theta.iter_mut().zip(joint.theta).for_each(|(slot, own)| plus(slot, own));
        }
        Ok(sums)
    }

    fn draw(&self, rows: &DeviceRows, noise: &ParticleNoise) -> Draw {
        let closed = self.settings.estimator == Estimator::ClosedFormEntropy;
        let globals = self.globals.draw(&rows.ready, noise, &self.device);
        let particles = noise.particles as f64;
        let (mut entropy, mut constant) = (None, 0.0);
        if !rows.has_cavity {
            entropy = self.globals.log_scales().map(|sum| sum * particles);
            constant = particles * self.globals.entropy_constant();
            if !closed {
                let (energy, own) = noise.energy();
                energy.into_iter().for_each(|energy| plus(&mut entropy, energy));
                constant = own;
            }
        }
        let mut draws = Vec::with_capacity(rows.steps.len());
        for (block, step) in self.rows.iter().zip(&rows.steps) {
            let draw = block.draw(step, &globals.deviation, &noise.blocks.values[block.index], &self.device);
            let (moving, fixed) = match closed {
                true => block.entropy(step),
                false => (draw.log_scales.clone(), noise.blocks.energies[block.index]),
            };
            constant += step.weight * fixed;
            let is_weighted = (step.weight - 1.0).abs() > 0.0;
            plus(&mut entropy, if is_weighted { moving * step.weight } else { moving });
            draws.push(draw);
        }
        Draw { globals, rows: draws, entropy, constant }
    }

    /// The latents of each site in the order of the table.
    fn latents(&self, draw: &Draw) -> Vec<Tensor<2>> {
        let rows: Vec<_> = self.rows.iter().zip(&draw.rows).map(|(block, draw)| block.by_site(draw)).collect();
        let latent = |place: &Place| match place {
            Place::Global(site) => draw.globals.sites[*site].clone(),
            Place::Local { block, site } => rows[*block][*site].clone(),
        };
        self.places.iter().map(latent).collect()
    }

    /// Pulls the gradients by each site's latents back, and adds them.
    fn add_gradients(&self, rows: &DeviceRows, draw: &Draw, gradients: Vec<Tensor<2>>, sums: &mut Sums) {
        let (estimator, deviation) = (self.settings.estimator, &draw.globals.deviation);
        let mut by_global = Vec::new();
        let mut by_local: Vec<Vec<Tensor<2>>> = self.rows.iter().map(|_| Vec::new()).collect();
        for (place, gradient) in self.places.iter().zip(gradients) {
            match place {
                Place::Global(_) => by_global.push(gradient),
                Place::Local { block, .. } => by_local[*block].push(gradient),
            }
        }
        let mut location = match by_global.len() {
            0 => deviation.zeros_like(),
            1 => by_global.remove(0),
            _ => Tensor::cat(by_global, 1),
        };
        let mut all = None;
        sums.rows.resize_with(self.rows.len(), Default::default);
        let blocks = self.rows.iter().zip(&rows.steps).zip(&draw.rows).zip(by_local).zip(&mut sums.rows);
        for ((((block, step), own), gradients), into) in blocks {
            let ThroughRows { direct, path } = block.vjp(step, own, deviation, gradients, estimator, into);
            if let Some(direct) = direct {
                location = location + direct;
            }
            if let Some(path) = path {
                plus(&mut all, path);
            }
        }
        let reaching = match all {
            Some(path) => location.clone() + path,
            None => location.clone(),
        };
        self.globals.vjp(&rows.ready, &draw.globals, &location, &reaching, estimator, &mut sums.globals);
    }
}
