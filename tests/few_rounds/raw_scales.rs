//! Fits regressions on raw scales with default options: the answer does not depend on the units of columns.

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Key, Noise, NoiseStream, Purpose};
use partita::inference::Ending;
use partita::models::{LinearRegression, MeasuredRows};
use partita::{Bernoulli, Device, HalfNormal, Model, Normal, Poisson, Result, Scope};

use super::{fitted, moments};

/// What a row's outcome is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// Normal with this standard deviation.
    Known(f64),
    /// Normal with a standard deviation to be found, half-normal with this scale.
    Unknown(f64),
    Binary,
    Count,
}

/// A line with a prior so wide that it hardly counts: $`\alpha \sim N(0, s_\alpha^2)`$, $`\beta \sim N(0, s_\beta^2)`$.
#[derive(Module, Debug)]
struct Line {
    #[module(skip)]
    priors: [f64; 2],
    #[module(skip)]
    outcome: Outcome,
}

type Rows = (Tensor<1>, Tensor<1>);

impl Model for Line {
    type Globals = (Tensor<1>, Tensor<1>, Option<Tensor<1>>);
    type Data = Rows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let alpha = scope.sample("alpha", Normal::new(0.0, self.priors[0]))?;
        let beta = scope.sample("beta", Normal::new(0.0, self.priors[1]))?;
        let sigma = match self.outcome {
            Outcome::Unknown(scale) => Some(scope.sample("sigma", HalfNormal::new(scale))?),
            _ => None,
        };
        Ok((alpha, beta, sigma))
    }

    fn local(&self, scope: &mut Scope<'_>, (alpha, beta, sigma): &Self::Globals, (x, y): &Rows) -> Result<()> {
        scope.plate("row", y.dims()[0], |scope, rows| {
            let line = alpha.clone() + beta.clone() * rows.take(x)?;
            let y = rows.take(y)?;
            match (self.outcome, sigma) {
                (Outcome::Known(sd), _) => scope.observe("y", Normal::new(line, sd), y),
                (_, Some(sigma)) => scope.observe("y", Normal::new(line, sigma.clone()), y),
                (Outcome::Count, _) => scope.observe("y", Poisson::log_rate(line), y),
                _ => scope.observe("y", Bernoulli::logits(line), y),
            }
        })
    }
}

/// Standard normal numbers with a literal seed.
fn numbers(block: u32, count: usize) -> Vec<f64> {
    fixtures::standard_normals(&mut Noise::new(11).stream(Key::new(Purpose::Check, 0).block(block)), count)
}

fn silos(x: &[f64], y: &[f64]) -> Vec<(String, Rows)> {
    let device = Device::flex();
    let part = |range: std::ops::Range<usize>| {
        let len = range.len();
        (device.tensor(x[range.clone()].to_vec(), [len]), device.tensor(y[range].to_vec(), [len]))
    };
    let half = x.len() / 3;
    vec![("north".into(), part(0..half)), ("south".into(), part(half..x.len()))]
}

/// Mean and covariance of a line of known noise, by the normal equations.
fn exact(x: &[f64], y: &[f64], priors: [f64; 2], sd: f64) -> ([f64; 2], [f64; 2]) {
    let weight = sd.powi(-2);
    let sum = |of: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| of(*x, *y)).sum::<f64>();
    let (count, mean_x) = (sum(&|_, _| 1.0), sum(&|x, _| x) / sum(&|_, _| 1.0));
    // In the coordinates (alpha + beta x̄, beta) the covariates do not cancel; priors are wide enough to add last.
    let spread = sum(&|x, _| (x - mean_x).powi(2)) * weight + priors[1].powi(-2);
    let slope = sum(&|x, y| (x - mean_x) * y) * weight / spread;
    let level = sum(&|_, y| y) / count;
    let slope_sd = spread.powf(-0.5);
    let alpha_sd = (1.0 / (count * weight) + (mean_x * slope_sd).powi(2)).sqrt();
    ([level - slope * mean_x, slope], [alpha_sd, slope_sd])
}

#[test]
fn lines_on_raw_scales_are_right_by_default() {
    let (z, noise) = (numbers(0, 90), numbers(1, 90));
    // Columns and outcomes: years, incomes, a column of 10⁻⁶, one of 10⁶, an outcome near 10⁶.
    let cases = [
        ("calendar years", 2005.0, 9.0, 3.0, 0.2, 1.0),
        ("incomes", 41_000.0, 12_000.0, 5.0, 2e-4, 2.0),
        ("a tiny column", 1e-6, 3e-6, 0.5, 4e5, 1.0),
        ("a huge column", 1e6, 3e5, 1.0, 1e-5, 1.0),
        ("an outcome near a million", 0.3, 1.0, 1e6, 40.0, 25.0),
    ];
    for (name, centre, scale, alpha, beta, sd) in cases {
        let x: Vec<f64> = z.iter().map(|z| centre + scale * z).collect();
        let y: Vec<f64> = x.iter().zip(&noise).map(|(x, e)| alpha + beta * (x - centre) + sd * e).collect();
        // So wide that the exact answer above, which adds them last, is that of the model.
        let priors = [1e4 * sd * (1.0 + centre / scale) + 1e4 * alpha, 1e6 * sd / scale];
        let (means, sds) = exact(&x, &y, priors, sd);
        let fit = fitted(&Line { priors, outcome: Outcome::Known(sd) }, &silos(&x, &y));
        let (found, found_sds) = moments(&fit);
        for k in 0..2 {
            assert!((found[k] - means[k]).abs() < 1e-3 * sds[k], "{name}: {found:?} {means:?} {sds:?}");
            assert!((found_sds[k] / sds[k] - 1.0).abs() < 1e-3, "{name}: {found_sds:?} {sds:?}");
        }
        // The standard deviation unknown: the line stays where it is.
        let fit = fitted(&Line { priors, outcome: Outcome::Unknown(100.0 * sd) }, &silos(&x, &y));
        let (found, found_sds) = moments(&fit);
        let estimate = found[2].exp();
        assert!(fit.record.counters.rounds <= 6, "{name}: {} rounds", fit.record.counters.rounds);
        for k in 0..2 {
            assert!((found[k] - means[k]).abs() < 0.02 * sds[k], "{name}, sigma unknown: {found:?} {means:?} {sds:?}");
            // The posterior of a slope scales with sigma, whose own spread adds one part in ninety.
            assert!((found_sds[k] / (sds[k] * estimate / sd) - 1.0).abs() < 0.02, "{name}: {found_sds:?} {sds:?}");
        }
    }
}

#[test]
fn a_logistic_line_has_one_answer_in_any_units() {
    let (z, noise) = (numbers(2, 200), numbers(3, 200));
    let y: Vec<f64> = z.iter().zip(&noise).map(|(z, e)| f64::from(u8::from(0.4 + 0.9 * z + 1.6 * e > 0.0))).collect();
    let reference = fitted(&Line { priors: [100.0, 100.0], outcome: Outcome::Binary }, &silos(&z, &y));
    let (means, sds) = moments(&reference);
    for (centre, scale) in [(2005.0, 9.0), (0.0, 1e-6), (1e6, 3e5)] {
        let x: Vec<f64> = z.iter().map(|z| centre + scale * z).collect();
        let wide = 100.0 * (1.0 + centre / scale);
        let fit = fitted(&Line { priors: [wide, 100.0 / scale], outcome: Outcome::Binary }, &silos(&x, &y));
        let (found, found_sds) = moments(&fit);
        assert!((found[1] * scale - means[1]).abs() < 0.02 * sds[1], "{centre} {scale}: {found:?} {means:?}");
        assert!((found_sds[1] * scale / sds[1] - 1.0).abs() < 0.02, "{centre} {scale}: {found_sds:?} {sds:?}");
    }
}

#[test]
fn counts_are_right_whatever_the_unit_of_their_column() {
    let (place, noise) = (numbers(7, 120), numbers(8, 120));
    let y: Vec<f64> = place.iter().zip(&noise).map(|(x, e)| (0.5 + 0.4 * x + 0.3 * e).exp().round()).collect();
    let mut before: Option<[f64; 2]> = None;
    // A usual start draws slopes of which the mean of a count overflows, or the log density has no digit.
    for unit in [1.0, 1e4, 1e6] {
        let x: Vec<f64> = place.iter().map(|x| x * unit).collect();
        let model = Line { priors: [10.0, 10.0], outcome: Outcome::Count };
        let (means, sds) = moments(&fitted(&model, &silos(&x, &y)));
        let own = [means[1] * unit, sds[1] * unit];
        if let Some(before) = before {
            assert!((own[0] - before[0]).abs() < 0.05 * before[1], "{unit}: {own:?} and {before:?}");
            assert!((own[1] / before[1] - 1.0).abs() < 0.05, "{unit}: {own:?} and {before:?}");
        }
        before = before.or(Some(own));
    }
}

/// Holds a regression with several columns of known noise, over two silos, to its exact posterior. `row` draws
/// covariates and the mean of an outcome; `sds` are those of noise and prior.
fn is_exact(name: &str, [sd, prior]: [f64; 2], row: impl Fn(&mut NoiseStream) -> (Vec<f64>, f64)) {
    const ROWS: usize = 120;
    let mut stream = Noise::new(11).stream(Key::new(Purpose::Check, 1));
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let (covariates, mean) = row(&mut stream);
        x.extend(covariates);
        y.push(mean + sd * stream.standard_normal());
    }
    let (columns, device) = (x.len() / ROWS, Device::flex());
    let part = |range: std::ops::Range<usize>| {
        let own = &x[columns * range.start..columns * range.end];
        MeasuredRows::new(own, columns, &y[range], &device).unwrap()
    };
    let model = LinearRegression::new(columns, sd).prior_sd(prior);
    let exact = model.posterior(&[part(0..ROWS)]).unwrap().coefficients;
    let fit = fitted(&model, &[("north".into(), part(0..50)), ("south".into(), part(50..ROWS))]);
    assert_eq!(fit.record.ending, Ending::Converged, "{name}");
    let (means, sds) = moments(&fit);
    let exactly = exact.mean().iter().zip(exact.variances());
    for (place, ((mean, sd), (exact, variance))) in means.iter().zip(&sds).zip(exactly).enumerate() {
        let exact_sd = variance.sqrt();
        assert!((mean - exact).abs() < 1e-3 * exact_sd, "{name}, {place}: mean {mean}, exact {exact} (sd {exact_sd})");
        assert!((sd / exact_sd - 1.0).abs() < 1e-3, "{name}, {place}: sd {sd}, exact {exact_sd}");
    }
}

#[test]
fn columns_of_a_millionth_and_a_million_stand_side_by_side() {
    is_exact("a millionth and a million", [1.0, 1e8], |stream| {
        let (one, other) = (1e-6 * stream.standard_normal(), 1e6 * stream.standard_normal());
        (vec![one, other], 2e6 * one - 3e-6 * other)
    });
}

#[test]
fn correlated_columns_are_told_apart_as_far_as_their_rows_do() {
    // Any two of the 25 columns have correlation .91.
    is_exact("25 correlated columns", [1.0, 10.0], |stream| {
        let common = stream.standard_normal();
        let x: Vec<f64> = (0..25).map(|_| 0.95 * common + 0.3 * stream.standard_normal()).collect();
        let mean = x.iter().zip(0..).map(|(x, column)| 0.1 * f64::from(column - 12) * x).sum();
        (x, mean)
    });
}
