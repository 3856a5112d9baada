//! Gives the half Student t distribution on numbers above zero, a prior of scales with a chosen tail.

use super::student_t::{log_inner_tail, log_outer_tail};
use super::tail::{Standard, Tail, tails};
use super::{Density, Gradient, StudentT, Term, distribution};
use crate::math::special::ln_gamma_difference;
use crate::noise::NoiseStream;

use std::f64::consts::{LN_2, PI};

distribution! {
    /// The half Student t distribution: the distribution of $|x|$ for Student t $x$ with location 0.
    ///
    /// $$ \log p(x) = \log 2 + \log\frac{\Gamma((\nu+1)/2)}{\Gamma(\nu/2)\sqrt{\pi\nu}\thinspace \sigma}
    ///    -\tfrac{\nu+1}{2}\log\left(1 + \frac{x^2}{\nu\sigma^2}\right),\qquad x > 0 $$
    /// with $\nu$ = `degrees_of_freedom` > 0 and $\sigma$ = `scale` > 0.
    ///
    /// # Shapes
    /// The two are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// As for [`StudentT`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, HalfStudentT};
    /// // With one degree of freedom it is the half-Cauchy distribution.
    /// let log_prob = HalfStudentT::new(1.0, 1.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + std::f64::consts::PI.ln()).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Gelman (2006), *Prior distributions for variance parameters in hierarchical models*, section 3.2.
    pub struct HalfStudentT: Continuous where |_| Support::Positive;

    /// The half Student t distribution with `degrees_of_freedom` and `scale`.
    pub fn new(degrees_of_freedom: N in Positive, scale: S in Positive);
}

impl Density for HalfStudentT {
    fn log_prob(&self, value: &[f64], [degrees, scale, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let [by_degrees, by_scale, _] = &mut gradient.parameters;
        let mut own =
            Gradient { scale: gradient.scale, value: gradient.value, parameters: [by_degrees, &mut [], by_scale] };
        LN_2 + StudentT.log_prob(value, [degrees, &[0.0], scale], &mut own)
    }

    fn on_device(&self, value: Term, [degrees, scale, _]: [Term; 3]) -> Option<Vec<Term>> {
        let mut terms = StudentT.on_device(value, [degrees, Term::Number(0.0), scale])?;
        terms.push(LN_2.into());
        Some(terms)
    }

    fn log_power_integral(
        &self,
        power: f64,
        [degrees, scale, _]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        // Twice the density on half the line.
        let [by_degrees, by_scale, _] = &mut gradient.parameters;
        let mut own = Gradient { scale: gradient.scale, value: &mut [], parameters: [by_degrees, &mut [], by_scale] };
        let whole = StudentT.log_power_integral(power, [degrees, &[0.0], scale], &mut own)?;
        Some((power - 1.0) * LN_2 + whole)
    }

    fn draw(&self, [degrees, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        StudentT.draw([degrees, &[0.0], scale], noise, out);
        out[0] = out[0].abs().max(f64::MIN_POSITIVE);
    }

    fn mean(&self, [degrees, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        let (degrees, scale) = (degrees[0], scale[0]);
        // 2 σ √(ν/π) Γ((ν+1)/2)/(Γ(ν/2)(ν - 1)).
        (degrees > 1.0).then(|| {
            let log = ln_gamma_difference(0.5 * degrees, 0.5) + 0.5 * (degrees / PI).ln();
            vec![2.0 * scale * log.exp() / (degrees - 1.0)]
        })
    }

    fn variance(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        let [degrees, scale, _] = parameters;
        let mean = self.mean(parameters)?[0];
        (degrees[0] > 2.0).then(|| vec![scale[0] * scale[0] * degrees[0] / (degrees[0] - 2.0) - mean * mean])
    }

    tails!();
}

impl HalfStudentT {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let [degrees, scale, _] = parameters;
        let standard = Standard { z: value / scale[0], scale: scale[0] };
        let (log, by_degrees) = match tail {
            Tail::Lower => log_inner_tail(standard.z, degrees[0]),
            Tail::Upper => log_outer_tail(standard.z, degrees[0]),
        };
        let log_density = Self.log_prob(&[value], parameters, &mut Gradient::default()) + scale[0].ln();
        let [by_value, _, by_scale] = standard.partials(tail.rate(log_density, log));
        gradient.add([by_value, by_degrees, by_scale, 0.0]);
        log
    }
}
