//! Holds few rounds whose rows are integrated out on a GPU to those of the host, and counts their reads.

use fixtures::mixed::{Mixed, on_device, reads};
use partita::{AlgorithmChoice, Device, FitOptions, Model, fit};

use super::{far, on_every_gpu};

/// The posterior of a fit.
fn posterior<M: Model>(model: &M, silos: &[(String, M::Data)], device: &Device, is_on_device: bool) -> Vec<f64> {
    let algorithm = AlgorithmChoice::FewRounds(on_device(is_on_device));
    let options = FitOptions { algorithm, elbo_draws: 2, trust_draws: Some(0), ..FitOptions::default() };
    fit(model, silos, device, &options, None).unwrap().posterior().parameters.to_vec()
}

fn agrees<M: Model>(what: &str, model: &M, data: impl Fn(&Device) -> Vec<(String, M::Data)>) {
    let host = Device::flex();
    let expected = posterior(model, &data(&host), &host, false);
    on_every_gpu(|name, device| {
        let far = far(&posterior(model, &data(device), device, true), &expected);
        println!("{name}, {what}: {far:.1e}");
        // A run ends where 0.001 nats are left to gain, wherever rounding puts that.
        assert!(far < 5e-3, "{name}, {what}: {far:e}");
    });
}

#[test]
fn few_rounds_with_latents_of_rows_have_the_posterior_of_the_host() {
    // Few rows: every draw is many launches a move, and software Vulkan is slow at them.
    for (effects, is_count) in [(1, true), (2, false)] {
        let model = Mixed { effects, is_count };
        agrees(&format!("{model:?}"), &model, |device| model.silos(&[8, 6], device));
    }
}

#[test]
fn a_round_of_rows_on_a_gpu_that_keep_their_points_is_one_read() {
    on_every_gpu(|name, device| {
        let model = Mixed { effects: 1, is_count: true };
        let reads = reads(&model, &model.silos(&[30, 22], device), device);
        println!("{name}: {reads:?} reads");
        assert!(!reads.is_empty() && reads.iter().all(|own| *own == 1), "{name}: {reads:?}");
    });
}
