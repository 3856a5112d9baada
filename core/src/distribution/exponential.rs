//! Gives the exponential distribution on numbers above zero.

use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::noise::NoiseStream;

distribution! {
    /// The exponential distribution.
    ///
    /// $$ \log p(x) = \log\lambda - \lambda x,\qquad x > 0 $$
    /// with $\lambda$ = `rate` > 0 (one over the mean).
    ///
    /// # Shapes
    /// `rate` is a number or a tensor; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Exponential};
    /// let log_prob = Exponential::new(2.0).log_prob_of(&Array::scalar(3.0))?;
    /// assert!((log_prob + 6.0 - 2.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Exponential: Continuous where |_| Support::Positive;

    /// The exponential distribution with mean one over `rate`.
    pub fn new(rate: R in Positive);
}

impl Density for Exponential {
    fn log_prob(&self, value: &[f64], [rate, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        gradient.add([-rate[0], (1.0 / rate[0]) - value[0], 0.0, 0.0]);
        rate[0].ln() - rate[0] * value[0]
    }

    fn on_device(&self, value: Term, [rate, ..]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![rate.clone().ln(), -(rate * value)])
    }

    fn log_power_integral(&self, power: f64, [rate, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        gradient.add([0.0, (power - 1.0) / rate[0], 0.0, 0.0]);
        Some((power - 1.0) * rate[0].ln() - power.ln())
    }

    fn draw(&self, [rate, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = (-noise.uniform().ln() / rate[0]).clamp(f64::MIN_POSITIVE, f64::MAX);
    }

    fn mean(&self, [rate, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![1.0 / rate[0]])
    }

    fn variance(&self, [rate, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![1.0 / (rate[0] * rate[0])])
    }

    tails!();
}

impl Exponential {
    fn log_tail(tail: Tail, value: f64, [rate, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let t = rate[0] * value;
        let (log, by_log) = tail.exponential(t, t.ln());
        gradient.add([by_log / value, by_log / rate[0], 0.0, 0.0]);
        log
    }
}
