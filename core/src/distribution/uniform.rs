//! Gives the continuous uniform distribution on an interval.

use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::noise::NoiseStream;

distribution! {
    /// The continuous uniform distribution on an open interval.
    ///
    /// $$ \log p(x) = -\log(b - a),\qquad a < x < b $$
    /// with $a$ = `low` and $b$ = `high` > `low`.
    ///
    /// # Shapes
    /// `low` and `high` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) on evaluation if `high` is not above `low`: exchange them.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Uniform};
    /// let log_prob = Uniform::new(-1.0, 3.0).log_prob_of(&Array::scalar(0.5))?;
    /// assert!((log_prob + 4.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Uniform: Continuous where |[low, high, _]| Support::Interval(low[0], high[0]);

    /// The uniform distribution between `low` and `high`.
    pub fn new(low: L in Real, high: H in Real);
}

impl Density for Uniform {
    fn conflict(&self, [low, high, _]: [&[f64]; 3]) -> Option<(&'static str, f64, &'static str)> {
        (high[0] <= low[0]).then_some(("high", high[0], "a number above `low`"))
    }

    fn log_prob(&self, value: &[f64], [low, high, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let width = high[0] - low[0];
        gradient.add([0.0, 1.0 / width, -1.0 / width, 0.0]);
        // Bounds that depend on latents may exclude an observation that was inside them when it was checked.
        if value[0] < low[0] || value[0] > high[0] { f64::NEG_INFINITY } else { -width.ln() }
    }

    fn on_device(&self, _: Term, parameters: [Term; 3]) -> Option<Vec<Term>> {
        // Bounds that depend on latents would need a comparison with the value on the host.
        match parameters {
            [Term::Number(low), Term::Number(high), _] => Some(vec![Term::Number(-(high - low).ln())]),
            _ => None,
        }
    }

    fn log_power_integral(&self, power: f64, [low, high, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let width = high[0] - low[0];
        gradient.add([0.0, (power - 1.0) / width, (1.0 - power) / width, 0.0]);
        Some((1.0 - power) * width.ln())
    }

    fn draw(&self, [low, high, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let draw = low[0] + (high[0] - low[0]) * noise.uniform();
        out[0] = draw.max(low[0].next_up()).min(high[0].next_down());
    }

    fn mean(&self, [low, high, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![0.5 * low[0] + 0.5 * high[0]])
    }

    fn variance(&self, [low, high, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![(high[0] - low[0]).powi(2) / 12.0])
    }

    tails!();
}

impl Uniform {
    fn log_tail(tail: Tail, value: f64, [low, high, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (width, below, above) = (high[0] - low[0], value - low[0], high[0] - value);
        if below <= 0.0 {
            return tail.below();
        }
        if above <= 0.0 {
            return tail.above();
        }
        let partials = match tail {
            Tail::Lower => [1.0 / below, -above / below / width, -1.0 / width, 0.0],
            Tail::Upper => [-1.0 / above, 1.0 / width, below / above / width, 0.0],
        };
        gradient.add(partials);
        (tail.of(below, above) / width).ln()
    }
}
