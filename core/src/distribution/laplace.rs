//! Gives the Laplace (double exponential) distribution.

use super::tail::{Standard, Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::noise::NoiseStream;

use std::f64::consts::LN_2;

distribution! {
    /// The Laplace (double exponential) distribution.
    ///
    /// $$ \log p(x) = -\frac{|x-\mu|}{b} - \log b - \log 2 $$
    /// with $\mu$ = `location` and $b$ = `scale` > 0 (the mean absolute deviation).
    ///
    /// # Shapes
    /// `location` and `scale` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Not differentiable at $x = \mu$; the derivatives by value and location are set to 0 there.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Laplace};
    /// let log_prob = Laplace::new(0.0, 2.0).log_prob_of(&Array::scalar(-3.0))?;
    /// assert!((log_prob + 1.5 + 4.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Laplace: Continuous where |_| Support::Real;

    /// The Laplace distribution with mean `location` and `scale`.
    pub fn new(location: L in Real, scale: S in Positive);
}

impl Density for Laplace {
    fn log_prob(&self, value: &[f64], [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let deviation = value[0] - location[0];
        let distance = deviation.abs() / scale[0];
        let slope = if deviation > 0.0 {
            1.0 / scale[0]
        } else if deviation < 0.0 {
            -1.0 / scale[0]
        } else {
            0.0
        };
        gradient.add([-slope, slope, (distance - 1.0) / scale[0], 0.0]);
        -distance - scale[0].ln() - LN_2
    }

    fn on_device(&self, value: Term, [location, scale, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![(-LN_2).into(), -scale.clone().ln(), -((value - location).abs() / scale)])
    }

    fn log_power_integral(&self, power: f64, [_, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        gradient.add([0.0, 0.0, (1.0 - power) / scale[0], 0.0]);
        Some((1.0 - power) * (scale[0].ln() + LN_2) - power.ln())
    }

    fn draw(&self, [location, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let distance = -scale[0] * noise.uniform().ln();
        out[0] = if noise.uniform() < 0.5 { location[0] - distance } else { location[0] + distance };
    }

    fn mean(&self, [location, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![location[0]])
    }

    fn variance(&self, [_, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![2.0 * scale[0] * scale[0]])
    }

    tails!();
}

impl Laplace {
    fn log_tail(tail: Tail, value: f64, [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let standard = Standard { z: (value - location[0]) / scale[0], scale: scale[0] };
        let z = tail.sign() * standard.z;
        let half = 0.5 * (-z.abs()).exp();
        let (log, rate) = if z < 0.0 { (z - LN_2, 1.0) } else { ((-half).ln_1p(), half / (1.0 - half)) };
        standard.add((log, tail.sign() * rate), gradient)
    }
}
