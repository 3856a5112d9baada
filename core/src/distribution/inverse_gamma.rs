//! Gives the inverse gamma distribution, by shape and scale.

use super::gamma::{LARGE_CONCENTRATION, log_gamma_draw, log_of};
use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{digamma, ln_gamma, log_incomplete_gamma, poisson_kernel};
use crate::noise::NoiseStream;

distribution! {
    /// The inverse gamma distribution: the distribution of $1/y$ for gamma-distributed $y$.
    ///
    /// $$ \log p(x) = \alpha\log\beta - \log\Gamma(\alpha) - (\alpha+1)\log x - \frac{\beta}{x},\qquad x > 0 $$
    /// with $\alpha$ = `concentration` > 0 and $\beta$ = `scale` > 0, which is the `rate` of $y$ and has the units of
    /// $x$.
    ///
    /// # Shapes
    /// `concentration` and `scale` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, InverseGamma};
    /// let log_prob = InverseGamma::new(2.0, 3.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob - (9.0_f64.ln() - 3.0)).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct InverseGamma: Continuous where |_| Support::Positive;

    /// The inverse gamma distribution with mode `scale` over `concentration` + 1.
    pub fn new(concentration: C in Positive, scale: S in Positive);
}

impl Density for InverseGamma {
    fn log_prob(&self, value: &[f64], [concentration, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (concentration, scale, value) = (concentration[0], scale[0], value[0]);
        let mean = scale / value;
        let log_mean = log_of(mean, scale.ln() - value.ln());
        if gradient.is_wanted() {
            let partials = [
                (mean - concentration - 1.0) / value,
                log_mean - digamma(concentration),
                (concentration - mean) / scale,
                0.0,
            ];
            gradient.add(partials);
        }
        if concentration < LARGE_CONCENTRATION {
            concentration * scale.ln() - ln_gamma(concentration) - (concentration + 1.0) * value.ln() - mean
        } else {
            poisson_kernel(concentration, mean, log_mean) + (concentration / value).ln()
        }
    }

    fn on_device(&self, value: Term, [concentration, scale, _]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            concentration.clone() * scale.clone().ln() - concentration.clone().ln_gamma(),
            -(concentration + 1.0) * value.clone().ln(),
            -(scale / value),
        ])
    }

    fn log_power_integral(
        &self,
        power: f64,
        [concentration, scale, _]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        let own = power * (concentration[0] + 1.0) - 1.0;
        if gradient.is_wanted() {
            let by_concentration = power * (digamma(own) - digamma(concentration[0]) - power.ln());
            gradient.add([0.0, by_concentration, (1.0 - power) / scale[0], 0.0]);
        }
        let constants = ln_gamma(own) - power * ln_gamma(concentration[0]) - own * power.ln();
        Some((1.0 - power) * scale[0].ln() + constants)
    }

    fn draw(&self, [concentration, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let log_draw = scale[0].ln() - log_gamma_draw(concentration[0], noise);
        out[0] = log_draw.exp().clamp(f64::MIN_POSITIVE, f64::MAX);
    }

    fn mean(&self, [concentration, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        (concentration[0] > 1.0).then(|| vec![scale[0] / (concentration[0] - 1.0)])
    }

    fn variance(&self, [concentration, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        (concentration[0] > 2.0).then(|| vec![(scale[0] / (concentration[0] - 1.0)).powi(2) / (concentration[0] - 2.0)])
    }

    tails!();
}

impl InverseGamma {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let [concentration, scale, _] = parameters;
        let tails = log_incomplete_gamma(concentration[0], scale[0] / value);
        let (log, [by_concentration, _]) = tail.other().shapes(&tails);
        let by_value = tail.rate(Self.log_prob(&[value], parameters, &mut Gradient::default()), log);
        gradient.add([by_value, by_concentration, -by_value * (value / scale[0]), 0.0]);
        log
    }
}
