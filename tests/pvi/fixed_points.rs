//! Tests that a fixed point of PVI is stationary for the pooled data, but need not be a maximum (first erratum).

use fixtures::message::with_floats;
use fixtures::{named, partitioned};
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::inference::{Algorithm, Expectation, InProcess, NaturalGradient, Outcome, Pvi, RunOptions, Silent, run};
use partita::{FamilyPlan, Gaussian, Model, Normal, PviOptions, Result, Scope, Settings};

/// Silos, all with the same data.
const SILOS: usize = 4;
/// Weights of the fourth and the sixth Hermite polynomial in each log likelihood.
const FOURTH: f64 = 0.05;
const SIXTH: f64 = 0.01;

/// A standard normal number with the log likelihood $`a H_4(x) - b H_6(x)`$, which is bounded from above.
///
/// Under a standard normal the means of both polynomials and of their first and second derivatives are zero. To first
/// order, the data do not change a normal posterior at the prior: it is a fixed point with factors of 1.
#[derive(Module, Debug)]
struct Hermite {}

impl Model for Hermite {
    type Globals = Tensor<1>;
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("x", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, x: &Tensor<1>, (): &()) -> Result<()> {
        let square = x.clone() * x.clone();
        let fourth = square.clone() * square.clone();
        let sixth = fourth.clone() * square.clone();
        let h4 = fourth.clone() - square.clone() * 6.0 + 3.0;
        let h6 = sixth - fourth * 15.0 + square * 45.0 - 15.0;
        scope.factor("log_likelihood", h4 * FOURTH - h6 * SIXTH)
    }
}

/// The free energy of N(mean, variance) with this many likelihoods and the prior: with one, the objective of a silo at
/// the fixed point; with all, that of the pooled data.
fn free_energy(silos: f64, mean: f64, variance: f64) -> f64 {
    // Moments of a normal.
    let (m, v) = (mean * mean, variance);
    let (second, fourth) = (m + v, m * m + 6.0 * m * v + 3.0 * v * v);
    let sixth = m * m * m + 15.0 * m * m * v + 45.0 * m * v * v + 15.0 * v * v * v;
    let h4 = fourth - 6.0 * second + 3.0;
    let h6 = sixth - 15.0 * fourth + 45.0 * second - 15.0;
    silos * (FOURTH * h4 - SIXTH * h6) - 0.5 * (second - 1.0 - variance.ln())
}

struct Run {
    pvi: Pvi,
    exchange: InProcess,
}

impl Run {
    fn new() -> Self {
        let family = FamilyPlan::new().global(Gaussian::diagonal());
        let settings = Settings { family, steps: 200_000, ..Settings::default() };
        // Eight points integrate polynomials of degree 15: the local problems are solved without noise.
        let expectation = Expectation::GaussHermite { points: 8 };
        let solver = NaturalGradient { rate: 0.3, expectation }.into();
        let options = PviOptions { solver, ..PviOptions::new(400) };
        let (pvi, silos) = partitioned::Run::new(&Hermite {}, &named([(); SILOS]), &settings, options).programs();
        Self { pvi, exchange: InProcess::new(silos, 1).unwrap() }
    }

    fn visits(&mut self, count: u64) {
        let how = RunOptions { steps: 400 * count, ..RunOptions::default() };
        run(&mut self.pvi, &mut self.exchange, &how, &mut Silent).unwrap();
    }

    /// Mean and variance.
    fn moments(&self) -> (f64, f64) {
        let (mean, spread) = self.pvi.natural_family().moments(self.pvi.natural());
        (mean[0], spread.deviations()[0].powi(2))
    }
}

#[test]
fn a_fixed_point_may_be_the_maximum_of_every_local_free_energy_and_a_minimum_of_the_pooled_one() {
    let mut run = Run::new();
    run.visits(8);
    // Two sweeps of exact local solutions change nothing.
    let (mean, variance) = run.moments();
    assert!(mean.abs() < 1e-9 && (variance - 1.0).abs() < 1e-9, "{mean} {variance}");
    // It is the maximum of the local free energy over a wide grid of normals ...
    let here = free_energy(1.0, 0.0, 1.0);
    for mean in 0..=60 {
        for log_variance in -60..=30 {
            let (mean, variance) = (0.1 * f64::from(mean), (0.1 * f64::from(log_variance)).exp());
            assert!(free_energy(1.0, mean, variance) <= here, "mean {mean}, variance {variance}");
        }
    }
    // ... and, with all silos, stationary, but smallest along the variance.
    let pooled = |variance: f64| free_energy(SILOS as f64, 0.0, variance);
    let h = 1e-3;
    assert!(((pooled(1.0 + h) - pooled(1.0 - h)) / (2.0 * h)).abs() < 1e-5);
    assert!(pooled(1.0 + h) > pooled(1.0) && pooled(1.0 - h) > pooled(1.0));
}

#[test]
fn started_beside_such_a_point_partitioned_inference_leaves_it_and_ends_where_the_pooled_gradient_is_zero() {
    let mut run = Run::new();
    // Silo 0 answers a given change: a thousandth of precision.
    let request = run.pvi.outgoing().unwrap().remove(0);
    let reply = run.exchange.programs()[0].answer(&request.message).unwrap();
    run.pvi.incoming(vec![Outcome::Reply(with_floats(&reply, "change", &[0.0, -0.0005]))]).unwrap();
    // The next request reports it.
    run.pvi.leave(0).unwrap();
    run.pvi.join(0).unwrap();
    run.visits(400);
    let (mean, variance) = run.moments();
    let pooled = |mean: f64, variance: f64| free_energy(SILOS as f64, mean, variance);
    assert!((variance - 1.0).abs() > 0.1, "it stayed at {variance}");
    let h = 1e-5;
    let slope = |of: &dyn Fn(f64) -> f64| (of(h) - of(-h)) / (2.0 * h);
    assert!(slope(&|d| pooled(mean + d, variance)).abs() < 1e-6);
    assert!(slope(&|d| pooled(mean, variance * (1.0 + d))).abs() < 1e-6, "{variance}");
    assert!(pooled(mean, variance) > pooled(0.0, 1.0));
    for d in [-1e-3, 1e-3] {
        assert!(pooled(mean + d, variance) < pooled(mean, variance));
        assert!(pooled(mean, variance * (1.0 + d)) < pooled(mean, variance));
    }
}
