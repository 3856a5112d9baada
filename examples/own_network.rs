//! Makes a Burn module Bayesian: its weights become latents, and its predictions say how sure they are.
//!
//! ```sh
//! cargo run --release --example own_network
//! ```
//!
//! What you should see: a wave that two silos have measured on two stretches. On the stretches the network is sure (sd
//! below 0.1) and right (error below 0.1); far outside them its sd is more than five times as large. Three seconds on a
//! laptop. The idea is that of Blundell and others (2015), Weight uncertainty in neural networks, Figure 5.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::burn::module::{Module, Param};
use partita::burn::{self, tensor::Tensor};
use partita::core::{Key, Noise, Purpose};
use partita::inference::write_atomically;
use partita::{FamilyPlan, FitOptions, Gaussian, Model, Normal, Result, Schedule, Scope, Settings, SiteTable, fit};
use serde_json::json;

/// Any Burn module will do: this one has a hidden layer of hyperbolic tangents.
#[derive(Module, Debug)]
struct Network {
    hidden: Param<Tensor<2>>,
    shift: Param<Tensor<2>>,
    output: Param<Tensor<2>>,
}

impl Network {
    fn forward(&self, x: &Tensor<1>) -> Tensor<1> {
        let x = x.clone().reshape([-1, 1]);
        (x.matmul(self.hidden.val()) + self.shift.val()).tanh().matmul(self.output.val()).reshape([-1])
    }
}

#[derive(Module, Debug)]
struct Regression {
    #[module(skip)] // its parameters are latents, not point parameters
    network: Network,
}

impl Model for Regression {
    type Globals = Network;
    type Data = [Tensor<1>; 2];

    fn global(&self, scope: &mut Scope<'_>) -> Result<Network> {
        scope.module("network", &self.network, Normal::new(0.0, 1.0)) // the same module with its parameters drawn
    }

    fn local(&self, scope: &mut Scope<'_>, network: &Network, [x, y]: &Self::Data) -> Result<()> {
        scope.plate("row", x.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(network.forward(&rows.take(x)?), 0.1), rows.take(y)?)
        })
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(None)?;
    let mut noise = Noise::new(1).stream(Key::new(Purpose::Initial, 0));
    let mut start = |shape: [usize; 2]| {
        let values = (0..shape[0] * shape[1]).map(|_| noise.standard_normal()).collect();
        Param::from_tensor(device.tensor(values, shape))
    };
    let model =
        Regression { network: Network { hidden: start([1, 20]), shift: start([1, 20]), output: start([20, 1]) } };
    let wave = |x: f64| (2.0 * x).sin();
    let silo = |name: &str, from: f64| {
        let x: Vec<f64> = (0..30).map(|place| from + f64::from(place) / 30.0).collect();
        let y = x.iter().map(|x| wave(*x)).collect();
        (name.to_owned(), [device.tensor(x, [30]), device.tensor(y, [30])])
    };
    let settings = Settings {
        steps: 4_000,
        family: FamilyPlan::new().global(Gaussian::full_rank()).initial_scale(0.02),
        schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
        ..Settings::default()
    };
    let options = FitOptions { settings, summary_draws: 0, ..FitOptions::default() };
    let fit = fit(&model, &[silo("north", -1.0), silo("south", 0.5)], &device, &options, None)?;

    // Two hundred networks drawn from the posterior, each predicting the wave at a place.
    let table = SiteTable::globals(&model, &device)?;
    let networks =
        (0..200).map(|index| table.globals_at(&model, &device, &fit.posterior().draw(&Noise::new(2), index)));
    let networks = networks.collect::<Result<Vec<Network>>>()?;
    let predict = |x: f64| {
        let x = device.tensor(vec![x], [1]);
        let at_x = |network: &Network| network.forward(&x).into_data().iter().collect::<Vec<f64>>();
        let draws: Vec<f64> = networks.iter().flat_map(at_x).collect();
        let mean = draws.iter().sum::<f64>() / 200.0;
        (mean, (draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 199.0).sqrt())
    };
    let ((mean, sure), (_, unsure)) = (predict(1.0), predict(4.0));
    println!(
        "{mean:.3} ± {sure:.3} at 1, where the wave is at {:.3}; ± {unsure:.3} at 4, where none was seen",
        wave(1.0)
    );
    assert!((mean - wave(1.0)).abs() < 0.1 && sure < 0.1 && unsure > 5.0 * sure);
    let result = json!({ "elbo": fit.report.elbo, "error": mean - wave(1.0), "sd": sure, "sd_outside": unsure });
    Ok(write_atomically(Path::new("output/own_network/result.json"), result.to_string().as_bytes())?)
}
