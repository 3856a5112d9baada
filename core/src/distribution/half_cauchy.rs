//! Gives the half-Cauchy distribution on numbers above zero.

use super::cauchy::{log_standard_integral, slopes};
use super::tail::{Standard, Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::log1p_square;
use crate::noise::NoiseStream;

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LN_2};

distribution! {
    /// The half-Cauchy distribution: the distribution of $|x|$ for Cauchy $x$ with location 0.
    ///
    /// $$ \log p(x) = \log\tfrac{2}{\pi} - \log\sigma - \log\left(1 + \frac{x^2}{\sigma^2}\right),\qquad x > 0 $$
    /// with $\sigma$ = `scale` > 0, which is its median. It has neither mean nor variance.
    ///
    /// # Shapes
    /// `scale` is a number or a tensor; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, HalfCauchy};
    /// let log_prob = HalfCauchy::new(1.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + std::f64::consts::PI.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Gelman (2006), *Prior distributions for variance parameters in hierarchical models*, section 3.2.
    pub struct HalfCauchy: Continuous where |_| Support::Positive;

    /// The half-Cauchy distribution with median `scale`.
    pub fn new(scale: S in Positive);
}

impl Density for HalfCauchy {
    fn log_prob(&self, value: &[f64], [scale, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let z = value[0] / scale[0];
        let [slope, by_scale] = slopes(z);
        gradient.add([-slope / scale[0], by_scale / scale[0], 0.0, 0.0]);
        FRAC_2_PI.ln() - scale[0].ln() - log1p_square(z)
    }

    fn on_device(&self, value: Term, [scale, ..]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![FRAC_2_PI.ln().into(), -scale.clone().ln(), -(value / scale).square().ln_1p()])
    }

    fn log_power_integral(&self, power: f64, [scale, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        gradient.add([0.0, (1.0 - power) / scale[0], 0.0, 0.0]);
        Some(log_standard_integral(power) + (1.0 - power) * (scale[0].ln() - LN_2))
    }

    fn draw(&self, [scale, ..]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = (scale[0] * (FRAC_PI_2 * noise.uniform()).tan()).clamp(f64::MIN_POSITIVE, f64::MAX);
    }

    tails!();
}

impl HalfCauchy {
    fn log_tail(tail: Tail, value: f64, [scale, ..]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let standard = Standard { z: value / scale[0], scale: scale[0] };
        let log = tail.log(FRAC_2_PI * standard.z.atan(), FRAC_2_PI * 1.0_f64.atan2(standard.z));
        let rate = tail.rate(FRAC_2_PI.ln() - log1p_square(standard.z), log);
        let [by_value, _, by_scale] = standard.partials(rate);
        gradient.add([by_value, by_scale, 0.0, 0.0]);
        log
    }
}
