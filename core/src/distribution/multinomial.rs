//! Gives the multinomial distribution on vectors of counts by its logits.

use super::{Density, Gradient, Term, distribution};
use crate::math::special::{deviance, log_sum_exp_parts, stirling_error};
use crate::noise::NoiseStream;

use std::f64::consts::TAU;

distribution! {
    /// The multinomial distribution: how many of a number of trials fall into each category.
    ///
    /// $$ \log p(x) = \log\frac{n!}{\prod_i x_i!} + \sum_i x_i\log\pi_i,
    ///    \qquad \pi_i = \frac{e^{l_i}}{\sum_j e^{l_j}} $$
    /// with $l$ = `logits`, $x$ the vector of counts and $n = \sum_i x_i$.
    ///
    /// `trials` sets the number of trials of a draw, and mean and variance. The log density takes $n$ from the value
    /// itself, so that rows with different totals can be observed together. It is the probability of the counts given
    /// their total, and has no derivative by `trials`.
    ///
    /// # Shapes
    /// `trials` `[...]`, `logits` `[..., categories]`, value `[..., categories]`.
    ///
    /// # Numerics
    /// Accurate for counts of any size: the coefficient is never computed by itself (Loader's saddle point, as in
    /// [`Binomial`](super::Binomial)).
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, Multinomial};
    /// let parameters: [&[f64]; 3] = [&[3.0], &[0.0, 0.0, 0.0], &[]];
    /// let one_each = Multinomial.log_prob(&[1.0, 1.0, 1.0], parameters, &mut Gradient::default());
    /// assert!((one_each - (6.0_f64 / 27.0).ln()).abs() < 1e-14);
    /// ```
    pub struct Multinomial where |_| Support::CountVector, of number(trials in Count), vector(logits in Real);
}

impl Density for Multinomial {
    fn event_rank(&self) -> usize {
        1
    }

    fn log_prob(&self, value: &[f64], [_, logits, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let total: f64 = value.iter().sum();
        if total <= 0.0 {
            return 0.0;
        }
        let (largest, rest) = log_sum_exp_parts(logits);
        let log_total = total.ln();
        let mut sum = 0.5 * (TAU * total).ln() + stirling_error(total);
        for (index, (count, logit)) in value.iter().zip(logits).enumerate() {
            let log_probability = (logit - largest) - rest;
            let mean = total * log_probability.exp();
            // The terms mean - count of the deviances sum to zero over all categories, including those with count 0.
            sum -= if *count > 0.0 {
                0.5 * (TAU * count).ln() + stirling_error(*count) + deviance(*count, mean, log_total + log_probability)
            } else {
                mean
            };
            if let Some(slot) = gradient.parameters[1].get_mut(index) {
                // count - mean, written so that it keeps its digits where nearly all trials fall into this category.
                *slot += gradient.scale * ((count - total) - total * log_probability.exp_m1());
            }
        }
        sum
    }

    fn on_device(&self, value: Term, [_, logits, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            (value.clone().sum_columns() + 1.0).ln_gamma(),
            -(value.clone() + 1.0).ln_gamma(),
            value * logits.log_softmax(),
        ])
    }

    fn draw(&self, [trials, logits, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let (largest, _) = log_sum_exp_parts(logits);
        // From the last category to the first; until drawn, `out` holds the weight of a category and all before it.
        let mut weight = 0.0;
        for (slot, logit) in out.iter_mut().zip(logits) {
            weight += (logit - largest).exp();
            *slot = weight;
        }
        let mut left = trials[0];
        for index in (0..out.len()).rev() {
            let probability = (logits[index] - largest).exp() / out[index];
            out[index] =
                if index == 0 || left <= 0.0 { left } else { noise.binomial(left, probability.clamp(0.0, 1.0)) };
            left -= out[index];
        }
    }

    fn mean(&self, [trials, logits, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let (largest, rest) = log_sum_exp_parts(logits);
        Some(logits.iter().map(|logit| trials[0] * ((logit - largest) - rest).exp()).collect())
    }

    fn variance(&self, [trials, logits, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let (largest, rest) = log_sum_exp_parts(logits);
        let variance = |logit: &f64| {
            let log_probability = (logit - largest) - rest;
            -trials[0] * log_probability.exp() * log_probability.exp_m1()
        };
        Some(logits.iter().map(variance).collect())
    }
}
