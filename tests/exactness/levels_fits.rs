//! Fits three levels with every method against the exact posterior, and checks models whose silos lack a level.

use fixtures::largest;
use fixtures::levels::{Hospital, Hospitals, WardData, WardPosterior, Wards, hospitals};
use partita::inference::{PviOptions, RoundOptions, check};
use partita::{AlgorithmChoice, Device, FitOptions, Schedule, Settings, fit};

/// A silo for each of these ranges of hospitals.
fn silos(all: &[Hospital], split: &[std::ops::Range<usize>], device: &Device) -> Vec<(String, WardData)> {
    let part = |own: &std::ops::Range<usize>| (format!("silo-{}", own.start), WardData::new(&all[own.clone()], device));
    split.iter().map(part).collect()
}

#[test]
fn the_check_passes_over_unequal_silos_one_of_which_lacks_patients() {
    let device = Device::flex();
    for (hospitals, split) in [(Hospitals::Silo, vec![0..1, 1..2, 2..3]), (Hospitals::Plate, vec![0..2, 2..3])] {
        let report =
            check(&Wards { hospitals }, &silos(&fixtures::levels::hospitals(), &split, &device), &device).unwrap();
        assert!(report.passed(), "{report}");
        let names: Vec<&str> = report.checks.iter().map(|(name, ..)| name.as_str()).collect();
        let outermost = if hospitals == Hospitals::Silo { "clinic" } else { "hospital" };
        for level in ["clinic", "patient"].iter().filter(|level| **level != outermost) {
            let expected = format!("rows of `{level}` follow those of `{outermost}`");
            assert!(names.iter().any(|name| name.contains(&expected)), "{expected}: {names:?}");
        }
        assert!(report.to_string().contains("visit in patient"), "{report}");
    }
}

/// The largest error of a mean in posterior standard deviations, and of a standard deviation as a part of it, over the
/// mean of all and every local latent; and how far the bound is below the evidence.
fn errors(algorithm: AlgorithmChoice, hospitals: Hospitals, settings: Settings) -> (f64, f64, f64) {
    let (device, all) = (Device::flex(), hospitals_of(hospitals));
    let split = match (&algorithm, hospitals) {
        (AlgorithmChoice::Central, _) => std::iter::once(0..all.len()).collect(),
        (_, Hospitals::Silo) => vec![0..1, 1..2, 2..3],
        (_, Hospitals::Plate) => vec![0..1, 1..3],
    };
    let exact = WardPosterior::of(&all);
    let options = FitOptions { algorithm, settings, elbo_draws: 400, ..FitOptions::default() };
    let mut fit = fit(&Wards { hospitals }, &silos(&all, &split, &device), &device, &options, None).unwrap();
    let [mean, log_sd] = fit.posterior().parameters else { panic!("two parameters of one global") };
    let [exact_mean, exact_log_sd] = exact.global()[..] else { panic!("two parameters of one global") };
    let mut means = vec![(mean - exact_mean).abs() / exact_log_sd.exp()];
    let mut sds = vec![((log_sd - exact_log_sd).exp() - 1.0).abs()];
    for (silo, own) in fit.exchange.programs().iter().zip(split) {
        for (found, exact) in silo.local_moments().unwrap().into_iter().zip(exact.moments(own)) {
            for ((mean, sd), (exact_mean, exact_sd)) in found.0.iter().zip(found.1).zip(exact.0.iter().zip(&exact.1)) {
                means.push((mean - exact_mean).abs() / exact_sd);
                sds.push((sd / exact_sd - 1.0).abs());
            }
        }
    }
    (largest(means), largest(sds), exact.log_evidence - fit.report.elbo)
}

fn hospitals_of(place: Hospitals) -> Vec<Hospital> {
    // A pooled party has no silo's own latents of three hospitals.
    let mut all = hospitals();
    if place == Hospitals::Plate {
        all.swap(1, 2);
    }
    all
}

fn settings(steps: u64) -> Settings {
    Settings { steps, schedule: Schedule::Cosine { initial: 0.05, last: 0.0 }, ..Settings::default() }
}

#[test]
fn sfvi_and_pooled_data_find_the_posterior_of_every_level() {
    for (algorithm, hospitals) in [
        (AlgorithmChoice::Sfvi, Hospitals::Silo),
        (AlgorithmChoice::Sfvi, Hospitals::Plate),
        (AlgorithmChoice::Central, Hospitals::Plate),
    ] {
        let (means, sds, below) = errors(algorithm.clone(), hospitals, settings(6_000));
        assert!(means < 0.01 && sds < 0.01, "{algorithm:?}, {hospitals:?}: {means}, {sds}");
        assert!(below.abs() < 1e-3, "{algorithm:?}, {hospitals:?}: {below}");
    }
}

#[test]
fn minibatches_of_hospitals_find_the_posterior_of_every_level() {
    let minibatch = [("hospital".to_owned(), 1)].into();
    let settings = Settings { minibatch, ..settings(20_000) };
    let (means, sds, below) = errors(AlgorithmChoice::Sfvi, Hospitals::Plate, settings);
    assert!(means < 0.05 && sds < 0.05 && below.abs() < 0.02, "{means}, {sds}, {below}");
}

#[test]
fn partitioned_inference_finds_the_posterior_of_every_level() {
    for hospitals in [Hospitals::Silo, Hospitals::Plate] {
        // Visits long enough to solve their local problem: short ones leave the rows where the cavity was.
        let (means, sds, below) = errors(AlgorithmChoice::Pvi(PviOptions::new(1_000)), hospitals, settings(30_000));
        assert!(means < 0.01 && sds < 0.01 && below.abs() < 1e-3, "{hospitals:?}: {means}, {sds}, {below}");
    }
}

#[test]
fn averaging_takes_levels() {
    // Silos of one and of two hospitals: the average of unequal silos is not the posterior.
    let how = RoundOptions { scale_entropy: true, ..RoundOptions::paper(300) };
    let (means, sds, below) = errors(AlgorithmChoice::SfviAvg(how), Hospitals::Plate, settings(6_000));
    assert!(means < 1.0 && sds < 0.5 && below.is_finite(), "{means}, {sds}, {below}");
}
