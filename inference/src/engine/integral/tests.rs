//! Holds integrals over rows to closed forms and to fine sums, from outside the method that uses them.

use partita_core::burn::module::Module;
use partita_core::burn::tensor::Tensor;
use partita_core::special::{HALF_LOG_TWO_PI, ln_gamma, log_sum_exp};
use partita_core::{Bernoulli, Device, Model, Normal, Poisson, Result, Scope, SiteTable};

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
    let integrand = Integrand { model: &model, data: &y, device: &device, table: &table };
    let mut integral = RowIntegral::new(&table).unwrap();
    let mut centres = integral.start();
    let until = Until { tolerance, most: usize::MAX };
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
    let integrand = Integrand { model: &model, data: &y, device: &device, table: &table };
    let mut integral = RowIntegral::new(&table).unwrap();
    let mut centres = integral.start();
    let rough = integral.value(&integrand, &[10.0_f64.ln()], &mut centres).unwrap();
    assert!((rough - logistic_row(0.0, 10.0)).abs() > 1e-6, "{rough}");
    assert_eq!(integral.points(), [15]);
    assert!(integral.raise(&integrand, &[10.0_f64.ln()], &mut centres, Until { tolerance: 1e-10, most: 31 }).unwrap());
    assert_eq!(integral.points(), [31]);
}
