//! Holds every kind of noise to its margins, its keys, and the variance that it promises.

use partita_core::special::normal_cumulative;
use partita_core::{Key, Noise, NoiseKind, Purpose};

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
    for (kind, particle) in
        KINDS.into_iter().zip([0, 0, 0]).chain(KINDS.into_iter().zip([1, 3, 13])).chain([(NoiseKind::Sobol, 65_540)])
    {
        for dimension in [0, 3, 4, 9] {
            let mut found: Vec<f64> =
                (0..4_000).map(|step| numbers(kind, 5, (step, particle), 10)[dimension]).collect();
            found.sort_by(f64::total_cmp);
            let distance = found
                .iter()
                .zip(0_u32..)
                .map(|(z, rank)| (normal_cumulative(*z) - (f64::from(rank) + 0.5) / 4_000.0).abs() + 0.5 / 4_000.0);
            let largest = fixtures::largest(distance);
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
            let stratum = (16.0 * normal_cumulative(point[dimension])) as usize;
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
