//! Claims that vertical models with auxiliary variables have the exact posteriors that integrating them out gives.

use fixtures::vertical::{LinearWorld, NOISE_SD, inverse};
use partita::core::{Key, Noise, Purpose};
use partita::vertical::Augmentation;

/// Identities of Gaussian algebra in f64: rounding of inverses of matrices with some dozens of rows.
const EXACT: f64 = 1e-8;

fn close(found: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() < bound, "{index}: {a} and {b}");
    }
}

#[test]
fn the_augmented_posterior_is_the_conjugate_regression_with_noise_sigma_squared_plus_j_rho_squared() {
    for (parties, rho) in [(2, 0.5), (3, 1.0), (5, 2.0)] {
        let world = LinearWorld::new(12, parties, 2);
        let joint = world.joint(Augmentation::Auxiliary { rho });
        let noise = NOISE_SD.powi(2) + parties as f64 * rho * rho;
        let (mean, covariance, _) = world.conjugate(noise.sqrt());
        let (found_mean, found_covariance) = joint.coefficients();
        close(&found_mean, &mean, EXACT);
        close(&found_covariance, &covariance, EXACT);
    }
}

#[test]
fn the_log_joint_less_the_log_posterior_of_the_augmented_model_is_its_log_evidence_at_every_draw() {
    let world = LinearWorld::new(12, 3, 2);
    let rho = 0.5;
    let joint = world.joint(Augmentation::Auxiliary { rho });
    let (_, _, evidence) = world.conjugate((NOISE_SD.powi(2) + 3.0 * rho * rho).sqrt());
    for draw in 0..5 {
        let point = fixtures::standard_normals(&mut Noise::new(8).stream(Key::new(Purpose::Check, draw)), joint.size());
        let found = joint.log_density(&point).0 - joint.log_posterior(&point);
        assert!((found - evidence).abs() < EXACT, "{found} and {evidence}");
    }
}

#[test]
fn the_power_likelihood_posterior_is_the_gaussian_assembled_from_its_definition() {
    let (rows, parties, each, rho) = (10, 3, 2, 0.8);
    let world = LinearWorld::new(rows, parties, each);
    let joint = world.joint(Augmentation::PowerLikelihood { rho });
    // Latents: beta party by party, the intercept, then z row by row and party by party, as in the site table.
    let (columns, size) = (parties * each, joint.size());
    let start = columns + 1;
    assert_eq!(size, start + rows * parties);
    let mut precision = vec![0.0; size * size];
    let mut add = |terms: &[(usize, f64)], weight: f64| {
        for &(i, a) in terms {
            for &(j, b) in terms {
                precision[i * size + j] += weight * a * b;
            }
        }
    };
    let mut linear = vec![0.0; size];
    (0..start).for_each(|coefficient| add(&[(coefficient, 1.0)], 1.0));
    for (row, (x, y)) in world.inputs.chunks(columns).zip(&world.targets).enumerate() {
        for j in 0..parties {
            let own: Vec<(usize, f64)> = (j * each..(j + 1) * each).map(|c| (c, x[c])).collect();
            // N(z_j | g_j, rho^2).
            let negative: Vec<(usize, f64)> = own.iter().map(|&(c, x)| (c, -x)).collect();
            add(&[negative, vec![(start + row * parties + j, 1.0)]].concat(), 1.0 / (rho * rho));
            // N(y | b + g_j + sum of the others' z, sigma^2)^(1/J).
            let others = (0..parties).filter(|k| *k != j).map(|k| (start + row * parties + k, 1.0));
            let mean: Vec<(usize, f64)> = own.into_iter().chain(others).chain([(columns, 1.0)]).collect();
            let weight = 1.0 / (parties as f64 * NOISE_SD * NOISE_SD);
            add(&mean, weight);
            mean.iter().for_each(|&(i, a)| linear[i] += weight * a * y);
        }
    }
    close(&joint.precision, &precision, EXACT);
    let covariance = inverse(&precision);
    let mean: Vec<f64> = covariance.chunks(size).map(|row| row.iter().zip(&linear).map(|(c, l)| c * l).sum()).collect();
    close(&joint.mean, &mean, EXACT);
}

#[test]
fn both_models_come_to_the_true_posterior_as_rho_goes_to_zero() {
    let world = LinearWorld::new(12, 2, 2);
    let (mean, covariance, _) = world.conjugate(NOISE_SD);
    let error = |augmentation| {
        let (found_mean, found_covariance) = world.joint(augmentation).coefficients();
        let pairs = found_mean.iter().chain(&found_covariance).zip(mean.iter().chain(&covariance));
        fixtures::largest(pairs.map(|(a, b)| (a - b).abs()))
    };
    // The error is of the order of rho^2: a tenth of rho gives a hundredth of the error.
    for (large, small) in [
        (Augmentation::Auxiliary { rho: 0.1 }, Augmentation::Auxiliary { rho: 0.01 }),
        (Augmentation::PowerLikelihood { rho: 0.1 }, Augmentation::PowerLikelihood { rho: 0.01 }),
    ] {
        let (large, small) = (error(large), error(small));
        assert!(small < 2e-4 && (80.0..120.0).contains(&(large / small)), "{large} and {small}");
    }
    close(&world.joint(Augmentation::None).coefficients().0, &mean, EXACT);
}
