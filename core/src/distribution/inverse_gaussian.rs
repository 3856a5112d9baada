//! Gives the inverse Gaussian distribution, of the time at which a drifting random walk first reaches a level.

use super::tail::{Tail, tails};
use super::{Density, Gradient, Term, distribution};
use crate::math::special::{HALF_LOG_TWO_PI, log_normal_cumulative, log_one_minus_exp, mills_ratio};
use crate::noise::NoiseStream;

distribution! {
    /// The inverse Gaussian (Wald) distribution.
    ///
    /// $$ \log p(x) = \tfrac12\log\frac{\lambda}{2\pi x^3} - \frac{\lambda(x-\mu)^2}{2\mu^2 x},\qquad x > 0 $$
    /// with $\mu$ = `mean` > 0 and $\lambda$ = `concentration` > 0; the variance is $\mu^3/\lambda$.
    ///
    /// # Shapes
    /// `mean` and `concentration` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// The survival function loses $\log_{10}(x/\mu)$ digits far above the mean, and $\log_{10}(x/\lambda)/2$ where
    /// $x$ is far above the concentration.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, InverseGaussian};
    /// let log_prob = InverseGaussian::new(1.0, 1.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + 0.918_938_533_204_672_8).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Michael, Schucany and Haas (1976), *Generating random variates using transformations with multiple roots*.
    pub struct InverseGaussian: Continuous where |_| Support::Positive;

    /// The inverse Gaussian distribution with `mean` and `concentration`.
    pub fn new(mean: M in Positive, concentration: C in Positive);
}

impl Density for InverseGaussian {
    fn log_prob(&self, value: &[f64], [mean, concentration, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (mean, concentration, value) = (mean[0], concentration[0], value[0]);
        let deviation = (value - mean) / mean;
        let square = deviation * deviation / value;
        gradient.add([
            -1.5 / value - 0.5 * concentration * deviation * (1.0 + mean / value) / mean / value,
            concentration * deviation / mean / mean,
            0.5 / concentration - 0.5 * square,
            0.0,
        ]);
        0.5 * concentration.ln() - 1.5 * value.ln() - HALF_LOG_TWO_PI - 0.5 * concentration * square
    }

    fn on_device(&self, value: Term, [mean, concentration, _]: [Term; 3]) -> Option<Vec<Term>> {
        let deviation = (value.clone() - mean.clone()) / mean;
        Some(vec![
            concentration.clone().ln() * 0.5 - HALF_LOG_TWO_PI,
            value.clone().ln() * -1.5,
            concentration * deviation.square() / value * -0.5,
        ])
    }

    fn draw(&self, [mean, concentration, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let (mean, normal) = (mean[0], noise.standard_normal());
        // The smaller root of the quadratic is μ over the larger over μ, which does not cancel.
        let half = 0.5 * normal * normal * mean / concentration[0];
        let larger = 1.0 + half + (half * (2.0 + half)).sqrt();
        let smaller = mean / larger;
        let draw = if noise.uniform() * (mean + smaller) <= mean { smaller } else { mean * larger };
        out[0] = draw.clamp(f64::MIN_POSITIVE, f64::MAX);
    }

    fn mean(&self, [mean, ..]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![mean[0]])
    }

    fn variance(&self, [mean, concentration, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![mean[0] * mean[0] * (mean[0] / concentration[0])])
    }

    tails!();
}

impl InverseGaussian {
    /// With $r = \sqrt{\lambda/x}$, $A = r(x/\mu - 1)$ and $B = r(x/\mu + 1)$:
    /// $F = \Phi(A) + e^{2\lambda/\mu}\thinspace\Phi(-B)$, where $e^{2\lambda/\mu}\varphi(B) = \varphi(A)$.
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let (mean, concentration) = (parameters[0][0], parameters[1][0]);
        let root = (concentration / value).sqrt();
        let (a, b) = (root * ((value - mean) / mean), root * (value / mean + 1.0));
        let log_density = -0.5 * a * a - HALF_LOG_TWO_PI;
        let mills_b = mills_ratio(b);
        let lower = if a < 0.0 {
            log_density + (mills_ratio(-a) + mills_b).ln()
        } else {
            let log_normal = log_normal_cumulative(a);
            log_normal + (log_density - log_normal + mills_b.ln()).exp().ln_1p()
        };
        let log = match tail {
            Tail::Lower => lower.min(0.0),
            Tail::Upper if a < -1.0 => log_one_minus_exp(lower.min(0.0)),
            Tail::Upper => log_density + (mills_ratio(a) - mills_b).max(0.0).ln(),
        };
        let by_value = tail.rate(Self.log_prob(&[value], parameters, &mut Gradient::default()), log);
        // The derivatives of F, each a multiple of φ(A).
        let factor = tail.rate(log_density, log);
        let by_mean = -2.0 * concentration / mean / mean * mills_b;
        let by_concentration = 2.0 / mean * mills_b - root / concentration;
        gradient.add([by_value, factor * by_mean, factor * by_concentration, 0.0]);
        log
    }
}
