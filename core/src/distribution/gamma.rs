//! Gives the gamma distribution on numbers above zero.

use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{digamma, ln_gamma, log_incomplete_gamma, poisson_kernel};
use crate::noise::NoiseStream;

/// Loader's form is the more accurate one from this concentration on.
pub(super) const LARGE_CONCENTRATION: f64 = 10.0;

distribution! {
    /// The gamma distribution.
    ///
    /// $$ \log p(x) = \alpha\log\beta - \log\Gamma(\alpha) + (\alpha-1)\log x - \beta x,\qquad x > 0 $$
    /// with $\alpha$ = `concentration` > 0 and $\beta$ = `rate` > 0 (SciPy has the scale $1/\beta$ instead).
    ///
    /// # Shapes
    /// `concentration` and `rate` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// Accurate for any concentration. Draws are made in logarithms and are at least the smallest positive number,
    /// which matters for concentrations below 0.05.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Gamma};
    /// let log_prob = Gamma::new(2.0, 3.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob - (9.0_f64.ln() - 3.0)).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct Gamma: Continuous where |_| Support::Positive;

    /// The gamma distribution with mean `concentration` over `rate`.
    pub fn new(concentration: C in Positive, rate: R in Positive);
}

impl Density for Gamma {
    fn log_prob(&self, value: &[f64], [concentration, rate, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (concentration, rate, value) = (concentration[0], rate[0], value[0]);
        let mean = rate * value;
        let log_mean = log_of(mean, rate.ln() + value.ln());
        if gradient.is_wanted() {
            let by_concentration = log_mean - digamma(concentration);
            let partials = [(concentration - 1.0) / value - rate, by_concentration, concentration / rate - value, 0.0];
            gradient.add(partials);
        }
        if concentration < LARGE_CONCENTRATION {
            concentration * rate.ln() - ln_gamma(concentration) + (concentration - 1.0) * value.ln() - mean
        } else {
            poisson_kernel(concentration, mean, log_mean) + (concentration / value).ln()
        }
    }

    fn on_device(&self, value: Term, [concentration, rate, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            concentration.clone() * rate.clone().ln() - concentration.clone().ln_gamma(),
            (concentration - 1.0) * value.clone().ln(),
            -(rate * value),
        ])
    }

    fn log_power_integral(
        &self,
        power: f64,
        [concentration, rate, _]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        // Finite where x^(β(α - 1)) is integrable at zero.
        let own = power * (concentration[0] - 1.0) + 1.0;
        if own <= 0.0 {
            return Some(f64::INFINITY);
        }
        if gradient.is_wanted() {
            let by_concentration = power * (digamma(own) - digamma(concentration[0]) - power.ln());
            gradient.add([0.0, by_concentration, (power - 1.0) / rate[0], 0.0]);
        }
        let constants = ln_gamma(own) - power * ln_gamma(concentration[0]) - own * power.ln();
        Some((power - 1.0) * rate[0].ln() + constants)
    }

    fn draw(&self, [concentration, rate, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let log_draw = log_gamma_draw(concentration[0], noise) - rate[0].ln();
        out[0] = log_draw.exp().clamp(f64::MIN_POSITIVE, f64::MAX);
    }

    fn mean(&self, [concentration, rate, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![concentration[0] / rate[0]])
    }

    fn variance(&self, [concentration, rate, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![concentration[0] / rate[0] / rate[0]])
    }

    tails!();
}

impl Gamma {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let [concentration, rate, _] = parameters;
        let (log, [by_concentration, _]) = tail.shapes(&log_incomplete_gamma(concentration[0], rate[0] * value));
        let by_value = tail.rate(Self.log_prob(&[value], parameters, &mut Gradient::default()), log);
        gradient.add([by_value, by_concentration, by_value * (value / rate[0]), 0.0]);
        log
    }
}

/// The logarithm of a gamma draw with this `shape` and rate 1, which does not underflow for small shapes.
///
/// A gamma draw of shape $a$ is one of shape $a + 1$ times $U^{1/a}$, with $U$ uniform.
pub(super) fn log_gamma_draw(shape: f64, noise: &mut NoiseStream) -> f64 {
    if shape < 1.0 { noise.gamma(shape + 1.0).ln() + noise.uniform().ln() / shape } else { noise.gamma(shape).ln() }
}

/// $\log$ of `product`, or `otherwise` if the product has under- or overflowed.
pub(super) fn log_of(product: f64, otherwise: f64) -> f64 {
    if product.is_normal() { product.ln() } else { otherwise }
}
