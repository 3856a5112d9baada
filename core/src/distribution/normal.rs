//! Gives the normal distribution, by location and standard deviation.

use rayon::prelude::*;

use super::tail::{Standard, Tail, tails};
use super::{Batch, Density, Gradient, Term, distribution};
use crate::math::kernel::{NormalTerms, normal, normal_single};
use crate::math::special::HALF_LOG_TWO_PI;
use crate::noise::NoiseStream;

distribution! {
    /// The normal distribution.
    ///
    /// $$ \log p(x) = -\tfrac12\left(\frac{x-\mu}{\sigma}\right)^2 - \log\sigma - \tfrac12\log 2\pi $$
    /// with $\mu$ = `location` and $\sigma$ = `scale` > 0 (the standard deviation, not the variance).
    ///
    /// # Shapes
    /// `location` and `scale` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Normal};
    /// let log_prob = Normal::new(0.0, 2.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + 0.5 * 0.25 + 2.0_f64.ln() + 0.918_938_533_204_672_8).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Normal: Continuous where |_| Support::Real;

    /// The normal distribution with mean `location` and standard deviation `scale`.
    pub fn new(location: L in Real, scale: S in Positive);
}

impl Density for Normal {
    fn log_prob(&self, value: &[f64], [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let deviation = (value[0] - location[0]) / scale[0];
        gradient.add([-deviation / scale[0], deviation / scale[0], (deviation * deviation - 1.0) / scale[0], 0.0]);
        -0.5 * deviation * deviation - scale[0].ln() - HALF_LOG_TWO_PI
    }

    fn on_device(&self, value: Term, [location, scale, _]: [Term; 3]) -> Option<Vec<Term>> {
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
        if let Some(square) = crate::math::kernel::on_device::normal_square(&value, &location, &scale) {
            return Some(vec![square, -scale.ln(), (-HALF_LOG_TWO_PI).into()]);
        }
        Some(vec![((value - location) / scale.clone()).square() * -0.5, -scale.ln(), (-HALF_LOG_TWO_PI).into()])
    }

    fn log_power_integral(&self, power: f64, [_, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        // A power of a normal density is another one of variance σ²/β, up to its constant.
        gradient.add([0.0, 0.0, (1.0 - power) / scale[0], 0.0]);
        Some((1.0 - power) * (scale[0].ln() + HALF_LOG_TWO_PI) - 0.5 * power.ln())
    }

    fn draw(&self, [location, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = location[0] + scale[0] * noise.standard_normal();
    }

    fn mean(&self, [location, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![location[0]])
    }

    fn variance(&self, [_, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![scale[0] * scale[0]])
    }

    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        let [location, scale, _] = batch.parameters;
        if !batch.serves(0) || !batch.serves(1) {
            return None;
        }
        let [by_location, by_scale, _] = &mut batch.parameter_gradients;
        let Batch { values: x, scale: factor, value_gradient: by_x, events: terms, .. } = batch;
        let is_prior = location.len() == 1 && scale.len() == 1 && by_location.is_empty() && by_scale.is_empty();
        if is_prior && terms.is_empty() && x.len() > PART && by_x.len() == x.len() {
            return Some(in_parts(x, [location[0], scale[0]], *factor, by_x));
        }
        Some(normal(&mut NormalTerms { x, location, scale, factor: *factor, by_x, by_location, by_scale, terms }))
    }

    fn batch_single(
        &self,
        values: &[f32],
        [location, scale, _]: [&[f64]; 3],
        factor: f64,
        gradient: &mut [f32],
    ) -> Option<f64> {
        Some(normal_single(values, location[0], scale[0], factor, gradient))
    }

    tails!();
}

/// Values that one thread takes at a time, as of the prior of a network's weights.
const PART: usize = 16_384;

/// The sum over many values of one location and scale, with its derivatives by the values; in the same order for any number of
/// threads.
fn in_parts(x: &[f64], [location, scale]: [f64; 2], factor: f64, by_x: &mut [f64]) -> f64 {
    let part = |(x, by_x): (&[f64], &mut [f64])| {
        let [by_location, by_scale, terms]: [&mut [f64]; 3] = Default::default();
        normal(&mut NormalTerms {
            x,
            location: &[location],
            scale: &[scale],
            factor,
            by_x,
            by_location,
            by_scale,
            terms,
        })
    };
    let sums: Vec<f64> = x.par_chunks(PART).zip(by_x.par_chunks_mut(PART)).map(part).collect();
    sums.iter().sum()
}

impl Normal {
    fn log_tail(tail: Tail, value: f64, [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let standard = Standard { z: (value - location[0]) / scale[0], scale: scale[0] };
        standard.add(tail.normal(standard.z), gradient)
    }
}
