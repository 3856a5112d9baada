//! Gives the geometric distribution of failures before the first success, by its log odds.

use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{log_one_minus_exp, sigmoid, softplus};
use crate::noise::NoiseStream;

distribution! {
    /// The geometric distribution: the number of failures before the first success.
    ///
    /// $$ \log p(k) = k\log\sigma(-l) + \log\sigma(l),\qquad k = 0, 1, 2, \dots $$
    /// with $l$ = `logits`, the log odds of a success, and $\sigma(l) = 1/(1 + e^{-l})$; `GeometricLogits` of NumPyro.
    /// SciPy counts the trials, one more.
    ///
    /// # Shapes
    /// `logits` is a number or a tensor; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Geometric};
    /// let log_prob = Geometric::logits(0.0).log_prob_of(&Array::scalar(2.0))?;
    /// assert!((log_prob + 8.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Geometric: Discrete where |_| Support::Count;

    /// The geometric distribution with the log odds `logits` of a success.
    pub fn logits(logits: L in Real);
}

impl Density for Geometric {
    fn log_prob(&self, value: &[f64], [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        gradient.add([0.0, sigmoid(-logits[0]) - value[0] * sigmoid(logits[0]), 0.0, 0.0]);
        -value[0] * softplus(logits[0]) - softplus(-logits[0])
    }

    fn on_device(&self, value: Term, [logits, ..]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![value * (-logits.clone()).log_sigmoid(), logits.log_sigmoid()])
    }

    fn log_power_integral(&self, power: f64, [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        // A geometric series of ratio q^β.
        let log_ratio = -power * softplus(logits[0]);
        let by_rest = power * sigmoid(logits[0]) / (-log_ratio).exp_m1();
        gradient.add([0.0, power * sigmoid(-logits[0]) - by_rest, 0.0, 0.0]);
        Some(-power * softplus(-logits[0]) - log_one_minus_exp(log_ratio))
    }

    fn draw(&self, [logits, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = (-noise.uniform().ln() / softplus(logits[0])).floor().clamp(0.0, f64::MAX);
    }

    fn mean(&self, [logits, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![(-logits[0]).exp()])
    }

    fn variance(&self, [logits, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let odds = (-logits[0]).exp();
        Some(vec![odds * (1.0 + odds)])
    }

    tails!();
}

impl Geometric {
    fn log_tail(tail: Tail, value: f64, [logits, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let trials = value.floor() + 1.0;
        if trials <= 0.0 {
            return tail.below();
        }
        let log_survival = -trials * softplus(logits[0]);
        let slope = trials * sigmoid(logits[0]);
        match tail {
            Tail::Upper => {
                gradient.add([0.0, -slope, 0.0, 0.0]);
                log_survival
            }
            Tail::Lower => {
                let factor = if log_survival > -700.0 { 1.0 / (-log_survival).exp_m1() } else { 0.0 };
                gradient.add([0.0, slope * factor, 0.0, 0.0]);
                log_one_minus_exp(log_survival)
            }
        }
    }
}
