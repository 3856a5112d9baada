//! Gives the beta distribution on numbers between zero and one.

use std::ops::RangeInclusive;

use super::gamma::{LARGE_CONCENTRATION, log_gamma_draw};
use super::tail::{Tail, tails};
use super::{Batch, Density, Gradient, Term, distribution};
use crate::math::kernel::{BetaTerms, at, beta};
use crate::math::special::{
    Chance, LogChance, binomial_kernel, digamma_difference, ln_beta, log_incomplete_beta, sigmoid,
};
use crate::noise::NoiseStream;

distribution! {
    /// The beta distribution.
    ///
    /// $$ \log p(x) = (a-1)\log x + (b-1)\log(1-x) - \log B(a, b),\qquad 0 < x < 1 $$
    /// with $a$ = `concentration_one` > 0, which moves mass towards one, and $b$ = `concentration_zero` > 0, towards
    /// zero.
    ///
    /// # Shapes
    /// Both are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Accurate for any concentrations. Numbers within 1e-16 of one equal one in f64: where they matter, exchange the
    /// concentrations and model $1 - x$.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Beta};
    /// let log_prob = Beta::new(2.0, 3.0).log_prob_of(&Array::scalar(0.5))?;
    /// assert!((log_prob - 1.5_f64.ln()).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Beta: Continuous where |_| Support::Interval(0.0, 1.0);

    /// The beta distribution with mean `concentration_one / (concentration_one + concentration_zero)`.
    pub fn new(concentration_one: A in Positive, concentration_zero: B in Positive);
}

/// The concentrations that batches take.
const PLAIN: RangeInclusive<f64> = 1e-30..=500.0;

impl Density for Beta {
    fn log_prob(&self, value: &[f64], [one, zero, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (one, zero, value) = (one[0], zero[0], value[0]);
        let (log_value, log_rest) = (value.ln(), (-value).ln_1p());
        if gradient.is_wanted() {
            let partials = [
                (one - 1.0) / value - (zero - 1.0) / (1.0 - value),
                log_value + digamma_difference(one, zero),
                log_rest + digamma_difference(zero, one),
                0.0,
            ];
            gradient.add(partials);
        }
        if one.min(zero) < LARGE_CONCENTRATION {
            (one - 1.0) * log_value + (zero - 1.0) * log_rest - ln_beta(one, zero)
        } else {
            binomial_kernel(one, zero, LogChance { success: log_value, failure: log_rest })
                + (one / (one + zero) * zero).ln()
                - log_value
                - log_rest
        }
    }

    /// Events with concentrations of usual sizes: large ones lose digits in the plain formula.
    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        let [ones, zeros, _] = batch.parameters;
        let plain = |concentrations: &[f64]| concentrations.iter().all(|own| PLAIN.contains(own));
        if !batch.serves(0) || !batch.serves(1) || !plain(ones) || !plain(zeros) {
            return None;
        }
        for (event, (slot, value)) in batch.value_gradient.iter_mut().zip(batch.values).enumerate() {
            *slot = batch.scale * ((at(ones, event) - 1.0) / value - (at(zeros, event) - 1.0) / (1.0 - value));
        }
        let [by_ones, by_zeros, _] = &mut batch.parameter_gradients;
        let (values, scale, terms) = (batch.values, batch.scale, &mut *batch.events);
        Some(beta(&mut BetaTerms { values, ones, zeros, scale, by_ones, by_zeros, terms }))
    }

    fn on_device(&self, value: Term, [one, zero, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            (one.clone() - 1.0) * value.clone().ln(),
            (zero.clone() - 1.0) * (-value).ln_1p(),
            -one.ln_beta(zero),
        ])
    }

    fn log_power_integral(&self, power: f64, [one, zero, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let [own_one, own_zero] = [one, zero].map(|concentration| power * (concentration[0] - 1.0) + 1.0);
        // Powers of a density with a pole may not be integrable.
        if own_one <= 0.0 || own_zero <= 0.0 {
            return Some(f64::INFINITY);
        }
        if gradient.is_wanted() {
            // ψ(a) - ψ(a + b) of both beta functions.
            let by_one = digamma_difference(one[0], zero[0]) - digamma_difference(own_one, own_zero);
            let by_zero = digamma_difference(zero[0], one[0]) - digamma_difference(own_zero, own_one);
            gradient.add([0.0, power * by_one, power * by_zero, 0.0]);
        }
        Some(ln_beta(own_one, own_zero) - power * ln_beta(one[0], zero[0]))
    }

    fn draw(&self, [one, zero, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let log_odds = log_gamma_draw(one[0], noise) - log_gamma_draw(zero[0], noise);
        out[0] = sigmoid(log_odds).clamp(f64::MIN_POSITIVE, 1.0 - 0.5 * f64::EPSILON);
    }

    fn mean(&self, [one, zero, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![one[0] / (one[0] + zero[0])])
    }

    fn variance(&self, [one, zero, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let total = one[0] + zero[0];
        Some(vec![one[0] / total * (zero[0] / total) / (total + 1.0)])
    }

    tails!();
}

impl Beta {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        if value >= 1.0 {
            return tail.above();
        }
        let [one, zero, _] = parameters;
        let at = Chance { success: value, failure: 1.0 - value };
        let (log, [by_one, by_zero]) = tail.shapes(&log_incomplete_beta(one[0], zero[0], at));
        let by_value = tail.rate(Self.log_prob(&[value], parameters, &mut Gradient::default()), log);
        gradient.add([by_value, by_one, by_zero, 0.0]);
        log
    }
}
