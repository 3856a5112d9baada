//! Holds partitioned generalised inference to the laws of its variances, which are known for a normal mean.

use fixtures::local::{EXACT_STEPS, Partitioned, ROWS, Toy, quadratic};
use partita::inference::{
    Conjugate, Divergence, Error, Expectation, GammaDivergence, GradientDescent, KullbackLeibler, Lbfgs, LocalSolver,
    NaturalGradient, NoDivergence, NormalFamily, Plug, Renyi, StartFrom,
};
use partita::models::GaussianMean;
use partita::{
    AlgorithmChoice, Device, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, PviOptions, Schedule, Settings,
    SiloSchedule, fit,
};

fn variance(posterior: &[f64]) -> f64 {
    NormalFamily::diagonal(1).moments(posterior).1.deviations()[0].powi(2)
}

#[test]
fn generalised_inference_on_pooled_data_has_the_variances_of_its_law() {
    for (alpha, known) in [(0.5, 0.0397), (0.75, 0.0266), (1.0, 0.01996), (1.5, 0.0133), (2.5, 0.0080)] {
        let mut pooled = Partitioned::around(&[0.3], 10.0, Renyi { alpha }.into());
        pooled.converge();
        let found = variance(&pooled.posterior);
        // Four decimals are known; the law 1/(nα) is for a flat prior.
        assert!((found - known).abs() < 5e-5, "{alpha}: {found}");
        assert!((found * ROWS * alpha - 1.0).abs() < 0.01, "{alpha}: {found}");
    }
}

#[test]
fn partitioned_generalised_inference_depends_on_the_number_of_silos_as_its_law_says() {
    for alpha in [0.5, 5.0] {
        for count in [1, 2, 5, 10, 50] {
            let mut parts = Partitioned::around(&vec![0.3; count], 1e8, Renyi { alpha }.into());
            parts.converge();
            let (found, count) = (variance(&parts.posterior) * ROWS, count as f64);
            let law = count / (count - 1.0 + alpha);
            // The prior changes it by at most 2e-10 beside fifty rows, and the law is that of a flat prior.
            assert!((found - law).abs() < 1e-8, "{alpha}, {count} silos: {found} against {law}");
        }
    }
}

#[test]
fn damped_rounds_find_the_same_posterior_as_sweeps() {
    for alpha in [0.5, 2.5] {
        let mut swept = Partitioned::around(&[0.3; 5], 10.0, Renyi { alpha }.into());
        swept.converge();
        let mut rounds = Partitioned::around(&[0.3; 5], 10.0, Renyi { alpha }.into());
        (0..400).for_each(|_| rounds.round(&EXACT_STEPS.into(), 1_000, 0.2).unwrap());
        for (a, b) in rounds.posterior.iter().zip(&swept.posterior) {
            assert!((a / b - 1.0).abs() < 1e-10, "{alpha}: {a} against {b}");
        }
    }
}

#[test]
fn with_alpha_one_every_partition_gives_the_exact_posterior() {
    for divergence in [
        Plug::<dyn Divergence>::from(Renyi { alpha: 1.0 }),
        KullbackLeibler.into(),
        GammaDivergence { gamma: 1.0 }.into(),
    ] {
        for means in [vec![0.3], vec![0.1, 0.5], vec![-3.0, 0.2, 0.9, 3.1, 0.3]] {
            let mut parts = Partitioned::around(&means, 10.0, divergence.clone());
            parts.converge();
            let mean = means.iter().sum::<f64>() / means.len() as f64;
            let expected = [ROWS * mean, -0.5 * (ROWS + 0.1)];
            for (a, b) in parts.posterior.iter().zip(expected) {
                assert!((a / b - 1.0).abs() < 1e-11, "{divergence:?}: {a} against {b}");
            }
        }
    }
}

#[test]
fn silos_that_disagree_inflate_variances_below_one_until_a_cavity_is_no_density_and_that_is_an_error() {
    let gentle = NaturalGradient { rate: 0.05, expectation: Expectation::GaussHermite { points: 2 } };
    for count in [5_i32, 10] {
        // Means of ten rows of unit noise lie 0.32 apart by chance alone.
        let means: Vec<f64> = (0..count).map(|silo| 0.3 * f64::from(silo - count / 2)).collect();
        let mut parts = Partitioned::around(&means, 10.0, Renyi { alpha: 0.5 }.into());
        let found = (0..20).find_map(|_| parts.sweep(&gentle.into(), 5_000).err());
        let Some(Error::Improper { operation, found, .. }) = found else { panic!("{count} silos: {found:?}") };
        assert!(operation.contains("cavity") && found <= 0.0, "{operation}: {found}");
    }
}

#[test]
fn without_a_divergence_a_silo_follows_its_data_alone() {
    let mut alone = Partitioned::around(&[0.3], 10.0, NoDivergence.into());
    // Every step adds half of the likelihood's factor, and nothing takes any of it away.
    let found = alone.toys[0].solve(&EXACT_STEPS.into(), &[0.0, -0.05], 6).unwrap();
    for (found, expected) in found.natural.iter().zip([3.0 * 15.0, -0.05 - 3.0 * 25.0]) {
        assert!((found - expected).abs() < 1e-11, "{found} against {expected}");
    }
}

/// Five silos of ten numbers, with mean 0.3 in each.
fn data(device: &Device) -> Vec<(String, partita::burn::tensor::Tensor<1>)> {
    let silo = |silo: i32| {
        let numbers: Vec<f64> = (0..10).map(|row| 0.3 + 0.2 * (f64::from(row) - 4.5) / f64::from(silo + 1)).collect();
        GaussianMean::data(&numbers, device)
    };
    fixtures::named((0..5).map(silo))
}

fn fitted(how: PviOptions, settings: Settings) -> partita::inference::Result<Fit> {
    let device = Device::flex();
    let settings = Settings { family: FamilyPlan::new().global(Gaussian::diagonal()), ..settings };
    let options = FitOptions { algorithm: AlgorithmChoice::Pvi(how), settings, ..FitOptions::default() };
    fit(&GaussianMean {}, &data(&device), &device, &options, None)
}

#[test]
fn the_algorithm_finds_what_its_law_says_with_exact_steps_and_with_gradients() {
    // The prior of the model is standard normal.
    let divergence = Plug::<dyn Divergence>::from(Renyi { alpha: 0.5 });
    let mut expected = Partitioned::around(&[0.3; 5], 1.0, divergence.clone());
    expected.converge();
    let (mean, spread) = NormalFamily::diagonal(1).moments(&expected.posterior);
    let expected = [mean[0], spread.deviations()[0]];
    let moments = |fit: &Fit| {
        let (means, sds) = fixtures::moments(fit.posterior());
        [means[0], sds[0]]
    };
    let how = PviOptions { divergence: divergence.clone(), solver: EXACT_STEPS.into(), ..PviOptions::new(60) };
    let exact = moments(&fitted(how, Settings { steps: 60 * 5 * 40, ..Settings::default() }).unwrap());
    // 40 sweeps contract the error of the first by more than 1e10.
    assert!((0..2).all(|i| (exact[i] / expected[i] - 1.0).abs() < 1e-10), "{exact:?} against {expected:?}");
    let how =
        PviOptions { divergence: divergence.clone(), schedule: SiloSchedule::Synchronous, ..PviOptions::new(100) };
    let settings = Settings {
        steps: 100 * 30,
        particles: 2,
        schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
        ..Settings::default()
    };
    let sampled = moments(&fitted(how.clone(), settings.clone()).unwrap());
    // Noise of the last rounds, averaged by damping: measured 3.4 and 1.6 per cent.
    assert!((sampled[0] - expected[0]).abs() < 0.05 * expected[1], "{sampled:?} against {expected:?}");
    assert!((sampled[1] / expected[1] - 1.0).abs() < 0.05, "{sampled:?} against {expected:?}");
    // The divergence is in closed form, whatever estimator of the entropy other methods use.
    let settings = Settings { estimator: Estimator::ClosedFormEntropy, ..settings };
    let again = moments(&fitted(how.clone(), settings.clone()).unwrap());
    assert_eq!(again.map(f64::to_bits), sampled.map(f64::to_bits));
    // And so is that of Kullback and Leibler there: the exact posterior.
    let sampled = moments(&fitted(PviOptions { divergence: KullbackLeibler.into(), ..how }, settings).unwrap());
    let expected = [15.0 / 51.0, 51.0_f64.powf(-0.5)];
    assert!((sampled[0] - expected[0]).abs() < 0.05 * expected[1], "{sampled:?} against {expected:?}");
    assert!((sampled[1] / expected[1] - 1.0).abs() < 0.05, "{sampled:?} against {expected:?}");
}

#[test]
fn a_start_or_a_step_outside_the_domain_is_an_error_that_says_how_to_start() {
    // The posterior received has three times the variance of its cavity; 5/3 is what this index takes.
    let mut wide = Partitioned::around(&[0.3], 1.0, Renyi { alpha: 2.5 }.into());
    wide.toys[0].cavity = vec![0.0, -1.5];
    let lbfgs = Lbfgs::new(Expectation::GaussHermite { points: 2 }).into();
    for solver in [EXACT_STEPS.into(), lbfgs] {
        let found = wide.toys[0].solve(&solver, &[0.0, -0.5], 10).unwrap_err();
        assert!(matches!(found, Error::DivergenceDomain { component: 0, .. }), "{found}");
    }
    // A posterior may have 1.07 times the variance of its cavity here, and one step of this size goes farther.
    let how = PviOptions { divergence: Renyi { alpha: 15.0 }.into(), ..PviOptions::new(5) };
    let (schedule, start) = (Schedule::Constant { rate: 5.0 }, StartFrom::Declared);
    let settings = Settings { schedule, start, steps: 25, ..Settings::default() };
    let strict = GradientDescent { halvings: 0, ..GradientDescent::default() }.into();
    let found = fitted(PviOptions { solver: strict, ..how.clone() }, settings.clone()).unwrap_err();
    assert!(found.to_string().contains("Start::Tight"), "{found}");
    // With halvings, which is the default, it arrives, and the report says how.
    let found = fitted(how.clone(), settings).unwrap();
    assert!(found.report.method.as_ref().unwrap().of("shortened_steps").unwrap() > 0, "{}", found.report);
    assert!(found.report.to_string().contains("local steps were halved"), "{}", found.report);
}

/// A silo without data, whose posterior of variance 0.01 is drawn towards its cavity of variance 1 by one Adam step of
/// 5.
fn one_long_step(halvings: u32) -> partita::inference::Result<partita::inference::Solved> {
    let mut silo = Toy {
        divergence: Renyi { alpha: 2.5 }.into(),
        ..Toy::diagonal(1, vec![0.0, -0.5], quadratic(vec![0.0], vec![0.0]))
    };
    let settings = Settings { schedule: Schedule::Constant { rate: 5.0 }, ..Settings::default() };
    let options = GradientDescent { halvings, ..GradientDescent::default() };
    let mut solver = options.start(&settings, &Device::flex());
    silo.visit(&mut *solver, &[0.0, -50.0], 1)
}

#[test]
fn the_last_step_of_a_visit_stays_in_the_domain_too() {
    // log sd from log 0.1 by 5 is far outside; by half of it, the variance is 0.01 e^5 = 1.48, below 5/3.
    let found = one_long_step(20).unwrap();
    assert_eq!(found.shortened, 1);
    let expected = 0.01 * 5.0_f64.exp();
    assert!((variance(&found.natural) / expected - 1.0).abs() < 1e-6, "{}", variance(&found.natural));
    let found = one_long_step(0).unwrap_err();
    assert!(matches!(found, Error::DivergenceDomain { component: 0, .. }), "{found}");
    // A natural-gradient step on data that take precision away: 1 less 0.9.
    let divergence = Renyi { alpha: 2.5 }.into();
    let mut widening = Toy { divergence, ..Toy::diagonal(1, vec![0.0, -0.5], quadratic(vec![0.0], vec![-0.9])) };
    let step = NaturalGradient { rate: 1.0, expectation: Expectation::GaussHermite { points: 2 } };
    let found = widening.solve(&step.into(), &[0.0, -0.5], 1).unwrap_err();
    assert!(matches!(found, Error::DivergenceDomain { component: 0, .. }), "{found}");
}

#[test]
fn a_solver_that_knows_no_divergence_is_refused() {
    let how = PviOptions { divergence: Renyi { alpha: 0.5 }.into(), solver: Conjugate.into(), ..PviOptions::new(1) };
    assert!(matches!(how.check(), Err(Error::Setting { setting: "divergence", .. })));
}
