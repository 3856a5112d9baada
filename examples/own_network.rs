//! Makes a Burn module Bayesian: its weights become latents, and its predictions have a standard deviation.
//!
//! ```sh
//! cargo run --release --example own_network
//! ```
//!
//! What you should see: two silos have measured a wave on two intervals. On the intervals the network has an sd below
//! 0.1 and an error below 0.1; far outside them its sd is more than three times as large. Three seconds on a laptop.
//! The idea is that of Blundell and others (2015), Weight uncertainty in neural networks, Figure 5.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::burn::{self, module::Module, module::Param, tensor::Tensor};
use partita::core::{Key, Noise, Purpose};
use partita::inference::write_atomically;
use partita::models::{BayesianNetwork, Head, LabelledRows, Network};
use partita::{FamilyPlan, FitOptions, Gaussian, Normal, Result, Schedule, Settings, fit};
use serde_json::json;

/// Any Burn module works: this one has a hidden layer of hyperbolic tangents.
#[derive(Module, Debug)]
struct Wave {
    hidden: Param<Tensor<2>>,
    shift: Param<Tensor<2>>,
    output: Param<Tensor<2>>,
}

impl Network for Wave {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        (x.matmul(self.hidden.val()) + self.shift.val()).tanh().matmul(self.output.val())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(None)?;
    let mut noise = Noise::new(1).stream(Key::new(Purpose::Initial, 0));
    let mut start = |shape: [usize; 2]| {
        let values = (0..shape[0] * shape[1]).map(|_| noise.standard_normal()).collect();
        Param::from_tensor(device.tensor(values, shape))
    };
    let network = Wave { hidden: start([1, 20]), shift: start([1, 20]), output: start([20, 1]) };
    // Every parameter is a latent with this prior; measurements have an sd of 0.1.
    let model = BayesianNetwork::new(network, Head::Gaussian(Some(0.1)), Normal::new(0.0, 1.0));
    let wave = |x: f64| (2.0 * x).sin();
    let silo = |name: &str, from: f64| -> Result<(String, LabelledRows)> {
        let x: Vec<f64> = (0..30).map(|place| from + f64::from(place) / 30.0).collect();
        let y = x.iter().map(|x| wave(*x)).collect();
        Ok((name.to_owned(), LabelledRows::new(x, y, 30, &device)?))
    };
    let settings = Settings {
        steps: 4_000,
        family: FamilyPlan::new().global(Gaussian::full_rank()).initial_scale(0.02),
        schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
        ..Settings::default()
    };
    let options = FitOptions { settings, summary_draws: 0, ..FitOptions::default() };
    let fit = fit(&model, &[silo("north", -1.0)?, silo("south", 0.5)?], &device, &options, None)?;

    // Two hundred networks drawn from the posterior, at a measured point and at one far away.
    let places = device.tensor(vec![1.0, 4.0], [2, 1]);
    let (mut mean, mut square) = ([0.0; 2], [0.0; 2]);
    for index in 0..200 {
        let drawn = fit.posterior().draw(&Noise::new(2), index);
        for (place, y) in model.predict(&device, &places, [drawn])?.values.into_iter().enumerate() {
            mean[place] += y / 200.0;
            square[place] += y * y / 200.0;
        }
    }
    let [sure, unsure] = [0, 1].map(|place| (square[place] - mean[place].powi(2)).sqrt());
    let error = mean[0] - wave(1.0);
    println!("at 1 off by {error:.3}, sd {sure:.3}; at 4, where nothing was seen, sd {unsure:.3}");
    assert!(error.abs() < 0.1 && sure < 0.1 && unsure > 3.0 * sure);
    let result = json!({ "elbo": fit.report.elbo, "error": error, "sd": sure, "sd_outside": unsure });
    Ok(write_atomically(Path::new("output/own_network/result.json"), result.to_string().as_bytes())?)
}
