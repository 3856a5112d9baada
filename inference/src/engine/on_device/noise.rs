//! Gives the noise of a draw on a device its energies: the numbers are those that a fit on the host would draw.

use crate::engine::family::HALF_LOG_TWO_PI;

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

impl ParticleNoise {
    /// That of these numbers, where `points` says for each block which columns are point masses.
    pub(crate) fn new(globals: Vec<f64>, mut blocks: Vec<Vec<f64>>, points: &[Vec<bool>]) -> Self {
        let own = |(values, points): (&mut Vec<f64>, &Vec<bool>)| {
            let cells = values.iter_mut().zip(points.iter().cycle());
            let (fixed, drawn): (Vec<_>, Vec<_>) = cells.partition(|(_, is_point)| **is_point);
            fixed.into_iter().for_each(|(value, _)| *value = 0.0);
            drawn.into_iter().map(|(e, _)| energy(*e)).sum()
        };
        let block_energies = blocks.iter_mut().zip(points).map(own).collect();
        let energy = globals.iter().map(|e| energy(*e)).sum();
        Self { globals, blocks, energy, block_energies }
    }
}

fn energy(e: f64) -> f64 {
    0.5 * e * e + HALF_LOG_TWO_PI
}
