//! Compares PVI configured as another algorithm with that algorithm's definition, by quadrature.

use fixtures::local::expected;
use fixtures::partitioned::{
    LINEAR, ROUNDING, Run, close, conjugate_options, exact, four_silos, minus, plus, settings,
};
use fixtures::regression::{Regression, Rows, pooled, silos};
use partita::inference::{
    Adam, AdamW, Algorithm, CovarianceMatrix, EarlyStop, Error, Expectation, ExponentialFamily, Factors,
    GradientDescent, Lbfgs, LocalSolver, Monitor, NaturalGradient, NormalFamily, Optimiser, Order, Plug,
    PowerExpectation, RmsProp, Sgd,
};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, Schedule, Settings, SiloSchedule, fit,
};
use partita_studies::{Clutter, ClutterSettings};

/// A logistic regression in one covariate.
const LOGISTIC: Regression = Regression { columns: 1, binary: true };

/// Gauss-Hermite quadrature of some points beside the trapezoidal rule, both of smooth integrands.
const QUADRATURE: f64 = 1e-7;

const RULE: Expectation = Expectation::GaussHermite { points: 150 };

const IN_TURN: SiloSchedule = SiloSchedule::Sequential(Order::Fixed);

fn family() -> NormalFamily {
    NormalFamily::diagonal(1)
}

fn logistic_silos() -> Vec<(String, Rows)> {
    silos(&[2, 4, 1, 3], 1, true, &Device::flex())
}

fn diagonal(steps: u64) -> Settings {
    Settings { family: FamilyPlan::new().global(Gaussian::diagonal()), ..settings(steps) }
}

/// The log likelihood of a silo's rows with its first two derivatives.
fn log_likelihood(rows: &Rows, theta: f64) -> [f64; 3] {
    let mut all = [0.0; 3];
    for (x, y) in rows.design.iter().zip(&rows.outcomes) {
        let side = 2.0 * y - 1.0;
        let right = partita_core::special::sigmoid(side * x * theta);
        all[0] += right.ln();
        all[1] += side * x * (1.0 - right);
        all[2] -= x * x * right * (1.0 - right);
    }
    all
}

/// The gradient of E_q[log p(y)] by mean parameters: by E θ and by E θ².
fn slope(natural: &[f64], rows: &Rows) -> Vec<f64> {
    let mean = family().moments(natural).0[0];
    let of = |order: usize| expected(natural, |theta| log_likelihood(rows, theta)[order]);
    vec![of(1) - mean * of(2), 0.5 * of(2)]
}

/// Natural parameters with the moments of r(θ) p(y | θ)^α, where r is a member that need not be normalised.
fn moment_matched(base: &[f64], rows: &Rows, alpha: f64) -> Vec<f64> {
    // Over a normal density that is wider than the tilted one and lies with it.
    let (mean, spread) = family().moments(base);
    let wide = family().natural_of_standard(&[mean[0], 1.5 * spread.deviations()[0]]).unwrap();
    let weight = |theta: f64| {
        let log_base = (base[0] - wide[0]) * theta + (base[1] - wide[1]) * theta * theta;
        (log_base + alpha * log_likelihood(rows, theta)[0]).exp()
    };
    let total = expected(&wide, weight);
    let means = [1, 2].map(|power| expected(&wide, |theta| weight(theta) * theta.powi(power)) / total);
    family().natural_of_mean(&means).unwrap()
}

/// The posterior before and after an exchange, with the silo updated and its factor before.
struct Visited {
    before: Vec<f64>,
    after: Vec<f64>,
    silo: usize,
    factor: Vec<f64>,
}

/// The exchanges of a sequential run.
fn visits(options: PviOptions, exchanges: usize) -> Vec<Visited> {
    let data = logistic_silos();
    let mut run = Run::new(&LOGISTIC, &data, &diagonal(1_000), options);
    (0..exchanges)
        .map(|exchange| {
            let silo = exchange % data.len();
            let (before, factor) = (run.pvi.natural().to_vec(), run.pvi.factor(silo).unwrap().to_vec());
            run.step();
            Visited { before, after: run.pvi.natural().to_vec(), silo, factor }
        })
        .collect()
}

#[test]
fn one_natural_gradient_step_a_visit_is_conjugate_computation_variational_inference() {
    let data = logistic_silos();
    for (rate, damping) in [(0.3, 1.0), (1.0, 0.4)] {
        let solver = NaturalGradient { rate, expectation: RULE }.into();
        let options = PviOptions { solver, damping: Some(damping), schedule: IN_TURN, ..PviOptions::new(1) };
        for Visited { before, after, silo, factor } in visits(options, 12) {
            // η_q + ρ (∇ E_q[log p_m] - η_m).
            let gap = minus(&slope(&before, &data[silo].1), &factor);
            close(&after, &plus(&before, rate * damping, &gap), QUADRATURE);
        }
    }
}

#[test]
fn moment_matching_visits_are_power_expectation_propagation_with_factors_of_their_own_or_one_for_all() {
    let data = logistic_silos();
    let prior = [0.0, -0.5];
    for alpha in [1.0, 0.5] {
        for factors in [Factors::Own, Factors::Shared] {
            let solver = PowerExpectation { alpha, points: 60 }.into();
            let options = PviOptions { solver, factors, damping: Some(0.8), schedule: IN_TURN, ..PviOptions::new(1) };
            for Visited { before, after, silo, factor } in visits(options, 8) {
                let shared = minus(&before, &prior).iter().map(|eta| 0.25 * eta).collect::<Vec<f64>>();
                let taken_out = if factors == Factors::Shared { shared } else { factor };
                // q (p / t)^α, whose moments q_α has; q becomes q^{1-ρ/α} q_α^{ρ/α}.
                let tilted = moment_matched(&plus(&before, -alpha, &taken_out), &data[silo].1, alpha);
                let moved = minus(&tilted, &before);
                close(&after, &plus(&before, 0.8 / alpha, &moved), QUADRATURE);
            }
        }
    }
}

#[test]
fn power_expectation_propagation_to_convergence_is_at_rest_where_the_alpha_divergence_is() {
    // For a single silo the tilted density is the posterior, and the α-divergence ∝ 1 - ∫ p^α q^{1-α}.
    let rows = &logistic_silos()[1].1;
    let data = vec![("alone".to_owned(), rows.clone())];
    for alpha in [0.9, 0.5] {
        let solver = PowerExpectation { alpha, points: 60 }.into();
        let options = PviOptions { solver, schedule: IN_TURN, ..PviOptions::new(60) };
        let found = Run::new(&LOGISTIC, &data, &diagonal(1_000), options).steps(4).pvi.natural().to_vec();
        let overlap = |q: &[f64]| {
            // ∫ (prior · likelihood)^α q^{1-α} over q itself: E_q[(prior · likelihood / q)^α].
            let log_q = |theta: f64| q[0] * theta + q[1] * theta * theta - family().log_partition(q);
            expected(q, |theta| (alpha * (-0.5 * theta * theta + log_likelihood(rows, theta)[0] - log_q(theta))).exp())
        };
        for direction in 0..2 {
            let at = |step: f64| {
                let mut moved = found.clone();
                moved[direction] += step;
                overlap(&moved).ln()
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!(slope.abs() < 1e-7, "{alpha}, direction {direction}: {slope}");
            // Any other member has a larger divergence.
            assert!([-0.05, 0.05].iter().all(|step| at(*step) < at(0.0)), "{alpha}, direction {direction}");
        }
    }
}

#[test]
fn every_solver_of_convergence_ends_at_the_posterior_of_inference_on_pooled_rows() {
    let (device, data) = (Device::flex(), logistic_silos());
    let natural = Plug::<dyn LocalSolver>::from(NaturalGradient { rate: 0.5, expectation: RULE });
    let lbfgs = Plug::<dyn LocalSolver>::from(Lbfgs::new(RULE));
    let end = |data: &[(String, Rows)], solver, exchanges| {
        let options = PviOptions { solver, schedule: IN_TURN, ..PviOptions::new(60) };
        Run::new(&LOGISTIC, data, &diagonal(10_000), options).steps(exchanges).pvi.natural().to_vec()
    };
    let together = pooled(&data, &device);
    let expected = end(&together, natural.clone(), 2);
    for (data, solver, exchanges) in [(&data, natural, 60), (&data, lbfgs.clone(), 60), (&together, lbfgs, 2)] {
        close(&end(data, solver, exchanges), &expected, 1e-6);
    }
    // At the fixed point the sum of the silos' slopes is the posterior less the prior.
    let slopes = data.iter().map(|(_, rows)| slope(&expected, rows));
    let sum = slopes.fold(vec![0.0, -0.5], |sum, own| plus(&sum, 1.0, &own));
    close(&sum, &expected, 1e-8);
}

#[test]
fn visits_by_every_optimiser_end_at_a_conjugate_posterior() {
    let (device, data) = (Device::flex(), four_silos());
    let expected = NormalFamily::full(3).moments(&exact(&data, 3));
    for (optimiser, rate) in [
        (Plug::<dyn Optimiser>::from(Adam::default()), 0.02),
        (AdamW { weight_decay: 0.0 }.into(), 0.02),
        (RmsProp { momentum: 0.0 }.into(), 0.005),
        (Sgd { momentum: 0.0 }.into(), 0.01),
        (Sgd { momentum: 0.9 }.into(), 0.001),
    ] {
        let schedule = Schedule::Cosine { initial: rate, last: 0.0 };
        let settings = Settings { steps: 6_400, optimiser: optimiser.clone(), schedule, ..Settings::default() };
        let algorithm = AlgorithmChoice::Pvi(PviOptions::new(400));
        let options = FitOptions { algorithm, settings, ..FitOptions::default() };
        let fitted = fit(&LINEAR, &data, &device, &options, None).unwrap();
        let posterior = fitted.posterior();
        let mean = posterior.family.mean(posterior.parameters);
        for ((found, expected), sd) in mean.iter().zip(&expected.0).zip(expected.1.deviations()) {
            assert!((found - expected).abs() < 0.05 * sd, "{optimiser:?}: {mean:?} against {expected:?}");
        }
    }
}

#[test]
fn visits_that_stop_early_take_fewer_steps_and_end_at_a_conjugate_posterior() {
    let data = four_silos();
    let expected = NormalFamily::full(3).moments(&exact(&data, 3));
    for monitor in [Monitor::FreeEnergy, Monitor::LogLikelihood] {
        let stop = Some(EarlyStop { monitor, window: 100, patience: 3 });
        let solver = GradientDescent { stop, ..GradientDescent::default() }.into();
        let options = PviOptions { solver, schedule: IN_TURN, ..PviOptions::new(2_000) };
        let schedule = Schedule::Constant { rate: 0.01 };
        let mut run = Run::new(&LINEAR, &data, &Settings { schedule, ..settings(40_000) }, options);
        let mut taken = 0;
        for _ in 0..20 {
            let outcomes = run.outcomes();
            taken += run.pvi.incoming(outcomes).unwrap().tally.silo_steps;
        }
        assert!(taken < 20_000, "{monitor:?}: {taken} of at most 40,000 steps");
        let (mean, _) = run.pvi.natural_family().moments(run.pvi.natural());
        for ((found, expected), sd) in mean.iter().zip(&expected.0).zip(expected.1.deviations()) {
            assert!((found - expected).abs() < 0.2 * sd, "{monitor:?}: {mean:?} against {expected:?}");
        }
    }
}

#[test]
fn a_sequential_posterior_of_scaled_factors_stays_normalised() {
    // t_m ← t_m q_m / q with both densities normalised: the product of the factors with the prior integrates to 1.
    let solver = NaturalGradient { rate: 0.5, expectation: RULE }.into();
    let options = PviOptions { solver, schedule: IN_TURN, ..PviOptions::new(60) };
    let family = family();
    let prior = vec![0.0, -0.5];
    let mut factors = vec![vec![0.0; 2]; 4];
    let mut log_scale = 0.0;
    for Visited { before, after, silo, factor } in visits(options, 12) {
        close(&factors[silo], &factor, ROUNDING);
        factors[silo] = plus(&factors[silo], 1.0, &minus(&after, &before));
        log_scale += family.log_partition(&before) - family.log_partition(&after);
        let product = factors.iter().fold(prior.clone(), |product, factor| plus(&product, 1.0, factor));
        close(&product, &after, ROUNDING);
        let log_normaliser = log_scale - family.log_partition(&prior) + family.log_partition(&product);
        assert!(log_normaliser.abs() < 1e-12, "log Z_q is {log_normaliser}");
    }
}

#[test]
fn the_log_normaliser_is_the_evidence_of_a_conjugate_model_beyond_the_factors_constants() {
    let data = four_silos();
    let run = Run::new(&LINEAR, &data, &settings(100), conjugate_options(SiloSchedule::Synchronous)).steps(200);
    // A factor is its silo's likelihood over that at zero. By Bayes' rule at the posterior mean, where determinants are
    // those of 3 × 3 matrices: log p(y) = log p(y | m) + log p(m) - log N(m; m, S).
    let (mean, spread) = run.pvi.natural_family().moments(&exact(&data, 3));
    let at = |theta: &[f64]| -> f64 {
        let row = |(x, y): (&[f64], &f64)| (y - x.iter().zip(theta).map(|(x, b)| x * b).sum::<f64>()).powi(2);
        data.iter().map(|(_, rows)| -0.5 * rows.design.chunks_exact(3).zip(&rows.outcomes).map(row).sum::<f64>()).sum()
    };
    let CovarianceMatrix::Full(s) = spread else { panic!("one part") };
    let minor = |i: usize, j: usize| s[3 + i] * s[6 + j] - s[3 + j] * s[6 + i];
    let determinant = s[0] * minor(1, 2) - s[1] * minor(0, 2) + s[2] * minor(0, 1);
    let square: f64 = mean.iter().map(|own| own * own).sum();
    let evidence = at(&mean) - at(&[0.0; 3]) - 0.5 * square + 0.5 * determinant.ln();
    let found = run.pvi.log_normaliser().unwrap();
    assert!((found - evidence).abs() < 1e-10 * evidence.abs(), "{found} against {evidence}");
}

#[test]
fn silos_whose_likelihoods_curve_upwards_are_refused_undamped_with_their_names_and_go_on_damped() {
    // Numbers at zero, with a narrow prior around 2, where the mixture changes from signal to noise: every silo removes
    // precision, each less than there is, and all five together more.
    let device = Device::flex();
    let clutter = ClutterSettings {
        prior_mean: 2.2,
        prior_sd: 0.5,
        signal_sd: 1.0,
        noise_mean: 0.0,
        noise_sd: 10.0_f64.sqrt(),
        noise_weight: 0.5,
    };
    let model = Clutter::new(clutter);
    let data = fixtures::named((0..5).map(|_| device.tensor(vec![0.0; 4], [4])));
    let solver = Plug::<dyn LocalSolver>::from(NaturalGradient { rate: 1.0, expectation: RULE });
    let first = |damping| {
        let options =
            PviOptions { solver: solver.clone(), damping, schedule: SiloSchedule::Synchronous, ..PviOptions::new(1) };
        let mut run = Run::new(&model, &data, &diagonal(1_000), options);
        let outcomes = run.outcomes();
        let found = run.pvi.incoming(outcomes);
        (found, run)
    };
    match first(Some(1.0)).0 {
        Err(Error::ImproperProduct { silos, damping, found, step: 0, .. }) => {
            let names = (0..5).map(|silo| format!("silo-{silo}")).collect::<Vec<_>>().join("`, `");
            assert_eq!((silos, damping), (names, 1.0));
            assert!(found < 0.0, "{found}");
        }
        other => panic!("an improper product went unnoticed: {other:?}"),
    }
    let (found, run) = first(None);
    found.unwrap();
    assert!(run.pvi.factor(0).unwrap()[1] > 0.0, "no factor of negative precision: {:?}", run.pvi.factor(0));
    assert!(run.pvi.natural_family().impropriety(run.pvi.natural()).is_none());
}
