//! Claims that vertical fits find the posteriors that are known exactly, and report their exchanges.

use fixtures::vertical::{Joint, LinearWorld, NOISE_SD, inverse};
use partita::core::NoiseKind;
use partita::inference::{VerticalOptions, vertical::VerticalFit};
use partita::vertical::{Augmentation, AuxiliaryFamily, PredictedModel, fit};
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, Schedule, Settings};

fn options(how: VerticalOptions, steps: u64) -> FitOptions {
    FitOptions {
        algorithm: AlgorithmChoice::Vertical(how),
        settings: Settings {
            steps,
            family: FamilyPlan::new().global(Gaussian::full_rank()),
            schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
            // Pairs of opposite draws: for a Gaussian target the means have no Monte Carlo noise.
            particles: 16,
            noise: NoiseKind::Antithetic,
            ..Settings::default()
        },
        elbo_draws: 20,
        summary_draws: 0,
        ..FitOptions::default()
    }
}

fn run(world: &LinearWorld, options: &FitOptions) -> VerticalFit {
    fit(&world.parties, &world.labels, &Device::flex(), options, None).unwrap()
}

/// Means and covariance of a party's coefficients.
fn found(fit: &VerticalFit, party: &str) -> (Vec<f64>, Vec<f64>) {
    fit.with(party, |own| (own.family().mean(own.parameters()), own.family().covariance(own.parameters()))).unwrap()
}

/// The largest error of a mean in standard deviations, of a standard deviation relatively, and of a correlation.
fn error((mean, covariance): &(Vec<f64>, Vec<f64>), (expected_mean, expected): (&[f64], &[f64])) -> f64 {
    let size = mean.len();
    let sd = |matrix: &[f64], i: usize| matrix[i * size + i].sqrt();
    let correlation = |matrix: &[f64], at: usize| matrix[at] / (sd(matrix, at / size) * sd(matrix, at % size));
    let means = (0..size).map(|i| (mean[i] - expected_mean[i]).abs() / sd(expected, i));
    let sds = (0..size).map(|i| (sd(covariance, i) / sd(expected, i) - 1.0).abs());
    let correlations = (0..size * size).map(|at| (correlation(covariance, at) - correlation(expected, at)).abs());
    fixtures::largest(means.chain(sds).chain(correlations))
}

/// Some rows and columns of a matrix.
fn block(matrix: &[f64], range: std::ops::Range<usize>) -> Vec<f64> {
    let size = matrix.len().isqrt();
    range.clone().flat_map(|i| range.clone().map(move |j| matrix[i * size + j])).collect()
}

/// Among Gaussians with independent blocks, the nearest to a joint Gaussian has its means, and as covariances the
/// inverses of the blocks of its precision.
fn is_nearest(fit: &VerticalFit, joint: &Joint, [parties, each]: [usize; 2], bound: f64) {
    for party in 0..parties {
        let own = party * each..(party + 1) * each;
        let covariance = inverse(&block(&joint.precision, own.clone()));
        let error = error(&found(fit, &format!("p{party}")), (&joint.mean[own], &covariance));
        assert!(error < bound, "party {party}: {error}");
    }
}

#[test]
fn the_augmented_model_with_mean_field_auxiliary_variables_finds_the_nearest_gaussian_to_one_per_cent() {
    let world = LinearWorld::new(12, 2, 2);
    let fit = run(&world, &options(VerticalOptions::augmented(1.0).mean_field(), 5_000));
    is_nearest(&fit, &world.joint(Augmentation::Auxiliary { rho: 1.0 }), [2, 2], 0.01);
}

#[test]
fn the_power_likelihood_with_mean_field_auxiliary_variables_finds_the_nearest_gaussian_to_one_per_cent() {
    let world = LinearWorld::new(12, 2, 2);
    let fit = run(&world, &options(VerticalOptions::power_likelihood(1.0).mean_field(), 5_000));
    is_nearest(&fit, &world.joint(Augmentation::PowerLikelihood { rho: 1.0 }), [2, 2], 0.01);
}

#[test]
fn one_party_with_an_amortised_family_that_knows_the_labels_finds_the_posterior_and_the_evidence() {
    // An intercept at the label holder is independent in q; without one the posterior is in the family.
    let world = LinearWorld::without_intercept(12, 1, 2);
    let how = VerticalOptions {
        auxiliary: AuxiliaryFamily::Amortised { hidden: 2, labels: true },
        ..VerticalOptions::augmented(1.0)
    };
    let fit = run(&world, &options(how, 2_500));
    let joint = world.joint(Augmentation::Auxiliary { rho: 1.0 });
    let covariance = block(&joint.covariance, 0..2);
    let error = error(&found(&fit, "p0"), (&joint.mean[..2], &covariance));
    assert!(error < 0.01, "{error}");
    let zero = vec![0.0; joint.size()];
    let evidence = joint.log_density(&zero).0 - joint.log_posterior(&zero);
    assert!((fit.report.elbo - evidence).abs() < 0.01, "{} and {evidence}", fit.report.elbo);
    // Why draws were not weighed, and what to do instead.
    let text = fit.report.to_string();
    assert!(text.contains("its columns follow") && text.contains("`vertical::predict`"), "{text}");
}

#[test]
fn parties_without_auxiliary_variables_find_the_true_model() {
    let world = LinearWorld::new(12, 2, 2);
    let fit = run(&world, &options(VerticalOptions::direct(), 2_500));
    is_nearest(&fit, &world.joint(Augmentation::None), [2, 2], 0.01);
}

/// Steps with few draws or few rows leave some noise in the scales.
const NOISY: f64 = 0.05;

/// Learning rates for which their noise is small enough.
const FAST: Schedule = Schedule::Cosine { initial: 0.05, last: 0.0 };

#[test]
fn local_steps_lead_to_the_same_posterior_in_fewer_exchanges() {
    let world = LinearWorld::new(12, 2, 2);
    let mut how = options(VerticalOptions::augmented(1.0).mean_field().local_steps(5), 1_500);
    (how.settings.particles, how.settings.schedule) = (4, FAST);
    let fit = run(&world, &how);
    is_nearest(&fit, &world.joint(Augmentation::Auxiliary { rho: 1.0 }), [2, 2], NOISY);
}

#[test]
fn row_minibatches_lead_to_the_same_posterior() {
    let world = LinearWorld::new(12, 2, 2);
    let mut how = options(VerticalOptions::augmented(1.0).mean_field(), 6_000);
    (how.settings.particles, how.settings.schedule) = (4, FAST);
    how.settings.minibatch.insert("row".into(), 4);
    let fit = run(&world, &how);
    is_nearest(&fit, &world.joint(Augmentation::Auxiliary { rho: 1.0 }), [2, 2], NOISY);
}

#[test]
fn exchanges_and_bytes_are_counted_and_a_party_sends_as_many_numbers_as_rows() {
    let bytes = |rows: usize, how: VerticalOptions| {
        let mut how = options(how, 10);
        (how.elbo_draws, how.settings.particles, how.settings.noise) = (1, 1, NoiseKind::Independent);
        let fit = run(&LinearWorld::new(rows, 2, 1), &how);
        (fit.record.counters.rounds, fit.record.counters.bytes_from_silos)
    };
    // Ten steps and one bound of one draw; the power likelihood takes two exchanges for each.
    let (rounds, small) = bytes(10, VerticalOptions::augmented(1.0));
    let (_, large) = bytes(110, VerticalOptions::augmented(1.0));
    assert_eq!(rounds, 11);
    assert_eq!(large - small, 2 * 11 * 100 * 8);
    let (rounds, small) = bytes(10, VerticalOptions::power_likelihood(1.0));
    let (_, large) = bytes(110, VerticalOptions::power_likelihood(1.0));
    assert_eq!(rounds, 22);
    // z at every step and for the bound, its gradient by the predictors at every step.
    assert_eq!(large - small, 2 * (11 + 10) * 100 * 8);
}

#[test]
fn predictions_are_those_of_the_augmented_model_with_noise_and_of_the_declared_one_without() {
    let world = LinearWorld::new(12, 2, 2);
    // Predictions are checked under the posterior that was found, wherever it lies.
    let mut how = options(VerticalOptions::augmented(1.0).mean_field(), 500);
    how.summary_draws = 100;
    let mut fit = run(&world, &how);
    let new = LinearWorld::rows_of(&world, 3);
    for (model, variance) in
        [(PredictedModel::Augmented, NOISE_SD.powi(2) + 2.0), (PredictedModel::Declared, NOISE_SD.powi(2))]
    {
        let draws = 10_000;
        let prediction = fit.predict(&new.parties, &new.labels, draws, model).unwrap();
        for (row, x) in new.inputs.chunks(new.columns).enumerate() {
            // q is independent over parties and head, so that moments add up.
            let posterior = fit.posterior();
            let (mut mean, mut spread) =
                (posterior.family.mean(posterior.parameters)[0], posterior.family.covariance(posterior.parameters)[0]);
            for (party, own) in x.chunks(2).enumerate() {
                let (m, c) = found(&fit, &format!("p{party}"));
                mean += own.iter().zip(&m).map(|(x, m)| x * m).sum::<f64>();
                spread += (0..4).map(|at| own[at / 2] * own[at % 2] * c[at]).sum::<f64>();
            }
            let sum = spread + variance;
            let expected = -0.5 * ((new.targets[row] - mean).powi(2) / sum + (std::f64::consts::TAU * sum).ln());
            // Five standard errors of a mean of 10,000 draws, whose standard deviation is at most sqrt(spread + 2).
            let bound = 5.0 * (spread + 2.0).sqrt() / (draws as f64).sqrt();
            assert!((prediction.mean.values[row] - mean).abs() < bound);
            // The density of a draw varies by less than its maximum: a relative error of a few per cent at most.
            assert!(
                (prediction.log_density[row] - expected).abs() < 0.05,
                "{} {expected}",
                prediction.log_density[row]
            );
        }
    }
}
