//! Holds latents on ordered vectors and Cholesky factors, ordinal observations and the improper prior to their claims.

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{
    Array, DrawNoise, Flat, Key, Latents, LkjCholesky, LogDensity, Noise, OrderedLogistic, OrderedProbit, Purpose,
    Support, WishartCholesky, prior_draw,
};
use partita::{Device, Error, Exponential, Model, MultivariateNormal, Normal, Poisson, Result, Scope, SiteTable, burn};
use partita_laws as laws;

/// Every support that is no product of intervals, with two parameters that are latents themselves.
#[derive(Module, Debug)]
struct Supports {}

struct Globals {
    cutpoints: Tensor<1>,
    rates: Tensor<1>,
    correlation: Tensor<2>,
}

impl Model for Supports {
    type Globals = Globals;
    type Data = [Tensor<1>; 2];

    fn global(&self, scope: &mut Scope) -> Result<Globals> {
        let spread = scope.sample("spread", Exponential::new(1.0))?;
        let covariance = scope
            .sample("covariance", WishartCholesky::new(4.0, scope.device().tensor(vec![1.0, 0.0, 0.3, 0.5], [2, 2])))?;
        scope.sample("effects", MultivariateNormal::new(scope.device().tensor(vec![0.0; 2], [2]), covariance))?;
        Ok(Globals {
            cutpoints: scope.sample("cutpoints", Normal::new(0.0, spread.clone()).iid([3]).ordered())?,
            rates: scope.sample("rates", Exponential::new(0.7).iid([2]).ordered())?,
            correlation: scope.sample("correlation", LkjCholesky::new(spread + 0.5, 3))?,
        })
    }

    fn local(&self, scope: &mut Scope, globals: &Globals, [classes, counts]: &[Tensor<1>; 2]) -> Result<()> {
        let rows = classes.dims()[0];
        scope.plate("row", rows, |scope, _| {
            let thresholds = scope.sample("thresholds", Normal::new(0.0, 1.0).iid([rows, 2]).ordered())?;
            let level: Tensor<1> = thresholds.sum_dim(1).reshape([rows]);
            scope.observe("class", OrderedLogistic::new(level.clone(), globals.cutpoints.clone()), classes.clone())?;
            scope.observe("probit", OrderedProbit::new(level.clone(), globals.cutpoints.clone()), classes.clone())?;
            let shift = (globals.rates.clone().sum() + globals.correlation.clone().sum()) * 0.1;
            scope.observe("count", Poisson::log_rate(level + shift), counts.clone())
        })
    }
}

fn data(device: &Device) -> [Tensor<1>; 2] {
    [device.tensor(vec![0.0, 3.0, 1.0], [3]), device.tensor(vec![2.0, 0.0, 1.0], [3])]
}

#[test]
fn a_model_on_all_supports_keeps_the_laws() {
    let device = Device::flex();
    laws::model(&Supports {}, &device, &data(&device)).unwrap();
}

#[test]
fn the_table_knows_the_supports_and_their_free_numbers() {
    let device = Device::flex();
    let table = SiteTable::of(&Supports {}, &device, &data(&device)).unwrap();
    let found = |name: &str| table.site(name).map(|site| (site.support.unwrap(), site.width())).unwrap();
    assert_eq!(found("cutpoints"), (Support::Ordered, 3));
    assert_eq!(found("rates"), (Support::PositiveOrdered, 2));
    assert_eq!(found("correlation"), (Support::CorrelationCholesky, 3));
    assert_eq!(found("covariance"), (Support::CovarianceCholesky, 3));
    assert_eq!(found("thresholds"), (Support::Ordered, 2));
}

#[test]
fn prior_draws_lie_in_the_supports() {
    let (device, data) = (Device::flex(), data(&Device::flex()));
    let table = SiteTable::of(&Supports {}, &device, &data).unwrap();
    for index in 0..20 {
        let draw = prior_draw(&Supports {}, &device, &table, &data, DrawNoise { noise: Noise::new(4), index }).unwrap();
        for name in ["cutpoints", "rates", "correlation", "covariance", "thresholds"] {
            let value = draw.value(name).unwrap();
            let length = if name == "thresholds" { 2 } else { value.values.len() };
            let support = table.site(name).unwrap().support.unwrap();
            assert!(value.values.chunks(length).all(|event| support.contains(event)), "{name} {value:?}");
        }
    }
}

#[test]
fn correlations_of_the_lkj_distribution_are_beta() {
    // Each is 2b - 1 with b ~ Beta(c, c), c = η - 1 + K/2: mean 0, variance 1/(2c + 1).
    const DRAWS: usize = 20_000;
    let (order, eta) = (4, 1.5);
    let mut noise = Noise::new(7).stream(Key::new(Purpose::Check, 1));
    let prior = LkjCholesky::new(eta, order);
    let mut sums = vec![[0.0; 2]; order * order];
    for _ in 0..DRAWS {
        let factor = prior.draw(&mut noise).unwrap().values;
        for i in 0..order {
            for j in 0..i {
                let entry: f64 = (0..order).map(|l| factor[i * order + l] * factor[j * order + l]).sum();
                sums[i * order + j][0] += entry / DRAWS as f64;
                sums[i * order + j][1] += entry * entry / DRAWS as f64;
            }
        }
    }
    let variance = 1.0 / (2.0 * (eta - 1.0 + 0.5 * order as f64) + 1.0);
    for (place, [mean, square]) in sums.into_iter().enumerate().filter(|(place, _)| place % order < place / order) {
        let error = 5.0 / (DRAWS as f64).sqrt();
        assert!(mean.abs() < error * variance.sqrt(), "{place}: mean {mean}");
        assert!((square - variance).abs() < error * 2.0 * variance, "{place}: {square}, expected {variance}");
    }
}

#[test]
fn the_lkj_density_of_order_three_integrates_to_one() {
    // By the midpoint rule over the first entry and the radius of the second pair, for which the angle is free.
    const STEPS: i32 = 400;
    let total: f64 = (0..STEPS * STEPS)
        .map(|place| {
            let r = -1.0 + 2.0 * (f64::from(place / STEPS) + 0.5) / f64::from(STEPS);
            let t = (f64::from(place % STEPS) + 0.5) / f64::from(STEPS);
            let (second, third) = ((1.0 - r * r).sqrt(), (1.0 - t * t).sqrt());
            let factor = Array::new(vec![1.0, 0.0, 0.0, r, second, 0.0, t, 0.0, third], vec![3, 3]).unwrap();
            LkjCholesky::new(2.5, 3).log_prob_of(&factor).unwrap().exp() * std::f64::consts::TAU * t
        })
        .sum::<f64>()
        * 2.0
        / f64::from(STEPS * STEPS);
    assert!((total - 1.0).abs() < 1e-4, "{total}");
}

#[test]
fn an_ordered_law_refuses_what_has_no_order() {
    let device = Device::flex();
    let decreasing = Array::new(vec![0.5, 0.1], vec![2]).unwrap();
    let error = Normal::new(0.0, 1.0).iid([2]).ordered().log_prob_of(&decreasing).unwrap_err();
    assert!(matches!(error, Error::Support { index: 1, .. }) && error.to_string().contains("increasing"), "{error}");
    let many = Normal::new(device.tensor(vec![0.0, 1.0], [2]), 1.0).ordered();
    assert!(matches!(many.support(), Err(Error::Shape { .. })));
    let error = partita::Beta::new(1.0, 1.0).iid([2]).ordered().log_prob_of(&decreasing).unwrap_err();
    assert!(matches!(error, Error::Argument { argument: "support", .. }), "{error}");
}

#[test]
fn a_class_out_of_range_and_cutpoints_out_of_order_are_refused_by_name() {
    let device = Device::flex();
    let predictor = || device.tensor(vec![0.1, -0.2], [2]);
    let cutpoints = |numbers: [f64; 2]| device.tensor(numbers.to_vec(), [2]);
    let classes = |second: f64| Array::new(vec![0.0, second], vec![2]).unwrap();
    for bad in [3.0, -1.0, 0.5] {
        let law = OrderedLogistic::new(predictor(), cutpoints([-1.0, 1.0]));
        let error = law.log_prob_of(&classes(bad)).unwrap_err();
        assert!(matches!(error, Error::Support { index: 1, .. }), "{error}");
        assert!(error.to_string().contains("OrderedLogistic (the counts 0 to 2)"), "{error}");
    }
    for numbers in [[1.0, -1.0], [1.0, 1.0]] {
        let error = OrderedProbit::new(predictor(), cutpoints(numbers)).log_prob_of(&classes(1.0)).unwrap_err();
        assert!(matches!(error, Error::Parameter { parameter: "cutpoints", .. }), "{error}");
    }
    let few = WishartCholesky::new(1.0, device.tensor(vec![1.0, 0.0, 0.0, 1.0], [2, 2]));
    let mut noise = Noise::new(1).stream(Key::new(Purpose::Check, 0));
    assert!(matches!(few.draw(&mut noise), Err(Error::Parameter { parameter: "degrees_of_freedom", .. })));
}

#[test]
fn factors_of_other_shapes_are_refused() {
    assert!(matches!(LkjCholesky::of_shape(1.0, [2, 3]).support(), Err(Error::Shape { .. })));
    let factor = Array::new(vec![1.0, 0.0, 0.6, 0.7], vec![2, 2]).unwrap();
    let error = LkjCholesky::new(1.0, 2).log_prob_of(&factor).unwrap_err();
    assert!(matches!(error, Error::Support { .. }), "{error}");
}

/// A level with an improper prior.
#[derive(Module, Debug)]
struct Level {}

impl Model for Level {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        scope.sample("level", Flat::new())
    }

    fn local(&self, scope: &mut Scope, level: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(level.clone(), 1.0).over(rows), rows.take(data)?)
        })
    }
}

#[test]
fn an_improper_prior_is_marked_fitted_and_never_drawn_from() {
    let device = Device::flex();
    let data = device.tensor(vec![0.3, -1.2], [2]);
    let table = SiteTable::of(&Level {}, &device, &data).unwrap();
    assert!(table.site("level").unwrap().improper && !table.site("y").unwrap().improper);
    assert!(table.to_string().contains("Flat (improper)"), "{table}");
    laws::model(&Level {}, &device, &data).unwrap();
    let density = LogDensity::new(&Level {}, &device, &table);
    let found = density.joint(Latents { globals: &[0.0], locals: &[vec![]] }, &data).unwrap();
    assert!((found.globals[0] + 0.9).abs() < 1e-12, "{found:?}");
    let error =
        prior_draw(&Level {}, &device, &table, &data, DrawNoise { noise: Noise::new(4), index: 0 }).unwrap_err();
    assert!(matches!(error, Error::Improper { .. }) && error.to_string().contains("level"), "{error}");
}
