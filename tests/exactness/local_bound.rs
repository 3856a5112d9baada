//! Holds the locally enhanced bound to exact evidences, to the ordinary bound, and its gradients to differences.

use fixtures::{
    ConjugateGaussian, conjugate, conjugate_silos, groups, six_cities_data, six_cities_family, six_cities_model,
    structured,
};
use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Latents, LogDensity, Minibatch};
use partita::inference::{Error, PointMass, Sgd, StartFrom};
use partita::models::{EIGHT_SCHOOLS, EightSchools, Schools};
use partita::{
    AlgorithmChoice, Device, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, Model, Normal, Result, Schedule, Scope,
    Settings, SiteTable, fit,
};

#[test]
fn value_is_the_average_of_ratios_and_gradients_are_its_differences() {
    let (device, model, groups) = (Device::flex(), conjugate(), groups(3, 2));
    let data = ConjugateGaussian::data(&groups, &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let draws = vec![0.3, 1.1, -0.4, 0.8, 1.9, 2.2];
    let log_q = [-1.0, -0.5, -2.0, -0.7, -1.3, -0.2];
    let minibatch = [Minibatch::repeated("group", &[0, 1, 2], 2)];
    let at = |mu: f64, draws: &[f64]| {
        let locals = vec![draws.to_vec()];
        let density = LogDensity::new(&model, &device, &table).minibatch(&minibatch);
        density.locally_enhanced(Latents { globals: &[mu], locals: &locals }, &data, &log_q).unwrap()
    };
    let found = at(0.6, &draws);
    // By hand: every row's log density at each of its two draws, with the noise 0.6 and the group sd 0.8 of the model.
    let normal =
        |x: f64, m: f64, s: f64| -0.5 * ((x - m) / s).powi(2) - s.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
    let mut expected = 0.0;
    for (row, group) in groups.iter().enumerate() {
        let ratio = |k: usize| {
            let b = draws[2 * row + k];
            normal(b, 0.6, 0.8) + group.iter().map(|y| normal(*y, b, 0.6)).sum::<f64>() - log_q[2 * row + k]
        };
        expected += (0.5 * (ratio(0).exp() + ratio(1).exp())).ln();
    }
    assert!((found.evaluated.value - expected).abs() < 1e-12, "{} against {expected}", found.evaluated.value);
    let step = 1e-5;
    let quotient = (at(0.6 + step, &draws).evaluated.value - at(0.6 - step, &draws).evaluated.value) / (2.0 * step);
    assert!((found.evaluated.globals[0] - quotient).abs() < 1e-8);
    for cell in 0..6 {
        let moved = |by: f64| {
            let mut draws = draws.clone();
            draws[cell] += by;
            at(0.6, &draws).evaluated.value
        };
        let quotient = (moved(step) - moved(-step)) / (2.0 * step);
        assert!((found.evaluated.locals[0][cell] - quotient).abs() < 1e-8, "draw {cell}");
    }
    let sums: Vec<f64> = found.weights.chunks(2).map(|row| row.iter().sum()).collect();
    sums.iter().for_each(|sum| assert!((sum - 1.0).abs() < 1e-14));
}

#[test]
fn gradients_reach_scales_and_latents_off_the_real_line_too() {
    // Eight schools: a non-centred row, so that tau is a parameter shared by all rows, with weights of its own.
    let device = Device::flex();
    let data = Schools::new(&EIGHT_SCHOOLS[..3], &device);
    let table = SiteTable::of(&EightSchools {}, &device, &data).unwrap();
    let draws = vec![vec![0.3, 1.1, -0.4, 0.8, 1.9, 2.2]];
    let minibatch = [Minibatch::repeated("school", &[0, 1, 2], 2)];
    let at = |mu: f64, log_tau: f64| {
        let density = LogDensity::new(&EightSchools {}, &device, &table).minibatch(&minibatch);
        density
            .locally_enhanced(Latents { globals: &[mu, log_tau], locals: &draws }, &data, &[0.0; 6])
            .unwrap()
            .evaluated
    };
    let (found, step) = (at(2.0, 0.7), 1e-5);
    let by_mu = (at(2.0 + step, 0.7).value - at(2.0 - step, 0.7).value) / (2.0 * step);
    let by_tau = (at(2.0, 0.7 + step).value - at(2.0, 0.7 - step).value) / (2.0 * step);
    assert!((found.globals[0] - by_mu).abs() < 1e-8 && (found.globals[1] - by_tau).abs() < 1e-8, "{:?}", found.globals);
}

/// Rows whose likelihood is observed, or added as a factor of one or of two numbers a row.
#[derive(Module, Debug)]
struct Rowwise {
    #[module(skip)]
    how: Likelihood,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Likelihood {
    Observed,
    Factor,
    TwoNumbers,
    OneForAll,
}

impl Model for Rowwise {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mean", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let effect = scope.sample("effect", Normal::new(mean.clone(), 0.7))?;
            let y = rows.take(data)?;
            if self.how == Likelihood::Observed {
                return scope.observe("y", Normal::new(effect, 1.0), y);
            }
            let constant = 0.5 * (2.0 * std::f64::consts::PI).ln();
            let factor = (y - effect).powi_scalar(2) * -0.5 - constant;
            match self.how {
                Likelihood::TwoNumbers => {
                    let half: Tensor<2> = (factor * 0.5).reshape([rows.len(), 1]);
                    scope.factor("y", Tensor::cat(vec![half.clone(), half], 1))
                }
                Likelihood::OneForAll => scope.factor("y", factor.sum()),
                _ => scope.factor("y", factor),
            }
        })
    }
}

/// The mean of the only row, `y`, after one plain step of these settings from 0.
fn stepped(y: f64, settings: Settings) -> f64 {
    let device = Device::flex();
    let settings =
        Settings { steps: 1, optimiser: Sgd { momentum: 0.0 }.into(), start: StartFrom::Declared, ..settings };
    let options = FitOptions {
        algorithm: AlgorithmChoice::Sfvi,
        settings,
        elbo_draws: 1,
        trust_draws: Some(0),
        summary_draws: 0,
        ..FitOptions::default()
    };
    let silos = [("a".to_owned(), device.tensor(vec![y], [1]))];
    let mut fit = fit(&Rowwise { how: Likelihood::Observed }, &silos, &device, &options, None).unwrap();
    fit.exchange.programs()[0].local_moments().unwrap()[0].0[0]
}

#[test]
fn the_gradient_of_a_row_that_is_followed_is_that_of_the_bound_on_average() {
    // One row of z ~ N(mu, 0.7²), y ~ N(z, 1) at y = 2, with mu and z at N(0, 0.8²), and two inner draws: the mean of one
    // step of the row's mean over seeds, against sums over the noise of mu and of both draws.
    let (y, spread, scale, rate) = (2.0, 0.7, 0.8_f64, 0.01);
    let log_normal = |x: f64, m: f64, s: f64| -0.5 * ((x - m) / s).powi(2) - s.ln();
    let slopes = |noise: [f64; 3]| {
        let [mu, draws @ ..] = noise.map(|own| scale * own);
        let log_p = |z: f64| log_normal(z, mu, spread) + log_normal(y, z, 1.0);
        let weight = |z: f64| (log_p(z) - log_normal(z, 0.0, scale)).exp();
        let by_draw = |z: f64| (mu - z) / spread.powi(2) + (y - z);
        let path = |z: f64| by_draw(z) + z / scale.powi(2);
        let total: f64 = draws.iter().map(|z| weight(*z)).sum();
        let sum = |of: &dyn Fn(f64, f64) -> f64| draws.iter().map(|z| of(weight(*z) / total, *z)).sum::<f64>();
        [sum(&|w, z| w * by_draw(z)), sum(&|w, z| w * w * path(z)), sum(&|w, z| w * path(z))]
    };
    let (points, step) = (65_u32, 0.2);
    let at = |index: u32| f64::from(index) * step - 6.4;
    let density = |x: f64| step * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let mut exact = [0.0; 3];
    for (a, b, c) in (0..points).flat_map(|a| (0..points).flat_map(move |b| (0..points).map(move |c| (a, b, c)))) {
        let noise = [a, b, c].map(at);
        let mass: f64 = noise.map(density).iter().product();
        exact.iter_mut().zip(slopes(noise)).for_each(|(sum, own)| *sum += mass * own);
    }
    let [expected, doubly, plain] = exact;
    assert!((expected - doubly).abs() < 1e-6, "{exact:?}");
    let one = |seed: u64| {
        let settings = Settings {
            seed,
            estimator: Estimator::LocallyEnhanced { inner: 2 },
            family: FamilyPlan::new().global(Gaussian::diagonal()).local(Gaussian::diagonal()).initial_scale(scale),
            schedule: Schedule::Constant { rate },
            clip: None,
            ..Settings::default()
        };
        stepped(y, settings) / rate
    };
    let steps: Vec<f64> = (0..4_000).map(one).collect();
    let count = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / count;
    let error = (steps.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / count / count).sqrt();
    println!("{mean} ± {error}, expected {expected}; one weight in place of two {plain}");
    assert!((mean - expected).abs() < 5.0 * error, "{mean} ± {error}, expected {expected}");
    assert!((plain - expected).abs() > 10.0 * error, "the check could not tell: {plain}, {expected} ± {error}");
}

#[test]
fn the_gradient_of_a_point_mass_is_that_without_repeats_which_are_all_the_same() {
    let moved = |estimator| {
        let family = FamilyPlan::new().global(Gaussian::diagonal()).local(PointMass);
        let schedule = Schedule::Constant { rate: 0.01 };
        stepped(2.0, Settings { estimator, family, schedule, ..Settings::default() })
    };
    let (plain, repeated) = (moved(Estimator::StickingTheLanding), moved(Estimator::LocallyEnhanced { inner: 4 }));
    // From 0 by 0.01 times about 2.
    assert!((plain - repeated).abs() < 1e-12 && plain.abs() > 0.01, "{plain} against {repeated}");
}

#[test]
fn a_factor_with_a_number_for_each_row_is_as_good_as_an_observation() {
    let device = Device::flex();
    let data = device.tensor(vec![0.3, -1.0, 2.0], [3]);
    let (draws, log_q) = (vec![vec![0.5, 0.1, -0.3, 2.2, 1.0, 0.4]], [-1.0, -0.5, -2.0, -0.7, -1.3, -0.2]);
    let minibatch = [Minibatch::repeated("row", &[0, 1, 2], 2)];
    let bound = |how| {
        let model = Rowwise { how };
        let table = SiteTable::of(&model, &device, &data).unwrap();
        let density = LogDensity::new(&model, &device, &table).minibatch(&minibatch);
        density.locally_enhanced(Latents { globals: &[0.4], locals: &draws }, &data, &log_q)
    };
    let expected = bound(Likelihood::Observed).unwrap().evaluated;
    for how in [Likelihood::Factor, Likelihood::TwoNumbers] {
        let found = bound(how).unwrap().evaluated;
        assert!((found.value - expected.value).abs() < 1e-12, "{how:?}: {} {}", found.value, expected.value);
        let pairs = found.globals.iter().zip(&expected.globals).chain(found.locals[0].iter().zip(&expected.locals[0]));
        pairs.for_each(|(found, expected)| assert!((found - expected).abs() < 1e-12, "{how:?}"));
    }
    let refused = bound(Likelihood::OneForAll).unwrap_err().to_string();
    assert!(refused.contains("factor `y`") && refused.contains("6 rows"), "{refused}");
}

fn conjugate_fit(estimator: Estimator, family: FamilyPlan, elbo_draws: usize) -> (Fit, f64) {
    let (device, groups) = (Device::flex(), groups(10, 2));
    let data = conjugate_silos(&groups, 2);
    let settings = Settings {
        steps: 5_000,
        estimator,
        family,
        schedule: Schedule::Cosine { initial: 0.03, last: 0.0 },
        ..Settings::default()
    };
    let options = FitOptions { settings, elbo_draws, trust_draws: Some(0), ..FitOptions::default() };
    (fit(&conjugate(), &data, &device, &options, None).unwrap(), conjugate().posterior(&groups).log_evidence)
}

#[test]
fn bound_equals_the_evidence_where_the_family_holds_the_posterior() {
    let (fit, evidence) = conjugate_fit(Estimator::LocallyEnhanced { inner: 4 }, structured(), 200);
    assert!((fit.report.elbo - evidence).abs() < 1e-3, "{} against {evidence}", fit.report.elbo);
}

#[test]
fn bound_rises_with_inner_draws_towards_the_evidence_where_the_family_is_too_small() {
    // Rows independent of the globals cannot represent the posterior.
    let family = || FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal());
    let bound = |estimator| {
        let (fit, evidence) = conjugate_fit(estimator, family(), 20_000);
        (fit.report.elbo - evidence, fit.report.elbo_se)
    };
    let (ordinary, error) = bound(Estimator::StickingTheLanding);
    let (few, few_error) = bound(Estimator::LocallyEnhanced { inner: 2 });
    let (many, many_error) = bound(Estimator::LocallyEnhanced { inner: 16 });
    // Five standard errors of each difference.
    assert!(ordinary + 5.0 * error.hypot(few_error) < few, "{ordinary} and {few}");
    assert!(few + 5.0 * few_error.hypot(many_error) < many, "{few} and {many}");
    assert!(many < 5.0 * many_error, "{many} above the evidence");
}

#[test]
fn one_inner_draw_is_the_ordinary_bound() {
    let (ordinary, _) = conjugate_fit(Estimator::StickingTheLanding, structured(), 200);
    let (single, _) = conjugate_fit(Estimator::LocallyEnhanced { inner: 1 }, structured(), 200);
    assert!((ordinary.report.elbo - single.report.elbo).abs() < 2e-3);
}

#[test]
fn minibatches_and_silos_share_the_bound_without_bias() {
    let device = Device::flex();
    let data = six_cities_data(1, &device).remove(0);
    let model = six_cities_model();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let globals = [-2.0, 0.3, -0.1, 0.1, -0.5];
    let draws: Vec<f64> = (0..537 * 2).map(|cell| f64::from(cell % 7) * 0.3 - 0.9).collect();
    let share = |rows: &[usize]| {
        let own: Vec<f64> = rows.iter().flat_map(|row| &draws[2 * row..2 * row + 2]).copied().collect();
        let (locals, log_q) = (vec![own.clone(), Vec::new()], vec![-0.4; own.len()]);
        let minibatch = [Minibatch::repeated("child", rows, 2)];
        let density = LogDensity::new(&model, &device, &table);
        let value = density.minibatch(&minibatch).locally_enhanced(
            Latents { globals: &globals, locals: &locals },
            &data,
            &log_q,
        );
        value.unwrap().evaluated.value
    };
    let all: Vec<usize> = (0..537).collect();
    let thirds: Vec<Vec<usize>> = (0..3).map(|k| all.iter().copied().filter(|row| row % 3 == k).collect()).collect();
    // Three parts of 179 rows, each scaled by three: their mean is the whole.
    let mean = thirds.iter().map(|rows| share(rows)).sum::<f64>() / 3.0;
    assert!((mean - share(&all)).abs() < 1e-9, "{mean} against {}", share(&all));
}

#[test]
fn a_model_with_local_latents_outside_one_plate_is_refused() {
    let device = Device::flex();
    let silos = [("all".to_owned(), six_cities_data(1, &device).remove(0))];
    let settings = |estimator| Settings { steps: 2, estimator, family: six_cities_family(), ..Settings::default() };
    let none = FitOptions { settings: settings(Estimator::LocallyEnhanced { inner: 0 }), ..FitOptions::default() };
    let refused = fit(&six_cities_model(), &silos, &device, &none, None).unwrap_err();
    assert!(matches!(refused, Error::Setting { setting: "inner draws", .. }), "{refused}");
}
