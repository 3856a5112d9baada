//! Gives the half-normal distribution on numbers above zero.

use super::tail::{Standard, Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{HALF_LOG_TWO_PI, log_normal_cumulative};
use crate::noise::NoiseStream;

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, LN_2};

distribution! {
    /// The half-normal distribution: the distribution of $|x|$ for normal $x$ with mean 0.
    ///
    /// $$ \log p(x) = \log 2 - \tfrac12\left(\frac{x}{\sigma}\right)^2 - \log\sigma - \tfrac12\log 2\pi,\qquad x > 0 $$
    /// with $\sigma$ = `scale` > 0 (the standard deviation before taking the absolute value).
    ///
    /// # Shapes
    /// `scale` is a number or a tensor; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, HalfNormal};
    /// let log_prob = HalfNormal::new(2.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + 0.125 + 0.918_938_533_204_672_8).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct HalfNormal: Continuous where |_| Support::Positive;

    /// The half-normal distribution with `scale`.
    pub fn new(scale: S in Positive);
}

impl Density for HalfNormal {
    fn log_prob(&self, value: &[f64], [scale, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let ratio = value[0] / scale[0];
        gradient.add([-ratio / scale[0], (ratio - 1.0) * (ratio + 1.0) / scale[0], 0.0, 0.0]);
        LN_2 - 0.5 * ratio * ratio - scale[0].ln() - HALF_LOG_TWO_PI
    }

    fn on_device(&self, value: Term, [scale, ..]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![(LN_2 - HALF_LOG_TWO_PI).into(), -scale.clone().ln(), (value / scale).square() * -0.5])
    }

    fn log_power_integral(&self, power: f64, [scale, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        gradient.add([0.0, (1.0 - power) / scale[0], 0.0, 0.0]);
        Some((1.0 - power) * (scale[0].ln() + HALF_LOG_TWO_PI - LN_2) - 0.5 * power.ln())
    }

    fn draw(&self, [scale, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = (scale[0] * noise.standard_normal().abs()).max(f64::MIN_POSITIVE);
    }

    fn mean(&self, [scale, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![scale[0] * FRAC_2_PI.sqrt()])
    }

    fn variance(&self, [scale, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![scale[0] * scale[0] * (1.0 - FRAC_2_PI)])
    }

    tails!();
}

impl HalfNormal {
    fn log_tail(tail: Tail, value: f64, [scale, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let standard = Standard { z: value / scale[0], scale: scale[0] };
        let scaled = standard.z * FRAC_1_SQRT_2;
        // The logarithm of the upper tail outlives the tail itself.
        let far = tail == Tail::Upper && standard.z > 1.0;
        let log = if far {
            LN_2 + log_normal_cumulative(-standard.z)
        } else {
            tail.log(libm::erf(scaled), libm::erfc(scaled))
        };
        let rate = tail.rate(LN_2 - 0.5 * standard.z * standard.z - HALF_LOG_TWO_PI, log);
        let [by_value, _, by_scale] = standard.partials(rate);
        gradient.add([by_value, by_scale, 0.0, 0.0]);
        log
    }
}
