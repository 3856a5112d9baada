//! Shows which algorithm a fit takes whose options name none, and that its report says so.

use fixtures::latent_rows::LatentRows;
use partita::inference::{Ending, Posterior, start};
use partita::models::{MixedLogistic, RepeatedBinary};
use partita::{AlgorithmChoice, Device, FitOptions, Precision, Schedule, Settings, fit};

fn silos(device: &Device) -> Vec<(String, RepeatedBinary)> {
    fixtures::six_cities_halves(["hospital-0", "hospital-1"], device)
}

/// The algorithm and the reason that a report gives for one step of a fit.
fn chosen(model: &LatentRows, options: &FitOptions, device: &Device) -> (String, String) {
    let silos = [("a".to_owned(), device.tensor(vec![0.5, 1.5, -0.25], [3]))];
    let options = FitOptions { elbo_draws: 2, summary_draws: 0, ..options.clone() };
    let report = fit(model, &silos, device, &options, None).unwrap().report;
    let name = report.algorithm.as_str().map(str::to_owned);
    let name = name.unwrap_or_else(|| report.algorithm.as_object().unwrap().keys().next().unwrap().clone());
    (name, report.choice.unwrap())
}

#[test]
fn default_options_have_the_answer_in_a_handful_of_rounds() {
    let device = Device::flex();
    let found = fit(&MixedLogistic::new(4), &silos(&device), &device, &FitOptions::default(), None).unwrap();
    assert_eq!((found.record.ending, found.report.rounds), (Ending::Converged, 4));
    assert!((found.report.elbo + 819.4).abs() < 0.05, "{}", found.report.elbo);
    // The bound comes with the round of trust: more draws would change nothing that is printed.
    assert!(found.report.elbo_draws == 2_048 && found.report.elbo_se < 0.01, "{}", found.report.elbo_se);
    let omega = found.report.site("omega").unwrap();
    assert!((omega.mean + 0.785).abs() < 0.02 && (omega.sd - 0.085).abs() < 0.004, "{omega:?}");
    let text = found.report.to_string();
    assert!(text.contains("algorithm: FewRounds, chosen because few rounds integrate"), "{text}");
    // The open loop takes the same steps.
    let mut run = start(&MixedLogistic::new(4), &silos(&device), &device, &FitOptions::default()).unwrap();
    for _ in 0..3 {
        run.step().unwrap();
    }
    assert_eq!(run.posterior().parameters, found.posterior().parameters);
    // Steps after the end are looks at the same answer.
    let sds = |posterior: Posterior<'_>| posterior.family.covariance_matrix(posterior.parameters).deviations();
    let before = sds(run.posterior());
    for _ in 0..20 {
        run.step().unwrap();
    }
    for (before, after) in before.iter().zip(sds(run.posterior())) {
        assert!((after / before - 1.0).abs() < 0.01, "{before} {after}");
    }
}

#[test]
fn sfvi_is_chosen_where_few_rounds_do_not_serve_and_the_report_says_why() {
    let (double, single) = (Device::flex(), Device::flex().with_precision(Precision::Single));
    let steps = |steps| FitOptions { settings: Settings { steps, ..Settings::default() }, ..FitOptions::default() };
    for (model, options, device, name, reason) in [
        (LatentRows { globals: 1, latents: 0 }, FitOptions::default(), &double, "FewRounds", "integrate"),
        (LatentRows { globals: 1, latents: 3 }, FitOptions::default(), &double, "FewRounds", "integrate"),
        (LatentRows { globals: 1, latents: 1 }, steps(3), &double, "Sfvi", "steps"),
    ] {
        let (found, why) = chosen(&model, &options, device);
        assert!(found == name && why.contains(reason), "{found}: {why}");
    }
    // What is asked of data is asked before any step: `start` says it without the steps.
    for (model, device) in [
        (LatentRows { globals: 1, latents: 4 }, &double),
        (LatentRows { globals: 201, latents: 0 }, &double),
        (LatentRows { globals: 1, latents: 1 }, &single),
    ] {
        let silos = [("a".to_owned(), device.tensor(vec![0.5, 1.5, -0.25], [3]))];
        let (algorithm, _) = start(&model, &silos, device, &FitOptions::default()).unwrap().into_parties();
        assert_eq!(algorithm.name(), "Sfvi", "{model:?}");
    }
    // Without options the run finds its rate and its end. Observations have variance 5 given the mean, and sum to 1.75.
    let found = fit(
        &LatentRows { globals: 1, latents: 4 },
        &[("a".to_owned(), double.tensor(vec![0.5, 1.5, -0.25], [3]))],
        &double,
        &FitOptions::default(),
        None,
    );
    let report = found.unwrap().report;
    assert_eq!(report.options.schedule, Schedule::adaptive(), "{report}");
    assert_eq!(report.ending, Ending::Converged, "{report}");
    assert!(report.gradient_steps < 30_000, "{report}");
    assert!((report.sites[0].mean - (1.75 / 5.0) / (1.0 + 3.0 / 5.0)).abs() < 0.05, "{report}");
}

#[test]
fn what_is_named_is_taken() {
    let device = Device::flex();
    for (algorithm, name) in [(AlgorithmChoice::Sfvi, "Sfvi"), (AlgorithmChoice::Central, "Central")] {
        let options = FitOptions { algorithm, ..FitOptions::default() };
        let silos = [("a".to_owned(), device.tensor(vec![0.5, 1.5, -0.25], [3]))];
        let (found, _) =
            start(&LatentRows { globals: 1, latents: 1 }, &silos, &device, &options).unwrap().into_parties();
        assert_eq!(found.name(), name);
    }
}
