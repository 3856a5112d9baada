//! Gives the negative binomial distribution by its concentration and its log odds.

use super::gamma::log_gamma_draw;
use super::poisson::count_draw;
use super::power::{Counts, log_power_sum};
use super::tail::{Tail, tails};
use super::{Batch, Density, Gradient, Term, binomial_batch, distribution};
use crate::math::special::{
    Chance, LogChance, binomial_kernel, digamma_difference, log_incomplete_beta, sigmoid, softplus,
};
use crate::noise::NoiseStream;

distribution! {
    /// The negative binomial distribution: a Poisson count whose rate has a gamma distribution.
    ///
    /// $$ \log p(k) = \log\frac{\Gamma(k+r)}{k!\thinspace \Gamma(r)} + k\log\sigma(l) + r\log\sigma(-l),
    ///    \qquad k = 0, 1, 2, \dots $$
    /// with $r$ = `concentration` > 0, $l$ = `logits` and $\sigma(l) = 1/(1 + e^{-l})$. The mean is $\mu = r e^l$ and
    /// the variance $\mu + \mu^2/r$: for a given mean take `logits` as $\log\mu - \log r$. This is
    /// `NegativeBinomialLogits` of NumPyro; SciPy's `p` is $\sigma(-l)$.
    ///
    /// # Shapes
    /// `concentration` and `logits` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Accurate for counts and concentrations of any size, thus also close to the Poisson limit.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, NegativeBinomial};
    /// // With concentration 1 it is the geometric distribution.
    /// let log_prob = NegativeBinomial::logits(1.0, 0.0).log_prob_of(&Array::scalar(2.0))?;
    /// assert!((log_prob + 8.0_f64.ln()).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct NegativeBinomial: Discrete where |_| Support::Count;

    /// The negative binomial distribution with `concentration` and the log odds `logits`.
    pub fn logits(concentration: C in Positive, logits: L in Real);
}

impl Density for NegativeBinomial {
    fn log_prob(&self, value: &[f64], [concentration, logits, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (count, concentration, logits) = (value[0], concentration[0], logits[0]);
        let log = LogChance { success: -softplus(-logits), failure: -softplus(logits) };
        if gradient.is_wanted() {
            let by_concentration = digamma_difference(concentration, count) + log.failure;
            let by_logits = count * sigmoid(-logits) - concentration * sigmoid(logits);
            gradient.add([0.0, by_concentration, by_logits, 0.0]);
        }
        (concentration / (concentration + count)).ln() + binomial_kernel(count, concentration, log)
    }

    fn on_device(&self, value: Term, [concentration, logits, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            concentration.clone().ln_gamma_difference(value.clone()),
            -(value.clone() + 1.0).ln_gamma(),
            value * logits.clone().log_sigmoid(),
            concentration * (-logits).log_sigmoid(),
        ])
    }

    fn log_power_integral(&self, power: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let [concentration, logits, _] = parameters;
        let mode = ((concentration[0] - 1.0).max(0.0) * logits[0].exp()).floor();
        // The ratio of one probability to the previous tends to the probability of a success, from below if α < 1.
        let ratio = (-power * softplus(-logits[0])).exp();
        let counts = Counts { density: self, parameters, mode, last: f64::INFINITY, ratio };
        log_power_sum(&counts, power, gradient)
    }

    fn draw(&self, [concentration, logits, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let log_rate = log_gamma_draw(concentration[0], noise) + logits[0];
        out[0] = count_draw(log_rate, noise);
    }

    fn mean(&self, [concentration, logits, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![concentration[0] * logits[0].exp()])
    }

    fn variance(&self, [concentration, logits, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let odds = logits[0].exp();
        Some(vec![concentration[0] * odds * (1.0 + odds)])
    }

    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        binomial_batch::negative_binomial(batch)
    }

    tails!();
}

impl NegativeBinomial {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let count = value.floor();
        if count < 0.0 {
            return tail.below();
        }
        let [concentration, logits, _] = parameters;
        let at = Chance { success: sigmoid(-logits[0]), failure: sigmoid(logits[0]) };
        let (log, [by_concentration, _]) = tail.shapes(&log_incomplete_beta(concentration[0], count + 1.0, at));
        // dF/dl = -(k + r) σ(l) p(k).
        let log_slope = Self.log_prob(&[count], parameters, &mut Gradient::default()) + (count + concentration[0]).ln()
            - softplus(-logits[0]);
        gradient.add([0.0, by_concentration, -tail.rate(log_slope, log), 0.0]);
        log
    }
}
