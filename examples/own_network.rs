//! Makes a Burn module Bayesian: its weights become latents, and its predictions say how sure they are.
//!
//! ```sh
//! cargo run --release --example own_network
//! ```
//!
//! What you should see: a wave that two silos have measured on two stretches. On the stretches the network is sure (sd below
//! 0.1) and right (root mean square error below 0.1); far outside them its sd is more than five times as large. Three
//! seconds on a laptop. The idea is that of Blundell and others (2015), Weight uncertainty in neural networks, Figure 5.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::burn::module::{Module, Param};
use partita::burn::{self, tensor::Tensor};
use partita::inference::write_atomically;
use partita::{
    Device, FitOptions, Gaussian, Key, Model, Noise, Normal, Purpose, Result, Schedule, Scope, Settings, SiteTable, fit,
};

const UNITS: usize = 20;

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
    let network = Network { hidden: start([1, UNITS]), shift: start([1, UNITS]), output: start([UNITS, 1]) };
    let model = Regression { network };
    let wave = |x: &f64| (2.0 * x).sin();
    let stretch = |from: f64| (0..30).map(move |place| from + f64::from(place) / 30.0).collect::<Vec<f64>>();
    let silo = |name: &str, from: f64| {
        let (x, y) = (stretch(from), stretch(from).iter().map(wave).collect());
        (name.to_owned(), [device.tensor(x, [30]), device.tensor(y, [30])])
    };
    let settings = Settings {
        steps: 4_000,
        family: partita::FamilyPlan::new().global(Gaussian::full_rank()).initial_scale(0.02),
        schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
        ..Settings::default()
    };
    let options = FitOptions { settings, summary_draws: 0, ..FitOptions::default() };
    let fit = fit(&model, &[silo("north", -1.0), silo("south", 0.5)], &device, &options, None)?;

    let table = SiteTable::globals(&model, &device)?;
    let predict = |x: Vec<f64>, device: &Device| -> Result<Vec<[f64; 2]>> {
        let rows = x.len();
        let x = device.tensor(x, [rows]);
        let draw = |index| {
            let network = table.globals_at(&model, device, &fit.posterior().draw(&Noise::new(2), index))?;
            Ok(network.forward(&x).into_data().iter::<f64>().collect::<Vec<f64>>())
        };
        let draws = (0..200).map(draw).collect::<Result<Vec<_>>>()?;
        let moments = |row: usize| {
            let mean = draws.iter().map(|own| own[row]).sum::<f64>() / 200.0;
            [mean, (draws.iter().map(|own| (own[row] - mean).powi(2)).sum::<f64>() / 199.0).sqrt()]
        };
        Ok((0..rows).map(moments).collect())
    };
    let inside: Vec<f64> = [stretch(-1.0), stretch(0.5)].concat();
    let (near, far) = (predict(inside.clone(), &device)?, predict(vec![-4.0, 4.0], &device)?);
    let squares = near.iter().zip(&inside).map(|([mean, _], x)| (mean - wave(x)).powi(2));
    let error = (squares.sum::<f64>() / 60.0).sqrt();
    let (sure, unsure) = (near.iter().map(|[_, sd]| sd).fold(0.0, |a, b| b.max(a)), far[0][1].min(far[1][1]));
    println!(
        "root mean square error {error:.3} and sd at most {sure:.3} on the stretches, at least {unsure:.3} outside"
    );
    assert!(error < 0.1 && sure < 0.1 && unsure > 5.0 * sure);
    let result = serde_json::json!({ "elbo": fit.report.elbo, "error": error, "sd": sure, "sd_outside": unsure });
    Ok(write_atomically(Path::new("output/own_network/result.json"), result.to_string().as_bytes())?)
}
