//! Holds losses of observations to their formulas, limits, gradients, sums over silos, and robustness.

mod fits;

use burn::module::Module;
use burn::tensor::Tensor;
use fixtures::{six_cities_data, six_cities_model};
use partita::core::{Array, Density, Gradient, Latents, LogDensity, Minibatch, NoiseKind};
use partita::inference::{AlgorithmChoice, Conjugate, Error as FitError, GradientDescent, ImportanceGradient};
use partita::models::RepeatedBinary;
use partita::{
    Bernoulli, Beta, Binomial, Categorical, Cauchy, Device, Error, Estimator, Exponential, FamilyPlan, Fit, FitOptions,
    Gamma, Gaussian, HalfCauchy, HalfNormal, InverseGamma, LogNormal, Loss, Model, Multinomial, MultivariateNormal,
    NegativeBinomial, Normal, Poisson, PviOptions, Result, Schedule, Scope, Settings, SiteTable, StudentT, Uniform,
    burn, fit,
};
use partita_laws as laws;

/// log∫p^β of a density, without derivatives.
fn log_integral(density: &dyn Density, power: f64, parameters: [&[f64]; 3]) -> f64 {
    density.log_power_integral(power, parameters, &mut Gradient::default()).unwrap()
}

fn log_prob(density: &dyn Density, value: f64, parameters: [&[f64]; 3]) -> f64 {
    density.log_prob(&[value], parameters, &mut Gradient::default())
}

/// The trapezoidal rule over the real line, which for smooth integrands that fade fast is exact to rounding.
fn trapezoid(half_width: f64, function: impl Fn(f64) -> f64) -> f64 {
    const POINTS: i32 = 20_000;
    let step = half_width / f64::from(POINTS);
    (-POINTS..=POINTS).map(|k| function(f64::from(k) * step)).sum::<f64>() * step
}

// The page states ten digits.
const PRINTED: f64 = 6e-11;

#[test]
fn the_beta_constants_of_a_normal_are_those_of_the_page() {
    for (beta, expected) in [(1.2, 0.647_293_350_2), (1.5, 0.363_534_512_7), (2.0, 0.157_695_782_6)] {
        let found = log_integral(&Normal, beta, [&[0.0], &[0.8_f64.sqrt()], &[]]).exp() / beta;
        assert!((found - expected).abs() < PRINTED, "β = {beta}: {found}");
    }
}

#[test]
fn the_beta_constant_of_a_bivariate_normal_is_that_of_the_page() {
    // The Cholesky factor of [[1, 0.3], [0.3, 0.9]].
    let factor = [1.0, 0.0, 0.3, 0.81_f64.sqrt()];
    let found = log_integral(&MultivariateNormal, 1.5, [&[0.0, 0.0], &factor, &[]]).exp() / 1.5;
    // Nine digits.
    assert!((found - 0.186_898_705).abs() < 6e-10, "{found}");
}

#[test]
fn the_expected_power_of_a_normal_density_is_that_of_the_page() {
    let (mean, variance, x, noise): (f64, f64, f64, f64) = (0.2, 0.5, 1.7, 1.3);
    let loss = Loss::Beta(1.5);
    let constant = log_integral(&Normal, 1.5, [&[0.0], &[noise.sqrt()], &[]]).exp() / 1.5;
    let found = trapezoid(10.0, |z| {
        let weight = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let observed = Normal::new(mean + variance.sqrt() * z, noise.sqrt()).loss_of(loss, &Array::scalar(x)).unwrap();
        // The loss is -2 p^½ + constant + shift.
        weight * 0.5 * (constant + loss.shift() - observed)
    });
    assert!((found - 0.376_849_682_3).abs() < PRINTED, "{found}");
}

#[test]
fn integrals_of_counts_and_classes_are_their_sums() {
    let cases: [(&dyn Density, [&[f64]; 3], u32); 8] = [
        (&Bernoulli, [&[-2.3], &[], &[]], 1),
        (&Bernoulli, [&[40.0], &[], &[]], 1),
        (&Categorical, [&[0.3, -2.0, 1.0, 0.0], &[], &[]], 3),
        (&Poisson, [&[1.7], &[], &[]], 200),
        (&Poisson, [&[-3.0], &[], &[]], 200),
        (&Binomial, [&[30.0], &[0.8], &[]], 30),
        (&NegativeBinomial, [&[0.4], &[2.0], &[]], 3_000),
        (&NegativeBinomial, [&[7.0], &[1.0], &[]], 3_000),
    ];
    for (density, parameters, last) in cases {
        for power in [1.0, 1.1, 1.5, 3.0] {
            let sum: f64 = (0..=last).map(|k| (power * log_prob(density, f64::from(k), parameters)).exp()).sum();
            let found = log_integral(density, power, parameters);
            // A sum of some thousand terms, each good to a few last digits.
            assert!((found - sum.ln()).abs() < 1e-13, "{}, {power}: {found} {}", density.name(), sum.ln());
        }
    }
}

#[test]
fn integrals_of_densities_are_their_quadratures() {
    let real = |u: f64| (u.sinh(), u.cosh());
    let positive = |u: f64| (u.exp(), u.exp());
    let unit = |u: f64| (1.0 / (1.0 + (-u).exp()), 1.0 / (2.0 + u.exp() + (-u).exp()));
    type Map<'a> = &'a dyn Fn(f64) -> (f64, f64);
    let cases: [(&dyn Density, [&[f64]; 3], Map<'_>); 11] = [
        (&Normal, [&[0.4], &[1.7], &[]], &real),
        (&StudentT, [&[2.5], &[0.3], &[0.8]], &real),
        (&Cauchy, [&[0.4], &[1.7], &[]], &real),
        (&HalfNormal, [&[1.7], &[], &[]], &positive),
        (&HalfCauchy, [&[1.7], &[], &[]], &positive),
        (&Exponential, [&[1.7], &[], &[]], &positive),
        (&LogNormal, [&[0.4], &[0.6], &[]], &positive),
        (&Gamma, [&[2.5], &[1.7], &[]], &positive),
        (&InverseGamma, [&[2.5], &[1.7], &[]], &positive),
        (&Beta, [&[2.5], &[1.7], &[]], &unit),
        (&Uniform, [&[0.0], &[1.0], &[]], &unit),
    ];
    for (density, parameters, map) in cases {
        for power in [1.0, 1.1, 1.5, 3.0] {
            let integrand = |u: f64| {
                let (x, slope) = map(u);
                if density.support(parameters).contains(&[x]) {
                    slope * (power * log_prob(density, x, parameters)).exp()
                } else {
                    0.0
                }
            };
            let expected = trapezoid(60.0, integrand).ln();
            let found = log_integral(density, power, parameters);
            // Measured 3e-14; the Cauchy tail beyond e^60 is 1e-26.
            assert!((found - expected).abs() < 1e-12, "{}, {power}: {found} {expected}", density.name());
        }
    }
}

/// Rows of a covariate and an outcome, the outcome by one of several distributions.
#[derive(Module, Debug)]
struct Outcomes {
    #[module(skip)]
    law: OutcomeLaw,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum OutcomeLaw {
    Normal,
    StudentT,
    MultivariateNormal,
    Bernoulli,
    Categorical,
    Poisson,
    Multinomial,
    Factor,
}

const LAWS: [OutcomeLaw; 6] = [
    OutcomeLaw::Normal,
    OutcomeLaw::StudentT,
    OutcomeLaw::MultivariateNormal,
    OutcomeLaw::Bernoulli,
    OutcomeLaw::Categorical,
    OutcomeLaw::Poisson,
];

impl Model for Outcomes {
    type Globals = Tensor<1>;
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("coefficients", Normal::new(0.0, 1.0).iid([3]))
    }

    fn local(&self, scope: &mut Scope<'_>, coefficients: &Tensor<1>, data: &Tensor<2>) -> Result<()> {
        let [count, _] = data.dims();
        scope.plate("row", count, |scope, rows| {
            let own = rows.take(data)?;
            let n = rows.len();
            let (x, y) = (own.clone().narrow(1, 0, 1).reshape([n]), own.narrow(1, 1, 1).reshape([n]));
            let at = |index: usize| coefficients.clone().narrow(0, index, 1);
            let effect = scope.sample("effect", Normal::new(0.0, 0.5).iid([n]))?;
            let line = at(0) + at(1) * x.clone() + effect;
            let sd = (at(2) * 0.3).exp();
            let classes = || {
                x.clone().reshape([n, 1]) * coefficients.clone().reshape([1, 3])
                    + line.clone().reshape([n, 1]) * coefficients.clone().reshape([1, 3])
            };
            match self.law {
                OutcomeLaw::Normal => scope.observe("y", Normal::new(line, sd), y),
                OutcomeLaw::StudentT => scope.observe("y", StudentT::new((at(2) * 0.2 + 1.5).exp(), line, sd), y),
                OutcomeLaw::MultivariateNormal => {
                    let device = y.device();
                    let lower: Tensor<2> = Tensor::from_data([[1.0, 0.0], [0.4, 0.0]], (&device, y.dtype()));
                    let corner: Tensor<2> = Tensor::from_data([[0.0, 0.0], [0.0, 1.0]], (&device, y.dtype()));
                    let factor = lower + corner * sd.reshape([1, 1]);
                    let means = Tensor::stack::<2>(vec![line.clone(), line * 0.5], 1);
                    scope.observe("y", MultivariateNormal::new(means, factor), Tensor::stack::<2>(vec![y, x], 1))
                }
                OutcomeLaw::Bernoulli => scope.observe("y", Bernoulli::logits(line), y),
                OutcomeLaw::Categorical => scope.observe("y", Categorical::logits(classes()), y),
                OutcomeLaw::Poisson => scope.observe("y", Poisson::log_rate(line), y),
                OutcomeLaw::Multinomial => {
                    let counts = Tensor::stack::<2>(vec![y.clone(), y.clone(), y], 1);
                    scope.observe("y", Multinomial::logits(9.0, classes()), counts)
                }
                OutcomeLaw::Factor => scope.factor("y", line * y),
            }
        })
    }
}

/// Six rows: a covariate, and an outcome that every law takes.
fn rows(device: &Device) -> Tensor<2> {
    let cells = [(0.3, 1.0), (-1.2, 0.0), (0.9, 1.0), (2.0, 1.0), (-0.4, 0.0), (1.1, 0.0)];
    device.tensor(cells.iter().flat_map(|(x, y)| [*x, *y]).collect(), [cells.len(), 2])
}

const GLOBALS: [f64; 3] = [0.3, -0.6, 0.4];
const EFFECTS: [f64; 6] = [0.1, -0.2, 0.05, 0.3, -0.15, 0.25];

fn losses(law: OutcomeLaw) -> Vec<Loss> {
    let mut losses = vec![Loss::Beta(1.5), Loss::Beta(1.0 + 1e-9), Loss::Gamma(1.4), Loss::Beta(2.5)];
    if matches!(law, OutcomeLaw::Bernoulli | OutcomeLaw::Categorical | OutcomeLaw::Poisson) {
        losses.extend([Loss::GeneralisedCrossEntropy(0.7), Loss::GeneralisedCrossEntropy(1.0)]);
    }
    losses
}

#[test]
fn gradients_by_globals_and_locals_are_differences_with_minibatches_and_weights() {
    let device = Device::flex();
    let (data, batch) = (rows(&device), [Minibatch::new("row", vec![4, 1, 3])]);
    for law in LAWS {
        let model = Outcomes { law };
        let table = SiteTable::of(&model, &device, &data).unwrap();
        for loss in losses(law) {
            let density = LogDensity::new(&model, &device, &table).minibatch(&batch).weight(0.7).loss(loss);
            let value = |globals: &[f64], effects: &[f64]| {
                density.joint(Latents { globals, locals: &[effects.to_vec()] }, &data).unwrap()
            };
            let effects = &EFFECTS[..3];
            let found = value(&GLOBALS, effects);
            // Fourth-order differences are good to 1e-11 of the largest number in them.
            let bound = 1e-9 * (1.0 + found.value.abs());
            for (index, gradient) in found.globals.iter().enumerate() {
                let expected = laws::derivative(|globals| value(globals, effects).value, &GLOBALS, index);
                assert!((gradient - expected).abs() < bound, "{law:?}, {loss}, global {index}: {gradient} {expected}");
            }
            for (index, gradient) in found.locals[0].iter().enumerate() {
                let expected = laws::derivative(|effects| value(&GLOBALS, effects).value, effects, index);
                assert!((gradient - expected).abs() < bound, "{law:?}, {loss}, local {index}: {gradient} {expected}");
            }
        }
    }
}

#[test]
fn disjoint_minibatches_add_up_to_all_rows() {
    let device = Device::flex();
    let data = rows(&device);
    for law in LAWS {
        let model = Outcomes { law };
        let table = SiteTable::of(&model, &device, &data).unwrap();
        for loss in losses(law) {
            let whole = LogDensity::new(&model, &device, &table).loss(loss);
            let whole = whole.local(Latents { globals: &GLOBALS, locals: &[EFFECTS.to_vec()] }, &data).unwrap();
            let parts = [vec![0, 5], vec![3, 2], vec![1, 4]].map(|chosen| {
                let locals = [chosen.iter().map(|row| EFFECTS[*row]).collect()];
                let batch = [Minibatch::new("row", chosen)];
                let density = LogDensity::new(&model, &device, &table).minibatch(&batch).loss(loss);
                density.local(Latents { globals: &GLOBALS, locals: &locals }, &data).unwrap()
            });
            // N/B is 3, so that the mean over the three is the whole.
            let mean = parts.iter().map(|part| part.value).sum::<f64>() / 3.0;
            assert!((mean - whole.value).abs() < 1e-12 * (1.0 + whole.value.abs()), "{law:?}, {loss}");
            for (index, expected) in whole.globals.iter().enumerate() {
                let mean = parts.iter().map(|part| part.globals[index]).sum::<f64>() / 3.0;
                assert!((mean - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{law:?}, {loss}, {index}");
            }
        }
    }
}

#[test]
fn latents_and_factors_keep_their_log_densities() {
    let device = Device::flex();
    let data = rows(&device);
    let model = Outcomes { law: OutcomeLaw::Factor };
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let locals = [EFFECTS.to_vec()];
    let read = |loss| {
        let density = LogDensity::new(&model, &device, &table).loss(loss);
        density.joint(Latents { globals: &GLOBALS, locals: &locals }, &data).unwrap()
    };
    assert_eq!(read(Loss::Beta(1.5)), read(Loss::NegativeLogLikelihood));
}

#[test]
fn at_the_limit_of_its_index_a_reading_has_the_bits_of_the_log_likelihood() {
    let device = Device::flex();
    let data = rows(&device);
    for law in LAWS {
        let model = Outcomes { law };
        let table = SiteTable::of(&model, &device, &data).unwrap();
        let locals = [EFFECTS.to_vec()];
        let read = |density: LogDensity<'_, Outcomes>| {
            density.joint(Latents { globals: &GLOBALS, locals: &locals }, &data).unwrap()
        };
        let plain = read(LogDensity::new(&model, &device, &table));
        for loss in [Loss::Beta(1.0), Loss::Gamma(1.0), Loss::GeneralisedCrossEntropy(0.0)] {
            assert_eq!(read(LogDensity::new(&model, &device, &table).loss(loss)), plain, "{law:?}, {loss}");
        }
        // Close to it, the difference has the order of the index.
        let near = read(LogDensity::new(&model, &device, &table).loss(Loss::Beta(1.0 + 1e-9)));
        assert!((near.value - plain.value).abs() < 1e-7, "{law:?}: {} {}", near.value, plain.value);
    }
}

#[test]
fn shares_of_silos_add_up_to_the_pooled_one_to_1e_12() {
    let (device, model) = (Device::flex(), six_cities_model());
    let pooled = six_cities_data(1, &device).remove(0);
    let globals = [0.2, -0.1, 0.3, 0.1, -0.4];
    let effects: Vec<f64> = (0..537).map(|child| (f64::from(child) * 0.7).sin()).collect();
    for loss in [Loss::Beta(1.5), Loss::Gamma(1.3), Loss::GeneralisedCrossEntropy(0.7)] {
        let read = |data: &RepeatedBinary, effects: &[f64]| {
            let table = SiteTable::of(&model, &device, data).unwrap();
            let density = LogDensity::new(&model, &device, &table).loss(loss);
            density.local(Latents { globals: &globals, locals: &[effects.to_vec(), Vec::new()] }, data).unwrap()
        };
        let whole = read(&pooled, &effects);
        let (mut value, mut gradient, mut start) = (0.0, [0.0; 5], 0);
        for data in six_cities_data(7, &device) {
            let end = (1..=7).map(|silo| silo * 537 / 7).find(|end| *end > start).unwrap();
            let own = read(&data, &effects[start..end]);
            start = end;
            value += own.value;
            gradient.iter_mut().zip(own.globals).for_each(|(slot, own)| *slot += own);
        }
        assert!((value - whole.value).abs() < 1e-12 * whole.value.abs(), "{loss}");
        for (found, expected) in gradient.iter().zip(&whole.globals) {
            assert!((found - expected).abs() < 1e-12 * whole.value.abs(), "{loss}: {found} {expected}");
        }
    }
}

/// Numbers around an unknown mean, with unit noise.
#[derive(Module, Debug)]
struct Mean {}

impl Model for Mean {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mean", Normal::new(0.0, 10.0_f64.sqrt()))
    }

    fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        let numbers = data.dims()[0];
        scope.plate("row", numbers, |scope, rows| {
            scope.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?)
        })
    }
}

fn refused(settings: Settings, algorithm: AlgorithmChoice, law: OutcomeLaw) -> FitError {
    let device = Device::flex();
    let options = FitOptions { settings: Settings { steps: 2, ..settings }, algorithm, ..FitOptions::default() };
    fit(&Outcomes { law }, &[("only".to_owned(), rows(&device))], &device, &options, None).unwrap_err()
}

#[test]
fn settings_that_a_loss_does_not_go_with_are_refused() {
    let (beta, plain) = (Loss::Beta(1.5), Settings::default);
    let (central, normal) = (AlgorithmChoice::Central, OutcomeLaw::Normal);
    let estimator = |estimator| Settings { loss: beta, estimator, ..plain() };
    let weighted = Estimator::ImportanceWeighted { gradient: ImportanceGradient::Total };
    let rows: [(Settings, AlgorithmChoice, OutcomeLaw, &str); 6] = [
        (Settings { loss: Loss::Beta(0.5), ..plain() }, central.clone(), normal, "β loss of index 0.5"),
        (Settings { loss: Loss::GeneralisedCrossEntropy(2.0), ..plain() }, central, normal, "index 2"),
        (estimator(Estimator::LocallyEnhanced { inner: 3 }), AlgorithmChoice::Sfvi, normal, "LocallyEnhanced"),
        (estimator(weighted), AlgorithmChoice::Sfvi, normal, "ImportanceWeighted"),
        (Settings { loss: beta, ..plain() }, AlgorithmChoice::OnDevice { interval: 1 }, normal, "OnDevice"),
        (Settings { loss: beta, ..plain() }, AlgorithmChoice::Sfvi, OutcomeLaw::Factor, "observes nothing"),
    ];
    for (settings, algorithm, law, words) in rows {
        let error = refused(settings, algorithm, law);
        assert!(matches!(&error, FitError::Setting { setting: "loss", .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_distribution_without_the_integral_is_refused_by_name() {
    let device = Device::flex();
    let data = rows(&device);
    for (law, loss, words) in [
        (OutcomeLaw::Multinomial, Loss::Beta(1.5), "generalised cross-entropy"),
        (OutcomeLaw::Normal, Loss::GeneralisedCrossEntropy(0.7), "the β or the γ loss"),
    ] {
        let model = Outcomes { law };
        let table = SiteTable::of(&model, &device, &data).unwrap();
        let density = LogDensity::new(&model, &device, &table).loss(loss);
        let error = density.joint(Latents { globals: &GLOBALS, locals: &[EFFECTS.to_vec()] }, &data).unwrap_err();
        assert!(matches!(&error, Error::Loss { operation, .. } if operation == "site `y` in plate `row`"), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let pole = Gamma::new(0.2, 1.0).loss_of(Loss::Beta(1.5), &Array::scalar(1.0)).unwrap_err();
    assert!(matches!(&pole, Error::Loss { problem, .. } if problem.contains("diverges")), "{pole:?}");
    let many = Poisson::log_rate(40.0).loss_of(Loss::Gamma(1.5), &Array::scalar(1.0)).unwrap_err();
    assert!(matches!(&many, Error::Loss { distribution, .. } if distribution == "Poisson"), "{many:?}");
}

#[test]
fn a_bounded_loss_does_not_hide_an_impossible_observation() {
    // The square of the distance overflows: the log density is minus infinity, the β loss would be finite.
    let device = Device::flex();
    let data = device.tensor(vec![1e200], [1]);
    let table = SiteTable::of(&Mean {}, &device, &data).unwrap();
    let density = LogDensity::new(&Mean {}, &device, &table).loss(Loss::Beta(1.5));
    let error = density.local(Latents { globals: &[0.0], locals: &[Vec::new()] }, &data).unwrap_err();
    assert!(matches!(error, Error::NotFiniteMade { .. }), "{error:?}");
}

#[test]
fn readings_that_average_or_stay_on_a_device_take_the_log_likelihood_only() {
    let device = Device::flex();
    let (model, data) = (Outcomes { law: OutcomeLaw::Normal }, rows(&device));
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let batch = [Minibatch::repeated("row", &[0, 1], 2)];
    let density = LogDensity::new(&model, &device, &table).minibatch(&batch).loss(Loss::Beta(1.5));
    let latents = Latents { globals: &GLOBALS, locals: &[EFFECTS[..4].to_vec()] };
    let error = density.locally_enhanced(latents, &data, &[0.0; 4]).unwrap_err();
    assert!(matches!(&error, Error::Argument { argument: "loss", .. }), "{error:?}");
    let leaves = [device.tensor(GLOBALS.to_vec(), [1, 3]), device.tensor(EFFECTS[..4].to_vec(), [4, 1])];
    let error = density.on_device(&leaves, &data).unwrap_err();
    assert!(matches!(&error, Error::NoDeviceForm { what, .. } if what.contains("β loss")), "{error:?}");
}
