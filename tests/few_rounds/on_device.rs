//! Compares rounds whose rows are evaluated on the device with those of the host, and counts their reads.

use fixtures::far;
use fixtures::regression::{Regression, Rows, silos};
use partita::core::host_reads;
use partita::inference::{
    Algorithm, AlgorithmChoice, FewRounds, FewRoundsOptions, FewRoundsSilo, Outcome, SiloProgram,
};
use partita::{Device, FitOptions, Precision, Settings, fit};

fn on_device(on_device: bool) -> FewRoundsOptions {
    FewRoundsOptions { on_device, ..FewRoundsOptions::default() }
}

/// The posterior of a logistic regression over two silos.
fn parameters(device: &Device, is_on_device: bool) -> Vec<f64> {
    let data = silos(&[40, 25], 3, true, device);
    let algorithm = AlgorithmChoice::FewRounds(on_device(is_on_device));
    let options = FitOptions { algorithm, trust_draws: Some(0), ..super::options() };
    let fit = fit(&Regression { columns: 3, binary: true }, &data, device, &options, None).unwrap();
    fit.posterior().parameters.to_vec()
}

#[test]
fn a_fit_on_the_device_is_that_of_the_host() {
    let host = parameters(&Device::flex(), false);
    let double = far(&parameters(&Device::flex(), true), &host);
    assert!(double < 1e-9, "{double:e}");
    // In single precision a run ends where 0.001 nats are left to gain, which is 0.04 standard deviations before the last step
    // and the square of that after it; sums of 65 rows are 1e-5 nats off.
    let single = far(&parameters(&Device::flex().with_precision(Precision::Single), true), &host);
    assert!(single < 2e-3, "{single:e}");
}

#[test]
fn a_round_is_one_read_of_each_silo() {
    let device = Device::flex();
    let model = Regression { columns: 3, binary: false };
    let data = silos(&[12, 9], 3, false, &device);
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    let (settings, options) = (Settings::default(), on_device(true));
    let mut algorithm = FewRounds::new(&model, &device, &settings, &names, &options).unwrap();
    let silo =
        |(name, rows): &(String, Rows)| FewRoundsSilo::new(name, &model, rows, &device, &settings, &options).unwrap();
    let mut parties: Vec<FewRoundsSilo> = data.iter().map(silo).collect();
    let mut rounds = 0;
    for _ in 0..8 {
        if algorithm.ended().is_some() {
            break;
        }
        let mut outcomes = Vec::new();
        for request in algorithm.outgoing().unwrap() {
            let before = host_reads();
            outcomes.push(Outcome::Reply(parties[request.silo].answer(&request.message).unwrap()));
            if request.message.kind == "few.round" {
                assert_eq!(host_reads() - before, 1, "silo {} in round {rounds}", request.silo);
                rounds += 1;
            }
        }
        algorithm.incoming(outcomes).unwrap();
    }
    assert!(rounds >= 2, "{rounds} answers to rounds");
}

#[test]
fn latents_of_rows_are_refused_with_their_name() {
    let device = Device::flex();
    let data = fixtures::ConjugateGaussian::data(&fixtures::groups(6, 3), &device).unwrap();
    let refused =
        FewRoundsSilo::new("a", &fixtures::conjugate(), &data, &device, &Settings::default(), &on_device(true));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("on_device") && error.contains("latent in each silo"), "{error}");
}
