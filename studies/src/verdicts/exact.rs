//! Computes moments of the two larger posteriors whose tails chains follow badly, by sums over grids of log deviations.

use partita::burn::tensor::Tensor;

use super::judged::Moments;
use super::larger::{Case, Rows};

/// Intervals of a grid from e⁻¹² to e¹².
const INTERVALS: u32 = 1_200;

/// The moments of `beta` and of one or two deviations, where outcomes are normal around `beta` given the deviations;
/// nothing for other cases.
pub(super) fn moments(case: Case, rows: &Rows) -> Option<Vec<Moments>> {
    let (y, errors) = (numbers(&rows.outcomes), numbers(&rows.columns));
    let half_normal = |x: f64| -x * x / 8.0;
    let half_cauchy = |x: f64| -(x / 5.0).mul_add(x / 5.0, 1.0).ln();
    let deviation = |at: u32| (-12.0 + 24.0 * f64::from(at) / f64::from(INTERVALS)).exp();
    // The logarithm of a deviation has its density times the deviation.
    let (log_prior, others): (&dyn Fn(f64) -> f64, Vec<f64>) = match case {
        Case::CentredSchools => (&half_cauchy, Vec::new()),
        Case::Confounded => (&half_normal, (0..=INTERVALS).map(deviation).collect()),
        _ => return None,
    };
    let mut sums = Sums::default();
    for s in (0..=INTERVALS).map(deviation) {
        let prior = s.ln() + log_prior(s);
        if others.is_empty() {
            let variances: Vec<f64> = errors.iter().map(|error| s * s + error * error).collect();
            sums.add(prior, &y, &variances, &[s]);
        }
        for r in &others {
            sums.add(prior + r.ln() + log_prior(*r), &y, &vec![s * s + r * r; y.len()], &[s, *r]);
        }
    }
    Some(sums.moments())
}

fn numbers(tensor: &Tensor<2>) -> Vec<f64> {
    tensor.clone().into_data().iter::<f64>().collect()
}

/// Sums of weights, and of each number and its square under them.
#[derive(Debug, Default)]
struct Sums {
    total: f64,
    each: Vec<[f64; 2]>,
}

impl Sums {
    /// Adds a point of the grid: `beta`, a priori normal of deviation 10, is integrated out.
    fn add(&mut self, log_prior: f64, y: &[f64], variances: &[f64], deviations: &[f64]) {
        let precision = 0.01 + variances.iter().map(|own| 1.0 / own).sum::<f64>();
        let mean = y.iter().zip(variances).map(|(y, own)| y / own).sum::<f64>() / precision;
        let square: f64 = y.iter().zip(variances).map(|(y, own)| y * y / own + own.ln()).sum();
        // Sixty keeps the largest weight near 1.
        let weight = (log_prior - 0.5 * (square - precision * mean * mean + precision.ln()) + 60.0).exp();
        let beta = [mean, mean * mean + 1.0 / precision];
        self.total += weight;
        self.each.resize(deviations.len() + 1, [0.0; 2]);
        for (sum, [one, two]) in
            self.each.iter_mut().zip(std::iter::once(beta).chain(deviations.iter().map(|own| [*own, own * own])))
        {
            sum[0] += weight * one;
            sum[1] += weight * two;
        }
    }

    fn moments(&self) -> Vec<Moments> {
        let of = |[one, two]: &[f64; 2]| {
            let mean = one / self.total;
            Moments { mean, sd: (two / self.total - mean * mean).sqrt() }
        };
        self.each.iter().map(of).collect()
    }
}
