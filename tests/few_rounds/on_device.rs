//! Compares rounds whose rows are evaluated on the device with those of the host, and counts their reads.

use fixtures::far;
use fixtures::mixed::{Mixed, children, on_device, reads};
use fixtures::regression::{Regression, silos};
use partita::inference::{AlgorithmChoice, FewRoundsSilo};
use partita::models::MixedLogistic;
use partita::{Device, FitOptions, Model, Precision, Settings, fit};

/// The posterior of a fit.
fn parameters<M: Model>(model: &M, silos: &[(String, M::Data)], device: &Device, is_on_device: bool) -> Vec<f64> {
    let algorithm = AlgorithmChoice::FewRounds(on_device(is_on_device));
    let options = FitOptions { algorithm, trust_draws: Some(0), ..super::options() };
    fit(model, silos, device, &options, None).unwrap().posterior().parameters.to_vec()
}

/// How far a fit on the device is from that of the host.
fn apart<M: Model>(model: &M, data: impl Fn(&Device) -> Vec<(String, M::Data)>, precision: Precision) -> f64 {
    let (host, device) = (Device::flex(), Device::flex().with_precision(precision));
    far(&parameters(model, &data(&device), &device, true), &parameters(model, &data(&host), &host, false))
}

#[test]
fn a_fit_on_the_device_is_that_of_the_host() {
    let (model, data) = (Regression { columns: 3, binary: true }, |device: &Device| silos(&[40, 25], 3, true, device));
    let double = apart(&model, data, Precision::Double);
    assert!(double < 1e-9, "{double:e}");
    // In single precision a run ends where 0.001 nats are left to gain, which is 0.04 standard deviations before the last step
    // and the square of that after it; sums of 65 rows are 1e-5 nats off.
    let single = apart(&model, data, Precision::Single);
    assert!(single < 2e-3, "{single:e}");
}

#[test]
fn rows_with_latents_on_the_device_have_the_fit_of_the_host() {
    let found = apart(&MixedLogistic::new(4), children, Precision::Double);
    assert!(found < 1e-8, "six cities: {found:e}");
    for (effects, is_count) in [(1, true), (2, false), (2, true)] {
        let model = Mixed { effects, is_count };
        let found = apart(&model, |device| model.silos(&[30, 22], device), Precision::Double);
        assert!(found < 1e-8, "{model:?}: {found:e}");
    }
}

#[test]
fn rows_with_latents_in_single_precision_have_the_fit_of_double_precision() {
    // As above; a sum of 537 rows is 1e-4 nats off.
    let found = apart(&MixedLogistic::new(4), children, Precision::Single);
    assert!(found < 5e-3, "six cities: {found:e}");
}

#[test]
fn a_round_is_one_read_of_each_silo() {
    let device = Device::flex();
    let found = reads(&Regression { columns: 3, binary: false }, &silos(&[12, 9], 3, false, &device), &device);
    assert!(found.len() >= 2 && found.iter().all(|own| *own == 1), "rows without latents: {found:?}");
    // Where points change, each number that is tried is a read: after the start's, whose posterior is another, here in the first
    // round alone.
    for (effects, is_count, changes) in [(1, true, false), (2, false, true), (2, true, false)] {
        let model = Mixed { effects, is_count };
        let found = reads(&model, &model.silos(&[30, 22], &device), &device);
        let (first, others) = found.split_at(2);
        assert!(!others.is_empty() && others.iter().all(|own| *own == 1), "{model:?}: {found:?}");
        assert!(
            first.iter().any(|own| *own > 1) == changes && first.iter().all(|own| *own <= 8),
            "{model:?}: {found:?}"
        );
    }
    let found = reads(&MixedLogistic::new(4), &children(&device), &device);
    assert!(found.last() == Some(&1) && found.iter().all(|own| *own <= 8), "six cities: {found:?}");
}

#[test]
fn four_latents_a_row_are_refused_with_what_to_do() {
    let (device, model) = (Device::flex(), Mixed { effects: 4, is_count: false });
    let (name, data) = model.silos(&[6], &device).remove(0);
    let refused = FewRoundsSilo::new(&name, &model, &data, &device, &Settings::default(), &on_device(true));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("on_device") && error.contains("4 latents of rows of plate `group`"), "{error}");
    assert!(error.contains("at most three a row; or false"), "{error}");
}
