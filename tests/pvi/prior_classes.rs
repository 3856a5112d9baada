//! Tests the classes of priors and likelihoods: normal to rounding, on any scale, or not normal.

use fixtures::local::{Toy, logistic, quadratic};
use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::inference::{Conjugate, Error, Expectation, ExponentialFamily, NaturalGradient, NormalFamily, Pvi};
use partita::{
    Cauchy, Device, FamilyPlan, Gaussian, Model, Normal, Precision, PviOptions, Result, Scope, Settings, StudentT, burn,
};

/// A prior alone, with (location, scale) of each latent.
#[derive(Debug, Clone)]
enum Prior {
    Normal([[f64; 2]; 2]),
    Cauchy([f64; 2]),
    StudentT(f64, [f64; 2]),
    /// A Cauchy density beside a normal one.
    Both([f64; 2], [f64; 2]),
    /// A normal density of scale e^s with s normal, and of this standard deviation.
    Scaled(f64),
}

#[derive(Module, Debug)]
struct Alone {
    #[module(skip)]
    prior: Prior,
}

impl Model for Alone {
    type Globals = ();
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<()> {
        match &self.prior {
            Prior::Normal(each) => {
                scope.sample::<1, _>("a", Normal::new(each[0][0], each[0][1]).iid([1]))?;
                scope.sample::<1, _>("b", Normal::new(each[1][0], each[1][1]).iid([2]))?;
            }
            Prior::Cauchy([location, scale]) => {
                scope.sample::<1, _>("a", Cauchy::new(*location, *scale).iid([2]))?;
            }
            Prior::StudentT(freedom, [location, scale]) => {
                scope.sample::<1, _>("a", StudentT::new(*freedom, *location, *scale).iid([2]))?;
            }
            Prior::Both(cauchy, normal) => {
                scope.sample::<1, _>("a", Normal::new(normal[0], normal[1]).iid([3]))?;
                scope.sample::<1, _>("b", Cauchy::new(cauchy[0], cauchy[1]).iid([1]))?;
            }
            Prior::Scaled(deviation) => {
                let scale = scope.sample::<1, _>("a", Normal::new(0.0, *deviation))?;
                scope.sample::<1, _>("b", Normal::new(0.0, scale.exp()).iid([2]))?;
            }
        }
        Ok(())
    }

    fn local(&self, _: &mut Scope<'_>, (): &(), _: &Tensor<1>) -> Result<()> {
        Ok(())
    }
}

/// The coordinator of a run with a prior, converted to natural parameters.
fn coordinator<M: Model>(model: &M, family: Gaussian, precision: Precision) -> Pvi {
    let settings = Settings { steps: 1_000, family: FamilyPlan::new().global(family), ..Settings::default() };
    let device = Device::flex().with_precision(precision);
    Pvi::new(model, &device, &settings, &["a".to_owned()], vec![1], PviOptions::new(30)).unwrap()
}

#[test]
fn a_prior_with_heavy_tails_has_a_fitted_factor_however_wide_it_is() {
    let priors = [
        Prior::Cauchy([0.0, 50.0]),
        Prior::Cauchy([0.0, 1e3]),
        Prior::Cauchy([20.0, 50.0]),
        Prior::StudentT(4.0, [0.0, 200.0]),
        Prior::StudentT(100.0, [0.0, 30.0]),
        // The tight density has gradients of 1e4 and 1e6, beside which those of the other are negligible.
        Prior::Both([0.0, 50.0], [0.0, 0.01]),
        Prior::Both([0.0, 1e3], [0.5, 1e-3]),
        // At far points of this one its scale has run to zero or infinity.
        Prior::Scaled(0.5),
        Prior::Scaled(400.0),
    ];
    for prior in priors {
        for family in [Gaussian::diagonal(), Gaussian::full_rank()] {
            let pvi = coordinator(&Alone { prior: prior.clone() }, family, Precision::Double);
            assert!(pvi.log_normaliser().is_none(), "{prior:?} was taken for a normal density");
        }
    }
}

#[test]
fn a_normal_prior_is_exact_on_every_scale() {
    for scales in [[1e-3, 1e-3], [1e-3, 1e3], [0.1, 30.0], [1.0, 1.0], [1e3, 1e3]] {
        for locations in [[0.0, 0.0], [0.5, -40.0]] {
            let [[a, b], [s, t]] = [locations, scales];
            let each = [[a, s], [b, t]];
            for family in [Gaussian::diagonal(), Gaussian::full_rank()] {
                for precision in [Precision::Double, Precision::Single] {
                    let pvi = coordinator(&Alone { prior: Prior::Normal(each) }, family, precision);
                    assert!(pvi.log_normaliser().is_some(), "{each:?} was not taken for a normal density");
                    let (mean, spread) = pvi.natural_family().moments(pvi.prior());
                    let sds = spread.deviations();
                    for (place, [mean_, sd]) in [each[0], each[1], each[1]].into_iter().enumerate() {
                        // Curvatures are differences of gradients at 0 and 1: rounding times the mean.
                        assert!((sds[place] / sd - 1.0).abs() < 1e-11, "{each:?}: {sds:?}");
                        assert!((mean[place] - mean_).abs() < 1e-11 * sd.max(mean_.abs()), "{each:?}: {mean:?}");
                    }
                }
            }
        }
    }
}

/// Coefficients with a standard deviation that is a point parameter, so that their density is on the tape.
#[derive(Module, Debug)]
struct OnTape {
    log_scale: Param<Tensor<1>>,
    mean: Param<Tensor<1>>,
}

impl Model for OnTape {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("beta", Normal::new(self.mean.val(), self.log_scale.val().exp()).iid([3]))
    }

    fn local(&self, _: &mut Scope<'_>, _: &Tensor<1>, _: &Tensor<1>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn rounding_of_single_precision_does_not_make_a_normal_prior_another() {
    for (mean, scale) in [(0.0, 1e-3_f64), (0.3, 0.05), (-2.0, 1.0), (3.0, 100.0), (0.0, 1e3)] {
        let device = Device::flex().with_precision(Precision::Single);
        let parameter = |value: f64| Param::from_tensor(device.tensor(vec![value], [1]));
        let model = OnTape { log_scale: parameter(scale.ln()), mean: parameter(mean) };
        for family in [Gaussian::diagonal(), Gaussian::full_rank()] {
            let pvi = coordinator(&model, family, Precision::Single);
            assert!(pvi.log_normaliser().is_some(), "N({mean}, {scale}) was not taken for a normal density");
        }
    }
}

#[test]
fn the_factor_of_a_cauchy_prior_is_where_the_slope_of_its_logarithm_says() {
    let expectation = Expectation::GaussHermite { points: 40 };
    let solver = NaturalGradient { rate: 0.5, expectation }.into();
    let settings =
        Settings { steps: 10, family: FamilyPlan::new().global(Gaussian::diagonal()), ..Settings::default() };
    let options = PviOptions { solver, ..PviOptions::new(60) };
    let model = Alone { prior: Prior::Cauchy([0.0, 50.0]) };
    let names = ["a".to_owned()];
    let pvi = Pvi::new(&model, &Device::flex(), &settings, &names, vec![1], options).unwrap();
    let precision = -2.0 * pvi.prior()[2];
    // The precision is minus the expected curvature, -E[2 (x² - s²) / (x² + s²)²], by the trapezoidal rule.
    let (sd, square) = (precision.powf(-0.5), 2_500.0);
    let curvature: f64 = (-12 * 64..=12 * 64)
        .map(|place| {
            let z = f64::from(place) / 64.0;
            let x = (z * sd).powi(2);
            (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() / 64.0 * 2.0 * (x - square)
                / (x + square).powi(2)
        })
        .sum();
    // The integrand has poles 0.6 standard deviations off the axis, where a rule of forty points is good to two digits
    // or three.
    assert!((precision / -curvature - 1.0).abs() < 0.01, "{precision} against {}", -curvature);
    // It is not the normal density with the same curvature at zero.
    assert!(precision < 0.25 * 2.0 / square, "{precision}");
}

#[test]
fn the_conjugate_solver_refuses_a_logistic_regression_whose_covariates_are_small() {
    for scale in [1.0, 0.1, 0.01, 1e-4] {
        let rows = [(0.4, 1.0), (-1.3, -1.0), (2.1, 1.0), (0.7, -1.0), (-0.2, 1.0), (1.6, 1.0)];
        let rows = || rows.iter().map(|(x, y)| (vec![scale * x], *y)).collect::<Vec<_>>();
        let pairs = || rows().into_iter().map(|(x, y)| (vec![x[0], scale], y)).collect();
        let mut one = Toy::diagonal(1, vec![0.0, -0.5], logistic(rows()));
        let mut two = Toy::full(2, vec![0.0, 0.0, -0.5, 0.0, -0.5], logistic(pairs()));
        for (toy, received) in [(&mut one, vec![0.0, -0.5]), (&mut two, vec![0.0, 0.0, -0.5, 0.0, -0.5])] {
            let found = toy.visit(&mut Conjugate, &received, 1);
            assert!(matches!(found, Err(Error::Setting { setting: "solver", .. })), "{scale}: {found:?}");
        }
    }
}

#[test]
fn the_conjugate_solver_takes_likelihoods_that_say_nothing_of_some_directions() {
    // Two rows for three coefficients, one of which no row has; and units a million apart.
    let x = [[1.0, 0.5, 0.0], [2.0, 1.0, 0.0]];
    for unit in [1.0, 1e-3, 1e3] {
        let cell = |i: usize, j: usize| x.iter().map(|x| x[i] * x[j]).sum::<f64>() * unit * unit;
        let curvature: Vec<f64> = (0..9).map(|place| cell(place / 3, place % 3)).collect();
        let linear = vec![3.0 * unit, 1.5 * unit, 0.0];
        let prior = vec![0.0, 0.0, 0.0, -0.5, 0.0, -0.5, 0.0, 0.0, -0.5];
        let mut toy = Toy::full(3, prior.clone(), quadratic(linear.clone(), curvature.clone()));
        let found = toy.visit(&mut Conjugate, &prior, 1).unwrap().natural;
        let pairs = (0..3).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let second = pairs.map(|(i, j)| if i == j { -0.5 } else { -1.0 } * curvature[3 * i + j]);
        let own: Vec<f64> = linear.into_iter().chain(second).collect();
        for ((found, prior), own) in found.iter().zip(&prior).zip(&own) {
            assert!((found - prior - own).abs() < 1e-12 * (1.0 + own.abs()), "{found}");
        }
        assert!(NormalFamily::full(3).impropriety(&found).is_none());
    }
    // A likelihood that is flat at the first point evaluated, but not at the posterior.
    let bent: fixtures::local::LogLikelihood = Box::new(|point| {
        let beyond = (point[0] - 2.0).max(0.0);
        (-beyond.powi(3), vec![-3.0 * beyond.powi(2)])
    });
    let received = NormalFamily::diagonal(1).natural_of_standard(&[3.0, 1.0]).unwrap();
    let found = Toy::diagonal(1, received.clone(), bent).visit(&mut Conjugate, &received, 1);
    assert!(matches!(found, Err(Error::Setting { setting: "solver", .. })), "{found:?}");
}
