//! Makes the keyed noise of a fit on a device: the numbers a fit on the host would draw, to be uploaded.

use partita_core::{Key, Noise, Purpose};
use rayon::prelude::*;

use crate::engine::family::HALF_LOG_TWO_PI;

/// Which noise a step needs, whatever the particle.
#[derive(Debug, Clone)]
pub(crate) struct NoisePlan {
    pub(crate) noise: Noise,
    /// Numbers of a draw of the globals.
    pub(crate) globals: usize,
    /// Which part of the rows, where all of them are evaluated in parts.
    pub(crate) part: u32,
    /// For each block the rows evaluated, and for each column of a row whether it is a point mass.
    pub(crate) blocks: Vec<(usize, Vec<bool>)>,
}

/// The noise of one particle.
#[derive(Debug, Clone)]
pub(crate) struct ParticleNoise {
    pub(crate) globals: Vec<f64>,
    /// One vector a block, row-major; zero in columns that are point masses.
    pub(crate) blocks: Vec<Vec<f64>>,
    /// $\sum \tfrac12\varepsilon^2 + \tfrac12\log 2\pi$ over the globals, and over each block but its point masses.
    pub(crate) energy: f64,
    pub(crate) block_energies: Vec<f64>,
}

impl NoisePlan {
    /// The noise of particles `0..count` in order, made by the threads of the pool if `parallel`.
    pub(crate) fn particles(
        &self,
        (purpose, step): (Purpose, u64),
        count: usize,
        parallel: bool,
    ) -> Vec<ParticleNoise> {
        let one = |particle: usize| {
            let particle = u32::try_from(particle).unwrap_or(u32::MAX);
            self.particle(Key::new(purpose, step).particle(particle))
        };
        if parallel { (0..count).into_par_iter().map(one).collect() } else { (0..count).map(one).collect() }
    }

    fn particle(&self, key: Key) -> ParticleNoise {
        let mut globals = vec![0.0; self.globals];
        self.noise.normal(key, &mut globals);
        let total = globals.iter().map(|e| energy(*e)).sum();
        let mut blocks = Vec::with_capacity(self.blocks.len());
        let mut block_energies = Vec::with_capacity(self.blocks.len());
        let count = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        for ((rows, points), index) in self.blocks.iter().zip(0_u32..) {
            let mut values = vec![0.0; rows * points.len()];
            self.noise.normal(key.silo(0).block(index + self.part * count), &mut values);
            let cells = values.iter_mut().zip(points.iter().cycle());
            cells.filter(|(_, point)| **point).for_each(|(value, _)| *value = 0.0);
            let cells = values.iter().zip(points.iter().cycle()).filter(|(_, point)| !**point);
            block_energies.push(cells.map(|(e, _)| energy(*e)).sum());
            blocks.push(values);
        }
        ParticleNoise { globals, blocks, energy: total, block_energies }
    }
}

fn energy(e: f64) -> f64 {
    0.5 * e * e + HALF_LOG_TWO_PI
}
