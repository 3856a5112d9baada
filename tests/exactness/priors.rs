//! Holds the priors made of several sites to closed forms: implied covariances, marginal and joint densities.

use std::f64::consts::PI;

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Handle, Latents, LogDensity, natural_values};
use partita::models::priors::{
    BasisFunctions, Horseshoe, Kernel, RegularisedHorseshoe, Series, SlopeScales, autoregression, basis_process,
    correlated_slopes, gaussian_process, horseshoe, regularised_horseshoe, slope_scales,
};
use partita::{Device, Groups, HalfNormal, LogNormal, Model, Normal, Result, Scope, SiteTable, Uniform};

/// A prior alone, in the global part of a model; what it gives is the site `effect`.
#[derive(Module, Debug)]
struct Global {
    #[module(skip)]
    prior: fn(&mut Scope<'_>) -> Result<Tensor<1>>,
}

impl Model for Global {
    type Globals = ();
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> Result<()> {
        let effect = (self.prior)(scope)?;
        scope.deterministic("effect", effect).map(|_| ())
    }

    fn local(&self, _: &mut Scope<'_>, (): &(), (): &()) -> Result<()> {
        Ok(())
    }
}

impl Global {
    /// The log density at an unconstrained vector, Jacobians included, with its gradient; and the value of `effect`.
    fn at(&self, latents: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
        let device = Device::flex();
        let table = SiteTable::of(self, &device, &()).unwrap();
        let found = LogDensity::new(self, &device, &table).global(latents).unwrap();
        let values = natural_values(self, &device, &table, &(), Latents { globals: latents, locals: &[] }).unwrap();
        let effect = values.into_iter().find(|(name, _)| name == "effect").unwrap().1.values;
        (found.value, found.globals, effect)
    }

    /// JJᵀ of the last `n` latents, at zero of which the effect is zero and in which it is linear.
    fn covariance(&self, hyper: &[f64], n: usize) -> Vec<Vec<f64>> {
        let column = |place: usize| {
            let mut latents = [hyper, &vec![0.0; n]].concat();
            latents[hyper.len() + place] = 1.0;
            self.at(&latents).2
        };
        product((0..n).map(column).collect())
    }
}

/// JJᵀ of the columns of J.
fn product(columns: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let numbers = columns[0].len();
    let cell = |i: usize, j: usize| columns.iter().map(|column| column[i] * column[j]).sum();
    (0..numbers).map(|i| (0..numbers).map(|j| cell(i, j)).collect()).collect()
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() < tolerance * (1.0 + expected.abs()), "{what}: {found}, expected {expected}");
}

/// The largest difference of a matrix from a function of its indices.
fn worst(matrix: &[Vec<f64>], expected: impl Fn(usize, usize) -> f64) -> f64 {
    let cells = matrix.iter().enumerate().flat_map(|(i, row)| row.iter().enumerate().map(move |(j, own)| (i, j, own)));
    fixtures::largest(cells.map(|(i, j, own)| (own - expected(i, j)).abs()))
}

/// log of 2 / (π s (1 + x²/s²)).
fn half_cauchy(x: f64, s: f64) -> f64 {
    (2.0 / (PI * s * (1.0 + (x / s).powi(2)))).ln()
}

fn normal(x: f64) -> f64 {
    -0.5 * x * x - 0.5 * (2.0 * PI).ln()
}

/// E₁(x) by the continued fraction of Lentz for x ≥ 1, by its series below.
fn exponential_integral(x: f64) -> f64 {
    if x < 1.0 {
        let (mut term, mut sum) = (1.0, 0.0);
        for k in 1..40 {
            term *= -x / f64::from(k);
            sum -= term / f64::from(k);
        }
        return -0.577_215_664_901_532_9 - x.ln() + sum;
    }
    let fraction = (1..200).rev().fold(x, |rest, k| x + f64::from(k) / (1.0 + f64::from(k) / rest));
    (-x).exp() / fraction
}

#[test]
fn the_horseshoe_has_its_density_and_its_marginal() {
    let model = Global { prior: |scope| horseshoe(scope, "h", Horseshoe { size: 2, scale: 0.5 }) };
    let (tau, lambda, z) = (0.3_f64, [1.7_f64, 0.2], [0.4, -1.3]);
    let latents = [tau.ln(), lambda[0].ln(), lambda[1].ln(), z[0], z[1]];
    let (value, _, effect) = model.at(&latents);
    let mut expected = half_cauchy(tau, 0.5) + tau.ln();
    for k in 0..2 {
        expected += half_cauchy(lambda[k], 1.0) + lambda[k].ln() + normal(z[k]);
        near("coefficient", effect[k], tau * lambda[k] * z[k], 1e-14);
    }
    near("density", value, expected, 1e-13);
    // Given τ, the density of one coefficient is (2π³)^(-1/2) e^{x²/2} E₁(x²/2) / τ at x = β/τ: λ is integrated out of the
    // model's own joint density.
    let one = Global { prior: |scope| horseshoe(scope, "h", Horseshoe { size: 1, scale: 0.5 }) };
    let prior_of_tau = half_cauchy(tau, 0.5) + tau.ln();
    for beta in [0.05, 0.3, 1.2] {
        let step = 0.02;
        let density = |u: f64| {
            let scale = tau * u.exp();
            (one.at(&[tau.ln(), u, beta / scale]).0 - prior_of_tau - scale.ln()).exp()
        };
        let found: f64 = (-600..=900).map(|k| step * density(step * f64::from(k))).sum();
        let x = (beta / tau).powi(2) / 2.0;
        let expected = x.exp() * exponential_integral(x) / (2.0 * PI.powi(3)).sqrt() / tau;
        near("marginal", found, expected, 1e-6);
    }
}

#[test]
fn the_regularised_horseshoe_has_its_density_and_its_limits() {
    let model = Global {
        prior: |scope| {
            let prior = RegularisedHorseshoe { size: 2, scale: 0.5, slab_scale: 2.0, slab_degrees: 4.0 };
            regularised_horseshoe(scope, "h", prior)
        },
    };
    let (tau, lambda, slab, z) = (0.3_f64, [1.7_f64, 0.2], 3.0_f64, [0.4, -1.3]);
    let (value, _, effect) = model.at(&[tau.ln(), lambda[0].ln(), lambda[1].ln(), slab.ln(), z[0], z[1]]);
    // An inverse gamma distribution of 2 and 8: log 64 − 3 log c² − 8 / c².
    let mut expected = half_cauchy(tau, 0.5) + tau.ln() + 64_f64.ln() - 3.0 * slab.ln() - 8.0 / slab + slab.ln();
    for k in 0..2 {
        expected += half_cauchy(lambda[k], 1.0) + lambda[k].ln() + normal(z[k]);
        let square = (tau * lambda[k]).powi(2);
        near("coefficient", effect[k], z[k] * (square * slab / (square + slab)).sqrt(), 1e-14);
    }
    near("density", value, expected, 1e-13);
    // A large local scale leaves the slab, a large slab the horseshoe.
    let at = |lambda: f64, slab: f64| model.at(&[tau.ln(), lambda.ln(), 0.0, slab.ln(), 1.0, 0.0]).2[0];
    near("slab", at(1e6, slab), slab.sqrt(), 1e-6);
    near("horseshoe", at(2.0, 1e12), 0.6, 1e-6);
}

/// A grid of unequal steps.
const GRID: [f64; 6] = [-1.0, -0.7, -0.1, 0.0, 0.45, 1.0];

fn kernel(scope: &mut Scope<'_>) -> Result<Kernel> {
    let amplitude = scope.sample("amplitude", HalfNormal::new(1.0))?;
    Ok(Kernel { amplitude, length: scope.sample("length", LogNormal::new(0.0, 1.0))? })
}

fn squared_exponential(i: f64, j: f64, [amplitude, length]: [f64; 2]) -> f64 {
    amplitude * amplitude * (-(i - j).powi(2) / (2.0 * length * length)).exp()
}

#[test]
fn a_process_has_the_covariance_of_its_kernel() {
    let model = Global {
        prior: |scope| {
            let kernel = kernel(scope)?;
            gaussian_process(scope, "f", &GRID, &kernel)
        },
    };
    let hyper: [f64; 2] = [1.3, 0.4];
    let covariance = model.covariance(&hyper.map(f64::ln), GRID.len());
    let exact = |i: usize, j: usize| {
        let nugget = if i == j { 1e-6 * hyper[0] * hyper[0] } else { 0.0 };
        squared_exponential(GRID[i], GRID[j], hyper) + nugget
    };
    let found = worst(&covariance, exact);
    assert!(found < 1e-13, "{found}");
    // Refused in words.
    let empty = Global {
        prior: |scope| {
            let kernel = kernel(scope)?;
            gaussian_process(scope, "f", &[0.0, f64::NAN], &kernel)
        },
    };
    let error = SiteTable::of(&empty, &Device::flex(), &()).unwrap_err().to_string();
    assert!(error.contains("`f`") && error.contains("points"), "{error}");
}

/// The values on the grid of a process made of basis functions.
fn by_basis(scope: &mut Scope<'_>, factor: f64, count: usize) -> Result<Tensor<1>> {
    let basis = BasisFunctions::new([-1.0, 1.0], factor, count)?;
    let kernel = kernel(scope)?;
    let coefficients = basis_process(scope, "f", &basis, &kernel)?;
    basis.design(&GRID)?.predictor(coefficients, None)
}

#[test]
fn basis_functions_have_the_covariance_of_the_kernel_up_to_reflections() {
    let hyper: [f64; 2] = [1.3, 0.5];
    let difference = |prior, count| {
        let covariance = Global { prior }.covariance(&hyper.map(f64::ln), count);
        worst(&covariance, |i, j| squared_exponential(GRID[i], GRID[j], hyper)) / hyper[0].powi(2)
    };
    // The bound of the docstring is met at the ends of the range.
    let reflection = |factor: f64| (-2.0 * ((factor - 1.0) / hyper[1]).powi(2)).exp();
    let (narrow, wide) =
        (difference(|scope| by_basis(scope, 1.6, 20), 20), difference(|scope| by_basis(scope, 2.0, 24), 24));
    near("factor 1.6", narrow, reflection(1.6), 1e-6);
    near("factor 2", wide, reflection(2.0), 1e-6);
    let far = difference(|scope| by_basis(scope, 2.8, 32), 32);
    assert!(far < 1e-9, "{far}");
    // Too few functions are seen.
    let few = difference(|scope| by_basis(scope, 2.0, 6), 6);
    assert!(few > 0.01, "{few}");
    assert!(BasisFunctions::new([1.0, -1.0], 1.5, 3).is_err() && BasisFunctions::new([0.0, 1.0], 1.0, 3).is_err());
}

/// Correlated effects of patients, and an autoregression over the visits of each.
#[derive(Module, Debug)]
struct Local {}

impl Model for Local {
    type Globals = (Tensor<2>, Tensor<1>, Tensor<1>);
    type Data = Groups;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let factor = slope_scales(scope, "scale", SlopeScales { effects: 2, scale: 1.5, concentration: 2.0 })?;
        let coefficient = scope.sample("coefficient", Uniform::new(-1.0, 1.0))?;
        Ok((factor, coefficient, scope.sample("deviation", HalfNormal::new(1.0))?))
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, visits: &Groups) -> Result<()> {
        let (factor, coefficient, deviation) = globals.clone();
        scope.plate("patient", visits.groups(), |scope, groups| {
            let effects = correlated_slopes(scope, "effect", factor, groups)?;
            let effects = scope.deterministic("b", effects)?;
            scope.plate("visit", visits, |scope, steps| {
                let x = autoregression(scope, "drift", Series { groups, steps }, coefficient, deviation)?;
                let x = scope.deterministic("x", x)?;
                let level: Tensor<1> = effects.narrow(1, 0, 1).reshape([groups.len()]);
                let y = scope.device().tensor(vec![0.3; visits.rows()], [visits.rows()]);
                scope.observe("y", Normal::new(steps.expand(&level)? + x, 0.7), steps.take(&y)?)
            })
        })
    }
}

/// Visits of three patients, in the order in which they came.
fn visits() -> Groups {
    Groups::new(vec![0, 1, 0, 2, 1, 0, 0, 1], 3).unwrap()
}

/// Log standard deviations, the correlation's and the coefficient's latents, the log deviation.
const HYPER: [f64; 5] = [0.4, -0.3, 0.5, 0.8, -0.2];

fn values(locals: &[Vec<f64>], site: &str) -> Vec<f64> {
    let (device, data) = (Device::flex(), visits());
    let table = SiteTable::of(&Local {}, &device, &data).unwrap();
    let latents = Latents { globals: &HYPER, locals };
    let values = natural_values(&Local {}, &device, &table, &data, latents).unwrap();
    values.into_iter().find(|(name, _)| name == site).unwrap().1.values
}

/// JJᵀ of what a block of innovations gives at a site.
fn local_covariance(block: usize, site: &str) -> Vec<Vec<f64>> {
    let sizes = [6, 8];
    let column = |place: usize| {
        let mut locals: Vec<Vec<f64>> = sizes.iter().map(|size| vec![0.0; *size]).collect();
        locals[block][place] = 1.0;
        values(&locals, site)
    };
    product((0..sizes[block]).map(column).collect())
}

#[test]
fn slopes_have_the_standard_deviations_and_the_correlation_of_their_globals() {
    let locals = [vec![0.0; 6], vec![0.0; 8]];
    let (sd, factor) = (values(&locals, "scale.sd"), values(&locals, "scale.correlation"));
    let correlation = factor[2];
    assert!(correlation.abs() > 0.1 && (sd[0] - HYPER[0].exp()).abs() < 1e-14);
    let found = worst(&local_covariance(0, "b"), |i, j| match (i / 2 == j / 2, i % 2 == j % 2) {
        (false, _) => 0.0,
        (true, true) => sd[i % 2].powi(2),
        (true, false) => sd[0] * sd[1] * correlation,
    });
    assert!(found < 1e-13, "{found}");
}

#[test]
fn an_autoregression_is_the_dense_normal_of_its_covariance() {
    let locals = [vec![0.0; 6], vec![0.0; 8]];
    let (rho, sigma) = (values(&locals, "coefficient")[0], values(&locals, "deviation")[0]);
    assert!(rho > 0.3);
    let data = visits();
    let order = |row: usize| data.index()[..row].iter().filter(|own| **own == data.of_row(row)).count() as f64;
    let exact = |i: usize, j: usize| match data.of_row(i) == data.of_row(j) {
        true => sigma * sigma * rho.powf((order(i) - order(j)).abs()) / (1.0 - rho * rho),
        false => 0.0,
    };
    let found = worst(&local_covariance(1, "x"), exact);
    assert!(found < 1e-13, "{found}");
    // log N(z; 0, 1) − log |dx/dz| is the density of the dense normal distribution at x.
    let z: Vec<f64> = (0..8).map(|row| (f64::from(row) * 1.7).sin()).collect();
    let x = values(&[vec![0.0; 6], z.clone()], "x");
    let jacobian = 3.0 * (sigma / (1.0 - rho * rho).sqrt()).ln() + 5.0 * sigma.ln();
    let found: f64 = z.iter().map(|z| normal(*z)).sum::<f64>() - jacobian;
    let device = Device::flex();
    let cells = (0..64).map(|cell| exact(cell / 8, cell % 8)).collect();
    let factor = partita::core::cholesky(device.tensor::<2>(cells, [8, 8])).unwrap();
    let dense = partita::MultivariateNormal::new(device.tensor::<2>(vec![0.0; 8], [1, 8]), factor);
    let expected = dense.log_prob(device.tensor::<2>(x, [1, 8])).unwrap();
    near("density", found, Handle::from(expected).read().unwrap().values[0], 1e-12);
}

#[test]
fn gradients_of_composed_priors_are_differences() {
    partita::laws::model(&Local {}, &Device::flex(), &visits()).unwrap();
    let check = |prior: fn(&mut Scope<'_>) -> Result<Tensor<1>>| {
        partita::laws::model(&Observed { prior }, &Device::flex(), &()).unwrap();
    };
    check(|scope| horseshoe(scope, "h", Horseshoe { size: 2, scale: 0.5 }));
    check(|scope| {
        let prior = RegularisedHorseshoe { size: 2, scale: 0.5, slab_scale: 2.0, slab_degrees: 4.0 };
        regularised_horseshoe(scope, "h", prior)
    });
    check(|scope| {
        let kernel = kernel(scope)?;
        gaussian_process(scope, "f", &GRID, &kernel)
    });
    check(|scope| by_basis(scope, 1.6, 4));
}

/// A prior whose effect is observed, so that gradients flow through it.
#[derive(Module, Debug)]
struct Observed {
    #[module(skip)]
    prior: fn(&mut Scope<'_>) -> Result<Tensor<1>>,
}

impl Model for Observed {
    type Globals = Tensor<1>;
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        (self.prior)(scope)
    }

    fn local(&self, scope: &mut Scope<'_>, effect: &Tensor<1>, (): &()) -> Result<()> {
        let y = effect.zeros_like().detach() + 0.3;
        scope.observe("y", Normal::new(effect.clone(), 0.5), y)
    }
}
