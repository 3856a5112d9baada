//! Tests the errors of settings out of their domain: zero counts, unknown names, rates and scales not positive.

use fixtures::latent_rows::LatentRows;
use partita::gpu::{DeviceError, device};
use partita::inference::{Adam, AdamW, AlgorithmChoice, Error as FitError, Optimiser, Plug, PointMass, RmsProp, Sgd};
use partita::{Clip, Device, FamilyPlan, FitOptions, Gaussian, Schedule, Settings, fit};

use super::{fit_over, hierarchy, short_fit, silos, sound};

/// Fits with a changed setting, over silos and on pooled data, and expects the same refusal.
fn set(setting: &str, words: &[&str], change: fn(&mut FitOptions)) {
    for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::Central] {
        let error = fit_over(&hierarchy(), &silos(&[&[0.5, -1.0]]), |options| {
            options.algorithm = algorithm.clone();
            change(options);
        })
        .unwrap_err();
        assert!(matches!(&error, FitError::Setting { setting: found, .. } if *found == setting), "{error:?}");
        super::says(&error, words);
    }
}

#[test]
fn counts_of_zero_are_refused() {
    set("particles", &["`particles`", "found 0", "at least 1"], |options| options.settings.particles = 0);
    set("threads", &["`threads`", "found 0", "at least 1"], |options| options.threads = 0);
    set("steps", &["`steps`", "found 0", "at least 1"], |options| options.settings.steps = 0);
    set("elbo_draws", &["`elbo_draws`", "found 0", "at least 1"], |options| options.elbo_draws = 0);
    set("minibatch rows", &["`minibatch rows`", "found 0"], |options| {
        options.settings.minibatch.insert("row".into(), 0);
    });
    set("checkpoint", &["`checkpoint`", "every 0 steps", "at least 1"], |options| {
        options.checkpoint = Some(("never written".into(), 0));
    });
}

#[test]
fn a_minibatch_of_a_plate_there_is_not_is_refused() {
    set("minibatch", &["`minibatch`", "`rows`", "row", "plate of the model"], |options| {
        options.settings.minibatch.insert("rows".into(), 1);
    });
}

#[test]
fn a_minibatch_of_observations_alone_is_no_error() {
    let fit = short_fit(&sound(), |options| {
        options.settings.minibatch.insert("row".into(), 1);
    });
    assert!(fit.unwrap().report.elbo.is_finite());
}

#[test]
fn rates_that_are_not_positive_are_refused() {
    for schedule in [
        Schedule::Constant { rate: 0.0 },
        Schedule::Constant { rate: f64::NAN },
        Schedule::Cosine { initial: -0.1, last: 0.0 },
        Schedule::Linear { initial: 0.1, last: f64::INFINITY },
        Schedule::Exponential { initial: 0.1, last: 0.0 },
    ] {
        let result = short_fit(&sound(), |options| options.settings.schedule = schedule);
        refused!(result, FitError::Setting { setting: "schedule", .. }, ["schedule", "first rate > 0", "such as 0.02"]);
    }
}

#[test]
fn a_clip_that_is_not_positive_is_refused() {
    for norm in [0.0, -1.0, f64::NAN] {
        let result = short_fit(&sound(), |options| options.settings.clip = Some(Clip { norm }));
        refused!(result, FitError::Setting { setting: "clip.norm", .. }, ["clip.norm", "a number > 0", "such as 10"]);
    }
}

#[test]
fn optimisers_with_constants_out_of_their_domain_are_refused() {
    for optimiser in [
        Plug::<dyn Optimiser>::from(Adam { decay: [1.0, 0.999], epsilon: 1e-8 }),
        Adam { decay: [0.9, -0.1], epsilon: 1e-8 }.into(),
        Adam { decay: [0.9, 0.999], epsilon: f64::NAN }.into(),
        AdamW { weight_decay: -1.0 }.into(),
        Sgd { momentum: 1.5 }.into(),
        RmsProp { momentum: f32::NAN }.into(),
    ] {
        let result = short_fit(&sound(), |options| options.settings.optimiser = optimiser.clone());
        refused!(result, FitError::Setting { setting: "optimiser", .. }, ["optimiser", "0 <= momentum < 1"]);
    }
}

#[test]
fn a_family_for_a_site_there_is_not_is_refused_with_the_sites_there_are() {
    for name in ["nu", "y"] {
        let result = short_fit(&hierarchy(), |options| {
            options.settings.family = FamilyPlan::new().site(name, PointMass);
        });
        let words = ["the family plan", &format!("`{name}`"), "does not declare as latent", "mu, effect, y"];
        refused!(result, FitError::UnknownSite { .. }, words);
    }
}

#[test]
fn families_that_cannot_be_are_refused() {
    set("starts", &["`starts`", "found 0", "at least 1"], |options| options.starts = 0);
    set("initial_scale", &["`initial_scale`", "found 0", "such as 0.1"], |options| {
        options.settings.family = FamilyPlan::new().initial_scale(0.0);
    });
    set("low_rank", &["`low_rank`", "at least 1", "diagonal"], |options| {
        options.settings.family = FamilyPlan::new().global(Gaussian::low_rank(0));
    });
    set("family of local latents", &["low_rank", "full_rank (within a row)"], |options| {
        options.settings.family = FamilyPlan::new().local(Gaussian::low_rank(1));
    });
    set("family of local latents", &["isotropic for site", "full_rank (within a row)"], |options| {
        options.settings.family = FamilyPlan::new().local(Gaussian::isotropic());
    });
}

#[test]
fn a_central_fit_over_two_silos_is_refused() {
    let result = short_fit(&sound(), |options| options.algorithm = AlgorithmChoice::Central);
    refused!(result, FitError::Setting { setting: "silos", .. }, ["found 2", "pooled data", "use `Sfvi`"]);
    let result = fit_over(&sound(), &[], |options| options.algorithm = AlgorithmChoice::Central);
    refused!(result, FitError::NoSilos, ["found no silo"]);
}

#[test]
fn resuming_without_a_checkpoint_is_refused() {
    set("resume", &["`resume`", "no checkpoint folder"], |options| options.resume = true);
}

#[test]
fn a_device_without_that_name_is_refused_with_the_names_there_are() {
    let words = ["`tpu` is unknown", "flex, ndarray, wgpu, vulkan, cuda", "BURN_DEVICE"];
    refused!(device(Some("tpu")), DeviceError::Unknown { .. }, words);
    refused!(device(Some("cuda:many")), DeviceError::Unknown { .. }, ["`cuda:many`", "`cuda:1`"]);
}

#[test]
fn the_default_settings_are_sound() {
    Settings::default().check().unwrap();
}

#[test]
fn rows_whose_default_family_takes_gigabytes_are_refused() {
    // 8 means, 36 numbers of a factor, and 8 for each of 64 globals, twice: 1,068 a row.
    let device = Device::flex();
    let silos = |rows: usize| [("north".to_owned(), device.tensor(vec![0.5; rows], [rows]))];
    let options = |family| FitOptions {
        algorithm: AlgorithmChoice::Sfvi,
        settings: Settings { steps: 1, family, ..Settings::default() },
        elbo_draws: 1,
        trust_draws: Some(0),
        ..FitOptions::default()
    };
    let model = LatentRows { globals: 64, latents: 8 };
    let fit = |rows, family| fit(&model, &silos(rows), &device, &options(family), None);
    let error = fit(62_837, FamilyPlan::new()).unwrap_err();
    super::says(&error, &["1068 numbers a row", "62837 rows of plate `row`", "1.6 GB", "Gaussian::diagonal()"]);
    assert!(fit(100, FamilyPlan::new()).is_ok());
    assert!(fit(62_837, FamilyPlan::new().local(Gaussian::diagonal())).is_ok());
}
