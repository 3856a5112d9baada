//! Holds integrals over wards of a silo with an effect of its own to a closed form and to products of many points.

use partita_core::burn::module::Module;
use partita_core::burn::tensor::Tensor;
use partita_core::special::{HALF_LOG_TWO_PI, ln_gamma, log_sum_exp};
use partita_core::{AnyData, AnyModel, Chance, Device, Groups, Model, Normal, Poisson, Result, Scope, SiteTable};

use super::super::{Integrand, RowIntegral, Until};
use super::Outcome;

/// Wards with an effect each around that of their silo, all of the deviation that is the exponential of the global.
#[derive(Module, Debug)]
struct Wards {
    /// Real numbers of unit variance, or counts with more zeros.
    #[module(skip)]
    outcome: Outcome,
}

/// The probability of a further zero.
const ZERO: f64 = 0.3;

impl Model for Wards {
    type Globals = Tensor<1>;
    type Data = (Groups, Tensor<1>);

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("omega", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, omega: &Tensor<1>, (wards, y): &Self::Data) -> Result<()> {
        let silo = scope.sample("silo", Normal::new(0.0, omega.clone().exp()))?;
        scope.plate("ward", wards.groups(), |scope, rows| {
            let ward = scope.sample("ward", Normal::new(rows.expand(&silo)?, omega.clone().exp()))?;
            scope.plate("row", wards, |scope, rows| {
                let (level, y) = (rows.expand(&ward)?, rows.take(y)?);
                match self.outcome {
                    Outcome::Real => scope.observe("y", Normal::new(level, 1.0), y),
                    _ => scope.observe("y", Poisson::log_rate(level).zero_inflated(Chance::probability(ZERO)), y),
                }
            })
        })
    }
}

/// What rules over wards give at a deviation, with the points of silo and wards, and the rows evaluated at all of them.
struct OfWards {
    value: f64,
    gradient: f64,
    points: Vec<usize>,
    evaluated: usize,
}

/// Points are raised to a tolerance, with so many combinations of nodes at most.
fn until(tolerance: f64, nodes: usize) -> Until {
    Until { tolerance, most: usize::MAX, nodes, noise: f64::INFINITY }
}

fn of_wards(outcome: Outcome, wards: &[Vec<f64>], sd: f64, until: Until) -> OfWards {
    let (device, model) = (Device::flex(), Wards { outcome });
    let y: Vec<f64> = wards.concat();
    let count = y.len();
    let sizes: Vec<usize> = wards.iter().map(Vec::len).collect();
    let data = (Groups::of_sizes(&sizes).unwrap(), device.tensor(y, [count]));
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let (any, data) = (AnyModel::new(&model), AnyData::new(&data));
    let integrand = Integrand { model: &any, data: &data, device: &device, table: &table };
    let mut integral = RowIntegral::new(&table).unwrap();
    let mut centres = integral.start();
    integral.raise(&integrand, &[sd.ln()], &mut centres, until).unwrap();
    let found = integral.gradient(&integrand, &[sd.ln()], &mut centres).unwrap();
    let value = integral.value(&integrand, &[sd.ln()], &mut centres).unwrap();
    assert!((value - found.value).abs() < 0.1 * until.tolerance.max(1e-5), "{value} {}", found.value);
    let evaluated = integral.parts.iter().map(|part| part.layout.rows_evaluated()).sum();
    OfWards { value, gradient: found.globals[0], points: integral.points(), evaluated }
}

/// Wards of one to four rows.
fn wards_of(count: usize, number: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
    let mut place = 0;
    let mut next = || {
        place += 1;
        number(place)
    };
    (0..count).map(|ward| (0..=ward % 4).map(|_| next()).collect()).collect()
}

/// The derivative by the logarithm of a deviation.
fn slope(of: impl Fn(f64) -> f64, sd: f64) -> f64 {
    let step = 1e-4_f64;
    (of(sd * step.exp()) - of(sd / step.exp())) / (2.0 * step)
}

#[test]
fn normal_wards_in_a_silo_with_an_effect_are_exact_by_seven_points_each() {
    let wards = wards_of(12, |place| 3.0 * (1.7 * f64::from(u32::try_from(place).unwrap())).sin() + 5.0);
    // Each ward adds the determinant and the inverse of 1 + s² 11', and the silo those of its own s² 11' around them.
    let exact = |sd: f64| {
        let (square, mut log, mut pull, mut size) = (sd * sd, 0.0, 0.0, 0.0);
        for own in &wards {
            let (count, sum) = (own.iter().map(|_| 1.0).sum::<f64>(), own.iter().sum::<f64>());
            let wide = 1.0 + count * square;
            let squares: f64 = own.iter().map(|y| y * y).sum();
            log -= 0.5 * (squares - square * sum * sum / wide) + 0.5 * wide.ln() + count * HALF_LOG_TWO_PI;
            (pull, size) = (pull + sum / wide, size + count / wide);
        }
        let wide = 1.0 + square * size;
        log + 0.5 * square * pull * pull / wide - 0.5 * wide.ln()
    };
    for sd in [0.2, 1.0, 4.0] {
        let found = of_wards(Outcome::Real, &wards, sd, until(1e-3, usize::MAX));
        let (value, gradient) = (exact(sd), slope(exact, sd));
        assert!((found.value - value).abs() < 1e-6 * value.abs(), "{sd}: {} {value}", found.value);
        assert!(
            (found.gradient - gradient).abs() < 1e-4 * gradient.abs().max(1.0),
            "{sd}: {} {gradient}",
            found.gradient
        );
        // One reading of each of the silo's nodes has every row at its seven.
        let rows: usize = wards.iter().map(|own| own.len() + 1).sum();
        assert_eq!((found.points, found.evaluated), (vec![7, 7], 7 * (1 + 7 * rows)), "{sd}");
    }
}

/// The log marginal likelihood of counts in wards of a silo by products of 101 points to eight deviations either way.
fn counts_by_products(wards: &[Vec<f64>], sd: f64) -> f64 {
    let gap = 0.16;
    let points: Vec<f64> = (-50..=50).map(|k| f64::from(k) * gap).collect();
    let log_normal = |t: f64| -0.5 * t * t - HALF_LOG_TWO_PI + f64::ln(gap);
    let row = |y: f64, level: f64| match y > 0.0 {
        true => (1.0 - ZERO).ln() + y * level - level.exp() - ln_gamma(y + 1.0),
        false => (ZERO + (1.0 - ZERO) * (-level.exp()).exp()).ln(),
    };
    let ward = |own: &Vec<f64>, silo: f64| {
        let at = |t: &f64| log_normal(*t) + own.iter().map(|y| row(*y, silo + sd * t)).sum::<f64>();
        log_sum_exp(&points.iter().map(at).collect::<Vec<_>>())
    };
    let silo = |t: &f64| log_normal(*t) + wards.iter().map(|own| ward(own, sd * t)).sum::<f64>();
    log_sum_exp(&points.iter().map(silo).collect::<Vec<_>>())
}

#[test]
fn counts_with_more_zeros_in_wards_of_a_silo_are_settled_by_few_pairs_of_points() {
    let wards = wards_of(12, |place| [0.0, 2.0, 0.0, 1.0, 5.0, 0.0, 3.0][place % 7]);
    let rows: usize = wards.iter().map(|own| own.len() + 1).sum();
    let usual = 15 * (1 + 15 * rows);
    for sd in [0.3, 0.6, 1.0] {
        let expected = counts_by_products(&wards, sd);
        let found = of_wards(Outcome::Count, &wards, sd, until(1e-3, usize::MAX));
        assert!((found.value - expected).abs() < 1e-3, "{sd}: {} {expected} by {:?}", found.value, found.points);
        assert!(2 * found.evaluated < usual, "{sd}: {:?}", found.points);
        // Points go on as those of one level do, where that is asked for.
        let finer = of_wards(Outcome::Count, &wards, sd, until(1e-9, usize::MAX));
        assert!((finer.value - expected).abs() < 1e-6, "{sd}: {} {expected} by {:?}", finer.value, finer.points);
        let gradient = slope(|sd| counts_by_products(&wards, sd), sd);
        assert!((finer.gradient - gradient).abs() < 1e-4, "{sd}: {} {gradient}", finer.gradient);
    }
}

#[test]
fn wide_wards_in_a_silo_have_their_points_raised() {
    // Wards of zeros alone have a long shoulder.
    let wards = wards_of(12, |place| if place % 5 == 0 { 4.0 } else { 0.0 });
    let expected = counts_by_products(&wards, 3.0);
    let found = of_wards(Outcome::Count, &wards, 3.0, until(1e-3, usize::MAX));
    assert!(found.points.iter().any(|points| *points > 7), "{:?}", found.points);
    assert!((found.value - expected).abs() < 0.01, "{} {expected} by {:?}", found.value, found.points);
    // With few combinations each level has its usual points in any case, and no more.
    let few = of_wards(Outcome::Count, &wards, 3.0, until(1e-12, 100));
    assert_eq!(few.points, [15, 15]);
}
