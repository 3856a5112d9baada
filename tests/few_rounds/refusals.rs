//! Refuses what the method does not take, with the name of the one that does.

use std::collections::BTreeMap;

use fixtures::{ConjugateGaussian, ConjugateSettings};
use partita::inference::{AlgorithmChoice, FewRoundsOptions};
use partita::{Device, FitOptions, Loss, Settings, fit};

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
