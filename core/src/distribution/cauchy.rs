//! Gives the Cauchy distribution, whose tails are too heavy for a mean.

use super::tail::{Standard, Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{ln_gamma_difference, log1p_square};
use crate::noise::NoiseStream;

use std::f64::consts::PI;

distribution! {
    /// The Cauchy distribution, which has neither mean nor variance.
    ///
    /// $$ \log p(x) = -\log\pi - \log\sigma - \log(1 + z^2),\qquad z = \frac{x-\mu}{\sigma} $$
    /// with $\mu$ = `location` (the median) and $\sigma$ = `scale` > 0 (half the interquartile range).
    ///
    /// # Shapes
    /// `location` and `scale` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Cauchy};
    /// let log_prob = Cauchy::new(0.0, 1.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + (2.0 * std::f64::consts::PI).ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Cauchy: Continuous where |_| Support::Real;

    /// The Cauchy distribution with median `location` and `scale`.
    pub fn new(location: L in Real, scale: S in Positive);
}

impl Density for Cauchy {
    fn log_prob(&self, value: &[f64], [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let z = (value[0] - location[0]) / scale[0];
        let [slope, by_scale] = slopes(z);
        gradient.add([-slope / scale[0], slope / scale[0], by_scale / scale[0], 0.0]);
        -PI.ln() - scale[0].ln() - log1p_square(z)
    }

    fn on_device(&self, value: Term, [location, scale, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![-Term::from(PI.ln()), -scale.clone().ln(), -((value - location) / scale).square().ln_1p()])
    }

    fn log_power_integral(&self, power: f64, [_, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        gradient.add([0.0, 0.0, (1.0 - power) / scale[0], 0.0]);
        Some(log_standard_integral(power) + (1.0 - power) * scale[0].ln())
    }

    fn draw(&self, [location, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = (location[0] + scale[0] * (PI * (noise.uniform() - 0.5)).tan()).clamp(f64::MIN, f64::MAX);
    }

    tails!();
}

impl Cauchy {
    fn log_tail(tail: Tail, value: f64, [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let standard = Standard { z: (value - location[0]) / scale[0], scale: scale[0] };
        // The angle form of ½ ± atan(z)/π keeps the digits of the tail.
        let log = tail.log(1.0_f64.atan2(-standard.z) / PI, 1.0_f64.atan2(standard.z) / PI);
        let rate = tail.rate(-PI.ln() - log1p_square(standard.z), log);
        standard.add((log, rate), gradient)
    }
}

/// $2z/(1+z^2)$ and $(z^2-1)/(1+z^2)$, arranged so that $z^2$ never overflows.
pub(super) fn slopes(z: f64) -> [f64; 2] {
    if z.abs() > 1.0 {
        let spread = 1.0 / z + z;
        [2.0 / spread, (z - z.signum()) * ((z + z.signum()) / z) / spread]
    } else {
        let spread = 1.0 + z * z;
        [2.0 * z / spread, (z - 1.0) * (z + 1.0) / spread]
    }
}

/// $\log\int p^\beta$ of the standard Cauchy density, $\pi^{1/2-\beta}\thinspace\Gamma(\beta-\frac12)/\Gamma(\beta)$.
pub(super) fn log_standard_integral(power: f64) -> f64 {
    (0.5 - power) * PI.ln() - ln_gamma_difference(power - 0.5, 0.5)
}
