//! Gives Student's t distribution of vectors by degrees of freedom, location and a Cholesky factor.

use super::multivariate_normal::{Sinks, Whitened};
use super::{Density, Gradient, MultivariateNormal, distribution};
use crate::math::special::{digamma_difference, ln_gamma_difference};
use crate::noise::NoiseStream;

use std::f64::consts::PI;

distribution! {
    /// Student's t distribution of vectors.
    ///
    /// $$ \log p(x) = \log\frac{\Gamma((\nu+k)/2)}{\Gamma(\nu/2)} - \tfrac{k}{2}\log\pi\nu - \sum_i\log L_{ii}
    ///    - \tfrac{\nu+k}{2}\log\left(1 + \tfrac1\nu z^\top z\right),\qquad L z = x - \mu $$
    /// with $\nu$ = `degrees_of_freedom`, $\mu$ = `location` and $L$ = `scale_tril`; the covariance is
    /// $LL^\top\nu/(\nu-2)$ for $\nu > 2$. `multi_student_t(ν, μ, LLᵀ)` of Stan.
    ///
    /// # Shapes
    /// `degrees_of_freedom`: one number; `location` `[..., k]`, `scale_tril` `[k, k]`, value `[..., k]`.
    ///
    /// # Numerics
    /// As for [`MultivariateNormal`] and [`StudentT`](super::StudentT).
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, MultivariateStudentT};
    /// let factor = [1.0, 0.0, 0.0, 1.0];
    /// let parameters: [&[f64]; 3] = [&[1.0], &[0.0, 0.0], &factor];
    /// let at_mode = MultivariateStudentT.log_prob(&[0.0, 0.0], parameters, &mut Gradient::default());
    /// assert!((at_mode + (2.0 * std::f64::consts::PI).ln()).abs() < 1e-14);
    /// ```
    pub struct MultivariateStudentT where |_| Support::RealVector,
        of number(degrees_of_freedom in Positive), vector(location in Real), matrix(scale_tril in CholeskyFactor);
}

impl Density for MultivariateStudentT {
    fn event_rank(&self) -> usize {
        1
    }

    fn log_prob(&self, value: &[f64], parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let [degrees, location, scale_tril] = parameters;
        let (degrees, order) = (degrees[0], location.len() as f64);
        let Whitened { z, square, log_det } = Whitened::of(value, location, scale_tril);
        let log_tail = (square / degrees).ln_1p();
        if gradient.is_wanted() {
            let share = square / (degrees + square);
            let by_degrees = 0.5
                * (digamma_difference(0.5 * degrees, 0.5 * order) - order / degrees - log_tail
                    + (degrees + order) / degrees * share);
            let [degrees_slot, by_location, by_factor] = &mut gradient.parameters;
            if let [slot] = &mut **degrees_slot {
                *slot += gradient.scale * by_degrees;
            }
            let sinks = Sinks { value: gradient.value, mean: by_location, factor: by_factor };
            sinks.add(&z, scale_tril, gradient.scale, (degrees + order) / (degrees + square));
        }
        ln_gamma_difference(0.5 * degrees, 0.5 * order)
            - 0.5 * order * (PI * degrees).ln()
            - log_det
            - 0.5 * (degrees + order) * log_tail
    }

    fn draw(&self, [degrees, location, scale_tril]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        MultivariateNormal.draw([location, scale_tril, &[]], noise, out);
        let mixing = (noise.gamma(0.5 * degrees[0]) / (0.5 * degrees[0])).max(f64::MIN_POSITIVE).sqrt();
        for (slot, location) in out.iter_mut().zip(location) {
            *slot = (location + (*slot - location) / mixing).clamp(f64::MIN, f64::MAX);
        }
    }

    fn mean(&self, [degrees, location, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        (degrees[0] > 1.0).then(|| location.to_vec())
    }

    fn variance(&self, [degrees, location, scale_tril]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let normal = MultivariateNormal.variance([location, scale_tril, &[]])?;
        let factor = degrees[0] / (degrees[0] - 2.0);
        (degrees[0] > 2.0).then(|| normal.into_iter().map(|variance| factor * variance).collect())
    }
}
