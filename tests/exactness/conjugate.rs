//! Holds SFVI to exact answers: zero gradient and the evidence at the posterior, and recovery of it from a cold start.

use fixtures::{
    ConjugateGaussian, ConjugatePosterior, ConjugateSettings, Parties, conjugate, conjugate_silos, exact_locals,
    groups, split, structured,
};
use partita::burn::tensor::Tensor;
use partita::inference::{Algorithm, Exchange, Sgd, Silo};
use partita::{Device, Estimator, FitOptions, Schedule, Settings, fit};

const GROUPS: usize = 10;

/// Rounding of sums of some hundred terms of size up to 100 in f64.
const ROUNDING: f64 = 1e-11;

fn at_the_posterior(estimator: Estimator) -> (Parties, ConjugatePosterior, Vec<Vec<f64>>) {
    let (device, model, groups) = (Device::flex(), conjugate(), groups(GROUPS, 4));
    let exact = model.posterior(&groups);
    let settings = Settings { family: structured(), estimator, ..Settings::default() };
    let data: Vec<Tensor<2>> =
        split(&groups, 2).iter().map(|part| ConjugateGaussian::data(part, &device).unwrap()).collect();
    let mut parties = Parties::new(&model, &data, &device, &settings);
    parties.algorithm.set_parameters(vec![exact.mean, exact.sd.ln()]).unwrap();
    for (silo, half) in parties.silos.iter_mut().zip([0..GROUPS / 2, GROUPS / 2..GROUPS]) {
        silo.set_local_parameters(exact_locals(&exact, half)).unwrap();
    }
    (parties, exact, groups)
}

/// Gradients by the global parameters and bounds, for 100 draws.
fn hundred_draws(estimator: Estimator) -> (Vec<Vec<f64>>, Vec<f64>, ConjugatePosterior) {
    let (parties, exact, _) = at_the_posterior(estimator);
    let (algorithm, mut exchange) = parties.in_process(1);
    let mut gradients = Vec::new();
    let mut elbos = Vec::new();
    for offset in 0..2 {
        let outcomes = exchange.exchange(algorithm.elbo_requests(50, offset), algorithm.manifest(), None).unwrap();
        let elbo_samples = algorithm.elbo_samples(outcomes, 50, offset).unwrap();
        gradients.extend(elbo_samples.gradients);
        elbos.extend(elbo_samples.elbos);
    }
    (gradients, elbos, exact)
}

#[test]
fn sticking_the_landing_gradient_by_globals_is_zero_for_every_noise_at_the_posterior() {
    let (gradients, _, _) = hundred_draws(Estimator::StickingTheLanding);
    assert_eq!(gradients.len(), 100);
    let largest = fixtures::largest(gradients.iter().flatten().map(|g| g.abs()));
    assert!(largest < ROUNDING, "largest component {largest:e}");
}

#[test]
fn sticking_the_landing_step_moves_no_local_parameter_at_the_posterior() {
    // Plain descent at rate 1 moves each parameter by its gradient.
    let (device, model, groups) = (Device::flex(), conjugate(), groups(GROUPS, 4));
    let exact = model.posterior(&groups);
    for seed in 0..100 {
        let settings = Settings {
            family: structured(),
            seed,
            optimiser: Sgd { momentum: 0.0 }.into(),
            schedule: Schedule::Constant { rate: 1.0 },
            ..Settings::default()
        };
        let data = ConjugateGaussian::data(&groups, &device).unwrap();
        let mut parties = Parties::new(&model, &[data], &device, &settings);
        parties.algorithm.set_parameters(vec![exact.mean, exact.sd.ln()]).unwrap();
        let silo: &mut Silo = &mut parties.silos[0];
        silo.set_local_parameters(exact_locals(&exact, 0..GROUPS)).unwrap();
        let request = parties.algorithm.outgoing().unwrap().remove(0);
        partita::inference::SiloProgram::answer(silo, &request.message).unwrap();
        let moved = silo.local_parameters();
        for (before, after) in exact_locals(&exact, 0..GROUPS)[0].iter().zip(&moved[0]) {
            assert!((before - after).abs() < ROUNDING, "seed {seed}: {before} -> {after}");
        }
    }
}

#[test]
fn total_derivative_gradient_is_not_zero_at_the_posterior() {
    let (gradients, _, _) = hundred_draws(Estimator::Total);
    for gradient in gradients {
        let size = fixtures::largest(gradient.iter().map(|g| g.abs()));
        assert!(size > 1e-3, "a total-derivative gradient of size {size:e} at the posterior");
    }
}

#[test]
fn every_sampled_bound_equals_the_log_evidence_at_the_posterior() {
    for estimator in [Estimator::StickingTheLanding, Estimator::Total] {
        let (_, elbos, exact) = hundred_draws(estimator);
        for elbo in elbos {
            assert!((elbo - exact.log_evidence).abs() < ROUNDING, "{elbo} against {}", exact.log_evidence);
        }
    }
}

#[test]
fn closed_form_entropy_bound_averages_to_the_log_evidence_at_the_posterior() {
    let (_, elbos, exact) = hundred_draws(Estimator::ClosedFormEntropy);
    #[allow(clippy::cast_precision_loss, reason = "a hundred draws")]
    let count = elbos.len() as f64;
    let mean = elbos.iter().sum::<f64>() / count;
    let variance = elbos.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // 5 standard errors at 100 draws.
    assert!((mean - exact.log_evidence).abs() < 5.0 * (variance / count).sqrt());
}

#[test]
fn cold_start_recovers_the_exact_posterior_for_one_two_and_five_silos() {
    let (device, model, groups) = (Device::flex(), conjugate(), groups(GROUPS, 4));
    let exact = model.posterior(&groups);
    for silos in [1, 2, 5] {
        let data = conjugate_silos(&groups, silos);
        let settings = Settings {
            steps: 6_000,
            family: structured(),
            schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
            ..Settings::default()
        };
        let fit = fit(&model, &data, &device, &FitOptions { settings, ..FitOptions::default() }, None).unwrap();
        let [mean, log_sd] = fit.posterior().parameters else { panic!("two parameters of one global") };
        assert!((mean - exact.mean).abs() < 0.01 * exact.sd, "J = {silos}: mean {mean}, exact {}", exact.mean);
        assert!((log_sd.exp() / exact.sd - 1.0).abs() < 0.01, "J = {silos}: sd {}, exact {}", log_sd.exp(), exact.sd);
        assert!((fit.report.elbo - exact.log_evidence).abs() < 1e-3, "J = {silos}: bound {}", fit.report.elbo);
    }
}

#[test]
fn the_evidence_of_one_observation_is_its_marginal_density() {
    let settings = ConjugateSettings { prior_mean: 0.0, prior_sd: 1.0, group_sd: 1.0, noise_sd: 1.0 };
    // y ~ N(0, 3) marginally, for one observation of one group.
    let exact = ConjugateGaussian::new(settings).posterior(&[vec![0.6]]);
    let marginal = -0.5 * (0.36 / 3.0 + (2.0 * std::f64::consts::PI * 3.0_f64).ln());
    assert!((exact.log_evidence - marginal).abs() < 1e-12);
}
