//! Holds training of a model's own parameters θ over silos to the closed-form maximum of the evidence.

use fixtures::{named, split};
use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::core::{Key, LogDensity, Noise, Purpose, theta, with_theta};
use partita::inference::{Algorithm, Exchange, ImportanceGradient, Posterior, Sgd};
use partita::{
    AlgorithmChoice, Device, Estimator, FitOptions, Model, Normal, Result, Schedule, Scope, Settings, SiteTable, burn,
    fit,
};

const WEIGHTED: Estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised };

/// y_i ~ N(b_i, 1) with b_i ~ N(0, e^{2θ}): marginally y_i ~ N(0, 1 + e^{2θ}), so θ has a closed form.
#[derive(Module, Debug)]
struct Shrinkage {
    log_scale: Param<Tensor<1>>,
}

impl Model for Shrinkage {
    type Globals = ();
    type Data = Tensor<1>;

    fn global(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn local(&self, scope: &mut Scope<'_>, (): &(), data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let b = scope.sample("b", Normal::new(0.0, self.log_scale.val().exp()).over(rows))?;
            scope.observe("y", Normal::new(b, 1.0), rows.take(data)?)
        })
    }
}

fn model(device: &Device) -> Shrinkage {
    Shrinkage { log_scale: Param::from_tensor(device.tensor(vec![0.0], [1])) }
}

fn observations() -> Vec<f64> {
    let mut noise = Noise::new(3).stream(Key::new(Purpose::Prior, 0));
    (0..60).map(|_| 2.0 * noise.standard_normal()).collect()
}

#[test]
fn theta_reaches_the_maximum_of_the_evidence_for_one_two_and_five_silos() {
    let (device, y) = (Device::flex(), observations());
    #[allow(clippy::cast_precision_loss, reason = "sixty observations")]
    let second_moment = y.iter().map(|y| y * y).sum::<f64>() / y.len() as f64;
    let exact = 0.5 * (second_moment - 1.0).ln();
    for silos in [1, 2, 5] {
        let data = named(split(&y, silos).iter().map(|own| device.tensor(own.clone(), [own.len()])));
        let settings =
            Settings { steps: 4_000, schedule: Schedule::Cosine { initial: 0.05, last: 0.0 }, ..Settings::default() };
        let options = FitOptions { settings, ..FitOptions::default() };
        let fit = fit(&model(&device), &data, &device, &options, None).unwrap();
        let Posterior { theta, .. } = fit.posterior();
        // At the optimum the conditional posterior is exact, so that the gradient by θ has no Monte Carlo bias.
        assert!((theta[0] - exact).abs() < 0.01, "J = {silos}: θ = {}, exact {exact}", theta[0]);
        assert_eq!(fit.report.theta, theta);
    }
}

#[test]
fn pooled_and_federated_training_of_theta_take_the_same_steps() {
    let (device, y) = (Device::flex(), observations());
    let data = [("all".to_owned(), device.tensor(y.clone(), [y.len()]))];
    for (estimator, particles) in [(Estimator::StickingTheLanding, 1), (Estimator::Total, 3), (WEIGHTED, 3)] {
        let trained = |algorithm| {
            let settings = Settings { steps: 50, estimator, particles, ..Settings::default() };
            let options = FitOptions { algorithm, settings, ..FitOptions::default() };
            fit(&model(&device), &data, &device, &options, None).unwrap().report.theta[0]
        };
        let (pooled, federated) = (trained(AlgorithmChoice::Central), trained(AlgorithmChoice::Sfvi));
        assert!((pooled - federated).abs() < 1e-12, "{estimator:?}: {pooled} and {federated}");
    }
}

#[test]
fn importance_weighted_gradient_by_theta_is_the_derivative_of_the_bound_over_silos() {
    let device = Device::flex();
    let data: Vec<Tensor<1>> =
        split(&observations()[..6], 3).iter().map(|own| device.tensor(own.clone(), [own.len()])).collect();
    let settings = Settings {
        estimator: WEIGHTED,
        particles: 5,
        optimiser: Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate: 1.0 },
        ..Settings::default()
    };
    // The bound of the first step, and θ after it.
    let at = |value: f64| {
        let model = with_theta(&model(&device), &[value], &device).unwrap();
        let (mut algorithm, mut exchange) = fixtures::Parties::new(&model, &data, &device, &settings).in_process(1);
        let bound = fixtures::step(&mut algorithm, &mut exchange).elbo;
        (bound, algorithm.posterior().theta[0])
    };
    let step = 1e-5;
    let quotient = (at(0.2 + step).0 - at(0.2 - step).0) / (2.0 * step);
    // At rate 1 θ moves by its gradient; central differences with step 1e-5 have an error of about 1e-10.
    let moved = at(0.2).1 - 0.2;
    assert!((moved - quotient).abs() < 1e-8, "{moved} against {quotient}");
}

#[test]
fn gradient_by_theta_equals_its_difference_quotient() {
    let device = Device::flex();
    let (y, b) = (vec![0.3, -1.2, 2.0], vec![vec![0.5, -0.4, 1.1]]);
    let data = device.tensor(y, [3]);
    let at = |value: f64| {
        let model = with_theta(&model(&device), &[value], &device).unwrap();
        let table = SiteTable::of(&model, &device, &data).unwrap();
        LogDensity::new(&model, &device, &table)
            .local(partita::core::Latents { globals: &[], locals: &b }, &data)
            .unwrap()
    };
    let step = 1e-5;
    let quotient = (at(0.2 + step).value - at(0.2 - step).value) / (2.0 * step);
    // Central differences with step 1e-5 of a function of size 10: error about 1e-10.
    assert!((at(0.2).theta[0] - quotient).abs() < 1e-8);
    assert_eq!(theta(&model(&device)).unwrap(), [0.0]);
}

#[test]
fn theta_and_its_optimiser_survive_save_and_load() {
    let (device, y) = (Device::flex(), observations());
    let settings = Settings { steps: 40, ..Settings::default() };
    let data = [device.tensor(y.clone(), [y.len()])];
    let run = |until: u64, state: Option<&partita::inference::Message>| {
        let parties = fixtures::Parties::new(&model(&device), &data, &device, &settings);
        let (mut algorithm, mut exchange) = parties.in_process(1);
        if let Some(state) = state {
            algorithm.load(state).unwrap();
        }
        for _ in 0..until {
            let outcomes = exchange.exchange(algorithm.outgoing().unwrap(), algorithm.manifest(), None).unwrap();
            algorithm.incoming(outcomes).unwrap();
        }
        algorithm.save()
    };
    let saved = run(7, None);
    assert_eq!(run(0, Some(&saved)), saved);
}
