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
    noise.stream(key.particle(key.particle & !1)).normal(out);
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

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;

    const KINDS: [NoiseKind; 3] = [NoiseKind::Independent, NoiseKind::Antithetic, NoiseKind::Sobol];

    fn numbers(kind: NoiseKind, seed: u64, (step, particle): (u64, u32), count: usize) -> Vec<f64> {
        let mut out = vec![0.0; count];
        Noise::new(seed).kind(kind).normal(Key::new(Purpose::Fit, step).particle(particle), &mut out);
        out
    }

    /// The mean over `particles` of a smooth function of three numbers, whose expectation is $e^{3/8}$.
    fn mean_of_exponential(kind: NoiseKind, step: u64, particles: u32) -> f64 {
        let value = |particle| numbers(kind, 3, (step, particle), 3).iter().map(|z| 0.5 * z).sum::<f64>().exp();
        (0..particles).map(value).sum::<f64>() / f64::from(particles)
    }

    /// The root mean square over steps of the error of that mean, and the mean of the error with its standard error.
    fn error(kind: NoiseKind, particles: u32, steps: u32) -> (f64, f64, f64) {
        let errors: Vec<f64> =
            (0..steps).map(|step| mean_of_exponential(kind, u64::from(step), particles) - 0.375_f64.exp()).collect();
        let count = f64::from(steps);
        let mean = errors.iter().sum::<f64>() / count;
        let square = errors.iter().map(|error| error * error).sum::<f64>() / count;
        (square.sqrt(), mean, (square / count).sqrt())
    }

    #[test]
    fn every_margin_is_standard_normal() {
        // Kolmogorov's bound at a probability of failing of 1e-6 each: sqrt(-log(5e-7) / 2) / sqrt(n) for independent
        // numbers. Antithetic pairs are n/2 independent numbers; scrambled numbers of one particle are independent
        // between steps.
        for (kind, particle) in KINDS
            .into_iter()
            .zip([0, 0, 0])
            .chain(KINDS.into_iter().zip([1, 3, 13]))
            .chain([(NoiseKind::Sobol, 65_540)])
        {
            for dimension in [0, 3, 4, 9] {
                let mut found: Vec<f64> =
                    (0..4_000).map(|step| numbers(kind, 5, (step, particle), 10)[dimension]).collect();
                found.sort_by(f64::total_cmp);
                let distance = found.iter().zip(0_u32..).map(|(z, rank)| {
                    (crate::math::special::normal_cumulative(*z) - (f64::from(rank) + 0.5) / 4_000.0).abs()
                        + 0.5 / 4_000.0
                });
                let largest = distance.fold(0.0, f64::max);
                let bound = (-(5e-7_f64).ln() / 2.0 / 4_000.0).sqrt();
                assert!(largest < bound, "{kind:?}, particle {particle}, dimension {dimension}: {largest} of {bound}");
            }
        }
    }

    #[test]
    fn equal_keys_give_equal_numbers_and_others_do_not() {
        for kind in KINDS {
            let first = numbers(kind, 1, (2, 3), 9);
            assert_eq!(first, numbers(kind, 1, (2, 3), 9));
            // A longer vector begins with the same numbers.
            assert_eq!(first, numbers(kind, 1, (2, 3), 40)[..9]);
            for other in [numbers(kind, 2, (2, 3), 9), numbers(kind, 1, (1, 3), 9), numbers(kind, 1, (2, 4), 9)] {
                assert!(first.iter().zip(&other).all(|(a, b)| (a - b).abs() > 0.0), "{kind:?}");
            }
        }
    }

    #[test]
    fn antithetic_pairs_add_to_zero_exactly() {
        for pair in 0..50 {
            let (even, odd) = (
                numbers(NoiseKind::Antithetic, 1, (7, 2 * pair), 5),
                numbers(NoiseKind::Antithetic, 1, (7, 2 * pair + 1), 5),
            );
            assert!(even.iter().zip(&odd).all(|(a, b)| (a + b).to_bits() == 0));
        }
    }

    #[test]
    fn sixteen_sobol_points_fill_sixteen_strata_of_every_dimension() {
        let points: Vec<Vec<f64>> = (0..16).map(|particle| numbers(NoiseKind::Sobol, 1, (0, particle), 11)).collect();
        for dimension in 0..11 {
            let mut seen = [false; 16];
            for point in &points {
                #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "between 0 and 16")]
                let stratum = (16.0 * crate::math::special::normal_cumulative(point[dimension])) as usize;
                seen[stratum] = true;
            }
            assert_eq!(seen, [true; 16], "dimension {dimension}");
        }
    }

    #[test]
    fn only_the_noise_of_a_fit_is_dependent() {
        for kind in KINDS {
            for purpose in [Purpose::Report, Purpose::Check] {
                let key = Key::new(purpose, 4).particle(1);
                let (mut own, mut independent) = ([0.0; 6], [0.0; 6]);
                Noise::new(1).kind(kind).normal(key, &mut own);
                Noise::new(1).stream(key).normal(&mut independent);
                assert_eq!(own.map(f64::to_bits), independent.map(f64::to_bits));
            }
        }
    }

    #[test]
    fn means_of_a_smooth_function_are_unbiased() {
        for kind in KINDS {
            let (_, mean, standard_error) = error(kind, 8, 2_000);
            assert!(mean.abs() < 5.0 * standard_error, "{kind:?}: {mean} of {standard_error}");
        }
    }

    #[test]
    fn sobol_error_of_a_smooth_function_falls_faster_than_the_root_of_the_number_of_particles() {
        // With sixteen times as many particles, independent noise gains a factor of 4.
        let gain = |kind| error(kind, 16, 400).0 / error(kind, 256, 400).0;
        // The root of a ratio of mean squares over 400 steps is known to about 5 %.
        let (chance, sobol) = (gain(NoiseKind::Independent), gain(NoiseKind::Sobol));
        assert!((3.3..4.8).contains(&chance), "{chance}");
        assert!(sobol > 8.0, "{sobol}");
    }
}
