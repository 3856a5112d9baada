//! Tests the errors of runs: panics, numbers that are not finite, steps that are too long, lost silos.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use partita::burn::tensor::Tensor;
use partita::inference::{
    Algorithm, AlgorithmChoice, Central, CentralSilo, Error as FitError, Exchange, InProcess, Outcome, RunOptions,
    Sfvi, Silent, Silo, SiloProgram, StartFrom, check, run,
};
use partita::{Device, Error, FitOptions, Normal, Schedule, Settings};

use super::{Recipe, fit_over, hierarchy, inner, says, short_fit, silos, sound, vector};

#[test]
fn a_model_that_panics_while_it_is_read_is_an_error_that_names_the_silo() {
    // Burn panics for shapes that cannot be added.
    let model = Recipe::local(|_, mu, data| {
        if data.dims()[0] == 2 {
            drop(mu.clone().expand([3]) + data.clone());
            Ok(())
        } else {
            Ok(())
        }
    });
    let error = short_fit(&model, |_| {}).unwrap_err();
    assert!(matches!(&error, FitError::Panicked { silo, .. } if silo == "b"), "{error:?}");
    says(&error, &["silo `b`", "the model panicked", "shape", "partita::check"]);
    let central = fit_over(&model, &silos(&[&[1.0, 2.0]]), |options| options.algorithm = AlgorithmChoice::Central);
    refused!(central, FitError::Panicked { .. }, ["silo `a`", "the model panicked"]);
}

#[test]
fn a_check_of_a_model_that_panics_names_the_silo() {
    let model =
        Recipe::local(|_, _, data| data.dims().get(1).map(drop).ok_or(()).map_err(|()| panic!("no second dimension")));
    let result = check(&model, &silos(&[&[1.0]]), &Device::flex());
    refused!(result, FitError::Panicked { .. }, ["silo `a`", "no second dimension"]);
}

#[test]
fn a_global_function_that_panics_names_the_coordinator() {
    let model = Recipe::global(|_| panic!("no globals today"));
    refused!(short_fit(&model, |_| {}), FitError::Panicked { .. }, ["the coordinator", "no globals today"]);
    let result = check(&model, &silos(&[&[1.0]]), &Device::flex());
    refused!(result, FitError::Panicked { .. }, ["the coordinator", "no globals today"]);
}

/// Counts evaluations of the models below, one each.
static CALLS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// How often this model was evaluated before.
fn calls(model: usize) -> usize {
    CALLS[model].fetch_add(1, Ordering::Relaxed)
}

#[test]
fn a_model_that_panics_in_mid_run_is_an_error_that_names_the_silo() {
    let model = Recipe::local(|_, _, data| {
        assert!(data.dims()[0] != 2 || calls(0) < 3, "the third step is one too many");
        Ok(())
    });
    let error = short_fit(&model, |_| {}).unwrap_err();
    assert!(matches!(&error, FitError::Panicked { silo, .. } if silo == "b"), "{error:?}");
    says(&error, &["silo `b`", "the third step is one too many"]);
}

#[test]
fn a_global_function_that_panics_in_mid_run_is_an_error() {
    let model = Recipe::global(|scope| {
        assert!(calls(1) < 9, "too many readings");
        scope.sample("mu", Normal::new(0.0, 1.0))
    });
    refused!(short_fit(&model, |_| {}), FitError::Panicked { .. }, ["too many readings"]);
}

#[test]
fn a_silo_still_answers_after_its_model_panicked_on_many_threads() {
    let settings = Settings { particles: 4, threads: Some(2), steps: 5, ..Settings::default() };
    let model = Recipe::local(|scope, mu, _| {
        assert!(calls(2) != 3, "once only");
        scope.factor("square", -(mu.clone() * mu.clone()))
    });
    let (device, data) = (Device::flex(), vector(&[1.0]));
    let mut algorithm = Sfvi::new(&model, &device, &settings, &["a".to_owned()]).unwrap();
    let silo = Silo::new("a", 0, &model, &data, &device, &settings).unwrap();
    let mut exchange = InProcess::new(vec![Box::new(silo) as Box<dyn SiloProgram>], 2).unwrap();
    let mut ask = || exchange.exchange(algorithm.outgoing().unwrap(), algorithm.manifest(), None).unwrap().remove(0);
    let failed = ask();
    assert!(
        matches!(&failed, Outcome::Failed(FitError::Panicked { reason, .. }) if reason.contains("once only")),
        "{failed:?}"
    );
    let answered = ask();
    assert!(matches!(&answered, Outcome::Reply(_)), "{answered:?}");
}

#[test]
fn a_log_density_that_becomes_nan_is_named_with_silo_step_and_site() {
    let model = Recipe::local(|scope, mu, _| {
        // One reading for the table, and one that finds that the model needs Burn's tape; then steps 0, 1, 2: the root of a
        // negative number at step 3 of the first silo.
        let under_root = if calls(3) < 5 { mu.clone() * 0.0 + 1.0 } else { mu.clone() * 0.0 - 1.0 };
        scope.factor("root", under_root.sqrt())
    });
    // A climb to the mode would read the model before the steps, and an adaptive rate undo the one that fails.
    let declared = |options: &mut FitOptions| {
        (options.settings.start, options.settings.schedule) = (StartFrom::Declared, Schedule::cosine());
    };
    let error = fit_over(&model, &silos(&[&[1.0]]), declared).unwrap_err();
    assert!(matches!(&error, FitError::InSilo { silo, step: 3, .. } if silo == "a"), "{error:?}");
    assert!(matches!(inner(&error), Error::NotFiniteMade { .. }), "{error:?}");
    says(&error, &["silo `a`", "step 3", "factor `root`", "NaN", "Lower the learning rate"]);
}

/// A density of `mu` whose value is 0 and whose gradient is 0/0.
fn kink(mu: &Tensor<1>) -> Tensor<1> {
    (mu.clone() * 0.0).sqrt()
}

#[test]
fn a_gradient_that_is_nan_is_named_with_silo_step_and_site() {
    let model = Recipe::local(|scope, mu, _| scope.factor("kink", kink(mu)));
    let error = short_fit(&model, |_| {}).unwrap_err();
    assert!(matches!(&error, FitError::NotFinite { who, step: 0, .. } if who == "a"), "{error:?}");
    says(&error, &["a, step 0", "site `mu`", "NaN", "Lower the learning rate"]);
    let local = Recipe::local(|scope, _, _| {
        let effect = scope.sample("effect", Normal::new(0.0, 1.0))?;
        scope.factor("kink", kink(&effect))
    });
    let error = short_fit(&local, |_| {}).unwrap_err();
    assert!(matches!(&error, FitError::NotFinite { step: 0, .. }), "{error:?}");
    says(&error, &["a, step 0", "`effect`"]);
}

#[test]
fn a_gradient_of_the_prior_that_is_nan_names_the_coordinator() {
    let model = Recipe::global(|scope| {
        let mu = scope.sample("mu", Normal::new(0.0, 1.0))?;
        scope.factor("kink", kink(&mu))?;
        Ok(mu)
    });
    for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::Central] {
        let result = fit_over(&model, &silos(&[&[1.0]]), |options| options.algorithm = algorithm.clone());
        refused!(
            result,
            FitError::NotFinite { step: 0, .. },
            ["step 0", "site `mu`", "NaN", "Lower the learning rate"]
        );
    }
}

#[test]
fn a_learning_rate_that_blows_up_is_said_so() {
    for rate in [1e3, 1e160, 1e300] {
        for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::Central] {
            let error = fit_over(&hierarchy(), &silos(&[&[0.5, -1.0]]), |options| {
                options.algorithm = algorithm.clone();
                options.settings.schedule = Schedule::Constant { rate };
                options.settings.steps = 50;
            })
            .unwrap_err();
            says(&error, &["step ", "learning rate"]);
        }
    }
}

#[test]
fn a_silo_that_does_not_answer_is_named_with_the_step() {
    let device = Device::flex();
    let names = ["a".to_owned(), "b".to_owned()];
    let mut algorithm = Sfvi::new(&sound(), &device, &Settings::default(), &names).unwrap();
    let silo = Silo::new("a", 0, &sound(), &vector(&[1.0]), &device, &Settings::default()).unwrap();
    let mut exchange = InProcess::new(vec![Box::new(silo) as Box<dyn SiloProgram>], 1).unwrap();
    let result = run(&mut algorithm, &mut exchange, &RunOptions { steps: 2, ..RunOptions::default() }, &mut Silent);
    refused!(result, FitError::SiloLost { step: 0, .. }, ["silo `b`", "step 0", "there is no silo 1", "resume"]);
    let result = algorithm.incoming(vec![Outcome::Timeout, Outcome::Timeout]);
    refused!(result, FitError::SiloLost { .. }, ["silo `a`", "deadline"]);
    let mut central = Central::new(&sound(), &device, &Settings::default(), "all").unwrap();
    refused!(central.incoming(Vec::new()), FitError::SiloLost { .. }, ["silo `all`", "0 outcomes for 1 silos"]);
    refused!(central.incoming(vec![Outcome::Timeout]), FitError::SiloLost { .. }, ["silo `all`"]);
}

#[test]
fn too_few_outcomes_are_refused() {
    let names = ["a".to_owned(), "b".to_owned()];
    let mut algorithm = Sfvi::new(&sound(), &Device::flex(), &Settings::default(), &names).unwrap();
    refused!(algorithm.incoming(Vec::new()), FitError::SiloLost { .. }, ["silo `a`", "0 outcomes for 2 silos"]);
}

#[test]
fn a_silo_of_another_model_or_seed_is_refused() {
    let device = Device::flex();
    let two = Recipe::global(|scope| scope.sample("mu", Normal::new(0.0, 1.0).iid([2])));
    let ask = |model: &Recipe, settings: &Settings| {
        let silo = Silo::new("a", 0, model, &vector(&[1.0]), &device, settings).unwrap();
        let mut algorithm = Sfvi::new(&two, &device, &Settings::default(), &["a".to_owned()]).unwrap();
        let mut exchange = InProcess::new(vec![Box::new(silo) as Box<dyn SiloProgram>], 1).unwrap();
        run(&mut algorithm, &mut exchange, &RunOptions { steps: 1, ..RunOptions::default() }, &mut Silent)
    };
    let words = ["silo `a`", "`global` has 5 numbers, expected 2", "the same model"];
    refused!(ask(&sound(), &Settings::default()), FitError::InSilo { .. }, words);
    let other_seed = Settings { seed: 7, ..Settings::default() };
    refused!(ask(&two, &other_seed), FitError::InSilo { .. }, ["seed is 1", "set up with 7", "the same settings"]);
}

#[test]
fn a_warm_start_of_another_length_is_refused() {
    let device = Device::flex();
    let mut algorithm = Sfvi::new(&hierarchy(), &device, &Settings::default(), &["a".to_owned()]).unwrap();
    refused!(algorithm.set_parameters(vec![0.0]), FitError::Message { .. }, ["1 parameters given, the family has 2"]);
    let mut silo = Silo::new("a", 0, &hierarchy(), &vector(&[1.0]), &device, &Settings::default()).unwrap();
    refused!(
        silo.set_local_parameters(vec![vec![0.0]]),
        FitError::Message { .. },
        ["lengths are not those of this silo"]
    );
}

#[test]
fn a_party_refuses_requests_of_another_algorithm() {
    use partita::inference::Message;
    let device = Device::flex();
    let mut silo = Silo::new("a", 0, &sound(), &vector(&[1.0]), &device, &Settings::default()).unwrap();
    refused!(silo.answer(&Message::new("pvi.step")), FitError::Message { .. }, ["`pvi.step`", "does not know it"]);
    refused!(silo.answer(&Message::new("sfvi.step")), FitError::Message { .. }, ["`step`", "is missing"]);
    let mut central = CentralSilo::new("a", &sound(), &vector(&[1.0]), &device, &Settings::default()).unwrap();
    refused!(central.answer(&Message::new("sfvi.step")), FitError::Message { .. }, ["`sfvi.step`", "does not know it"]);
}

#[test]
fn a_report_or_metrics_file_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let below: PathBuf = file.join("result.json");
    let fit = short_fit(&sound(), |_| {}).unwrap();
    refused!(fit.report.write_json(&below), FitError::File { .. }, ["writing", "result.json", "writable"]);
    refused!(
        partita::Metrics::new(10, Some(&below), 1),
        FitError::File { .. },
        ["creating", "result.json", "writable"]
    );
}
