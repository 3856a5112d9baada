//! Smooths importance weights by a generalised Pareto distribution fitted to the largest, whose shape says whether to trust them.

use partita_core::special::log_sum_exp;

/// Importance weights, smoothed and normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct SmoothedWeights {
    /// Their logarithms, whose exponentials have the sum one.
    pub log_weights: Vec<f64>,
    /// The shape $`\hat k`$ of the tail; infinite where the tail has too few draws to fit one.
    pub pareto_k: f64,
    /// What was taken off every smoothed log ratio to normalise it: the logarithm of their sum.
    pub log_sum: f64,
}

/// The share of draws in the tail, and the most of them in roots of their number.
const TAIL_SHARE: f64 = 0.2;
const TAIL_ROOTS: f64 = 3.0;
/// The fewest draws of a tail to which a distribution is fitted.
const LEAST_TAIL: usize = 5;
/// The prior of the fit: how far its scales reach, and how many draws of shape one half it counts as.
const PRIOR_SCALE: f64 = 3.0;
const PRIOR_DRAWS: f64 = 10.0;
/// The standard deviations above its mean beyond which a normal number lies with a probability of one in twenty.
const ONE_IN_TWENTY: f64 = 1.645;

impl SmoothedWeights {
    /// Smooths the weights whose logarithms, up to a constant, are `log_ratios`.
    ///
    /// The largest $`\min(S/5, 3\sqrt S)`$ of the $`S`$ weights are replaced by quantiles of a generalised Pareto
    /// distribution of shape $`\hat k`$ fitted to them, and none is larger than the largest was. Weights have a finite
    /// variance where the shape is below one half. Up to [`SmoothedWeights::threshold`] their averages are to be trusted.
    /// A ratio of minus infinity is a weight of zero.
    ///
    /// # Example
    /// ```
    /// use partita_inference::metrics::SmoothedWeights;
    /// // Ratios of a normal density to a wider one are bounded: the tail of the weights is short.
    /// let log_ratios: Vec<f64> = (0..1000).map(|draw| -0.5 * (0.004 * f64::from(draw) - 2.0).powi(2)).collect();
    /// let weights = SmoothedWeights::of(&log_ratios);
    /// assert!(weights.pareto_k < 0.0 && weights.effective_sample_size() > 700.0);
    /// ```
    ///
    /// # References
    /// Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72); Zhang and Stephens
    /// (2009), A new and efficient estimation method for the generalized Pareto distribution, Technometrics 51.
    #[must_use]
    pub fn of(log_ratios: &[f64]) -> Self {
        let count = log_ratios.len();
        let largest = log_ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !largest.is_finite() {
            return Self { log_weights: vec![f64::NAN; count], pareto_k: f64::INFINITY, log_sum: largest };
        }
        let mut log_weights: Vec<f64> = log_ratios.iter().map(|ratio| ratio - largest).collect();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| log_weights[*a].total_cmp(&log_weights[*b]));
        let tail = tail_of(count);
        let pareto_k = match count.checked_sub(tail + 1) {
            None => f64::INFINITY,
            Some(last) => {
                let cutoff = log_weights[order[last]].max(f64::MIN_POSITIVE.ln());
                let first = order.partition_point(|index| log_weights[*index] <= cutoff);
                smooth(&mut log_weights, &order[first..], cutoff)
            }
        };
        let sum = log_sum_exp(&log_weights);
        log_weights.iter_mut().for_each(|weight| *weight -= sum);
        Self { log_weights, pareto_k, log_sum: largest + sum }
    }

    /// The weights, whose sum is one.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        self.log_weights.iter().map(|weight| weight.exp()).collect()
    }

    /// The number of equal weights that are worth as much: $`1/\sum_s w_s^2`$.
    #[must_use]
    pub fn effective_sample_size(&self) -> f64 {
        1.0 / self.log_weights.iter().map(|weight| (2.0 * weight).exp()).sum::<f64>()
    }

    /// The shape up to which averages are to be trusted: $`\min(1 - 1/\log_{10} S,\ 0.7)`$.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        threshold(self.log_weights.len())
    }
}

/// The shape up to which averages of so many draws are to be trusted.
pub(crate) fn threshold(draws: usize) -> f64 {
    (1.0 - 1.0 / (draws as f64).log10()).min(0.7)
}

/// The number of draws in the tail of so many.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the number of draws")]
fn tail_of(draws: usize) -> usize {
    let size = draws as f64;
    (size * TAIL_SHARE).min(TAIL_ROOTS * size.sqrt()).ceil() as usize
}

/// The shape that is exceeded with a probability of one in twenty, where so many draws give the shape `found`.
///
/// The estimate of a shape $`k`$ from the $`M`$ draws of a tail is normal in the limit, with the standard deviation
/// $`(1 + k)/\sqrt M`$ (Smith, 1987, Annals of Statistics 15): of 2,048 draws, $`M = 136`$, that of one half is 0.13.
pub(crate) fn shape_beyond(found: f64, draws: usize) -> f64 {
    found + ONE_IN_TWENTY * (1.0 + found.max(0.0)) / (tail_of(draws).max(1) as f64).sqrt()
}

/// Replaces the weights of a tail, given in ascending order, by quantiles of what was fitted to them; its shape.
fn smooth(log_weights: &mut [f64], tail: &[usize], cutoff: f64) -> f64 {
    if tail.len() < LEAST_TAIL {
        return f64::INFINITY;
    }
    let above: Vec<f64> = tail.iter().map(|index| log_weights[*index].exp() - cutoff.exp()).collect();
    let Pareto { shape, scale } = Pareto::fit(&above);
    if shape.is_finite() {
        for (rank, index) in tail.iter().enumerate() {
            let quantile = Pareto { shape, scale }.quantile((rank as f64 + 0.5) / tail.len() as f64);
            log_weights[*index] = (quantile + cutoff.exp()).ln().min(0.0);
        }
    }
    shape
}

/// A generalised Pareto distribution of excesses.
#[derive(Debug, Clone, Copy)]
struct Pareto {
    shape: f64,
    scale: f64,
}

impl Pareto {
    /// Fitted to positive numbers in ascending order: an average over scales by their profile likelihood.
    fn fit(sorted: &[f64]) -> Self {
        let count = sorted.len();
        let size = count as f64;
        let (quartile, last) = (sorted[(count + 2) / 4 - 1], sorted[count - 1]);
        let grid = 30 + count.isqrt();
        let candidates = (1..=grid).map(|index| {
            let spread = 1.0 - (grid as f64 / (index as f64 - 0.5)).sqrt();
            spread / (PRIOR_SCALE * quartile) + 1.0 / last
        });
        let shape_at = |b: f64| sorted.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / size;
        let (inverse_scales, log_likelihoods): (Vec<f64>, Vec<f64>) = candidates
            .map(|b| {
                let shape = shape_at(b);
                (b, size * ((-b / shape).ln() - shape - 1.0))
            })
            .unzip();
        let total = log_sum_exp(&log_likelihoods);
        let weights = log_likelihoods.iter().map(|own| (own - total).exp());
        let (mut kept, mut mean) = (0.0, 0.0);
        for (weight, b) in weights.zip(&inverse_scales).filter(|(weight, _)| *weight >= 10.0 * f64::EPSILON) {
            kept += weight;
            mean += weight * b;
        }
        let b = mean / kept;
        let shape = shape_at(b);
        let scale = -shape / b;
        Self { shape: (size * shape + 0.5 * PRIOR_DRAWS) / (size + PRIOR_DRAWS), scale }
    }

    fn quantile(self, probability: f64) -> f64 {
        let exponential = -(-probability).ln_1p();
        let unit = if self.shape.abs() < f64::EPSILON {
            exponential
        } else {
            (self.shape * exponential).exp_m1() / self.shape
        };
        self.scale * unit
    }
}

#[cfg(test)]
mod tests {
    use partita_core::{Key, Noise, Purpose};

    use super::*;

    #[test]
    fn a_shape_is_above_the_bound_of_its_estimate_once_in_twenty() {
        // Of 2,048 draws 136 are in the tail: 1.645 · 1.5 / √136 = 0.2116.
        assert!((shape_beyond(0.5, 2_048) - 0.7116).abs() < 1e-4);
        // Weights (1 - u)^-k are those of a Pareto distribution of shape k, here the threshold.
        let shape_of = |seed: u32| {
            let mut noise = Noise::new(7).stream(Key::new(Purpose::Fit, 0).particle(seed));
            let log_ratios: Vec<f64> = (0..2_048).map(|_| -0.7 * noise.uniform().ln()).collect();
            SmoothedWeights::of(&log_ratios).pareto_k
        };
        // Fewer than 20 of 400 are expected; 36 are 3.7 standard deviations √(400 · 0.05 · 0.95) more.
        let missed = (0..400).filter(|seed| shape_beyond(shape_of(*seed), 2_048) < 0.7).count();
        assert!((1..=36).contains(&missed), "{missed}");
    }
}
