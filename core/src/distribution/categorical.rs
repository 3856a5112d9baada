//! Gives the categorical distribution on class indices by its logits.

use super::{Batch, Density, Gradient, Term, distribution};
use crate::math::kernel::categorical_logit;
use crate::math::special::log_sum_exp_parts;
use crate::noise::NoiseStream;

distribution! {
    /// The categorical distribution on the class indices 0, 1, ..., K - 1.
    ///
    /// $$ \log p(k) = l_k - \log\sum_{j=0}^{K-1} e^{l_j} $$
    /// with $l$ = `logits`, a vector of K real numbers; a number added to all of them changes nothing.
    ///
    /// # Shapes
    /// `logits` `[..., K]`, value `[...]`: an event is one number, the index of its class. Mean and variance are those
    /// of the index.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Categorical, Density, Gradient};
    /// let equal = Categorical.log_prob(&[2.0], [&[0.5, 0.5, 0.5, 0.5], &[], &[]], &mut Gradient::default());
    /// assert!((equal + 4.0_f64.ln()).abs() < 1e-15);
    /// ```
    pub struct Categorical where |[logits, ..]| Support::CountUpTo(logits.len().saturating_sub(1) as f64), of vector(logits in Real);
}

impl Density for Categorical {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is checked to be a class")]
    fn log_prob(&self, value: &[f64], [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let class = value[0] as usize;
        let (largest, rest) = log_sum_exp_parts(logits);
        let log_prob = (logits[class] - largest) - rest;
        for (index, (slot, logit)) in gradient.parameters[0].iter_mut().zip(logits).enumerate() {
            // For the class itself 1 - p, without cancellation where p is close to one.
            let partial = if index == class { -log_prob.exp_m1() } else { -((logit - largest) - rest).exp() };
            *slot += gradient.scale * partial;
        }
        log_prob
    }

    fn on_device(&self, value: Term, [logits, ..]: [Term; 3]) -> Option<Vec<Term>> {
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
        if let Some(fused) = crate::math::kernel::on_device::categorical(&value, &logits) {
            return Some(vec![fused]);
        }
        Some(vec![logits.log_softmax().pick(value)])
    }

    fn log_power_integral(&self, power: f64, [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let powers: Vec<f64> = logits.iter().map(|logit| power * logit).collect();
        let (largest, rest) = log_sum_exp_parts(logits);
        let (largest_power, rest_power) = log_sum_exp_parts(&powers);
        for ((slot, logit), own) in gradient.parameters[0].iter_mut().zip(logits).zip(&powers) {
            let change = ((own - largest_power) - rest_power).exp() - ((logit - largest) - rest).exp();
            *slot += gradient.scale * power * change;
        }
        // The largest of the powers is the power of the largest, and cancels.
        Some(rest_power - power * rest)
    }

    fn draw(&self, [logits, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let (largest, rest) = log_sum_exp_parts(logits);
        let mut left = noise.uniform();
        let mut last = 0;
        for (index, logit) in logits.iter().enumerate() {
            let probability = ((logit - largest) - rest).exp();
            if probability > 0.0 {
                last = index;
            }
            left -= probability;
            if left < 0.0 {
                break;
            }
        }
        // Rounding may leave part of the uniform number after the last class, which then takes it.
        out[0] = last as f64;
    }

    fn mean(&self, [logits, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let (largest, rest) = log_sum_exp_parts(logits);
        let weighted = logits.iter().enumerate().map(|(index, logit)| index as f64 * ((logit - largest) - rest).exp());
        Some(vec![weighted.sum()])
    }

    fn variance(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        let mean = self.mean(parameters)?[0];
        let (largest, rest) = log_sum_exp_parts(parameters[0]);
        let weighted = parameters[0]
            .iter()
            .enumerate()
            .map(|(index, logit)| (index as f64 - mean).powi(2) * ((logit - largest) - rest).exp());
        Some(vec![weighted.sum()])
    }

    /// Requires a slot for every logit: only these slots distinguish logits of every event from shared ones.
    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        let ([logits, ..], events) = (batch.parameters, batch.values.len());
        let slots = &mut *batch.parameter_gradients[0];
        if slots.len() != logits.len() || logits.len() <= events || !logits.len().is_multiple_of(events) {
            return None;
        }
        batch.value_gradient.fill(0.0);
        Some(categorical_logit(logits, batch.values, batch.scale, slots, batch.events))
    }
}
