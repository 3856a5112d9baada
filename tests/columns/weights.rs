//! Claims that a party's log prior and gradients count the prior of its point weights, once and exactly.

use partita::Device;
use partita::core::{Key, Noise, Purpose};
use partita::models::vertical::{LastLayer, PointNetwork};
use partita::models::{Activation, Mlp};
use partita::vertical::{Contribution, Party};

const ROWS: usize = 5;
const SD: f64 = 0.7;

fn numbers(count: usize, block: u32) -> Vec<f64> {
    fixtures::standard_normals(&mut Noise::new(23).stream(Key::new(Purpose::Check, 0).block(block)), count)
}

fn mlp(outputs: usize) -> Mlp {
    Mlp::new(&[2, 3, outputs], Activation::Tanh, 4, &Device::flex())
}

/// The log prior and the gradient by latents and weights of a party at some weights, for a literal adjoint.
fn at<C: Contribution<Data = partita::burn::tensor::Tensor<2>>>(
    contribution: C,
    latents: &[f64],
    weights: &[f64],
) -> (f64, f64, Vec<f64>, Vec<f64>) {
    let device = Device::flex();
    let mut party = Party::new("p", contribution, device.tensor(numbers(2 * ROWS, 1), [ROWS, 2]));
    party.set_theta(weights, &device).unwrap();
    let share = party.contribute(&device, &party.table(&device).unwrap(), latents, None).unwrap();
    let adjoint = numbers(ROWS, 2);
    let sum: f64 = share.outputs().values.iter().zip(&adjoint).map(|(g, a)| g * a).sum();
    let prior = share.log_prior();
    let gradient = share.vjp(&adjoint).unwrap();
    (prior, prior + sum, gradient.globals, gradient.theta)
}

#[test]
fn the_prior_of_weights_adds_a_normal_log_density_and_its_gradient() {
    let weights = numbers(3 * 3 + 3 + 1, 3);
    let (plain, _, _, without) = at(PointNetwork::new(mlp(1)), &[], &weights);
    let (prior, _, _, with) = at(PointNetwork::new(mlp(1)).weights_from(SD), &[], &weights);
    let density = |w: f64| -0.5 * (w / SD).powi(2) - SD.ln() - 0.5 * std::f64::consts::TAU.ln();
    let expected: f64 = weights.iter().map(|w| density(*w)).sum();
    assert!((prior - plain - expected).abs() < 1e-12 * expected.abs(), "{prior} {plain} {expected}");
    for ((with, without), weight) in with.iter().zip(&without).zip(&weights) {
        // Rounding of sums of a few numbers of size 10.
        assert!((with - without + weight / (SD * SD)).abs() < 1e-13, "{with} {without} {weight}");
    }
}

#[test]
fn gradients_by_weights_and_last_layer_are_those_of_central_differences() {
    let weights = numbers(3 * 3 + 2 * (3 + 1), 4);
    let latents = numbers(2, 5);
    let party = || LastLayer::new(mlp(2), 2).weights_from(SD);
    let value = |latents: &[f64], weights: &[f64]| at(party(), latents, weights).1;
    let (_, _, by_latents, by_weights) = at(party(), &latents, &weights);
    // Central differences of a smooth function of numbers of size 1: truncation and rounding of this order.
    let (step, bound) = (1e-5, 1e-7);
    let moved = |values: &[f64], place: usize, step: f64| {
        let mut values = values.to_vec();
        values[place] += step;
        values
    };
    for (place, found) in by_weights.iter().enumerate() {
        let both = [step, -step].map(|step| value(&latents, &moved(&weights, place, step)));
        assert!(((both[0] - both[1]) / (2.0 * step) - found).abs() < bound, "weight {place}");
    }
    for (place, found) in by_latents.iter().enumerate() {
        let both = [step, -step].map(|step| value(&moved(&latents, place, step), &weights));
        assert!(((both[0] - both[1]) / (2.0 * step) - found).abs() < bound, "latent {place}");
    }
}

#[test]
fn a_standard_deviation_that_is_not_positive_is_refused() {
    let device = Device::flex();
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let party = Party::new("p", PointNetwork::new(mlp(1)).weights_from(bad), device.tensor(vec![0.0; 2], [1, 2]));
        let error = party.contribute(&device, &party.table(&device).unwrap(), &[], None).unwrap_err();
        assert!(error.to_string().contains("standard deviation"), "{error}");
    }
}
