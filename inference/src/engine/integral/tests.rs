//! Holds integrals over rows to closed forms and to fine sums, from outside the method that uses them.

mod wards;

use partita_core::burn::module::Module;
use partita_core::burn::tensor::Tensor;
use partita_core::special::{HALF_LOG_TWO_PI, ln_gamma, log_sum_exp};
use partita_core::{AnyData, AnyModel, Bernoulli, Device, Groups, Model, Normal, Poisson, Result, Scope, SiteTable};

use super::{Integrand, RowIntegral, Until};

/// Rows with one effect each, whose deviation is the exponential of the global.
#[derive(Module, Debug)]
struct Effects {
    #[module(skip)]
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// So many trials a row, each an observation.
    Binary,
    /// One count a row, of rate $e^u$ with $e^u$ of a gamma distribution.
    Count,
    /// One number a row with unit variance.
    Real,
}

impl Model for Effects {
    type Globals = Tensor<1>;
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("omega", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, omega: &Tensor<1>, y: &Tensor<2>) -> Result<()> {
        let [rows, width] = y.dims();
        scope.plate("row", rows, |scope, rows| {
            let effect = match self.outcome {
                // u = log v with v of a gamma distribution of shape and rate 2: a density by `factor`.
                Outcome::Count => {
                    let u = scope.sample("u", partita_core::Flat::new())?;
                    let density = u.clone() * 2.0 - u.clone().exp() * 2.0 + (2.0 * 2.0_f64.ln() - ln_gamma(2.0));
                    scope.factor("gamma", density)?;
                    u
                }
                _ => scope.sample("u", Normal::new(0.0, omega.clone().exp()))?,
            };
            let effect = effect.reshape([rows.len(), 1]).expand([rows.len(), width]);
            let y = rows.take(y)?;
            match self.outcome {
                Outcome::Binary => scope.observe("y", Bernoulli::logits(effect), y),
                Outcome::Count => scope.observe("y", Poisson::log_rate(effect), y),
                Outcome::Real => scope.observe("y", Normal::new(effect, 1.0), y),
            }
        })
    }
}

/// The integral by rules that agree with larger ones to `tolerance`, with its gradient by the global.
fn integral(outcome: Outcome, data: Vec<f64>, width: usize, omega: f64, tolerance: f64) -> (f64, f64) {
    let (device, model) = (Device::flex(), Effects { outcome });
    let y = device.tensor(data.clone(), [data.len() / width, width]);
    let table = SiteTable::of(&model, &device, &y).unwrap();
    let (any, y) = (AnyModel::new(&model), AnyData::new(&y));
    let integrand = Integrand { model: &any, data: &y, device: &device, table: &table };
    let mut integral = RowIntegral::new(&table).unwrap();
    let mut centres = integral.start();
    let until = Until { tolerance, most: usize::MAX, nodes: usize::MAX, noise: f64::INFINITY };
    integral.raise(&integrand, &[omega], &mut centres, until).unwrap();
    let found = integral.gradient(&integrand, &[omega], &mut centres).unwrap();
    let value = integral.value(&integrand, &[omega], &mut centres).unwrap();
    assert!((value - found.value).abs() < 1e-9 * value.abs().max(1.0), "{value} {}", found.value);
    (found.value, found.globals[0])
}

/// A row of so many successes in four trials, by 1,001 points to nine deviations either way.
fn logistic_row(successes: f64, sd: f64) -> f64 {
    let points: Vec<f64> = (-500..=500).map(|k| f64::from(k) * 0.018 * sd).collect();
    let log_joint = |u: f64| {
        let softplus = |x: f64| if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() };
        successes * u - 4.0 * softplus(u) - 0.5 * (u / sd).powi(2) - sd.ln() - HALF_LOG_TWO_PI
    };
    log_sum_exp(&points.into_iter().map(log_joint).collect::<Vec<_>>()) + (0.018 * sd).ln()
}

#[test]
fn logistic_rows_agree_with_a_thousand_points_for_deviations_up_to_ten() {
    for sd in [0.3, 1.0, 3.0, 10.0_f64] {
        for successes in 0..=4_u8 {
            let data = (0..4).map(|trial| f64::from(u8::from(trial < successes))).collect();
            let (found, gradient) = integral(Outcome::Binary, data, 4, sd.ln(), 1e-10);
            let successes = f64::from(successes);
            let expected = logistic_row(successes, sd);
            assert!((found - expected).abs() < 1e-8, "{sd} {successes}: {found} {expected}");
            let step = 1e-4_f64;
            let slope =
                (logistic_row(successes, sd * step.exp()) - logistic_row(successes, sd / step.exp())) / (2.0 * step);
            assert!((gradient - slope).abs() < 1e-6, "{sd} {successes}: {gradient} {slope}");
        }
    }
}

#[test]
fn normal_rows_far_from_zero_are_exact() {
    for (y, sd) in [(0.3, 1.0), (-40.0, 0.01), (1e6, 30.0), (5.0, 1e-4), (2.0, 1e3_f64)] {
        let (found, _) = integral(Outcome::Real, vec![y], 1, sd.ln(), 1e-10);
        let variance = 1.0 + sd * sd;
        let expected = -0.5 * y * y / variance - 0.5 * variance.ln() - HALF_LOG_TWO_PI;
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{y} {sd}: {found} {expected}");
    }
}

#[test]
fn a_gamma_mixture_of_poisson_counts_is_negative_binomial() {
    for count in [0.0, 1.0, 7.0, 60.0_f64] {
        let (found, _) = integral(Outcome::Count, vec![count], 1, 0.0, 1e-10);
        // Shape and rate 2: NB with r = 2 and success probability 2/3.
        let expected = ln_gamma(count + 2.0) - ln_gamma(2.0) - ln_gamma(count + 1.0) + 2.0 * (2.0_f64 / 3.0).ln()
            - count * 3.0_f64.ln();
        assert!((found - expected).abs() < 1e-8, "{count}: {found} {expected}");
    }
}

#[test]
fn a_rule_of_few_points_is_found_out() {
    // Patients who never improve, with a deviation of ten: 15 points are wrong by more than the tolerance.
    let (device, model) = (Device::flex(), Effects { outcome: Outcome::Binary });
    let y = device.tensor(vec![0.0; 4], [1, 4]);
    let table = SiteTable::of(&model, &device, &y).unwrap();
    let (any, y) = (AnyModel::new(&model), AnyData::new(&y));
    let integrand = Integrand { model: &any, data: &y, device: &device, table: &table };
    let mut integral = RowIntegral::new(&table).unwrap();
    let mut centres = integral.start();
    let rough = integral.value(&integrand, &[10.0_f64.ln()], &mut centres).unwrap();
    assert!((rough - logistic_row(0.0, 10.0)).abs() > 1e-6, "{rough}");
    assert_eq!(integral.points(), [15]);
    assert!(
        integral
            .raise(
                &integrand,
                &[10.0_f64.ln()],
                &mut centres,
                Until { tolerance: 1e-10, most: 31, nodes: usize::MAX, noise: f64::INFINITY }
            )
            .unwrap()
    );
    assert_eq!(integral.points(), [31]);
}

/// Groups in groups in groups, whose effects have the deviation that is the exponential of the global, with binary trials.
#[derive(Module, Debug)]
struct Nested {
    /// Whether the innermost rows have no effect of their own.
    #[module(skip)]
    is_bare: bool,
}

#[derive(Debug, Clone)]
struct NestedData {
    outer: Groups,
    inner: Groups,
    y: Tensor<2>,
}

impl Model for Nested {
    type Globals = Tensor<1>;
    type Data = NestedData;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("omega", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, omega: &Tensor<1>, data: &NestedData) -> Result<()> {
        scope.plate("outer", data.outer.groups(), |scope, _| {
            let outer = scope.sample("a", Normal::new(0.0, omega.clone().exp()))?;
            scope.plate("middle", &data.outer, |scope, rows| {
                let middle = scope.sample("b", Normal::new(rows.expand(&outer)?, omega.clone().exp()))?;
                scope.plate("inner", &data.inner, |scope, rows| {
                    let around = rows.expand(&middle)?;
                    let inner = match self.is_bare {
                        true => around,
                        false => scope.sample("c", Normal::new(around, omega.clone().exp()))?,
                    };
                    let y = rows.take(&data.y)?;
                    let effect = inner.reshape([rows.len(), 1]).expand([rows.len(), y.dims()[1]]);
                    scope.observe("y", Bernoulli::logits(effect), y)
                })
            })
        })
    }
}

/// The log marginal likelihood of one outermost group by sums over a grid; rows are successes in four trials.
fn nested_group(groups: &[Vec<f64>], sd: f64) -> f64 {
    const POINTS: usize = 241;
    let at = |index: usize| (f64::from(u32::try_from(index).unwrap()) - 120.0) * (10.0 * sd / 120.0);
    let gap = 10.0 * sd / 120.0;
    let normal =
        |x: f64, mean: f64| (-0.5 * ((x - mean) / sd).powi(2)).exp() / (sd * (2.0 * std::f64::consts::PI).sqrt());
    let softplus = |x: f64| if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() };
    let over = |density: &dyn Fn(usize) -> f64| (0..POINTS).map(density).sum::<f64>() * gap;
    let row = |successes: f64| -> Vec<f64> {
        let likelihood: Vec<f64> = (0..POINTS).map(|c| (successes * at(c) - 4.0 * softplus(at(c))).exp()).collect();
        (0..POINTS).map(|b| over(&|c| normal(at(c), at(b)) * likelihood[c])).collect()
    };
    let group = |rows: &Vec<f64>| -> Vec<f64> {
        let rows: Vec<Vec<f64>> = rows.iter().map(|own| row(*own)).collect();
        let product: Vec<f64> = (0..POINTS).map(|b| rows.iter().map(|own| own[b]).product()).collect();
        (0..POINTS).map(|a| over(&|b| normal(at(b), at(a)) * product[b])).collect()
    };
    let groups: Vec<Vec<f64>> = groups.iter().map(group).collect();
    over(&|a| normal(at(a), 0.0) * groups.iter().map(|own| own[a]).product::<f64>()).ln()
}

#[test]
fn three_levels_of_binary_rows_begin_with_few_points_and_agree_with_sums_over_a_grid() {
    let groups = [vec![vec![0.0, 4.0, 1.0], vec![4.0, 4.0]], vec![vec![0.0], vec![2.0, 1.0, 0.0], vec![3.0]]];
    let device = Device::flex();
    let sizes = |of: &dyn Fn(&Vec<Vec<f64>>) -> Vec<usize>| -> Vec<usize> { groups.iter().flat_map(of).collect() };
    let index = |sizes: Vec<usize>| {
        sizes.iter().enumerate().flat_map(|(group, size)| std::iter::repeat_n(group, *size)).collect::<Vec<_>>()
    };
    let rows: Vec<f64> = groups.iter().flatten().flatten().copied().collect();
    let trials = rows.iter().flat_map(|own| (0..4_u8).map(move |trial| f64::from(u8::from(f64::from(trial) < *own))));
    let data = NestedData {
        outer: Groups::with_empty(index(sizes(&|own| vec![own.len()])), groups.len()).unwrap(),
        inner: Groups::with_empty(index(sizes(&|own| own.iter().map(Vec::len).collect())), 5).unwrap(),
        y: device.tensor(trials.collect::<Vec<_>>(), [rows.len(), 4]),
    };
    // Two levels begin with few points too. In the round of trust they count with all pairs of the usual ones.
    let bare = RowIntegral::new(&SiteTable::of(&Nested { is_bare: true }, &device, &data).unwrap()).unwrap();
    let all = (2 + 5 + 10) * 15 * 15;
    assert_eq!((bare.points(), bare.is_nested(), bare.evaluations()), (vec![7, 7], false, Some(all)));
    let model = Nested { is_bare: false };
    let table = SiteTable::of(&model, &device, &data).unwrap();
    RowIntegral::check_levels(&table).unwrap();
    let (any, data) = (AnyModel::new(&model), AnyData::new(&data));
    let integrand = Integrand { model: &any, data: &data, device: &device, table: &table };
    // With 2,048 combinations at most, wide effects are not integrated as finely as asked.
    for (sd, least) in [(0.5, 1e-4), (1.0, 1e-4), (3.0_f64, 5e-3)] {
        let expected: f64 = groups.iter().map(|own| nested_group(own, sd)).sum();
        for (tolerance, error) in [(0.01, 0.01), (1e-10, least)] {
            let mut integral = RowIntegral::new(&table).unwrap();
            assert_eq!(integral.points(), [5, 5, 5]);
            let (mut centres, until) =
                (integral.start(), Until { tolerance, most: usize::MAX, nodes: usize::MAX, noise: f64::INFINITY });
            integral.raise(&integrand, &[sd.ln()], &mut centres, until).unwrap();
            let found = integral.value(&integrand, &[sd.ln()], &mut centres).unwrap();
            assert!((found - expected).abs() < error, "{sd}: {found} {expected} by {:?}", integral.points());
            // A rule of a point less then says how far off.
            let varied = integral.varied(&table).unwrap();
            assert_eq!(varied.is_some(), tolerance < 1e-9 && sd > 0.7, "{sd}: {:?}", integral.points());
            if let Some(other) = varied {
                let mut own = other.fit(centres.clone());
                let apart = other.value(&integrand, &[sd.ln()], &mut own).unwrap() - found;
                // Errors of a ten-millionth of a nat are told to a factor of three.
                let error = (found - expected).abs();
                assert!(
                    apart.abs() < 0.05 && (apart.abs() > error || (error < 1e-6 && 3.0 * apart.abs() > error)),
                    "{sd}: {apart} {found} {expected}"
                );
            }
        }
    }
}

/// Rows of independent effects with four trials each, or with one number of unit variance each.
#[derive(Module, Debug)]
struct Several {
    #[module(skip)]
    outcome: Outcome,
    #[module(skip)]
    latents: usize,
}

impl Model for Several {
    type Globals = Tensor<1>;
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("omega", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, omega: &Tensor<1>, y: &Tensor<2>) -> Result<()> {
        let [rows, width] = y.dims();
        scope.plate("row", rows, |scope, rows| {
            let u: Tensor<2> =
                scope.sample("u", Normal::new(0.0, omega.clone().exp()).iid([rows.len(), self.latents]))?;
            let each = width / self.latents;
            let effect = u.reshape([rows.len(), self.latents, 1]).expand([rows.len(), self.latents, each]);
            let effect = effect.reshape([rows.len(), width]);
            match self.outcome {
                Outcome::Real => scope.observe("y", Normal::new(effect, 1.0), rows.take(y)?),
                _ => scope.observe("y", Bernoulli::logits(effect), rows.take(y)?),
            }
        })
    }
}

/// The integral by `draws` a row, for each logarithm of a deviation.
fn by_draws(model: &Several, data: &[f64], rows: usize, draws: usize, omegas: &[f64]) -> Vec<f64> {
    let device = Device::flex();
    let y = device.tensor(data.to_vec(), [rows, data.len() / rows]);
    let table = SiteTable::of(model, &device, &y).unwrap();
    let (any, y) = (AnyModel::new(model), AnyData::new(&y));
    let integrand = Integrand { model: &any, data: &y, device: &device, table: &table };
    let mut integral = RowIntegral::new(&table).unwrap();
    while integral.points()[0] < draws {
        assert!(integral.draw_more(&table).unwrap());
    }
    let at = |omega: &f64| {
        let mut centres = integral.start();
        let found = integral.gradient(&integrand, &[*omega], &mut centres).unwrap();
        let value = integral.value(&integrand, &[*omega], &mut centres).unwrap();
        let far = if draws < 1_024 { 0.2 } else { 0.02 };
        assert!((value - found.value).abs() < far, "{value} {}", found.value);
        value
    };
    omegas.iter().map(at).collect()
}

/// The greatest error of a value, and the greatest of a difference from the first.
fn errors(found: &[f64], expected: &[f64]) -> [f64; 2] {
    let apart: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    let most = |from: f64| apart.iter().map(|own| (own - from).abs()).fold(0.0, f64::max);
    [most(0.0), most(apart[0])]
}

#[test]
fn draws_integrate_normal_rows_of_many_latents() {
    for latents in [4_usize, 6, 8] {
        // Some rows lie fifty deviations from where their rules begin.
        let data: Vec<f64> = (0..3 * latents).map(|index| [0.3, -50.0, 4.0, 0.01][index % 4]).collect();
        let omegas = [2.0, 2.2, 2.5, 3.0];
        let found = by_draws(&Several { outcome: Outcome::Real, latents }, &data, 3, 1_024, &omegas);
        let closed = |omega: &f64| {
            let variance = 1.0 + (2.0 * omega).exp();
            data.iter().map(|y| -0.5 * y * y / variance - 0.5 * variance.ln() - HALF_LOG_TWO_PI).sum::<f64>()
        };
        let expected: Vec<f64> = omegas.iter().map(closed).collect();
        let [error, difference] = errors(&found, &expected);
        assert!(error < 0.01 && difference < 0.01, "{latents}: {error} {difference}, {found:?} {expected:?}");
    }
}

#[test]
fn draws_integrate_logistic_rows_of_five_latents() {
    let latents = 5;
    let successes: Vec<u8> = (0..10 * latents).map(|index| [0_u8, 3, 4, 1, 2, 4, 0][index % 7]).collect();
    let data: Vec<f64> =
        successes.iter().flat_map(|own| (0..4_u8).map(move |trial| f64::from(u8::from(trial < *own)))).collect();
    let omegas: Vec<f64> = [1.0, 0.7, 1.5, 2.0_f64].iter().map(|sd| sd.ln()).collect();
    let row = |omega: f64| successes.iter().map(|own| logistic_row(f64::from(*own), omega.exp())).sum::<f64>();
    let expected: Vec<f64> = omegas.iter().map(|omega| row(*omega)).collect();
    let model = Several { outcome: Outcome::Binary, latents };
    let at = |draws: usize| errors(&by_draws(&model, &data, 10, draws, &omegas), &expected);
    let ([few, apart], [many, difference]) = (at(256), at(4_096));
    // Most of the error of few draws is the same for all globals.
    assert!(few < 0.6 && apart < 0.3 && apart < few, "{few} {apart}");
    assert!(many < 0.05 && difference < 0.02, "{many} {difference}");
}
