//! Fits the same model on every device of this build, and compares each with the CPU in double precision.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use fixtures::{six_cities_family, six_cities_halves, six_cities_model};
use partita::gpu::{device, device_names};
use partita::{Device, FitOptions, Precision, Settings, check, fit};

/// The global posterior's parameters after some steps on a device.
fn after_steps(device: &Device) -> Vec<f64> {
    let silos = six_cities_halves(["a", "b"], device);
    assert!(check(&six_cities_model(), &silos, device).unwrap().passed());
    let settings = Settings { steps: 30, family: six_cities_family(), ..Settings::default() };
    let options = FitOptions { settings, elbo_draws: 2, summary_draws: 2, ..FitOptions::default() };
    fit(&six_cities_model(), &silos, device, &options, None).unwrap().posterior().parameters.to_vec()
}

#[test]
fn every_device_of_this_build_takes_the_steps_of_the_cpu() {
    let expected = after_steps(&Device::flex());
    for name in device_names() {
        match device(Some(name)) {
            Ok(device) => {
                let found = after_steps(&device);
                // Adam divides by the size of the gradient: rounding enters a step at its relative size, thirty times.
                let bound = if device.precision() == Precision::Double { 1e-10 } else { 1e-3 };
                let far = fixtures::largest(found.iter().zip(&expected).map(|(a, b)| (a - b).abs()));
                assert!(far < bound, "{name}: {far:e} from flex");
                println!("{name}: {far:e} from flex after 30 steps");
            }
            Err(error) => println!("skipped {name}: {error}"),
        }
    }
}
