//! Compares the solvers of local problems with each other, with quadrature, and with the properties of PVI.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use fixtures::local::{Partitioned, Toy, logistic, quadratic};
use partita::inference::{
    Conjugate, Error, Expectation, ExponentialFamily, GammaDivergence, GradientDescent, Lbfgs, LocalProblem,
    LocalSolver, LocalUpdate, NaturalGradient, NormalFamily, Plug, PowerExpectation, Renyi, ReverseKullbackLeibler,
    Solved, SolverState,
};
use partita::models::GaussianMean;
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, Settings, fit};
use partita_laws as laws;

/// Sums of a few dozen points, and the condition of the problems here.
const ROUNDING: f64 = 1e-12;
/// A gradient of 1e-10 leaves an error of that over the curvature.
const DESCENT: f64 = 1e-8;
/// A correct estimate is farther off with probability 6e-7.
const STANDARD_ERRORS: f64 = 5.0;

const HERMITE: Expectation = Expectation::GaussHermite { points: 40 };

fn natural_gradient(rate: f64) -> Plug<dyn LocalSolver> {
    NaturalGradient { rate, expectation: HERMITE }.into()
}

fn lbfgs() -> Plug<dyn LocalSolver> {
    Lbfgs { tolerance: 1e-10, ..Lbfgs::new(HERMITE) }.into()
}

fn close(found: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(1.0_f64, |size, value| size.max(value.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= bound * size, "{found:?} against {expected:?}");
    }
}

#[test]
fn all_solvers_find_the_optimum_of_a_conjugate_problem() {
    // A cavity with one negative precision: a factor, not a density; the likelihood compensates.
    let (prior, linear, curvature) = (vec![0.3, -0.2, -0.5, 0.4], vec![2.0, -1.0], vec![3.0, 0.8, 0.8, 2.5]);
    let received = NormalFamily::diagonal(2).natural_of_standard(&[0.0, 0.0, 0.7, 0.9]).unwrap();
    let mut toy = Toy::diagonal(2, prior, quadratic(linear.clone(), curvature.clone()));
    let exact = toy.visit(&mut Conjugate, &received, 1).unwrap();
    for solver in [natural_gradient(1.0), natural_gradient(0.5), lbfgs()] {
        let found = toy.solve(&solver, &received, 500).unwrap();
        close(&found.natural, &exact.natural, if solver == lbfgs() { DESCENT } else { ROUNDING });
        close(&[found.log_likelihood], &[exact.log_likelihood], DESCENT);
    }
    let prior = vec![0.3, -0.2, -0.5, 0.1, -0.4];
    let received = NormalFamily::full(2).natural_of_standard(&[0.0, 0.0, 0.5, 0.1, 0.8]).unwrap();
    let mut toy = Toy::full(2, prior, quadratic(linear, curvature));
    let exact = toy.visit(&mut Conjugate, &received, 1).unwrap();
    // Moments are matched where covariances are full: there a Gaussian tilted density is in the family.
    let [power, whole] = [0.3, 1.0].map(|alpha| Plug::<dyn LocalSolver>::from(PowerExpectation::new(alpha)));
    for solver in [natural_gradient(1.0), natural_gradient(0.5), lbfgs(), power.clone(), whole.clone()] {
        let steps = if [power.clone(), whole.clone()].contains(&solver) { 1 } else { 500 };
        let found = toy.solve(&solver, &received, steps).unwrap();
        close(&found.natural, &exact.natural, if solver == lbfgs() { DESCENT } else { ROUNDING });
        close(&[found.log_likelihood], &[exact.log_likelihood], DESCENT);
    }
}

/// Rows of a logistic regression in one covariate, in silos of different sizes and distributions.
fn rows() -> Vec<(Vec<f64>, f64)> {
    let covariates = [0.4, -1.3, 2.1, 0.7, -0.2, 1.6, -2.4, 0.9, 1.1, -0.6, 0.3, 1.9, -1.1, 0.8];
    let outcomes = [1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0];
    covariates.into_iter().zip(outcomes).map(|(x, y)| (vec![x], y)).collect()
}

/// The integral of several functions of one number under a normal density, by the trapezoidal rule.
fn trapezoid<const N: usize>(mean: f64, sd: f64, functions: impl Fn(f64) -> [f64; N]) -> [f64; N] {
    let step = 1.0 / 64.0;
    let mut sums = [0.0; N];
    for place in -12 * 64..=12 * 64 {
        let z = f64::from(place) * step;
        let weight = step * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        sums.iter_mut().zip(functions(mean + sd * z)).for_each(|(sum, value)| *sum += weight * value);
    }
    sums
}

/// Mean of slope and curvature of the log likelihood under q, the curvature from the rows themselves.
fn slopes(rows: &[(Vec<f64>, f64)], natural: &[f64]) -> [f64; 2] {
    let (mean, spread) = NormalFamily::diagonal(1).moments(natural);
    trapezoid(mean[0], spread.deviations()[0], |theta| {
        let each = rows.iter().map(|(x, y)| {
            let away = partita_core::special::sigmoid(-y * x[0] * theta);
            (y * x[0] * away, -x[0] * x[0] * away * (1.0 - away))
        });
        each.fold([0.0; 2], |[slope, curvature], (own, second)| [slope + own, curvature + second])
    })
}

#[test]
fn local_problems_keep_their_laws_and_a_wrong_gradient_is_found() {
    let cavity = vec![0.3, -0.2, -0.5, -0.4];
    let at = [0.2, -0.1, -0.7, 0.1];
    let rows = vec![(vec![0.5, -1.0], 1.0), (vec![2.0, 0.3], -1.0), (vec![-0.7, 0.9], 1.0)];
    let smooth = [logistic(rows), quadratic(vec![1.0, -2.0], vec![2.0, 0.5, 0.5, 1.0])];
    for likelihood in smooth {
        laws::local_problem(&mut Toy::diagonal(2, cavity.clone(), likelihood), &at).unwrap();
    }
    let wrong = Box::new(|point: &[f64]| (point[0].sin(), vec![point[0].cos(), 0.1]));
    let found = laws::local_problem(&mut Toy::diagonal(2, cavity.clone(), wrong), &at);
    assert!(matches!(found, Err(laws::LocalProblemViolation::Gradient { index: 1, .. })), "{found:?}");
    // A problem that counts its evaluations never returns the same value.
    let asked = std::sync::atomic::AtomicU32::new(0);
    let forgetful =
        Box::new(move |_: &[f64]| (f64::from(asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed)), vec![0.0; 2]));
    let found = laws::local_problem(&mut Toy::diagonal(2, cavity, forgetful), &at);
    assert!(matches!(found, Err(laws::LocalProblemViolation::Repeated { .. })), "{found:?}");
}

#[test]
fn at_a_local_optimum_the_factor_is_the_slope_of_the_expected_log_likelihood() {
    let cavity = vec![0.2, -0.6];
    let received = vec![0.0, -0.5];
    let mut toy = Toy::diagonal(1, cavity.clone(), logistic(rows()));
    for (solver, bound) in [(natural_gradient(0.7), ROUNDING), (lbfgs(), DESCENT)] {
        let found = toy.solve(&solver, &received, 500).unwrap().natural;
        let [slope, curvature] = slopes(&rows(), &found);
        let mean = NormalFamily::diagonal(1).moments(&found).0[0];
        let factor = [slope - curvature * mean, 0.5 * curvature];
        close(&[found[0] - cavity[0], found[1] - cavity[1]], &factor, bound);
    }
}

#[test]
fn expectation_propagation_matches_the_moments_of_the_tilted_density() {
    let cavity = vec![0.2, -0.6];
    let mut toy = Toy::diagonal(1, cavity, logistic(rows()));
    let found = toy.solve(&PowerExpectation::new(1.0).into(), &[0.0, -0.5], 1).unwrap().natural;
    let log_likelihood = logistic(rows());
    // The cavity N(1/6, 1/1.2), tilted.
    let [total, first, second] = trapezoid(1.0 / 6.0, 1.2_f64.powf(-0.5), |theta| {
        let tilt = log_likelihood(&[theta]).0.exp();
        [tilt, tilt * theta, tilt * theta * theta]
    });
    close(&NormalFamily::diagonal(1).mean_parameters(&found), &[first / total, second / total], 1e-10);
}

/// The rows over silos of these sizes, before a standard normal prior.
fn partitioned(sizes: &[usize]) -> Partitioned {
    let (mut all, mut toys) = (rows(), Vec::new());
    for size in sizes {
        let rest = all.split_off(*size);
        toys.push(Toy::diagonal(1, vec![0.0, 0.0], logistic(all)));
        all = rest;
    }
    assert!(all.is_empty());
    Partitioned::new(toys, &[0.0, -0.5])
}

#[test]
fn one_damped_step_of_every_silo_is_the_step_of_global_inference_for_any_partition() {
    for expectation in [HERMITE, Expectation::MonteCarlo { draws: 10 }] {
        let solver = NaturalGradient { rate: 0.3, expectation }.into();
        let mut global = partitioned(&[14]);
        let mut others = [partitioned(&[2, 7, 1, 4]), partitioned(&[1; 14])];
        for _ in 0..20 {
            // The solver damps, so the rounds do not.
            global.round(&solver, 1, 1.0).unwrap();
            for other in &mut others {
                other.round(&solver, 1, 1.0).unwrap();
                close(&other.posterior, &global.posterior, 1e-14);
            }
        }
    }
}

#[test]
fn sequential_and_synchronous_visits_to_convergence_find_the_posterior_of_global_inference() {
    let mut global = partitioned(&[14]);
    global.round(&natural_gradient(0.7), 500, 1.0).unwrap();
    let mut sequential = partitioned(&[2, 7, 1, 4]);
    let mut synchronous = partitioned(&[2, 7, 1, 4]);
    for _ in 0..60 {
        sequential.sweep(&natural_gradient(0.7), 500).unwrap();
        synchronous.round(&natural_gradient(0.7), 500, 0.5).unwrap();
    }
    close(&sequential.posterior, &global.posterior, ROUNDING);
    close(&synchronous.posterior, &global.posterior, ROUNDING);
}

#[test]
fn power_expectation_propagation_becomes_the_fixed_point_with_an_error_of_alpha() {
    let (cavity, received) = (vec![0.2, -0.6], vec![0.6, -1.1]);
    let mut toy = Toy::diagonal(1, cavity, logistic(rows()));
    let limit = toy.solve(&natural_gradient(1.0), &received, 1).unwrap().natural;
    let mut error = |alpha: f64| {
        let solver = PowerExpectation::new(alpha).into();
        let found = toy.solve(&solver, &received, 1).unwrap().natural;
        fixtures::largest(found.iter().zip(&limit).map(|(a, b)| (a - b).abs()))
    };
    let errors = [0.01, 0.001, 0.0001].map(&mut error);
    for pair in errors.windows(2) {
        let ratio = pair[0] / pair[1];
        // The error is αc + O(α²).
        assert!((9.0..11.0).contains(&ratio), "{errors:?}");
    }
}

#[test]
fn steps_by_draws_are_unbiased_in_one_and_two_dimensions() {
    let rows = || {
        let rows = rows().into_iter().zip([0.3, -0.8, 0.5, 1.2, -0.4, 0.9, 0.1].into_iter().cycle());
        rows.map(|((x, y), other)| (vec![x[0], other], y)).collect::<Vec<_>>()
    };
    let diagonal = (NormalFamily::diagonal(2), vec![0.2, -0.1, 0.5, 0.6]);
    let full = (NormalFamily::full(2), vec![0.2, -0.1, 0.4, 0.15, 0.5]);
    for (family, member) in [diagonal, full] {
        let received = family.natural_of_standard(&member).unwrap();
        let make = if family.is_diagonal() { Toy::diagonal } else { Toy::full };
        let mut toy = make(2, vec![0.0; family.natural_len()], logistic(rows()));
        let exact = toy.solve(&natural_gradient(0.1), &received, 1).unwrap().natural;
        let mut columns = vec![Vec::new(); exact.len()];
        let expectation = Expectation::MonteCarlo { draws: 10 };
        let mut solver =
            NaturalGradient { rate: 0.1, expectation }.start(&partita::Settings::default(), &partita::Device::flex());
        for step in 0..2_000 {
            let visit = partita::inference::LocalUpdate {
                received: received.clone(),
                is_prior: false,
                first: step,
                steps: 1,
                total: 1,
            };
            let found = solver.solve(&mut toy, &visit).unwrap().natural;
            columns.iter_mut().zip(found).for_each(|(column, value)| column.push(value));
        }
        for (column, exact) in columns.iter().zip(exact) {
            let count = column.len() as f64;
            let mean = column.iter().sum::<f64>() / count;
            let error = (column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0) / count).sqrt();
            assert!((mean - exact).abs() < STANDARD_ERRORS * error, "{mean} ± {error} against {exact}");
        }
    }
}

#[test]
fn quasi_newton_steps_on_fixed_draws_end_where_the_gradient_vanishes() {
    let cavity = NormalFamily::full(2).natural_of_standard(&[0.0, 0.0, 1.0, 0.0, 1.0]).unwrap();
    let likelihood = || quadratic(vec![2.0, -1.0], vec![3.0, 0.8, 0.8, 2.5]);
    let mut toy = Toy::full(2, cavity.clone(), likelihood());
    let options = Lbfgs { tolerance: 1e-9, ..Lbfgs::new(Expectation::MonteCarlo { draws: 2_000 }) };
    let found = toy.solve(&options.into(), &cavity, 200).unwrap();
    assert!(found.steps < 60, "{}", found.steps);
    // The optimum of the sample is near that of the problem: the variances of 1,000 pairs are off by 4 per cent.
    let exact = toy.visit(&mut Conjugate, &cavity, 1).unwrap();
    close(&found.natural, &exact.natural, 0.2);
    let again = toy.solve(&options.into(), &found.natural, 200).unwrap();
    close(&again.natural, &found.natural, DESCENT);
}

#[test]
fn quasi_newton_steps_solve_generalised_problems_as_natural_gradients_do() {
    for divergence in [
        Renyi { alpha: 0.5 }.into(),
        Renyi { alpha: 2.5 }.into(),
        ReverseKullbackLeibler.into(),
        GammaDivergence { gamma: 1.3 }.into(),
    ] {
        let cavity = vec![0.2, -0.6];
        let mut toy = Toy { divergence, ..Toy::diagonal(1, cavity.clone(), logistic(rows())) };
        let natural = toy.solve(&natural_gradient(0.2), &cavity, 5_000).unwrap();
        let descent = toy.solve(&lbfgs(), &cavity, 500).unwrap();
        close(&descent.natural, &natural.natural, DESCENT);
    }
}

#[test]
fn solvers_refuse_what_they_cannot_do() {
    let mut toy = Toy::diagonal(4, vec![0.0; 8], quadratic(vec![0.0; 4], vec![0.0; 16]));
    let received = NormalFamily::diagonal(4).natural_of_standard(&[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]).unwrap();
    let power = PowerExpectation::new(0.5).into();
    for solver in [natural_gradient(0.5), lbfgs(), power] {
        let found = toy.solve(&solver, &received, 1).unwrap_err();
        assert!(matches!(found, Error::Setting { .. }), "{found}");
    }
    let refused = [
        natural_gradient(0.0),
        natural_gradient(1.5),
        NaturalGradient { rate: 1.0, expectation: Expectation::MonteCarlo { draws: 3 } }.into(),
        Lbfgs { memory: 0, ..Lbfgs::new(HERMITE) }.into(),
        Lbfgs::new(Expectation::GaussHermite { points: 0 }).into(),
        PowerExpectation::new(0.0).into(),
        PowerExpectation { points: 1_000, ..PowerExpectation::new(1.0) }.into(),
    ];
    for solver in refused {
        assert!(matches!(solver.check(1), Err(Error::Setting { .. })), "{solver:?}");
    }
    // A step too long for a likelihood that widens: the result is not a density, and the error says what to lower.
    let mut toy = Toy::diagonal(1, vec![0.0, -0.5], quadratic(vec![0.0], vec![-2.0]));
    let found = toy.solve(&natural_gradient(0.5), &[0.0, -0.5], 5).unwrap_err();
    assert!(matches!(&found, Error::Improper { .. }) && found.to_string().contains("lower the rate"), "{found}");
}

#[test]
fn a_search_that_meets_a_likelihood_which_is_no_number_takes_a_shorter_step() {
    // The first trial moves by one unit, to where the likelihood overflows; the optimum is at 0.3.
    let likelihood = || quadratic(vec![120.0], vec![400.0]);
    let received = NormalFamily::diagonal(1).natural_of_standard(&[0.0, 0.05]).unwrap();
    let within = |largest| {
        let mut toy = Toy { largest, ..Toy::diagonal(1, vec![0.0, -0.5], likelihood()) };
        toy.solve(&Lbfgs::new(Expectation::GaussHermite { points: 10 }).into(), &received, 200)
    };
    let exact = Toy::diagonal(1, vec![0.0, -0.5], likelihood()).visit(&mut Conjugate, &received, 1).unwrap();
    close(&within(0.8).unwrap().natural, &exact.natural, 1e-6);
    // At the start there is no shorter step.
    let found = within(0.1);
    assert!(matches!(found, Err(Error::NotFinite { .. })), "{found:?}");
}

#[test]
fn moments_that_do_not_settle_are_refused_by_the_number_of_points() {
    // Two peaks evaluated at three points: the rule alternates between two places without end.
    let peaks = |point: &[f64]| {
        let logs = [-1.0, 1.0].map(|at: f64| -0.5 * ((point[0] - at) / 0.5).powi(2));
        let largest = logs[0].max(logs[1]);
        (largest + logs.iter().map(|log| (log - largest).exp()).sum::<f64>().ln(), vec![0.0])
    };
    let received = NormalFamily::diagonal(1).natural_of_standard(&[0.4, 1.0]).unwrap();
    let power = PowerExpectation { alpha: 1.0, points: 3 }.into();
    let found = Toy::diagonal(1, vec![0.0, -0.5], Box::new(peaks)).solve(&power, &received, 1);
    match found {
        Err(Error::Setting { setting, found, .. }) => {
            assert!(setting.contains("points") && found.starts_with('3'), "{found}")
        }
        other => panic!("{other:?}"),
    }
}

/// A solver that puts the problem of its silo to the laws, and then solves it by gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Examiner;

/// What it starts in a silo.
#[derive(Debug)]
struct Examining(Box<dyn SolverState>);

/// How many problems were put to the laws.
static EXAMINED: AtomicU32 = AtomicU32::new(0);

impl LocalSolver for Examiner {
    fn start(&self, settings: &Settings, device: &Device) -> Box<dyn SolverState> {
        Box::new(Examining(GradientDescent::default().start(settings, device)))
    }

    fn check_settings(&self, _: &Settings, _: bool) -> Result<(), Error> {
        Ok(())
    }
}

impl SolverState for Examining {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved, Error> {
        laws::local_problem(problem, &[0.4, -0.7]).unwrap();
        EXAMINED.fetch_add(1, Ordering::Relaxed);
        self.0.solve(problem, update)
    }
}

#[test]
fn the_problem_of_a_silo_keeps_the_laws() {
    let device = Device::flex();
    let silos = vec![
        ("a".to_owned(), GaussianMean::data(&[0.4, -1.1, 2.3], &device)),
        ("b".to_owned(), GaussianMean::data(&[0.9, 0.2], &device)),
    ];
    for minibatch in [BTreeMap::new(), BTreeMap::from([("row".to_owned(), 2)])] {
        let family = FamilyPlan::new().global(Gaussian::diagonal());
        let settings = Settings { family, minibatch, steps: 4, ..Settings::default() };
        let pvi = PviOptions { solver: Examiner.into(), ..PviOptions::new(2) };
        let options = FitOptions { algorithm: AlgorithmChoice::Pvi(pvi), settings, ..FitOptions::default() };
        let before = EXAMINED.load(Ordering::Relaxed);
        fit(&GaussianMean {}, &silos, &device, &options, None).unwrap();
        assert!(EXAMINED.load(Ordering::Relaxed) > before);
    }
}
