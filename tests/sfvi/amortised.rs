//! Compares amortised local posteriors with the rows' own: zeros, chain rule, silos, minibatches, secrecy, new rows.

mod pictures;
mod private;

use fixtures::split;
use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::core::{Key, Noise, Purpose, theta};
use partita::inference::{
    Algorithm, Barycentre, ElboEstimate, EncodedRows, Error, Expectation, GradientDescent, LocalSolver, LogPool,
    Message, NaturalGradient, ParameterMean, Plug, PointMass, Sfvi, Sgd, Silo, SiloProgram, encoded_posterior,
    held_out_bound,
};
use partita::{
    AlgorithmChoice, Amortised, Device, Encoder, Encoding, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, Model,
    Normal, PviOptions, Result, RoundOptions, Rows, Schedule, Scope, Settings, burn, check, fit,
};

/// s: the known standard deviation of y given z.
const NOISE: f64 = 0.5;
/// Sums of a few dozen terms of order ten, each rounded to 1e-16.
const ROUNDING: f64 = 1e-12;

/// z_r ~ N(0, 1), y_r | z_r ~ N(z_r, s²): no globals, no θ.
#[derive(Module, Debug)]
struct Plain {}

impl Model for Plain {
    type Globals = ();
    type Data = Tensor<1>;

    fn global(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn local(&self, scope: &mut Scope<'_>, (): &(), data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let z = scope.sample("z", Normal::new(0.0, 1.0).over(rows))?;
            scope.observe("y", Normal::new(z, NOISE), rows.take(data)?)
        })
    }
}

/// Two latents a row, a global mean, and a noise scale as point parameter: y_r ~ N(z_r0 + z_r1 / 2 + μ, e^{2θ}).
#[derive(Module, Debug)]
struct Mixed {
    log_noise: Param<Tensor<1>>,
}

impl Model for Mixed {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mu", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, mu: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let first = scope.sample("first", Normal::new(0.0, 1.0).over(rows))?;
            let second = scope.sample("second", Normal::new(0.0, 1.0).over(rows))?;
            let location = first + second * 0.5 + mu.clone();
            scope.observe("y", Normal::new(location, self.log_noise.val().exp()), rows.take(data)?)
        })
    }
}

/// mean = tanh(y w + b) or y w + b, log-scale = y v + c, with `width` columns.
#[derive(Module, Debug)]
struct Rule {
    w: Param<Tensor<2>>,
    b: Param<Tensor<2>>,
    v: Param<Tensor<2>>,
    c: Param<Tensor<2>>,
    #[module(skip)]
    bent: bool,
}

impl Rule {
    fn new(values: [&[f64]; 4], bent: bool, device: &Device) -> Self {
        let [w, b, v, c] = values.map(|own| Param::from_tensor(device.tensor(own.to_vec(), [1, own.len()])));
        Self { w, b, v, c, bent }
    }
}

impl Encoder<Tensor<1>> for Rule {
    fn encode(&self, data: &Tensor<1>, rows: &Rows<'_>) -> Result<Encoding> {
        let y = rows.take(data)?.reshape([rows.len(), 1]);
        let mean = y.clone() * self.w.val() + self.b.val();
        let mean = if self.bent { mean.tanh() } else { mean };
        Ok(Encoding { mean, log_scale: y * self.v.val() + self.c.val() })
    }
}

fn plain(values: [&[f64]; 4], device: &Device) -> Amortised<Plain, Rule> {
    Amortised::new(Plain {}, "row", Rule::new(values, false, device))
}

/// The encoder that gives the exact posterior of [`Plain`]: N(y/(1 + s²), s²/(1 + s²)).
fn exact(device: &Device) -> Amortised<Plain, Rule> {
    let variance = NOISE * NOISE / (1.0 + NOISE * NOISE);
    plain([&[1.0 / (1.0 + NOISE * NOISE)], &[0.0], &[0.0], &[0.5 * variance.ln()]], device)
}

fn mixed(device: &Device) -> Amortised<Mixed, Rule> {
    let encoder = Rule::new([&[0.4, -0.2], &[0.1, 0.3], &[0.05, -0.1], &[-0.5, -0.8]], true, device);
    Amortised::new(Mixed { log_noise: Param::from_tensor(device.tensor(vec![-0.3], [1])) }, "row", encoder)
}

/// An encoder with such small standard deviations that a draw equals its mean to the last digit: sums over rows are
/// then comparable for any noise.
fn certain(device: &Device) -> Amortised<Mixed, Rule> {
    let encoder = Rule::new([&[0.4, -0.2], &[0.1, 0.3], &[0.05, -0.1], &[-50.0, -50.0]], true, device);
    Amortised::new(Mixed { log_noise: Param::from_tensor(device.tensor(vec![-0.3], [1])) }, "row", encoder)
}

fn observations(count: usize, seed: u64) -> Vec<f64> {
    let mut noise = Noise::new(seed).stream(Key::new(Purpose::Prior, 0));
    (0..count).map(|_| noise.standard_normal() + NOISE * noise.standard_normal()).collect()
}

fn tensor(values: &[f64], device: &Device) -> Tensor<1> {
    device.tensor(values.to_vec(), [values.len()])
}

fn named(parts: &[Vec<f64>], device: &Device) -> Vec<(String, Tensor<1>)> {
    fixtures::named(parts.iter().map(|own| tensor(own, device)))
}

/// log p(y) = Σ log N(y; 0, 1 + s²).
fn log_evidence(y: &[f64]) -> f64 {
    let variance = 1.0 + NOISE * NOISE;
    y.iter().map(|y| -0.5 * (y * y / variance + (2.0 * std::f64::consts::PI * variance).ln())).sum()
}

/// A silo's reply to step `step` at these parameters.
fn reply(silo: &mut Silo, step: u64, seed: u64, (global, theta): (&[f64], &[f64])) -> Message {
    let request = Message::new("sfvi.step").word("step", step).word("seed", seed).floats("global", global);
    silo.answer(&if theta.is_empty() { request } else { request.floats("theta", theta) }).unwrap()
}

fn close(found: &[f64], expected: &[f64], bound: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1.0_f64, |largest, value| largest.max(value.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= bound * scale, "{what}: {found:?} against {expected:?}");
    }
}

const ESTIMATORS: [Estimator; 4] = [
    Estimator::StickingTheLanding,
    Estimator::Total,
    Estimator::ClosedFormEntropy,
    Estimator::LocallyEnhanced { inner: 3 },
];

fn minibatch(size: usize) -> std::collections::BTreeMap<String, usize> {
    [("row".to_owned(), size)].into()
}

#[test]
fn the_exact_encoder_has_gradient_zero_and_the_evidence_for_every_noise() {
    let device = Device::flex();
    let (model, y) = (exact(&device), observations(23, 4));
    for size in [23, 5] {
        let settings = Settings { minibatch: minibatch(size), particles: 2, ..Settings::default() };
        let mut silo = Silo::new("a", 0, &model, &tensor(&y, &device), &device, &settings).unwrap();
        for step in 0..6 {
            let reply = reply(&mut silo, step, settings.seed, (&[], &theta(&model).unwrap()));
            let gradient = reply.get_floats("theta_gradient").unwrap();
            close(&gradient, &[0.0; 4], 1e-11, "the gradient by the encoder");
        }
        // The bound of every draw is log p(y), evaluated at once or in parts.
        let algorithm = Sfvi::new(&model, &device, &settings, &["a".into()]).unwrap();
        let data = tensor(&y, &device);
        let bound = held_out_bound(&model, &device, &settings, algorithm.posterior(), &data, 70).unwrap();
        assert!((bound.elbo - log_evidence(&y)).abs() < 1e-11 && bound.standard_error < 1e-11, "{bound:?}");
        assert_eq!(bound.draws, 70);
    }
}

/// Gradients by the rule's parameters from those by means and log-scales, by hand.
fn chain_rule(y: &[f64], means: &[f64], by_mean: &[f64], by_log_scale: &[f64]) -> Vec<f64> {
    let width = 2;
    let mut all = vec![0.0; 4 * width];
    for (row, y) in y.iter().enumerate() {
        for column in 0..width {
            let cell = row * width + column;
            let inner = by_mean[cell] * (1.0 - means[cell] * means[cell]);
            all[column] += y * inner;
            all[width + column] += inner;
            all[2 * width + column] += y * by_log_scale[cell];
            all[3 * width + column] += by_log_scale[cell];
        }
    }
    all
}

#[test]
fn the_gradient_by_an_encoder_is_the_chain_rule_of_the_gradient_by_the_rows() {
    let device = Device::flex();
    let (model, y) = (mixed(&device), observations(9, 7));
    let data = tensor(&y, &device);
    let encoded = encoded_posterior(&model, &device, &data).unwrap().remove(0);
    let rows = [encoded.mean.clone(), encoded.sd.iter().map(|sd| sd.ln()).collect()].concat();
    let global = [0.2, -1.0];
    for estimator in ESTIMATORS {
        // Steps of plain gradient descent with rate 1: the move of the rows' parameters is the gradient.
        let settings = Settings {
            estimator,
            particles: 3,
            optimiser: Sgd { momentum: 0.0 }.into(),
            schedule: Schedule::Constant { rate: 1.0 },
            ..Settings::default()
        };
        let mut amortised = Silo::new("a", 0, &model, &data, &device, &settings).unwrap();
        let found = reply(&mut amortised, 5, settings.seed, (&global, &theta(&model).unwrap()));
        let own = Settings { family: FamilyPlan::new().local(Gaussian::diagonal()), ..settings.clone() };
        let mut by_rows = Silo::new("a", 0, model.model(), &data, &device, &own).unwrap();
        by_rows.set_local_parameters(vec![rows.clone()]).unwrap();
        let expected = reply(&mut by_rows, 5, settings.seed, (&global, &theta(model.model()).unwrap()));
        let moved = by_rows.local_parameters().remove(0);
        let gradient: Vec<f64> = moved.iter().zip(&rows).map(|(after, before)| 3.0 * (after - before)).collect();
        let (by_mean, by_log_scale) = gradient.split_at(18);
        let mut theta_gradient = expected.get_floats("theta_gradient").unwrap();
        theta_gradient.extend(chain_rule(&y, &encoded.mean, by_mean, by_log_scale));
        let what = format!("{estimator:?}");
        close(&found.get_floats("theta_gradient").unwrap(), &theta_gradient, ROUNDING, &what);
        for field in ["elbo", "gradient"] {
            close(&found.get_floats(field).unwrap(), &expected.get_floats(field).unwrap(), ROUNDING, &what);
        }
    }
}

fn trained(model: &Amortised<Mixed, Rule>, parts: &[Vec<f64>], algorithm: AlgorithmChoice, settings: &Settings) -> Fit {
    let device = Device::flex();
    let (settings, elbo_draws) = (settings.clone(), 4);
    let options =
        FitOptions { algorithm, settings, elbo_draws, summary_draws: 2, trust_draws: Some(0), ..FitOptions::default() };
    fit(model, &named(parts, &device), &device, &options, None).unwrap()
}

#[test]
fn silos_with_one_encoder_take_the_steps_of_pooled_data() {
    let device = Device::flex();
    let y = observations(12, 9);
    for size in [12, 100] {
        let settings = Settings { steps: 40, estimator: Estimator::ClosedFormEntropy, ..Settings::default() };
        let settings = Settings { minibatch: minibatch(size), ..settings };
        let pooled = trained(&certain(&device), std::slice::from_ref(&y), AlgorithmChoice::Central, &settings);
        for silos in [1, 2, 3] {
            let own = trained(&certain(&device), &split(&y, silos), AlgorithmChoice::Sfvi, &settings);
            // Forty steps of Adam amplify rounding a little.
            close(&own.report.theta, &pooled.report.theta, 1e-9, &format!("J = {silos}"));
            close(own.posterior().parameters, pooled.posterior().parameters, 1e-9, &format!("J = {silos}"));
            assert_ne!(own.report.theta, theta(&certain(&device)).unwrap());
        }
    }
}

#[test]
fn one_silo_takes_the_steps_of_pooled_data_with_noise_and_minibatches() {
    let device = Device::flex();
    let y = observations(12, 9);
    for (size, particles) in [(12, 1), (5, 2)] {
        let settings = Settings { steps: 30, particles, minibatch: minibatch(size), ..Settings::default() };
        let pooled = trained(&mixed(&device), std::slice::from_ref(&y), AlgorithmChoice::Central, &settings);
        let own = trained(&mixed(&device), std::slice::from_ref(&y), AlgorithmChoice::Sfvi, &settings);
        close(&own.report.theta, &pooled.report.theta, 1e-9, "θ");
        assert!((own.report.elbo - pooled.report.elbo).abs() < 1e-9, "{} {}", own.report.elbo, pooled.report.elbo);
    }
}

#[test]
fn minibatches_of_an_epoch_average_to_the_gradient_of_all_rows() {
    let device = Device::flex();
    let (model, y) = (certain(&device), observations(10, 11));
    let global = [0.2, -1.0];
    // The others subtract the score of a density that is nearly a point mass.
    for estimator in [Estimator::Total, Estimator::ClosedFormEntropy] {
        let gradient = |size: usize, step: u64| {
            // A point mass for the global, so that every step draws the same.
            let family = FamilyPlan::new().global(PointMass);
            let settings = Settings { estimator, family, minibatch: minibatch(size), ..Settings::default() };
            let mut silo = Silo::new("a", 0, &model, &tensor(&y, &device), &device, &settings).unwrap();
            let reply = reply(&mut silo, step, settings.seed, (&global[..1], &theta(&model).unwrap()));
            reply.get_floats("theta_gradient").unwrap()
        };
        let mut average = vec![0.0; 9];
        for (step, share) in [(0, 0.4), (1, 0.4), (2, 0.2)] {
            average.iter_mut().zip(gradient(4, step)).for_each(|(slot, own)| *slot += share * own);
        }
        close(&average, &gradient(10, 0), ROUNDING, &format!("{estimator:?}"));
    }
}

#[test]
fn rounds_of_one_silo_without_globals_are_the_steps_of_sfvi() {
    let device = Device::flex();
    let data = named(&[observations(14, 3)], &device);
    let model = plain([&[0.1], &[0.2], &[0.0], &[-0.5]], &device);
    for averaging in [Barycentre.into(), ParameterMean.into(), LogPool.into()] {
        let rounds = RoundOptions { averaging, keep_optimiser: true, ..RoundOptions::paper(10) };
        let run = |algorithm| {
            // An adaptive rate would follow from rounds in the one, from steps in the other.
            let schedule = Schedule::cosine();
            let settings = Settings { steps: 40, minibatch: minibatch(6), schedule, ..Settings::default() };
            let options = FitOptions { algorithm, settings, elbo_draws: 4, ..FitOptions::default() };
            fit(&model, &data, &device, &options, None).unwrap()
        };
        let (averaged, plain) = (run(AlgorithmChoice::SfviAvg(rounds)), run(AlgorithmChoice::Sfvi));
        assert_eq!(averaged.report.theta, plain.report.theta);
        assert_eq!(averaged.report.elbo.to_bits(), plain.report.elbo.to_bits());
        assert!(averaged.report.sites.is_empty() && averaged.report.to_string().contains("theta[3]"));
    }
}

#[test]
fn a_plan_for_sites_the_encoder_serves_is_refused() {
    let device = Device::flex();
    let data = tensor(&observations(4, 1), &device);
    let plans = [
        FamilyPlan::new().site("z", Gaussian::diagonal()),
        FamilyPlan::new().site("z", PointMass),
        FamilyPlan::new().local(Gaussian::diagonal()),
    ];
    for family in plans {
        let settings = Settings { family, ..Settings::default() };
        let error = Silo::new("a", 0, &exact(&device), &data, &device, &settings).unwrap_err();
        assert!(matches!(error, Error::Setting { setting: "family", .. }), "{error}");
        assert!(error.to_string().contains("the encoder decides"), "{error}");
    }
}

#[test]
fn encodings_of_the_wrong_shape_or_not_finite_name_plate_and_encoder() {
    let device = Device::flex();
    let data = tensor(&[0.5, -1.0], &device);
    let wide = plain([&[0.1, 0.2], &[0.0, 0.0], &[0.0, 0.0], &[0.0, 0.0]], &device);
    let infinite = plain([&[f64::INFINITY], &[0.0], &[0.0], &[0.0]], &device);
    let shape = encoded_posterior(&wide, &device, &data).unwrap_err();
    assert!(matches!(&shape, Error::Model(partita::Error::Shape { found, expected, .. })
        if *found == [2, 2] && *expected == [2, 1]));
    let finite = encoded_posterior(&infinite, &device, &data).unwrap_err();
    assert!(matches!(&finite, Error::Model(partita::Error::NotFiniteMade { .. })));
    for error in [shape, finite] {
        assert!(error.to_string().contains("encoder of plate `row`"), "{error}");
    }
}

/// An encoder whose output for a row depends on other rows, as with batch normalisation.
#[derive(Module, Debug)]
struct Neighbourly {}

impl Encoder<Tensor<1>> for Neighbourly {
    fn encode(&self, data: &Tensor<1>, rows: &Rows<'_>) -> Result<Encoding> {
        let y = rows.take(data)?;
        let mean = (y.clone() - y.mean()).reshape([rows.len(), 1]);
        Ok(Encoding { log_scale: mean.zeros_like(), mean })
    }
}

#[test]
fn check_passes_an_encoder_and_finds_one_whose_rows_depend_on_each_other() {
    let device = Device::flex();
    let silos = named(&split(&observations(9, 2), 2), &device);
    let report = check(&exact(&device), &silos, &device).unwrap();
    assert!(report.passed() && report.to_string().contains("row by row"), "{report}");
    assert!(check(&mixed(&device), &silos, &device).unwrap().passed());
    assert!(!check(&Amortised::new(Plain {}, "row", Neighbourly {}), &silos, &device).unwrap().passed());
}

#[test]
fn constants_as_an_encoder_need_no_gradient() {
    let device = Device::flex();
    let model = Amortised::new(Plain {}, "row", Neighbourly {});
    let options = FitOptions { settings: Settings { steps: 3, ..Settings::default() }, ..FitOptions::default() };
    let fit = fit(&model, &named(&[observations(5, 2)], &device), &device, &options, None).unwrap();
    assert!(fit.report.theta.is_empty() && fit.report.elbo.is_finite());
}

#[test]
fn an_encoder_trained_on_two_silos_serves_the_rows_of_a_third() {
    let device = Device::flex();
    let parts = split(&observations(120, 5), 3);
    let model = plain([&[0.0], &[0.0], &[0.0], &[0.0]], &device);
    let settings = Settings {
        steps: 1_500,
        schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
        minibatch: minibatch(16),
        ..Settings::default()
    };
    let options = FitOptions { settings: settings.clone(), elbo_draws: 100, ..FitOptions::default() };
    let fit = fit(&model, &named(&parts[..2], &device), &device, &options, None).unwrap();
    let (third, y) = (tensor(&parts[2], &device), &parts[2]);
    let fitted = fit.model(&model, &device).unwrap();
    let EncodedRows { plate, shape, mean, sd } = encoded_posterior(&fitted, &device, &third).unwrap().remove(0);
    assert_eq!((plate.as_str(), shape), ("row", [40, 1]));
    // A posterior trained on the third silo could at best be exact, with the evidence as its bound: the encoder's is
    // below it by the Kullback-Leibler divergence, in closed form.
    let variance = NOISE * NOISE / (1.0 + NOISE * NOISE);
    let divergence = |((y, mean), sd): ((&f64, &f64), &f64)| {
        let (distance, ratio) = (mean - y / (1.0 + NOISE * NOISE), sd * sd / variance);
        0.5 * (ratio - 1.0 - ratio.ln() + distance * distance / variance)
    };
    let lost: f64 = y.iter().zip(&mean).zip(&sd).map(divergence).sum();
    let ElboEstimate { elbo, standard_error, .. } =
        held_out_bound(&model, &device, &settings, fit.posterior(), &third, 400).unwrap();
    let expected = log_evidence(y) - lost;
    assert!((elbo - expected).abs() < 5.0 * standard_error + 1e-9, "{elbo} ± {standard_error}, exact {expected}");
    assert!(lost < 1e-3, "the encoder loses {lost} nats on rows it never saw");
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let device = Device::flex();
    let run = |threads| {
        let settings = Settings { steps: 10, particles: 4, minibatch: minibatch(4), ..Settings::default() };
        let options = FitOptions { settings, threads, elbo_draws: 4, ..FitOptions::default() };
        let fit = fit(&mixed(&device), &named(&[observations(9, 6)], &device), &device, &options, None).unwrap();
        [fit.report.theta.as_slice(), &[fit.report.elbo]].concat().into_iter().map(f64::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn local_moments_are_what_the_encoder_gives() {
    let device = Device::flex();
    let data = named(&[observations(11, 6)], &device);
    for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::Central] {
        let settings = Settings { steps: 5, minibatch: minibatch(4), ..Settings::default() };
        let options = FitOptions { algorithm, settings, elbo_draws: 4, ..FitOptions::default() };
        let mut fit = fit(&mixed(&device), &data, &device, &options, None).unwrap();
        let model = fit.model(&mixed(&device), &device).unwrap();
        let expected = encoded_posterior(&model, &device, &data[0].1).unwrap().remove(0);
        let (mean, sd) = fit.exchange.programs()[0].local_moments().unwrap().remove(0);
        assert_eq!(mean, expected.mean);
        close(&sd, &expected.sd, ROUNDING, "sd");
    }
}

#[test]
fn rows_with_latents_no_encoder_serves_have_no_held_out_bound() {
    let device = Device::flex();
    let data = tensor(&observations(4, 1), &device);
    let settings = Settings::default();
    let algorithm = Sfvi::new(&Plain {}, &device, &settings, &["a".into()]).unwrap();
    let error = held_out_bound(&Plain {}, &device, &settings, algorithm.posterior(), &data, 3).unwrap_err();
    assert!(matches!(error, Error::Setting { setting: "model", .. }), "{error}");
    let none = held_out_bound(&exact(&device), &device, &settings, algorithm.posterior(), &data, 0).unwrap_err();
    assert!(matches!(none, Error::Setting { setting: "draws", .. }), "{none}");
}
