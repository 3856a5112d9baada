//! Gives the binomial distribution by its total and its log odds.

use super::power::{Counts, log_power_sum};
use super::tail::{Tail, tails};
use super::{Batch, Density, Gradient, Term, binomial_batch, distribution};
use crate::math::special::{
    Chance, LogChance, binomial_kernel, digamma_difference, log_incomplete_beta, sigmoid, softplus,
};
use crate::noise::NoiseStream;

distribution! {
    /// The binomial distribution: the number of successes in a number of trials.
    ///
    /// $$ \log p(k) = \log\binom{n}{k} + k\thinspace l - n\log(1 + e^l),\qquad k = 0, \dots, n $$
    /// with $n$ = `total` and $l$ = `logits`, the log odds of a success.
    ///
    /// # Shapes
    /// `total` and `logits` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Accurate for totals of any size: the coefficient is never computed by itself (Loader's saddle point). The
    /// derivative by `total` is that of the formula with gamma functions for factorials. The derivative by `logits` is
    /// a difference of two numbers of the size of the variance: close to the mode its error is about 1e-16 times the
    /// variance.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Binomial};
    /// let log_prob = Binomial::logits(4.0, 0.0).log_prob_of(&Array::scalar(2.0))?;
    /// assert!((log_prob - (6.0_f64 / 16.0).ln()).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Loader (2000), *Fast and accurate computation of binomial probabilities*.
    pub struct Binomial: Discrete where |[total, ..]| Support::CountUpTo(total[0]);

    /// The number of successes in `total` trials whose log odds are `logits`.
    pub fn logits(total: N in Count, logits: L in Real);
}

impl Density for Binomial {
    fn log_prob(&self, value: &[f64], [total, logits, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (successes, failures, logits) = (value[0], total[0] - value[0], logits[0]);
        let log = LogChance { success: -softplus(-logits), failure: -softplus(logits) };
        if gradient.is_wanted() {
            let by_total = digamma_difference(failures + 1.0, successes) + log.failure;
            let by_logits = successes * sigmoid(-logits) - failures * sigmoid(logits);
            gradient.add([0.0, by_total, by_logits, 0.0]);
        }
        binomial_kernel(successes, failures, log)
    }

    fn on_device(&self, value: Term, [total, logits, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            value.clone() * logits.clone().log_sigmoid(),
            (total.clone() - value.clone()) * (-logits).log_sigmoid(),
            (total.clone() + 1.0).ln_gamma(),
            -(value.clone() + 1.0).ln_gamma(),
            -(total - value + 1.0).ln_gamma(),
        ])
    }

    fn log_power_integral(&self, power: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let [total, logits, _] = parameters;
        let mode = ((total[0] + 1.0) * sigmoid(logits[0])).floor().min(total[0]);
        let counts = Counts { density: self, parameters, mode, last: total[0], ratio: 0.0 };
        log_power_sum(&counts, power, gradient)
    }

    fn draw(&self, [total, logits, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = noise.binomial(total[0], sigmoid(logits[0]));
    }

    fn mean(&self, [total, logits, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![total[0] * sigmoid(logits[0])])
    }

    fn variance(&self, [total, logits, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![total[0] * sigmoid(logits[0]) * sigmoid(-logits[0])])
    }

    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        binomial_batch::binomial(batch)
    }

    tails!();
}

impl Binomial {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let [total, logits, _] = parameters;
        let count = value.floor();
        if count < 0.0 {
            return tail.below();
        }
        if count >= total[0] {
            return tail.above();
        }
        let at = Chance { success: sigmoid(-logits[0]), failure: sigmoid(logits[0]) };
        let (log, [by_total, _]) = tail.shapes(&log_incomplete_beta(total[0] - count, count + 1.0, at));
        // dF/dl = -(n - k) σ(l) p(k).
        let log_slope = Self.log_prob(&[count], parameters, &mut Gradient::default()) + (total[0] - count).ln()
            - softplus(-logits[0]);
        gradient.add([0.0, by_total, -tail.rate(log_slope, log), 0.0]);
        log
    }
}
