//! Integrates the mean and the variance of a truncated distribution over its quantiles, or sums them over its counts.

use std::f64::consts::PI;

use super::truncated::Truncated;
use crate::distribution::formula::Formula;
use crate::math::special::sigmoid;

/// The most terms of a sum over counts.
const MOST: usize = 1 << 20;
/// The step of the double exponential rule, and its number of steps on either side.
const STEP: f64 = 1.0 / 16.0;
const SIDE: i32 = 72;

impl Truncated {
    /// The mean and the variance; `None` where they may not exist or take too many terms.
    pub(super) fn mean_and_variance(&self, parameters: &[&[f64]]) -> Option<(f64, f64)> {
        let (low, high) = self.support(parameters).ends()?;
        let bounded = low.is_finite() && high.is_finite();
        if !bounded && self.base.mean_and_variance(parameters).is_none() {
            return None;
        }
        if self.support(parameters).is_discrete() {
            self.sums(parameters, low, high)
        } else {
            self.integrals(parameters)
        }
    }

    /// $\int_0^1 Q(u)\thinspace du$ with $u = \sigma(\pi\sinh t)$ (Takahasi and Mori, 1974): ends may be infinite.
    fn integrals(&self, parameters: &[&[f64]]) -> Option<(f64, f64)> {
        let mass = self.mass(parameters);
        let nodes: Vec<(f64, f64)> = (-SIDE..=SIDE)
            .map(|step| {
                let t = f64::from(step) * STEP;
                let (lower, upper) = (sigmoid(PI * t.sinh()), sigmoid(-PI * t.sinh()));
                (STEP * PI * t.cosh() * lower * upper, self.quantile(parameters, &mass, lower, upper))
            })
            .collect();
        let total: f64 = nodes.iter().map(|(weight, _)| weight).sum();
        let mean = nodes.iter().map(|(weight, x)| weight * x).sum::<f64>() / total;
        let variance = nodes.iter().map(|(weight, x)| weight * (x - mean).powi(2)).sum::<f64>() / total;
        (mean.is_finite() && variance.is_finite()).then_some((mean, variance))
    }

    fn sums(&self, parameters: &[&[f64]], low: f64, high: f64) -> Option<(f64, f64)> {
        let log_mass = self.mass(parameters).log;
        let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
        let mut count = low;
        for _ in 0..MOST {
            let chance = (self.base.log_prob_at(count, parameters) - log_mass).exp();
            let from_low = count - low;
            total += chance;
            first += chance * from_low;
            second += chance * from_low * from_low;
            count += 1.0;
            // Past the bulk every term is below the last digit of the sums.
            let is_last = total > 0.5 && chance * (1.0 + from_low * from_low) < f64::EPSILON * 1e-3 * (1.0 + second);
            if count > high || is_last {
                let mean = first / total;
                return Some((low + mean, second / total - mean * mean));
            }
        }
        None
    }
}
