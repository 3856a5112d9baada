//! Gives the noise of draws on a device: the numbers are those that a fit on the host would draw.

use burn::tensor::Tensor;
use partita_core::ordered_sum;

use crate::engine::family::HALF_LOG_TWO_PI;

/// The noise of the particles that are evaluated together: one, or several of a model without latents of rows.
#[derive(Debug, Clone)]
pub(crate) struct ParticleNoise {
    pub(crate) particles: usize,
    /// One row a particle; `None` where the globals have no noise.
    pub(crate) globals: Option<Tensor<2>>,
    pub(crate) blocks: BlockNoise,
}

/// The noise of a particle's latents of rows.
#[derive(Debug, Clone)]
pub(crate) struct BlockNoise {
    /// One vector a block, row-major; zero in columns that are point masses.
    pub(crate) values: Vec<Vec<f64>>,
    /// $\sum \tfrac12\varepsilon^2 + \tfrac12\log 2\pi$ over each block but its point masses.
    pub(crate) energies: Vec<f64>,
}

impl ParticleNoise {
    /// $\sum \tfrac12\varepsilon^2 + \tfrac12\log 2\pi$ over the globals of all particles: a tensor, and a number known on
    /// the host.
    pub(crate) fn energy(&self) -> (Option<Tensor<1>>, f64) {
        let Some(globals) = &self.globals else { return (None, 0.0) };
        let count = globals.dims().iter().product::<usize>() as f64;
        (Some(ordered_sum(globals.clone() * globals.clone()) * 0.5), count * HALF_LOG_TWO_PI)
    }
}

impl BlockNoise {
    /// That of these numbers, where `points` says for each block which columns are point masses.
    pub(crate) fn new(mut values: Vec<Vec<f64>>, points: &[Vec<bool>]) -> Self {
        let own = |(values, points): (&mut Vec<f64>, &Vec<bool>)| {
            let cells = values.iter_mut().zip(points.iter().cycle());
            let (fixed, drawn): (Vec<_>, Vec<_>) = cells.partition(|(_, is_point)| **is_point);
            fixed.into_iter().for_each(|(value, _)| *value = 0.0);
            drawn.into_iter().map(|(e, _)| 0.5 * *e * *e + HALF_LOG_TWO_PI).sum()
        };
        let energies = values.iter_mut().zip(points).map(own).collect();
        Self { values, energies }
    }
}
