//! Claims that sparse covariates and threads change only the time, and that golden numbers hold.

use fixtures::numbers;
use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Array, Key, Latents, LogDensity, Noise, NoiseStream, Purpose, with_theta};
use partita::models::{ClassifiedRows, MultinomialRegression};
use partita::{
    AlgorithmChoice, Categorical, Device, FamilyPlan, FitOptions, Gaussian, Model, Normal, Result, RoundOptions, Scope,
    Settings, SiteTable, SparseRows, check, fit,
};
use serde_json::Value;

// Sums of some tens of terms of size one, in another order.
const SAME: f64 = 1e-12;

/// Covariates of which four in five are zero, with a class each.
fn rows(count: usize, columns: usize, classes: usize) -> (Vec<f64>, Vec<u8>) {
    let mut noise = Noise::new(5).stream(Key::new(Purpose::Check, 0));
    let covariates = (0..count * columns)
        .map(|_| if noise.uniform() < 0.2 { noise.index(256) as f64 / 255.0 } else { 0.0 })
        .collect();
    let labels = (0..count).map(|_| u8::try_from(noise.index(classes)).unwrap()).collect();
    (covariates, labels)
}

fn data(count: usize, columns: usize, classes: usize, device: &Device) -> ClassifiedRows {
    let (covariates, labels) = rows(count, columns, classes);
    ClassifiedRows::new(SparseRows::from_dense(&covariates, [count, columns]).unwrap(), &labels, device).unwrap()
}

/// The same regression with unit scales on a dense matrix, by Burn's own product.
#[derive(Module, Debug)]
struct Dense {
    #[module(skip)]
    shape: [usize; 2],
}

impl Model for Dense {
    type Globals = (Tensor<2>, Tensor<1>);
    type Data = (Tensor<2>, Tensor<1>);

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let weights = scope.sample("weights", Normal::new(0.0, 1.0).iid(self.shape))?;
        Ok((weights, scope.sample("intercepts", Normal::new(0.0, 1.0).iid([self.shape[1]]))?))
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        scope.plate("row", data.0.dims()[0], |scope, rows| {
            let intercepts = globals.1.clone().reshape([1, self.shape[1]]);
            let logits = rows.take(&data.0)?.matmul(globals.0.clone()) + intercepts;
            scope.observe("class", Categorical::logits(logits), rows.take(&data.1)?)
        })
    }
}

#[test]
fn the_sparse_model_is_the_dense_one() {
    let (device, count, shape) = (Device::flex(), 60, [40, 10]);
    let (covariates, labels) = rows(count, shape[0], shape[1]);
    let labels = labels.into_iter().map(f64::from).collect();
    let dense = (device.tensor(covariates, [count, shape[0]]), device.tensor(labels, [count]));
    let sparse = data(count, shape[0], shape[1], &device);
    let regression = with_theta(&MultinomialRegression::new(shape, &device), &[0.0, 0.0], &device).unwrap();
    let globals = fixtures::standard_normals(&mut Noise::new(6).stream(Key::new(Purpose::Check, 0)), 410);
    let latents = Latents { globals: &globals, locals: &[Vec::new()] };
    let table = SiteTable::of(&regression, &device, &sparse).unwrap();
    let found = LogDensity::new(&regression, &device, &table).joint(latents, &sparse).unwrap();
    let table = SiteTable::of(&Dense { shape }, &device, &dense).unwrap();
    let expected = LogDensity::new(&Dense { shape }, &device, &table).joint(latents, &dense).unwrap();
    assert!((found.value - expected.value).abs() < SAME * expected.value.abs());
    assert!(found.globals.iter().zip(&expected.globals).all(|(a, b)| (a - b).abs() < SAME * (1.0 + b.abs())));
}

#[test]
fn minibatches_take_the_rows_of_the_sparse_matrix() {
    let device = Device::flex();
    let all = data(12, 30, 4, &device);
    let chosen = all.covariates().select(&[7, 2, 7]).unwrap();
    for (index, row) in [7, 2, 7].into_iter().enumerate() {
        assert_eq!(chosen.row(index), all.covariates().row(row));
    }
    let weights = device.tensor(vec![0.5; 30], [30, 1]);
    let product: Vec<f64> = chosen.multiply(weights).unwrap().into_data().try_into_vec().unwrap();
    let expected = all.covariates().row(2).1.iter().sum::<f64>() / 2.0;
    assert!((product[1] - expected).abs() < SAME && product[0].to_bits() == product[2].to_bits());
}

#[test]
fn densities_and_gradients_are_the_golden_ones() {
    let device = Device::flex();
    let golden: Value = serde_json::from_str(include_str!("../golden/multinomial_regression.json")).unwrap();
    let covariates: Vec<f64> = golden["x"].as_array().unwrap().iter().flat_map(numbers).collect();
    let classes: Vec<u8> = golden["classes"].as_array().unwrap().iter().map(|c| c.as_u64().unwrap() as u8).collect();
    let data = SparseRows::from_dense(&covariates, [5, 4]).unwrap();
    let data = ClassifiedRows::new(data, &classes, &device).unwrap();
    let (globals, theta) = (numbers(&golden["latents"]), numbers(&golden["theta"]));
    for (name, is_centred) in [("centred", true), ("non_centred", false)] {
        let model = MultinomialRegression::new([4, 3], &device);
        let model = with_theta(&if is_centred { model.centred() } else { model }, &theta, &device).unwrap();
        let table = SiteTable::of(&model, &device, &data).unwrap();
        let density = LogDensity::new(&model, &device, &table);
        let latents = Latents { globals: &globals, locals: &[Vec::new()] };
        let (prior, joint) = (density.global(&globals).unwrap(), density.joint(latents, &data).unwrap());
        let expected = &golden[name];
        let total = expected["prior"].as_f64().unwrap() + expected["likelihood"].as_f64().unwrap();
        assert!((prior.value - expected["prior"].as_f64().unwrap()).abs() < SAME, "{name}");
        assert!((joint.value - total).abs() < SAME, "{name}: {} {total}", joint.value);
        for (found, expected) in [(&joint.globals, "joint_by_latents"), (&joint.theta, "joint_by_theta")] {
            let expected = numbers(&golden[name][expected]);
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < SAME), "{name}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn the_model_passes_the_check_before_a_run() {
    let device = Device::flex();
    let silos = [("a".to_owned(), data(6, 5, 3, &device)), ("b".to_owned(), data(4, 5, 3, &device))];
    let report = check(&MultinomialRegression::new([5, 3], &device), &silos, &device).unwrap();
    assert!(report.passed(), "{report:?}");
}

#[test]
fn threads_change_no_bit_of_a_fit_by_steps_or_by_rounds() {
    let device = Device::flex();
    let silos = fixtures::named((0..3).map(|index| data(20 + index, 30, 4, &device)));
    let model = MultinomialRegression::new([30, 4], &device);
    for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::SfviAvg(RoundOptions::paper(10))] {
        let parameters = |threads: usize| {
            let family = FamilyPlan::new().global(Gaussian::diagonal());
            let settings = Settings { steps: 30, family, ..Settings::default() };
            let options = FitOptions {
                algorithm: algorithm.clone(),
                settings,
                threads,
                elbo_draws: 2,
                trust_draws: Some(0),
                ..FitOptions::default()
            };
            let fit = fit(&model, &silos, &device, &options, None).unwrap();
            let bits: Vec<u64> = fit.posterior().parameters.iter().map(|number| number.to_bits()).collect();
            (bits, fit.report.theta.iter().map(|number| number.to_bits()).collect::<Vec<_>>())
        };
        assert_eq!(parameters(1), parameters(3));
    }
}

#[test]
fn predictions_are_means_of_softmax_rows_and_depend_on_the_seed_alone() {
    let (device, shape) = (Device::flex(), [6, 3]);
    let data = data(5, shape[0], shape[1], &device);
    let model = MultinomialRegression::new(shape, &device);
    let theta = [-0.5, 0.2];
    let draw = |stream: &mut NoiseStream| fixtures::standard_normals(stream, 21);
    let found = model.predict(data.covariates(), &theta, draw, 9, 2, &device).unwrap();
    let mut expected = vec![0.0; 15];
    for index in 0..2 {
        let values = draw(&mut Noise::new(9).stream(Key::new(Purpose::Predictive, index)));
        for (row, out) in expected.chunks_exact_mut(3).enumerate() {
            let (columns, entries) = data.covariates().row(row);
            let logit = |k: usize| {
                let products = columns.iter().zip(entries).map(|(c, x)| x * values[*c as usize * 3 + k]);
                theta[0].exp() * products.sum::<f64>() + theta[1].exp() * values[18 + k]
            };
            let powers = [0, 1, 2].map(|k| logit(k).exp());
            out.iter_mut().zip(powers).for_each(|(slot, p)| *slot += 0.5 * p / powers.iter().sum::<f64>());
        }
    }
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < SAME));
    assert_eq!(found, model.predict(data.covariates(), &theta, draw, 9, 2, &device).unwrap());
    let other = |latents: usize| model.predict(data.covariates(), &theta, |_| vec![0.0; latents], 9, 1, &device);
    assert!(other(21).is_ok() && other(20).is_err());
    assert!(Array::new(found, vec![5, 3]).is_ok());
}
