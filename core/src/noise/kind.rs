//! Makes the particles of a step depend on each other, so that their mean has a smaller variance.

use serde::{Deserialize, Serialize};

use super::{Key, Noise};
use crate::math::special::normal_quantile;

/// The dependence between the particles' noise in one step of a fit.
///
/// Each particle's noise is standard normal for every kind, so that a mean over particles is unbiased; only its
/// variance changes. All noise of other purposes is independent.
///
/// # Laws
/// Like all noise it depends on seed and key alone: every party draws the same, on any number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NoiseKind {
    /// Particles are independent.
    #[default]
    Independent,
    /// Particle $2i + 1$ has minus the noise of particle $2i$, which cancels odd functions of the noise (Hammersley and
    /// Morton, 1956). It needs an even number of particles.
    Antithetic,
    /// Particles $0, 1, \ldots, K - 1$ are an Owen-scrambled Sobol point set, mapped by the inverse of the normal
    /// cumulative distribution function. The error of a smooth mean falls faster than $1/\sqrt K$, fastest along powers
    /// of two (Owen, 1997). Each group of four dimensions is scrambled and shuffled independently, which allows any
    /// number of dimensions (Burley, 2020).
    Sobol,
}

/// The noise of an even particle, negated for the odd one after it.
pub(super) fn antithetic(noise: &Noise, key: Key, out: &mut [f64]) {
    noise.independent(key.particle(key.particle & !1), out);
    if key.particle % 2 == 1 {
        out.iter_mut().for_each(|value| *value = -*value);
    }
}

/// Dimensions of one point set; further dimensions have their own sets.
const DIMENSIONS: usize = 4;
/// The number of points of the generator; later points begin another set.
const POINTS: u32 = 1 << 16;
/// The spacing of the generator's numbers.
const GRAIN: f64 = 1.0 / (1 << 23) as f64;

/// The normal quantiles of point `key.particle` of scrambled Sobol sets, one set for every four numbers.
///
/// The generator scrambles 23 bits. An Owen scramble of further bits makes them independent and uniform, since no two
/// points share the first 23. These bits come from the particle's own stream, and keep the numbers off 0 and 1.
pub(super) fn sobol(noise: &Noise, key: Key, out: &mut [f64]) {
    let (set, point) = (key.particle / POINTS, key.particle % POINTS);
    // The seeds of the scrambles are shared by the particles of a set: no particle has this number.
    let mut seeds = noise.stream(key.particle(u32::MAX - set));
    let mut fine = noise.stream(key);
    for numbers in out.chunks_mut(DIMENSIONS) {
        #[expect(clippy::cast_possible_truncation, reason = "half of a random word is a random half word")]
        let coarse = sobol_burley::sample_4d(point, 0, seeds.word() as u32);
        for (number, coarse) in numbers.iter_mut().zip(coarse) {
            *number = normal_quantile(f64::from(coarse) + GRAIN * fine.uniform());
        }
    }
}
