//! Gives the log-normal distribution on numbers above zero.

use super::tail::{Standard, Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::HALF_LOG_TWO_PI;
use crate::noise::NoiseStream;

distribution! {
    /// The log-normal distribution: the distribution of $e^y$ for normal $y$.
    ///
    /// $$ \log p(x) = -\tfrac12\left(\frac{\log x-\mu}{\sigma}\right)^2 - \log\sigma - \log x - \tfrac12\log 2\pi,
    ///    \qquad x > 0 $$
    /// with $\mu$ = `location` and $\sigma$ = `scale` > 0, the mean and standard deviation of $\log x$, not of $x$.
    ///
    /// # Shapes
    /// `location` and `scale` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Draws are kept within the finite positive numbers, which matters where `location` is beyond ±700.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, LogNormal};
    /// let log_prob = LogNormal::new(0.0, 1.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + 0.918_938_533_204_672_8).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct LogNormal: Continuous where |_| Support::Positive;

    /// The log-normal distribution whose logarithm has mean `location` and standard deviation `scale`.
    pub fn new(location: L in Real, scale: S in Positive);
}

impl Density for LogNormal {
    fn log_prob(&self, value: &[f64], [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let log_value = value[0].ln();
        let deviation = (log_value - location[0]) / scale[0];
        gradient.add([
            -(1.0 + deviation / scale[0]) / value[0],
            deviation / scale[0],
            (deviation - 1.0) * (deviation + 1.0) / scale[0],
            0.0,
        ]);
        -0.5 * deviation * deviation - scale[0].ln() - log_value - HALF_LOG_TWO_PI
    }

    fn on_device(&self, value: Term, [location, scale, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            ((value.clone().ln() - location) / scale.clone()).square() * -0.5,
            -scale.ln(),
            -value.ln(),
            (-HALF_LOG_TWO_PI).into(),
        ])
    }

    fn log_power_integral(
        &self,
        power: f64,
        [location, scale, _]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        // In log x, the power of the density times x is a normal density that is tilted by exp((1 - β) log x).
        let (less, location, scale) = (1.0 - power, location[0], scale[0]);
        let tilt = less * scale / power;
        gradient.add([0.0, less, less * (tilt + 1.0 / scale), 0.0]);
        Some(less * (HALF_LOG_TWO_PI + scale.ln() + location + 0.5 * tilt * scale) - 0.5 * power.ln())
    }

    fn draw(&self, [location, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = (location[0] + scale[0] * noise.standard_normal()).exp().clamp(f64::MIN_POSITIVE, f64::MAX);
    }

    fn mean(&self, [location, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![(location[0] + 0.5 * scale[0] * scale[0]).exp()])
    }

    fn variance(&self, [location, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let square = scale[0] * scale[0];
        Some(vec![square.exp_m1() * (2.0 * location[0] + square).exp()])
    }

    tails!();
}

impl LogNormal {
    fn log_tail(tail: Tail, value: f64, [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let standard = Standard { z: (value.ln() - location[0]) / scale[0], scale: scale[0] };
        let (log, rate) = tail.normal(standard.z);
        let [by_log_value, by_location, by_scale] = standard.partials(rate);
        gradient.add([by_log_value / value, by_location, by_scale, 0.0]);
        log
    }
}
