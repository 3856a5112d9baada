//! Holds partitioned variational inference to exact properties: conjugate posteriors, invariants, special cases.

mod silos;

use fixtures::partitioned::{
    LINEAR, ROUNDING, Run, close, conjugate_options, exact, four_silos, likelihood, minus, near, plus, settings,
};
use fixtures::regression::{Regression, pooled, silos};
use partita::inference::{
    Algorithm, Averaging, Barycentre, Delays, Error, Expectation, ExponentialFamily, Factors, Family, FullRankGaussian,
    GradientDescent, LocalSolver, LogPool, Message, MissingSilo, NaturalGradient, Order, Outcome, Plug, PriorShare,
    Pvi, RunOptions, Silent, SiloProgram, Start, run_asynchronous,
};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, RoundOptions, Schedule, Settings,
    SiloSchedule, fit,
};

/// The difference that local steps of a fixed count leave.
const AVERAGED: f64 = 1e-6;

#[test]
fn one_undamped_sweep_or_round_recovers_a_conjugate_posterior_for_every_schedule() {
    let device = Device::flex();
    let data = silos(&[5, 12, 7, 20], 3, false, &device);
    let expected = exact(&data, 3);
    let delays = Delays { longest: 3.0, ..Delays::default() };
    for (schedule, exchanges) in [
        (SiloSchedule::Sequential(Order::Fixed), 4),
        (SiloSchedule::Sequential(Order::Random), 4),
        (SiloSchedule::Sequential(Order::Residual), 4),
        (SiloSchedule::Synchronous, 1),
        (SiloSchedule::Subset(2), 16),
        (SiloSchedule::Asynchronous(delays), 40),
    ] {
        let options = PviOptions { damping: Some(1.0), ..conjugate_options(schedule) };
        let run = Run::new(&LINEAR, &data, &settings(100), options).steps(exchanges);
        close(run.pvi.natural(), &expected, ROUNDING);
    }
}

#[test]
fn a_sequential_posterior_is_the_last_silos_local_optimum() {
    let data = four_silos();
    let mut run = Run::new(&LINEAR, &data, &settings(100), conjugate_options(SiloSchedule::Sequential(Order::Fixed)));
    for visited in 1..=4 {
        run.step();
        // The local optimum: everything seen so far, since the family contains cavity times likelihood.
        close(run.pvi.natural(), &exact(&data[..visited], 3), ROUNDING);
    }
    // Another sweep removes every factor and finds it again.
    let again = run.steps(4);
    close(again.pvi.natural(), &exact(&data, 3), ROUNDING);
}

#[test]
fn an_undamped_synchronous_round_multiplies_local_optima_over_the_old_posterior() {
    let data = four_silos();
    // Independent components: the local optima are no longer cavity times likelihood.
    let settings = Settings { family: FamilyPlan::new().global(Gaussian::diagonal()), ..settings(100) };
    let options = PviOptions { damping: Some(1.0), ..conjugate_options(SiloSchedule::Synchronous) };
    let mut run = Run::new(&LINEAR, &data, &settings, options);
    for _ in 0..3 {
        let old = run.pvi.natural().to_vec();
        let outcomes = run.outcomes();
        let mut product = old.iter().map(|eta| -3.0 * eta).collect::<Vec<f64>>();
        for outcome in &outcomes {
            let Outcome::Reply(reply) = outcome else { panic!("{outcome:?}") };
            let optimum = plus(&old, 1.0, &reply.get_floats("change").unwrap());
            product = plus(&product, 1.0, &optimum);
        }
        run.pvi.incoming(outcomes).unwrap();
        close(run.pvi.natural(), &product, ROUNDING);
    }
}

#[test]
fn damped_rounds_approach_a_conjugate_posterior_geometrically() {
    let data = four_silos();
    for damping in [0.5, 0.25, 0.05] {
        let options = PviOptions { damping: Some(damping), ..conjugate_options(SiloSchedule::Synchronous) };
        let run = Run::new(&LINEAR, &data, &settings(100), options).steps(7);
        let reached = 1.0 - (1.0 - damping).powi(7);
        close(run.pvi.natural(), &plus(&exact(&[], 3), reached, &likelihood(&data)), ROUNDING);
    }
}

#[test]
fn the_default_damping_is_one_over_the_silos_that_answer_together() {
    let data = four_silos();
    for (schedule, damping) in [
        (SiloSchedule::Sequential(Order::Fixed), 1.0),
        (SiloSchedule::Synchronous, 0.25),
        (SiloSchedule::Subset(2), 0.5),
        (SiloSchedule::Asynchronous(Delays::default()), 0.25),
    ] {
        let mut run = Run::new(&LINEAR, &data, &settings(100), conjugate_options(schedule));
        let asked = run.pvi.outgoing().unwrap();
        assert!(
            asked.iter().all(|request| (request.message.get_number("damping").unwrap() - damping).abs() < ROUNDING)
        );
    }
}

#[test]
fn the_bayesian_committee_machine_is_one_undamped_round_with_the_prior_whole_or_split() {
    let data = four_silos();
    let sizes = vec![5, 12, 7, 20];
    let diagonal = Settings { family: FamilyPlan::new().global(Gaussian::diagonal()), ..settings(100) };
    let round = |settings: &Settings, factors, prior| {
        let damping = Some(1.0);
        let options = PviOptions { damping, factors, prior, ..conjugate_options(SiloSchedule::Synchronous) };
        let mut run = Run::new(&LINEAR, &data, settings, options.clone());
        run.pvi = {
            let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
            Pvi::new(&LINEAR, &Device::flex(), settings, &names, sizes.clone(), options).unwrap()
        };
        run.steps(1).pvi.natural().to_vec()
    };
    // With any covariance both are exact on a conjugate model.
    for prior in [PriorShare::Whole, PriorShare::BySize] {
        close(&round(&settings(100), Factors::Own, prior), &exact(&data, 3), ROUNDING);
    }
    // With the whole prior it equals the first round of PVI, to the bit, and needs no factors.
    let [own, forgotten] =
        [Factors::Own, Factors::Forgotten].map(|factors| round(&diagonal, factors, PriorShare::Whole));
    assert_eq!(own, forgotten);
    // With the prior split, every silo's local problem has its share of the prior, and their optima multiply.
    let mut product = vec![0.0; own.len()];
    for (silo, size) in data.iter().zip(&sizes) {
        let share = *size as f64 / 44.0;
        // Cavity times likelihood, whose mean and diagonal precision the optimum has.
        let joint = plus(
            &exact(&[], 3).iter().map(|eta| share * eta).collect::<Vec<_>>(),
            1.0,
            &likelihood(std::slice::from_ref(silo)),
        );
        let full = partita::inference::NormalFamily::full(3);
        let (mean, _) = full.moments(&joint);
        let precision = [joint[3], joint[5], joint[8]].map(|second| -2.0 * second);
        let optimum = (0..3).map(|i| precision[i] * mean[i]).chain(precision.map(|precision| -0.5 * precision));
        product = plus(&product, 1.0, &optimum.collect::<Vec<_>>());
    }
    close(&round(&diagonal, Factors::Own, PriorShare::BySize), &product, 1e-10);
}

#[test]
fn continual_learning_is_the_first_sweep_and_streaming_counts_data_again_with_every_sweep() {
    let data = four_silos();
    let schedule = SiloSchedule::Sequential(Order::Fixed);
    let run = |factors, visits| {
        let options = PviOptions { factors, ..conjugate_options(schedule) };
        Run::new(&LINEAR, &data, &settings(100), options).steps(visits).pvi.natural().to_vec()
    };
    assert_eq!(run(Factors::Own, 4), run(Factors::Forgotten, 4));
    for sweeps in [1_usize, 2, 5] {
        let counted = plus(&exact(&[], 3), sweeps as f64, &likelihood(&data));
        close(&run(Factors::Forgotten, 4 * sweeps), &counted, ROUNDING);
    }
}

#[test]
fn a_shared_factor_finds_the_posterior_of_conjugate_data_in_the_mean() {
    // With one factor for all, q_k is cavity times own likelihood: the fixed point of a sweep is off by the silos'
    // differences, of the order of the damping, as in stochastic expectation propagation.
    let data = four_silos();
    let off = |damping: f64, sweeps: usize| {
        let factors = Factors::Shared;
        let options =
            PviOptions { damping: Some(damping), factors, ..conjugate_options(SiloSchedule::Sequential(Order::Fixed)) };
        let run = Run::new(&LINEAR, &data, &settings(100), options).steps(4 * sweeps);
        let gap = minus(run.pvi.natural(), &exact(&data, 3));
        gap.iter().map(|gap| gap * gap).sum::<f64>().sqrt()
    };
    let (coarse, fine) = (off(0.1, 300), off(0.01, 3_000));
    assert!(fine < 0.15 * coarse, "{fine} against {coarse}");
}

#[test]
fn a_shared_factor_stands_for_those_who_take_part_and_is_of_no_silo() {
    let data = four_silos();
    let options = PviOptions {
        damping: Some(0.01),
        factors: Factors::Shared,
        ..conjugate_options(SiloSchedule::Sequential(Order::Fixed))
    };
    let mut run = Run::new(&LINEAR, &data, &settings(100), options);
    // A silo that never takes part: three factors give the posterior of three silos, not four thirds of it.
    run.pvi.leave(1).unwrap();
    let mut run = run.steps(3 * 1_500);
    let others = [&data[..1], &data[2..]].concat();
    let size = |a: &[f64]| a.iter().map(|a| a * a).sum::<f64>().sqrt();
    let gap = size(&minus(run.pvi.natural(), &exact(&others, 3)));
    assert!(gap < 0.02 * size(&likelihood(&others)), "{gap}");
    let before = run.pvi.natural().to_vec();
    let found = run.pvi.remove(0);
    assert!(
        matches!(&found, Err(Error::Setting { setting: "factors", found, .. }) if found.contains("silo-0")),
        "{found:?}"
    );
    assert_eq!(run.pvi.natural(), before);
}

#[test]
fn with_a_shared_factor_one_step_a_visit_is_global_inference_on_the_rows_of_one_silo() {
    // The natural gradient of E_q[log p(y_m)] - w_m KL(q || p) with w_m = 1 / M or N_m / N, of which a sweep adds up to
    // the whole bound (Ashman et al., 2022, with erratum E7). For a normal likelihood that of the first term is the
    // likelihood's own natural parameters.
    let data = four_silos();
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    let sizes = vec![5, 12, 7, 20];
    let expectation = Expectation::GaussHermite { points: 2 };
    let solver = Plug::<dyn LocalSolver>::from(NaturalGradient { rate: 0.3, expectation });
    let prior = exact(&[], 3);
    for (factors, weights) in
        [(Factors::Shared, [0.25; 4]), (Factors::SharedBySize, [5.0 / 44.0, 12.0 / 44.0, 7.0 / 44.0, 20.0 / 44.0])]
    {
        let options = PviOptions { solver: solver.clone(), factors, ..PviOptions::new(1) };
        let mut run = Run::new(&LINEAR, &data, &settings(100), options.clone());
        run.pvi = Pvi::new(&LINEAR, &Device::flex(), &settings(100), &names, sizes.clone(), options).unwrap();
        let mut expected = prior.clone();
        for visit in 0..10 {
            run.step();
            let silo = visit % 4;
            let gradient = plus(&likelihood(&data[silo..=silo]), -weights[silo], &minus(&expected, &prior));
            expected = plus(&expected, 0.3, &gradient);
            close(run.pvi.natural(), &expected, 1e-10);
        }
    }
}

#[test]
fn a_silo_removed_leaves_the_posterior_that_never_saw_it() {
    let data = four_silos();
    for schedule in [SiloSchedule::Sequential(Order::Fixed), SiloSchedule::Synchronous] {
        let options = PviOptions { damping: Some(1.0), ..conjugate_options(schedule) };
        let mut run = Run::new(&LINEAR, &data, &settings(100), options).steps(8);
        run.pvi.remove(2).unwrap();
        let without = [&data[..2], &data[3..]].concat();
        close(run.pvi.natural(), &exact(&without, 3), ROUNDING);
        // It rests, while the others continue.
        run = run.steps(6);
        close(run.pvi.natural(), &exact(&without, 3), ROUNDING);
        // It may return, with a factor of 1.
        run.pvi.join(2).unwrap();
        run = run.steps(8);
        close(run.pvi.natural(), &exact(&data, 3), ROUNDING);
    }
}

#[test]
fn a_silo_that_leaves_keeps_its_factor_in_the_posterior_and_rejoins_with_it() {
    let data = four_silos();
    let mut run = Run::new(&LINEAR, &data, &settings(100), conjugate_options(SiloSchedule::Synchronous)).steps(5);
    let factor = run.pvi.factor(1).unwrap().to_vec();
    run.pvi.leave(1).unwrap();
    run = run.steps(200);
    assert_eq!(run.pvi.factor(1).unwrap(), factor);
    let others = [&data[..1], &data[2..]].concat();
    close(run.pvi.natural(), &plus(&exact(&others, 3), 1.0, &factor), 1e-9);
    // A disk restored from before the run: the silo has no record of its factor.
    let fresh = Run::new(&LINEAR, &data, &settings(100), conjugate_options(SiloSchedule::Synchronous));
    run.silos[1] = fresh.silos.into_iter().nth(1).unwrap();
    run.pvi.join(1).unwrap();
    run = run.steps(200);
    close(run.pvi.natural(), &exact(&data, 3), 1e-9);
}

#[test]
fn asynchronous_silos_reach_the_fixed_point_in_any_order_of_arrival_with_stragglers_and_losses() {
    let data = four_silos();
    for seed in 1..=5 {
        for (straggle, loss) in [(1.0, 0.0), (10.0, 0.0), (4.0, 0.3)] {
            let delays = Delays { longest: 8.0, straggle, loss, seed };
            let schedule = SiloSchedule::Asynchronous(delays);
            let mut run = Run::new(&LINEAR, &data, &settings(10_000), conjugate_options(schedule)).steps(300);
            // A drop-out and a rejoin during the run.
            run.pvi.leave(3).unwrap();
            run = run.steps(50);
            run.pvi.join(3).unwrap();
            run = run.steps(1_800);
            close(run.pvi.natural(), &exact(&data, 3), 1e-9);
        }
    }
}

#[test]
fn asynchronous_logistic_regression_ends_where_sequential_visits_do_whatever_the_order_of_arrival() {
    let data = silos(&[5, 12, 7, 20], 2, true, &Device::flex());
    let model = Regression { columns: 2, binary: true };
    let expectation = Expectation::GaussHermite { points: 8 };
    let solver = Plug::<dyn LocalSolver>::from(NaturalGradient { rate: 1.0, expectation });
    let end = |schedule, exchanges| {
        let options = PviOptions { schedule, solver: solver.clone(), ..PviOptions::new(20) };
        Run::new(&model, &data, &settings(100_000), options).steps(exchanges).pvi.natural().to_vec()
    };
    let expected = end(SiloSchedule::Sequential(Order::Fixed), 48);
    for seed in 1..=5 {
        let delays = Delays { longest: 8.0, straggle: 2.0, loss: 0.1, seed };
        close(&end(SiloSchedule::Asynchronous(delays), 500), &expected, 1e-8);
    }
}

#[test]
fn one_natural_gradient_step_of_every_silo_is_that_of_the_pooled_rows_whatever_the_partition() {
    let device = Device::flex();
    let model = Regression { columns: 2, binary: true };
    let expectation = Expectation::GaussHermite { points: 8 };
    let data = silos(&[5, 12, 7, 20], 2, true, &device);
    let steps = |data: &[(String, _)], rate| {
        let solver = NaturalGradient { rate, expectation }.into();
        let schedule = SiloSchedule::Synchronous;
        let options = PviOptions { schedule, solver, damping: Some(1.0), ..PviOptions::new(1) };
        Run::new(&model, data, &settings(100), options).steps(6).pvi.natural().to_vec()
    };
    for rate in [0.1, 0.3, 1.0] {
        close(&steps(&data, rate), &steps(&pooled(&data, &device), rate), 1e-10);
    }
}

#[test]
fn the_same_lines_fit_one_model_by_every_algorithm() {
    let device = Device::flex();
    let data = four_silos();
    let all = pooled(&data, &device);
    let expected = partita::inference::NormalFamily::full(3).moments(&exact(&data, 3));
    for (algorithm, silos) in [
        (AlgorithmChoice::Sfvi, &data),
        (AlgorithmChoice::Pvi(PviOptions::new(500)), &data),
        (AlgorithmChoice::Central, &all),
    ] {
        let settings = Settings { steps: 4_000, ..Settings::default() };
        let options = FitOptions { algorithm: algorithm.clone(), settings, ..FitOptions::default() };
        let fit = fit(&LINEAR, silos, &device, &options, None).unwrap();
        let posterior = fit.posterior();
        let mean = posterior.family.mean(posterior.parameters);
        // Sticking the landing has no noise at the posterior.
        near(&mean, &expected, 0.03, &algorithm);
    }
}

#[test]
fn rounds_of_averaging_end_at_the_average_of_the_posteriors_in_which_each_silo_stands_for_all_rows() {
    let (data, family) = (four_silos(), FullRankGaussian::new(3));
    let natural_family = partita::inference::NormalFamily::full(3);
    // Each silo's rows count N / N_j times.
    let member = |silo: &(String, _)| {
        let own = likelihood(std::slice::from_ref(silo));
        let weight = 44.0 / silo.1.outcomes.len() as f64;
        natural_family.member(&family, &plus(&exact(&[], 3), weight, &own)).unwrap()
    };
    let members: Vec<Vec<f64>> = data.iter().map(member).collect();
    for (averaging, by_size) in [(Plug::<dyn Averaging>::from(Barycentre), false), (LogPool.into(), true)] {
        let weights = [5.0, 12.0, 7.0, 20.0].map(|size| if by_size { size / 44.0 } else { 0.25 });
        let expected = averaging.average(&family, &members, &weights).unwrap();
        let rounds = RoundOptions { averaging, by_size, ..RoundOptions::paper(2_000) };
        let schedule = Schedule::Cosine { initial: 0.05, last: 0.0 };
        let settings = Settings { steps: 4_000, schedule, ..settings(4_000) };
        let options = FitOptions { algorithm: AlgorithmChoice::SfviAvg(rounds), settings, ..FitOptions::default() };
        let fit = fit(&LINEAR, &data, &Device::flex(), &options, None).unwrap();
        let found = fit.posterior().parameters;
        // Sticking the landing has no noise at a local optimum: what is left is that of 2,000 steps.
        close(&family.mean(found), &family.mean(&expected), AVERAGED);
        close(&family.covariance(found), &family.covariance(&expected), AVERAGED);
    }
}

#[test]
fn a_round_damped_by_size_is_a_logarithmic_opinion_pool_of_local_optima() {
    let data = four_silos();
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    let sizes = vec![5, 12, 7, 20];
    let options = PviOptions { damping_by_size: true, ..conjugate_options(SiloSchedule::Synchronous) };
    let mut run = Run::new(&LINEAR, &data, &settings(100), PviOptions { damping_by_size: false, ..options.clone() });
    run.pvi = Pvi::new(&LINEAR, &Device::flex(), &settings(100), &names, sizes.clone(), options.clone()).unwrap();
    let family = FullRankGaussian::new(3);
    for _ in 0..3 {
        let old = run.pvi.natural().to_vec();
        let outcomes = run.outcomes();
        let weights: Vec<f64> = sizes.iter().map(|size| *size as f64 / 44.0).collect();
        let optimum = |(outcome, weight): (&Outcome, &f64)| {
            let Outcome::Reply(reply) = outcome else { panic!("{outcome:?}") };
            let natural = plus(&old, 1.0 / weight, &reply.get_floats("change").unwrap());
            run.pvi.natural_family().member(&family, &natural).unwrap()
        };
        let optima: Vec<Vec<f64>> = outcomes.iter().zip(&weights).map(optimum).collect();
        let pool = LogPool.average(&family, &optima, &weights).unwrap();
        run.pvi.incoming(outcomes).unwrap();
        let found = run.pvi.posterior();
        // Covariances of condition up to 100, inverted twice.
        close(&family.mean(found.parameters), &family.mean(&pool), 1e-10);
        close(&family.covariance(found.parameters), &family.covariance(&pool), 1e-10);
    }
    assert!(matches!(run.pvi.damp(vec![0.5; 3]), Err(Error::Setting { .. })));
    assert!(matches!(run.pvi.damp(vec![0.5, 0.5, 0.5, 1.5]), Err(Error::Setting { .. })));
}

#[test]
fn visits_may_start_anywhere_and_end_at_the_same_posterior() {
    let device = Device::flex();
    let data = four_silos();
    let expected = partita::inference::NormalFamily::full(3).moments(&exact(&data, 3));
    for start in [Start::Received, Start::Previous, Start::Plan, Start::Cavity, Start::Tight { deviation: 0.02 }] {
        let solver = GradientDescent { start, ..GradientDescent::default() }.into();
        let algorithm = AlgorithmChoice::Pvi(PviOptions { solver, ..PviOptions::new(800) });
        let settings = Settings { steps: 6_400, ..Settings::default() };
        let options = FitOptions { algorithm, settings, ..FitOptions::default() };
        let fit = fit(&LINEAR, &data, &device, &options, None).unwrap();
        let posterior = fit.posterior();
        let mean = posterior.family.mean(posterior.parameters);
        // Sticking the landing has no noise if the family contains the optimum.
        near(&mean, &expected, 0.03, &start);
    }
}
