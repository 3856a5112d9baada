//! Gives the Bernoulli distribution by its log odds.

use super::tail::{Tail, tails};
use super::{Batch, Density, Gradient, Term, distribution};
use crate::math::kernel::bernoulli_logit;
use crate::math::special::{sigmoid, softplus};
use crate::noise::NoiseStream;

distribution! {
    /// The Bernoulli distribution on 0 and 1.
    ///
    /// $$ \log p(x) = x\thinspace l - \log(1 + e^l) $$
    /// with $l$ = `logits`, the log odds of a 1.
    ///
    /// # Shapes
    /// `logits` is a number or a tensor; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Full relative accuracy in both tails. From a probability, take `logits` as $\log p - \log(1-p)$.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Bernoulli};
    /// let log_prob = Bernoulli::logits(0.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + 2.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Bernoulli: Discrete where |_| Support::Boolean;

    /// The Bernoulli distribution whose log odds of a 1 are `logits`.
    pub fn logits(logits: L in Real);
}

impl Density for Bernoulli {
    fn log_prob(&self, value: &[f64], [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        // The log odds of the other outcome: both outcomes then have one formula.
        let sign = 1.0 - 2.0 * value[0];
        let other = sign * logits[0];
        gradient.add([0.0, -sign * sigmoid(other), 0.0, 0.0]);
        -softplus(other)
    }

    fn on_device(&self, value: Term, [logits, ..]: [Term; 3]) -> Option<Vec<Term>> {
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
        if let Some(fused) = crate::math::kernel::on_device::bernoulli(&value, &logits) {
            return Some(vec![fused]);
        }
        Some(vec![((value * 2.0 - 1.0) * logits).log_sigmoid()])
    }

    fn log_power_integral(&self, power: f64, [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        // In the log odds of the likelier outcome, for which neither term overflows and the derivatives do not cancel.
        let likelier = logits[0].abs();
        let slope = power * (sigmoid(-likelier) - sigmoid(-power * likelier));
        gradient.add([0.0, slope * logits[0].signum(), 0.0, 0.0]);
        Some(softplus(-power * likelier) - power * softplus(-likelier))
    }

    fn draw(&self, [logits, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = if noise.uniform() < sigmoid(logits[0]) { 1.0 } else { 0.0 };
    }

    fn mean(&self, [logits, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![sigmoid(logits[0])])
    }

    fn variance(&self, [logits, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![sigmoid(logits[0]) * sigmoid(-logits[0])])
    }

    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        let [logits, ..] = batch.parameters;
        if !batch.serves(0) {
            return None;
        }
        batch.value_gradient.fill(0.0);
        Some(bernoulli_logit(logits, batch.values, batch.scale, batch.parameter_gradients[0], batch.events))
    }

    tails!();
}

impl Bernoulli {
    fn log_tail(tail: Tail, value: f64, [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value < 0.0 {
            return tail.below();
        }
        if value >= 1.0 {
            return tail.above();
        }
        let other = tail.sign() * logits[0];
        gradient.add([0.0, -tail.sign() * sigmoid(other), 0.0, 0.0]);
        -softplus(other)
    }
}
