//! Gives the skew normal distribution: a normal density tilted by a normal distribution function.

use super::tail::{Standard, Tail, tails};
use super::{Density, Gradient, distribution};
use crate::math::special::{
    HALF_LOG_TWO_PI, log_normal_cumulative, log_skew_normal_cumulative, log1p_square, normal_hazard,
};
use crate::noise::NoiseStream;

use std::f64::consts::{FRAC_2_PI, LN_2, PI};

distribution! {
    /// The skew normal distribution.
    ///
    /// $$ \log p(x) = \log 2 - \log\sigma + \log\varphi(z) + \log\Phi(\alpha z),\qquad z = \frac{x-\mu}{\sigma} $$
    /// with $\mu$ = `location`, $\sigma$ = `scale` > 0 and $\alpha$ = `slant`; `skew_normal(μ, σ, α)` of Stan.
    /// Neither
    /// is `location` its mean, nor `scale` its standard deviation, unless the slant is 0.
    ///
    /// # Shapes
    /// The three are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, SkewNormal};
    /// // At the location it is the normal density, whatever the slant.
    /// let log_prob = SkewNormal::new(1.0, 1.0, 5.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + 0.918_938_533_204_672_8).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Azzalini (1985), *A class of distributions which includes the normal ones*.
    pub struct SkewNormal: Continuous where |_| Support::Real;

    /// The skew normal distribution with `location`, `scale` and `slant`.
    pub fn new(location: L in Real, scale: S in Positive, slant: A in Real);
}

impl Density for SkewNormal {
    fn log_prob(&self, value: &[f64], [location, scale, slant]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (scale, slant) = (scale[0], slant[0]);
        let z = (value[0] - location[0]) / scale;
        if gradient.is_wanted() {
            let hazard = normal_hazard(slant * z);
            let slope = slant * hazard - z;
            gradient.add([slope / scale, -slope / scale, -(1.0 + z * slope) / scale, z * hazard]);
        }
        LN_2 - scale.ln() - 0.5 * z * z - HALF_LOG_TWO_PI + log_normal_cumulative(slant * z)
    }

    fn draw(&self, [location, scale, slant]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let (half, normal) = (noise.standard_normal().abs(), noise.standard_normal());
        out[0] = location[0] + scale[0] * (delta(slant[0]) * half + normal / 1.0_f64.hypot(slant[0]));
    }

    fn mean(&self, [location, scale, slant]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![location[0] + scale[0] * delta(slant[0]) * FRAC_2_PI.sqrt()])
    }

    fn variance(&self, [_, scale, slant]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![scale[0] * scale[0] * (1.0 - FRAC_2_PI * delta(slant[0]).powi(2))])
    }

    tails!();
}

/// The correlation of the value with the half-normal number in it, $\alpha/\sqrt{1 + \alpha^2}$.
fn delta(slant: f64) -> f64 {
    slant / 1.0_f64.hypot(slant)
}

impl SkewNormal {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let [location, scale, slant] = parameters;
        let standard = Standard { z: (value - location[0]) / scale[0], scale: scale[0] };
        let (z, sign) = (standard.z, tail.sign());
        // 1 - F(z; α) = F(-z; -α).
        let log = log_skew_normal_cumulative(sign * z, sign * slant[0]);
        if log > f64::NEG_INFINITY && z.is_finite() {
            let log_density = Self.log_prob(&[value], parameters, &mut Gradient::default()) + scale[0].ln();
            let [by_value, by_location, by_scale] = standard.partials(tail.rate(log_density, log));
            // ∂F/∂α = -exp(-z²(1 + α²)/2)/(π(1 + α²)).
            let log_slope = -0.5 * (z * 1.0_f64.hypot(slant[0])).powi(2) - PI.ln() - log1p_square(slant[0]);
            gradient.add([by_value, by_location, by_scale, -tail.rate(log_slope, log)]);
        }
        log
    }
}
