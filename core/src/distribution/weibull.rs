//! Gives the Weibull distribution of times to an event, with a hazard that is a power of time.

use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{digamma, ln_gamma};
use crate::noise::NoiseStream;

distribution! {
    /// The Weibull distribution.
    ///
    /// $$ \log p(x) = \log\frac{k}{\lambda} + (k-1)\log\frac{x}{\lambda} - \left(\frac{x}{\lambda}\right)^k,
    ///    \qquad x > 0 $$
    /// with $k$ = `concentration` > 0 and $\lambda$ = `scale` > 0; `weibull(k, λ)` of Stan. Its survival function is
    /// $e^{-(x/\lambda)^k}$.
    ///
    /// # Shapes
    /// `concentration` and `scale` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Weibull};
    /// // With concentration 1 it is the exponential distribution.
    /// let log_prob = Weibull::new(1.0, 2.0).log_prob_of(&Array::scalar(3.0))?;
    /// assert!((log_prob + 2.0_f64.ln() + 1.5).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Weibull: Continuous where |_| Support::Positive;

    /// The Weibull distribution with `concentration` and `scale`.
    pub fn new(concentration: C in Positive, scale: S in Positive);
}

impl Density for Weibull {
    fn log_prob(&self, value: &[f64], [concentration, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (concentration, scale, value) = (concentration[0], scale[0], value[0]);
        let log = value.ln() - scale.ln();
        let hazard = (concentration * log).exp();
        gradient.add([
            (concentration - 1.0 - concentration * hazard) / value,
            1.0 / concentration + log * (1.0 - hazard),
            concentration * (hazard - 1.0) / scale,
            0.0,
        ]);
        concentration.ln() - scale.ln() + (concentration - 1.0) * log - hazard
    }

    fn on_device(&self, value: Term, [concentration, scale, _]: [Term; 3]) -> Option<Vec<Term>> {
        let log = value.ln() - scale.clone().ln();
        Some(vec![
            concentration.clone().ln() - scale.ln(),
            (concentration.clone() - 1.0) * log.clone(),
            -(concentration * log).exp(),
        ])
    }

    fn log_power_integral(
        &self,
        power: f64,
        [concentration, scale, _]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        // With t = (x/λ)^k it is a gamma integral of shape (β(k - 1) + 1)/k.
        let (concentration, less) = (concentration[0], power - 1.0);
        let own = power - less / concentration;
        if own <= 0.0 {
            return Some(f64::INFINITY);
        }
        if gradient.is_wanted() {
            let by_own = digamma(own) - power.ln();
            let by_concentration = less / concentration + by_own * less / (concentration * concentration);
            gradient.add([0.0, by_concentration, -less / scale[0], 0.0]);
        }
        Some(less * (concentration.ln() - scale[0].ln()) + ln_gamma(own) - own * power.ln())
    }

    fn draw(&self, [concentration, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let log = (-noise.uniform().ln()).ln() / concentration[0];
        out[0] = (scale[0] * log.exp()).clamp(f64::MIN_POSITIVE, f64::MAX);
    }

    fn mean(&self, [concentration, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![scale[0] * ln_gamma(1.0 + 1.0 / concentration[0]).exp()])
    }

    fn variance(&self, [concentration, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let [one, two] = [1.0, 2.0].map(|power| ln_gamma(1.0 + power / concentration[0]));
        Some(vec![scale[0] * scale[0] * (2.0 * one).exp() * (two - 2.0 * one).exp_m1()])
    }

    tails!();
}

impl Weibull {
    fn log_tail(tail: Tail, value: f64, [concentration, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let log_ratio = value.ln() - scale[0].ln();
        let log_hazard = concentration[0] * log_ratio;
        let (log, by_log) = tail.exponential(log_hazard.exp(), log_hazard);
        if log > f64::NEG_INFINITY {
            let slope = concentration[0] * by_log;
            gradient.add([slope / value, by_log * log_ratio, -slope / scale[0], 0.0]);
        }
        log
    }
}
