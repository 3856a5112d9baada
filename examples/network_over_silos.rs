//! Fits a Bayesian network over three silos whose local steps stay on a device.
//!
//! ```sh
//! cargo run --release --example network_over_silos
//! cargo run --release --features wgpu --example network_over_silos -- wgpu
//! ```
//!
//! What you should see: each silo has seen a third of a ring, and draws a boundary through a part that it has not seen. The
//! network fitted over all three puts more than 90 % of new points on the right side. Half a minute in a development build.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::f64::consts::TAU;
use std::path::Path;

use partita::core::{Key, Noise, Purpose};
use partita::inference::write_atomically;
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, Fit, FitOptions, Gaussian, Normal, Result, RoundOptions, Settings, fit,
};
use serde_json::json;

/// Points between two angles, and whether each is inside the circle of radius one.
fn points(angles: [f64; 2], count: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut noise = Noise::new(seed).stream(Key::new(Purpose::Initial, 0));
    let (mut places, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (angle, radius) = (angles[0] + (angles[1] - angles[0]) * noise.uniform(), 0.4 + 1.2 * noise.uniform());
        places.extend([radius * angle.cos(), radius * angle.sin()]);
        labels.push(f64::from(u8::from(radius < 1.0)));
    }
    (places, labels)
}

/// The share of new points of the whole ring that the mean prediction of fifty networks puts on the right side.
fn accuracy(model: &BayesianNetwork<Mlp>, fit: &Fit, device: &Device) -> Result<f64> {
    let (places, labels) = points([0.0, TAU], 600, 9);
    let draws = (0..50).map(|index| fit.posterior().draw(&Noise::new(2), index));
    let found = model.predict(device, &device.tensor(places, [labels.len(), 2]), draws)?;
    let right = found.values.chunks(2).zip(&labels).filter(|(row, label)| (row[1] > row[0]) == (**label > 0.5));
    Ok(right.count() as f64 / labels.len() as f64)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = partita::gpu::device(std::env::args().nth(1).as_deref())?;
    let network = Mlp::new(&[2, 16, 2], Activation::Tanh, 1, &device);
    let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 2.0));
    let third = |place: u32| [TAU * f64::from(place) / 3.0, TAU * f64::from(place + 1) / 3.0];
    let silo = |place: u32| -> Result<(String, LabelledRows)> {
        let (x, y) = points(third(place), 200, u64::from(place));
        Ok((format!("hospital-{place}"), LabelledRows::new(x, y, 200, &device)?))
    };
    // A round is fifty steps of every silo, of which its device is read once.
    let rounds = RoundOptions { on_device: true, ..RoundOptions::paper(50) };
    let settings = Settings {
        steps: 4_000,
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(0.02),
        ..Settings::default()
    };
    let options = FitOptions {
        algorithm: AlgorithmChoice::SfviAvg(rounds),
        settings,
        summary_draws: 0,
        trust_draws: Some(0),
        ..FitOptions::default()
    };
    let silos = [silo(0)?, silo(1)?, silo(2)?];
    let together = accuracy(&model, &fit(&model, &silos, &device, &options, None)?, &device)?;
    let alone = accuracy(&model, &fit(&model, &silos[..1], &device, &options, None)?, &device)?;
    println!("right of new points: {together:.3} over three silos, {alone:.3} with one");
    assert!(together > 0.9 && together > alone);
    let result = json!({ "together": together, "alone": alone });
    Ok(write_atomically(Path::new("output/network_over_silos/result.json"), result.to_string().as_bytes())?)
}
