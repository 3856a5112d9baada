//! Tests local problems with their cavity in closed form: a silo without information changes nothing.

use burn::module::Module;
use burn::tensor::Tensor;
use partita::inference::{Algorithm, GradientDescent, Outcome, Pvi, PviSilo, Silo, SiloProgram};
use partita::{
    BayesianLinear, Device, Estimator, FamilyPlan, Gaussian, Model, Normal, PviOptions, Result, Schedule, Scope,
    Settings, burn,
};

/// A latent layer that no observation depends on.
#[derive(Module, Debug)]
struct Idle {
    #[module(skip)]
    layer: BayesianLinear,
}

impl Model for Idle {
    type Globals = BayesianLinear;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<BayesianLinear> {
        scope.linear("layer", &self.layer, Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, layer: &BayesianLinear, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let outputs = layer.forward(rows.take(data)?.unsqueeze_dim(1)).sum_dim(1).flatten::<1>(0, 1);
            scope.observe("y", Normal::new(outputs * 0.0, 1.0), rows.take(data)?)
        })
    }
}

/// The distance of the posterior from the prior at which it started, as the largest change of a natural parameter.
fn movement(estimator: Estimator) -> f64 {
    let device = Device::flex();
    let zero = BayesianLinear::new(device.tensor(vec![0.0; 3], [1, 3]), device.tensor(vec![0.0; 3], [3]));
    let model = Idle { layer: zero };
    let settings = Settings {
        steps: 50,
        estimator,
        // The family starts at the prior.
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(1.0),
        schedule: Schedule::Constant { rate: 0.01 },
        ..Settings::default()
    };
    let options = PviOptions { solver: GradientDescent::default().into(), ..PviOptions::new(50) };
    let data = device.tensor(vec![0.3, -1.0], [2]);
    let silo = Silo::new("idle", 0, &model, &data, &device, &settings).unwrap();
    let mut silo = PviSilo::new(silo, 0, options.clone()).unwrap();
    let mut pvi = Pvi::new(&model, &device, &settings, &["idle".to_owned()], vec![2], options).unwrap();
    let answer = |request: partita::inference::Request| Outcome::Reply(silo.answer(&request.message).unwrap());
    let outcomes = pvi.outgoing().unwrap().into_iter().map(answer).collect();
    pvi.incoming(outcomes).unwrap();
    fixtures::largest(pvi.natural().iter().zip(pvi.prior()).map(|(own, prior)| (own - prior).abs()))
}

#[test]
fn with_the_entropy_in_closed_form_a_silo_that_knows_nothing_moves_nothing() {
    // Rounding of the gradient, which Adam divides by its size plus 1e-5 at the least.
    for estimator in [Estimator::ClosedFormEntropy, Estimator::LocalReparameterisation] {
        assert!(movement(estimator) < 1e-9, "{estimator:?}: {}", movement(estimator));
    }
    // Draws of the cavity's log density have noise, which enters fifty steps of 0.01.
    assert!(movement(Estimator::Total) > 1e-3);
}
