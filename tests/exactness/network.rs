//! Tests Bayesian networks: starting means, heads, predictions, and local reparameterisation.

mod passes;

use partita::burn::module::{Module, ModuleMapper, Param};
use partita::burn::tensor::Tensor;
use partita::core::{Key, LogDensity, Minibatch, Moments, Noise, Purpose};
use partita::inference::{
    Algorithm, BlockDraw, Central, CentralSilo, DiagonalGaussian, Error, Exchange, Family, InProcess, PointMass,
    RowGaussian, RowOptions, Sfvi, Silo, SiloProgram, StartFrom,
};
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp, Network};
use partita::{
    AlgorithmChoice, BayesianLinear, Device, Estimator, FamilyPlan, FitOptions, Gaussian, Model, Normal, Precision,
    Result, Schedule, Scope, Settings, SiteTable, fit,
};
use partita_laws as laws;

type Classifier = BayesianNetwork<Mlp>;

/// Standard errors an average may be off: 5e-7 for each of the few hundred components compared.
const STANDARD_ERRORS: f64 = 5.0;

fn numbers(count: usize, step: u64) -> Vec<f64> {
    fixtures::standard_normals(&mut Noise::new(11).stream(Key::new(Purpose::Check, step)), count)
}

fn classifier(device: &Device) -> (Classifier, LabelledRows) {
    let model = BayesianNetwork::new(
        Mlp::new(&[3, 4, 2], Activation::Tanh, 5, device),
        Head::Categorical,
        Normal::new(0.0, 0.8),
    );
    (model, rows(device, 0..12))
}

/// Twelve rows of three features with a class each; some of them.
fn rows(device: &Device, which: std::ops::Range<usize>) -> LabelledRows {
    let (x, y) = (numbers(36, 0), numbers(12, 1));
    let labels = y.iter().map(|number| f64::from(u8::from(*number > 0.0))).collect::<Vec<_>>();
    let count = which.len();
    let x = x[which.start * 3..which.end * 3].to_vec();
    LabelledRows::new(x, labels[which].to_vec(), count, device).unwrap()
}

/// A network of a user: one weight matrix, twice.
#[derive(Module, Debug)]
struct Residual {
    weight: Param<Tensor<2>>,
}

impl Network for Residual {
    fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let hidden = rows.clone() + rows.matmul(self.weight.val()).tanh();
        hidden.matmul(self.weight.val())
    }
}

#[test]
fn networks_with_every_head_keep_the_laws_of_models() {
    let device = Device::flex();
    let (model, data) = classifier(&device);
    laws::model(&model, &device, &data).unwrap();
    let targets = |of: fn(f64) -> f64| numbers(8, 2).into_iter().map(of).collect::<Vec<f64>>();
    let heads = [
        (Head::Bernoulli, targets(|x| f64::from(u8::from(x > 0.0)))),
        (Head::Gaussian(Some(0.5)), targets(|x| x)),
        (Head::Gaussian(None), targets(|x| x)),
    ];
    for (head, targets) in heads {
        let network = Residual { weight: Param::from_tensor(device.tensor(numbers(4, 3), [2, 2])) };
        let model = BayesianNetwork::new(network, head, Normal::new(0.0, 0.8));
        let data = LabelledRows::new(numbers(8, 4), targets, 4, &device).unwrap();
        laws::model(&model, &device, &data).unwrap();
    }
}

#[test]
fn the_outputs_of_a_row_depend_on_that_row_alone() {
    let device = Device::flex();
    let rowwise = |network: &dyn Fn(Tensor<2>) -> Tensor<2>, columns: usize| {
        let values = numbers(5 * columns, 7);
        let outputs = |values: &[f64]| {
            let rows = device.tensor(values.to_vec(), [values.len() / columns, columns]);
            network(rows).into_data().try_into_vec::<f64>().unwrap()
        };
        let together = outputs(&values);
        let alone: Vec<f64> = values.chunks(columns).flat_map(outputs).collect();
        assert_eq!(together.len(), alone.len());
        together.iter().zip(&alone).for_each(|(a, b)| assert!((a - b).abs() < 1e-14, "{a} beside others, {b} alone"));
    };
    let residual = Residual { weight: Param::from_tensor(device.tensor(numbers(4, 3), [2, 2])) };
    rowwise(&|rows| residual.forward(rows), 2);
    for activation in [Activation::Relu, Activation::Tanh, Activation::Gelu] {
        let layers = Mlp::new(&[3, 4, 2], activation, 5, &device);
        rowwise(&|rows| layers.forward(rows), 3);
    }
}

#[test]
fn posterior_means_start_at_the_values_of_the_network() {
    let device = Device::flex();
    let (model, _) = classifier(&device);
    let table = SiteTable::globals(&model, &device).unwrap();
    let plan = FamilyPlan::new().global(Gaussian::diagonal()).site("layer2.1", PointMass);
    let family = plan.global_family(&table).unwrap();
    let start = table.start();
    assert_eq!(family.mean(&plan.start(&*family, &table)), start);
    // He's variance 2/3 of the first layer of three inputs, keyed; biases of zero.
    let mut expected = [0.0; 12];
    Noise::new(5).stream(Key::new(Purpose::Initial, 0)).normal(&mut expected);
    for (found, expected) in start.iter().zip(expected) {
        assert!((found - expected * (2.0_f64 / 3.0).sqrt()).abs() < 1e-15);
    }
    assert_eq!(start[12..16], [0.0; 4]);
    let settings = Settings { family: plan, ..Settings::default() };
    let algorithm = Sfvi::new(&model, &device, &settings, &["a".to_owned()]).unwrap();
    assert_eq!(algorithm.posterior().family.mean(algorithm.posterior().parameters), start);
}

#[test]
fn scattered_means_are_no_multiple_of_the_values_that_a_network_of_the_same_seed_starts_at() {
    let device = Device::flex();
    let (model, _) = classifier(&device);
    let table = SiteTable::globals(&model, &device).unwrap();
    let start = table.start();
    // The network's seed is 5, and every layer is drawn from a stream of its own.
    let plan = FamilyPlan::new().global(Gaussian::diagonal()).scattered(1.0, 5);
    let family = plan.global_family(&table).unwrap();
    let mut noise = family.mean(&plan.start(&*family, &table));
    noise.iter_mut().zip(&start).for_each(|(scattered, start)| *scattered -= start);
    for layer in table.sites().iter().filter(|site| site.shape.len() == 2) {
        let own = &start[layer.offset()..layer.offset() + layer.width()];
        let ratios: Vec<f64> = own.iter().zip(&noise).map(|(own, noise)| own / noise).collect();
        let spread = fixtures::largest(ratios.iter().map(|ratio| (ratio / ratios[0] - 1.0).abs()));
        assert!(spread > 1e-9, "`{}` starts at the numbers that scatter it", layer.name);
    }
}

#[test]
fn a_fit_of_a_network_in_single_precision_says_what_that_changes_of_its_bound() {
    let device = Device::flex().with_precision(Precision::Single);
    let (model, data) = classifier(&device);
    for estimator in [Estimator::ClosedFormEntropy, Estimator::LocalReparameterisation] {
        let settings = Settings {
            steps: 10,
            estimator,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            ..Settings::default()
        };
        let options = FitOptions {
            algorithm: AlgorithmChoice::Central,
            settings,
            elbo_draws: 4,
            summary_draws: 0,
            ..FitOptions::default()
        };
        let report = fit(&model, &[("all".to_owned(), data.clone())], &device, &options, None).unwrap().report;
        // Twelve rows: their roundings are some 1e-6.
        let line = report.single_precision.unwrap();
        let expected = "Single precision changes the ELBO by less than 0.001 nats (of -";
        assert!(line.starts_with(expected) && line.ends_with(", at the same 4 draws)."), "{line}");
    }
}

#[test]
fn predictions_average_the_probabilities_of_draws() {
    let device = Device::flex();
    let (model, data) = classifier(&device);
    let draws = [numbers(26, 5), numbers(26, 6)];
    let both = model.predict(&device, data.features(), draws.clone()).unwrap();
    assert_eq!(both.shape, [12, 2]);
    let single = draws.map(|draw| model.predict(&device, data.features(), [draw]).unwrap());
    for (index, found) in both.values.iter().enumerate() {
        assert!((found - 0.5 * (single[0].values[index] + single[1].values[index])).abs() < 1e-15);
    }
    both.values.chunks(2).for_each(|row| assert!((row[0] + row[1] - 1.0).abs() < 1e-15));
    assert!(model.predict(&device, data.features(), []).is_err());
}

/// The gradient of the bound by the diagonal family's parameters from one draw: with the prior and entropy of the
/// coordinator or without, and with the likelihood of these silos.
fn gradient<M: Model>(
    model: &M,
    device: &Device,
    silos: &[M::Data],
    parameters: &[f64],
    (estimator, step, prior): (Estimator, u64, bool),
) -> Vec<f64> {
    let family = DiagonalGaussian::new(parameters.len() / 2);
    let noise = fixtures::standard_normals(&mut Noise::new(3).stream(Key::new(Purpose::Fit, step)), family.noise_len());
    let global = family.draw(parameters, &noise);
    let means = family.mean(parameters);
    let variances: Vec<f64> = family.covariance_matrix(parameters).deviations().iter().map(|sd| sd * sd).collect();
    let mut out = vec![0.0; family.parameter_len()];
    for (data, index) in silos.iter().zip(0_u32..) {
        let table = SiteTable::of(model, device, data).unwrap();
        let none = RowOptions::independent(0);
        let rows = RowGaussian::new(table.blocks()[0].rows, 0, family.len(), none);
        let block = BlockDraw { family: &rows, parameters: &[], noise: &[], weight: 1.0, outer: None };
        let mut density = LogDensity::new(model, device, &table);
        if estimator == Estimator::LocalReparameterisation {
            let key = Key::new(Purpose::Fit, step).silo(index);
            density = density.moments(Moments { means: &means, variances: &variances, noise: Noise::new(3), key });
        }
        let share = estimator.local_elbo_term(&density, data, &global, &[block], &mut [Vec::new()]).unwrap();
        share.vjp(&family, parameters, &noise, &mut out).unwrap();
        if prior && index == 0 {
            let prior = LogDensity::new(model, device, &table).global(&global.latent).unwrap();
            let share = estimator.global_elbo_term(prior, &family, parameters, &global);
            share.vjp(&family, parameters, &noise, &mut out).unwrap();
            if estimator.adds_entropy_gradient() {
                family.add_entropy_gradient(parameters, &mut out);
            }
        }
    }
    out
}

/// Mean and variance of each component over `count` draws.
fn moments(count: u64, draw: impl Fn(u64) -> Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    let (mut sum, mut square) = (draw(0), Vec::new());
    square.extend(sum.iter().map(|g| g * g));
    for step in 1..count {
        for ((sum, square), g) in sum.iter_mut().zip(&mut square).zip(draw(step)) {
            *sum += g;
            *square += g * g;
        }
    }
    let n = count as f64;
    let mean: Vec<f64> = sum.iter().map(|sum| sum / n).collect();
    let variance = square.iter().zip(&mean).map(|(square, mean)| (square / n - mean * mean) * n / (n - 1.0)).collect();
    (mean, variance)
}

/// Some means and standard deviations about `scale` for a family over `len` numbers.
fn parameters(len: usize, scale: f64) -> Vec<f64> {
    let log_scale = numbers(len, 8).into_iter().map(|number| scale.ln() + 0.2 * number);
    numbers(len, 7).into_iter().map(|number| 0.5 * number).chain(log_scale).collect()
}

#[test]
fn local_reparameterisation_of_a_linear_model_has_the_gradient_of_its_closed_form() {
    // y = xw + b + noise of variance 1/4: E log p = -2 Σ_r ((y_r - x_r μ)² + x_r² σ²), with a column of ones for b.
    let device = Device::flex();
    let model = BayesianNetwork::new(
        Mlp::new(&[3, 1], Activation::Relu, 5, &device),
        Head::Gaussian(Some(0.5)),
        Normal::new(0.0, 1.0),
    );
    let (x, y) = (numbers(36, 0), numbers(12, 1));
    let data = LabelledRows::new(x.clone(), y.clone(), 12, &device).unwrap();
    let parameters = parameters(4, 0.3);
    let mut expected = [0.0; 8];
    for (row, y) in x.chunks(3).zip(&y) {
        let row = [row[0], row[1], row[2], 1.0];
        let residual = y - row.iter().zip(&parameters).map(|(x, mean)| x * mean).sum::<f64>();
        for (column, x) in row.iter().enumerate() {
            expected[column] += 4.0 * x * residual;
            expected[4 + column] -= 4.0 * x * x * (2.0 * parameters[4 + column]).exp();
        }
    }
    let count = 20_000;
    let draw = |step| {
        gradient(
            &model,
            &device,
            std::slice::from_ref(&data),
            &parameters,
            (Estimator::LocalReparameterisation, step, false),
        )
    };
    let (mean, variance) = moments(count, draw);
    for ((found, variance), expected) in mean.iter().zip(&variance).zip(expected) {
        let error = (variance / count as f64).sqrt();
        assert!((found - expected).abs() < STANDARD_ERRORS * error, "{found} ± {error}, expected {expected}");
    }
}

#[test]
fn all_estimators_agree_on_the_gradient_of_a_network_and_local_reparameterisation_has_the_least_variance() {
    let device = Device::flex();
    let (model, data) = classifier(&device);
    let parameters = parameters(26, 0.3);
    let count = 4_000;
    let of = |estimator, silos: &[LabelledRows]| {
        moments(count, |step| gradient(&model, &device, silos, &parameters, (estimator, step, true)))
    };
    let pooled = std::slice::from_ref(&data);
    let local = of(Estimator::LocalReparameterisation, pooled);
    let halves = of(Estimator::LocalReparameterisation, &[rows(&device, 0..7), rows(&device, 7..12)]);
    let sticking = of(Estimator::StickingTheLanding, pooled);
    let ordinary = of(Estimator::ClosedFormEntropy, pooled);
    for (other, variance) in [&halves, &sticking, &ordinary] {
        for index in 0..52 {
            let error = ((local.1[index] + variance[index]) / count as f64).sqrt();
            let found = (local.0[index] - other[index]).abs();
            assert!(found < STANDARD_ERRORS * error, "component {index}: {found} apart, standard error {error}");
        }
    }
    let trace = |variance: &[f64]| variance.iter().sum::<f64>();
    let ratio = trace(&local.1) / trace(&ordinary.1);
    assert!(ratio < 0.5, "variance of local reparameterisation over that of one draw of the weights: {ratio}");
}

/// The coordinator's parameters after some steps.
fn after_steps(algorithm: &mut dyn Algorithm, silos: Vec<Box<dyn SiloProgram>>, steps: usize) -> Vec<f64> {
    let mut exchange = InProcess::new(silos, 1).unwrap();
    for _ in 0..steps {
        let requests = algorithm.outgoing().unwrap();
        let outcomes = exchange.exchange(requests, algorithm.manifest(), None).unwrap();
        algorithm.incoming(outcomes).unwrap();
    }
    algorithm.posterior().parameters.to_vec()
}

#[test]
fn one_silo_takes_the_steps_of_pooled_data_under_local_reparameterisation() {
    let device = Device::flex();
    let (model, data) = classifier(&device);
    // Seven particles are on two tapes of the pooled fit, and on seven of the silo.
    for particles in [1, 2, 7] {
        let settings = Settings {
            estimator: Estimator::LocalReparameterisation,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            particles,
            minibatch: [("row".to_owned(), 5)].into(),
            ..Settings::default()
        };
        let mut pooled = Central::new(&model, &device, &settings, "a").unwrap();
        let party = CentralSilo::new("a", &model, &data, &device, &settings).unwrap();
        let mut federated = Sfvi::new(&model, &device, &settings, &["a".to_owned()]).unwrap();
        let silo = Silo::new("a", 0, &model, &data, &device, &settings).unwrap();
        let pooled = after_steps(&mut pooled, vec![Box::new(party)], 20);
        let federated = after_steps(&mut federated, vec![Box::new(silo)], 20);
        // The same sums in another order, twenty times.
        let worst = fixtures::largest(pooled.iter().zip(&federated).map(|(a, b)| (a - b).abs()));
        assert!(worst < 1e-10, "{particles} particles: {worst:e}");
    }
}

#[test]
fn a_pooled_network_of_many_weights_begins_at_a_lower_rate() {
    let device = Device::flex();
    let first_rate = |hidden: usize| {
        let network = Mlp::new(&[3, hidden, 2], Activation::Tanh, 5, &device);
        let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 0.8));
        let family = FamilyPlan::new().global(Gaussian::diagonal());
        let settings = Settings { family, start: StartFrom::Declared, ..Settings::default() };
        let mut algorithm = Central::new(&model, &device, &settings, "a").unwrap();
        let party = CentralSilo::new("a", &model, &rows(&device, 0..12), &device, &settings).unwrap();
        let mut exchange = InProcess::new(vec![Box::new(party)], 1).unwrap();
        let requests = algorithm.outgoing().unwrap();
        let outcomes = exchange.exchange(requests, algorithm.manifest(), None).unwrap();
        algorithm.incoming(outcomes).unwrap().rate.unwrap()
    };
    // Six weights a hidden unit and two more, each with a mean and a scale: 2,044 parameters and 2,056.
    assert_eq!(first_rate(170).to_bits(), 0.05_f64.to_bits());
    assert_eq!(first_rate(171).to_bits(), 0.03_f64.to_bits());
}

#[test]
fn silos_tell_a_coordinator_of_many_weights_that_rows_have_no_latents() {
    let device = Device::flex();
    let network = Mlp::new(&[3, 171, 2], Activation::Tanh, 5, &device);
    let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 0.8));
    let family = FamilyPlan::new().global(Gaussian::diagonal());
    let settings = Settings { steps: 8, family, start: StartFrom::Declared, ..Settings::default() };
    let mut pooled = Central::new(&model, &device, &settings, "all").unwrap();
    let party = CentralSilo::new("all", &model, &rows(&device, 0..12), &device, &settings).unwrap();
    let pooled = after_steps(&mut pooled, vec![Box::new(party)], 8);
    let names = ["a", "b"].map(str::to_owned);
    let federated = |steps: usize, resumed: bool| {
        let silo = |(name, own): (&String, std::ops::Range<usize>)| -> Box<dyn SiloProgram> {
            let index = u32::from(name == "b");
            Box::new(Silo::new(name, index, &model, &rows(&device, own), &device, &settings).unwrap())
        };
        let silos = || names.iter().zip([0..5, 5..12]).map(silo).collect();
        let start = || Sfvi::new(&model, &device, &settings, &names).unwrap();
        let mut algorithm = start();
        if resumed {
            after_steps(&mut algorithm, silos(), 3);
            let state = algorithm.save();
            algorithm = start();
            algorithm.load(&state).unwrap();
        }
        after_steps(&mut algorithm, silos(), steps)
    };
    // The same sums in another order, eight times; at 0.05 the first step alone is 0.02 longer.
    let worst = fixtures::largest(pooled.iter().zip(federated(8, false)).map(|(a, b)| (a - b).abs()));
    assert!(worst < 1e-10, "{worst:e}");
    assert_eq!(federated(8, false), federated(5, true));
}

#[test]
fn a_linear_regression_is_fitted_to_its_mean_field_posterior_by_silos() {
    // Prior N(0, 1), noise variance 1/4: precision I + 4 XᵀX; q has its mean and the inverse of its diagonal, or of the
    // mean of that.
    let device = Device::flex();
    let model = BayesianNetwork::new(
        Mlp::new(&[1, 1], Activation::Relu, 5, &device),
        Head::Gaussian(Some(0.5)),
        Normal::new(0.0, 1.0),
    );
    let (x, y) = (numbers(12, 0), numbers(12, 1));
    let silo = |name: &str, rows: std::ops::Range<usize>| {
        let count = rows.len();
        (name.to_owned(), LabelledRows::new(x[rows.clone()].to_vec(), y[rows].to_vec(), count, &device).unwrap())
    };
    let silos = [silo("a", 0..5), silo("b", 5..12)];
    let sum = |of: &dyn Fn(f64, f64) -> f64| x.iter().zip(&y).map(|(x, y)| of(*x, *y)).sum::<f64>();
    let (xx, x1) = (1.0 + 4.0 * sum(&|x, _| x * x), 4.0 * sum(&|x, _| x));
    let (one, xy, y1) = (1.0 + 4.0 * 12.0, 4.0 * sum(&|x, y| x * y), 4.0 * sum(&|_, y| y));
    let determinant = xx * one - x1 * x1;
    let expected = [(one * xy - x1 * y1) / determinant, (xx * y1 - x1 * xy) / determinant];
    for (family, precisions) in [(Gaussian::diagonal(), [xx, one]), (Gaussian::isotropic(), [0.5 * (xx + one); 2])] {
        let settings = Settings {
            steps: 3_000,
            particles: 8,
            estimator: Estimator::LocalReparameterisation,
            family: FamilyPlan::new().global(family),
            schedule: Schedule::Cosine { initial: 0.03, last: 0.0 },
            ..Settings::default()
        };
        let options =
            FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, elbo_draws: 200, ..FitOptions::default() };
        let fitted = fit(&model, &silos, &device, &options, None).unwrap();
        let (mean, sd) = fixtures::moments(fitted.posterior());
        // Noise left by the optimiser after cosine decay: a few hundredths of a standard deviation.
        for (index, precision) in precisions.into_iter().enumerate() {
            assert!(
                (mean[index] - expected[index]).abs() < 0.05 / precision.sqrt(),
                "{family:?}: mean {} of {expected:?}",
                mean[index]
            );
            assert!(
                (sd[index] * precision.sqrt() - 1.0).abs() < 0.05,
                "{family:?}: sd {}, expected {}",
                sd[index],
                precision.powf(-0.5)
            );
        }
    }
}

/// A latent for every row, with a mean from a layer.
#[derive(Module, Debug)]
struct LatentRows {
    #[module(skip)]
    layer: BayesianLinear,
}

impl Model for LatentRows {
    type Globals = BayesianLinear;
    type Data = Tensor<2>;
    fn global(&self, scope: &mut Scope<'_>) -> Result<BayesianLinear> {
        scope.linear("layer", &self.layer, Normal::new(0.0, 1.0))
    }
    fn local(&self, scope: &mut Scope<'_>, layer: &BayesianLinear, x: &Tensor<2>) -> Result<()> {
        scope.plate("row", x.dims()[0], |scope, rows| {
            let means = layer.forward(rows.take(x)?);
            let z = scope.sample("z", Normal::new(means, 1.0))?;
            scope.observe("y", Normal::new(z, 1.0), rows.take(x)?)
        })
    }
}

#[test]
fn local_reparameterisation_is_refused_where_it_would_be_wrong() {
    let device = Device::flex();
    let settings = |family| Settings { estimator: Estimator::LocalReparameterisation, family, ..Settings::default() };
    let refused = |outcome: std::result::Result<(), Error>, words: &str| {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    };
    let (model, data) = classifier(&device);
    let full = settings(FamilyPlan::new().global(Gaussian::full_rank()));
    refused(Silo::new("a", 0, &model, &data, &device, &full).map(drop), "diagonal");
    refused(CentralSilo::new("a", &model, &data, &device, &full).map(drop), "diagonal");
    let network = Residual { weight: Param::from_tensor(device.tensor(numbers(9, 3), [3, 3])) };
    let layerless = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 1.0));
    let diagonal = settings(FamilyPlan::new().global(Gaussian::diagonal()));
    refused(Silo::new("a", 0, &layerless, &data, &device, &diagonal).map(drop), "linear");
    let layer = BayesianLinear::new(device.tensor(vec![0.5], [1, 1]), device.tensor(vec![0.0], [1]));
    let (latent, x) = (LatentRows { layer }, device.tensor(numbers(4, 0), [4, 1]));
    refused(Silo::new("a", 0, &latent, &x, &device, &diagonal).map(drop), "given_globals");
    let apart = settings(FamilyPlan::new().global(Gaussian::diagonal()).local(Gaussian::diagonal()));
    assert!(Silo::new("a", 0, &latent, &x, &device, &apart).is_ok());
}

#[test]
fn a_network_that_starts_uniformly_has_all_parameters_within_the_half_width_and_spread_over_it() {
    let device = Device::flex();
    let start = |seed| {
        let network = Mlp::uniform(&[3, 40, 2], Activation::Relu, 0.1, seed, &device);
        let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 1.0));
        SiteTable::of(&model, &device, &rows(&device, 0..12)).unwrap().start()
    };
    let found = start(5);
    assert_eq!(found.len(), 3 * 40 + 40 + 40 * 2 + 2);
    assert!(found.iter().all(|value| value.abs() < 0.1));
    // The variance of U(-a, a) is a²/3; that of 242 draws has a standard deviation of 0.894 / √242 of it.
    let variance = found.iter().map(|value| value * value).sum::<f64>() / found.len() as f64;
    assert!((variance / (0.01 / 3.0) - 1.0).abs() < 5.0 * 0.0575, "{variance}");
    assert_eq!(start(5), found);
    assert_ne!(start(6), found);
}
