//! Refuses what the method does not take, with the name of the one that does.

use std::collections::BTreeMap;

use fixtures::latent_rows::LatentRows;
use fixtures::offset::Offset;
use fixtures::{ConjugateGaussian, ConjugateSettings};
use partita::burn::tensor::Tensor;
use partita::inference::{AlgorithmChoice, FewRoundsOptions};
use partita::{Device, FitOptions, Loss, Model, Settings, fit};

fn refusal(change: impl FnOnce(&mut FitOptions)) -> String {
    let model =
        ConjugateGaussian::new(ConjugateSettings { prior_mean: 0.0, prior_sd: 1.0, group_sd: 1.0, noise_sd: 1.0 });
    let device = Device::flex();
    let data = ConjugateGaussian::data(&[vec![1.0, 2.0], vec![0.5, 0.1]], &device).unwrap();
    let mut options = super::options();
    change(&mut options);
    fit(&model, &[("north".to_owned(), data)], &device, &options, None).unwrap_err().to_string()
}

#[test]
fn every_no_says_what_to_do() {
    let with = |own: FewRoundsOptions| refusal(move |options| options.algorithm = AlgorithmChoice::FewRounds(own));
    let settings = |own: Settings| refusal(move |options| options.settings = own);
    let minibatch = BTreeMap::from([("group".to_owned(), 1)]);
    let cases = [
        (with(FewRoundsOptions { draws: Some(3), ..Default::default() }), "twice one more than there are globals"),
        (with(FewRoundsOptions { tolerance: 0.0, ..Default::default() }), "a finite number > 0, in nats"),
        (with(FewRoundsOptions { least_rows: 5, ..Default::default() }), "2 rows in silo `north`, at least 5 wanted"),
        (settings(Settings { minibatch, ..Settings::default() }), "use Sfvi for minibatches"),
        (settings(Settings { loss: Loss::Beta(1.5), ..Settings::default() }), "use Sfvi"),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "`{found}` does not say `{expected}`");
    }
}

/// The words of a model that is fitted where it can be, or is refused.
fn said<M: Model<Data = Tensor<1>>>(model: &M) -> Option<String> {
    let device = Device::flex();
    let silos = [("north".to_owned(), device.tensor(vec![0.5, 1.5, -0.25], [3]))];
    let options = FitOptions { elbo_draws: 2, summary_draws: 0, trust_draws: Some(0), ..super::options() };
    fit(model, &silos, &device, &options, None).err().map(|error| error.to_string())
}

#[test]
fn a_model_that_is_too_large_or_trained_is_refused_with_the_method_that_takes_it() {
    let cases = [
        (
            said(&LatentRows { globals: 201, latents: 1 }),
            ["FewRounds with 201 globals", "at most 200 globals, whose full covariance a round sends; use Sfvi"],
        ),
        (
            said(&Offset::new(0.0, 0)),
            [
                "FewRounds for a model with 1 trained parameters",
                "a model without trained parameters, such as an encoder's; use Sfvi",
            ],
        ),
        (
            said(&LatentRows { globals: 1, latents: 9 }),
            [
                "FewRounds with 9 latents a row in row",
                "at most eight latents a row or of the silo, which are integrated; use Sfvi",
            ],
        ),
    ];
    for (found, expected) in cases {
        let found = found.unwrap();
        fixtures::says(&found, &expected);
    }
    // What is just small enough is taken.
    assert_eq!(said(&LatentRows { globals: 1, latents: 8 }), None);
}
