//! Gives Student's t distribution with location and scale.

use super::tail::{Standard, Tail, tails};
use super::{Batch, Density, Gradient, Term, distribution};
use crate::math::kernel::at;
use crate::math::special::{
    Chance, LogTails, digamma_difference, ln_gamma_difference, log_incomplete_beta, log_one_minus_exp, log1p_square,
};
use crate::noise::NoiseStream;

use std::f64::consts::{LN_2, PI};

distribution! {
    /// Student's t distribution with location and scale.
    ///
    /// $$ \log p(x) = \log\frac{\Gamma((\nu+1)/2)}{\Gamma(\nu/2)\sqrt{\pi\nu}\thinspace \sigma}
    ///    -\tfrac{\nu+1}{2}\log\left(1 + \frac{t^2}{\nu}\right),\qquad t = \frac{x-\mu}{\sigma} $$
    /// with $\nu$ = `degrees_of_freedom` > 0, $\mu$ = `location` and $\sigma$ = `scale` > 0. The scale is the standard
    /// deviation only in the limit of many degrees of freedom.
    ///
    /// # Shapes
    /// The three are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// The log density is accurate for any $\nu$ and $t$. The derivative by $\nu$ vanishes as $\nu^{-2}$ and loses
    /// about $\log_{10}\nu$ digits; above a million degrees of freedom use [`Normal`](super::Normal).
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, StudentT};
    /// // With one degree of freedom it is the Cauchy distribution.
    /// let log_prob = StudentT::new(1.0, 0.0, 1.0).log_prob_of(&Array::scalar(1.0))?;
    /// assert!((log_prob + (2.0 * std::f64::consts::PI).ln()).abs() < 1e-14);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub struct StudentT: Continuous where |_| Support::Real;

    /// Student's t distribution with `degrees_of_freedom`, `location` and `scale`.
    pub fn new(degrees_of_freedom: N in Positive, location: L in Real, scale: S in Positive);
}

/// What degrees of freedom alone give the log density of every event.
#[derive(Debug, Clone, Copy)]
struct Degrees {
    degrees: f64,
    root: f64,
    /// $\log\Gamma((\nu+1)/2) - \log\Gamma(\nu/2) - \tfrac12\log(\pi\nu)$.
    peak: f64,
    /// Twice the derivative of that.
    slope: f64,
}

impl Degrees {
    fn of(degrees: f64, has_slope: bool) -> Self {
        let slope = if has_slope { digamma_difference(0.5 * degrees, 0.5) - 1.0 / degrees } else { 0.0 };
        let peak = ln_gamma_difference(0.5 * degrees, 0.5) - 0.5 * (PI * degrees).ln();
        Self { degrees, root: degrees.sqrt(), peak, slope }
    }

    /// The logarithm of $1 + t^2/\nu$.
    fn log_tail(&self, t: f64) -> f64 {
        log1p_square(t / self.root)
    }

    /// The log density of $t$ but for the scale, where the logarithm of its tail is known.
    fn log_prob(&self, log_tail: f64) -> f64 {
        self.peak - 0.5 * (self.degrees + 1.0) * log_tail
    }

    /// The derivatives by the value, the degrees of freedom, the location and the scale.
    fn partials(&self, t: f64, scale: f64, log_tail: f64) -> [f64; 4] {
        let degrees = self.degrees;
        // slope = (ν+1) t / (ν+t²) and by_scale = ν (t²-1) / (ν+t²), arranged so that t² never overflows.
        let (slope, by_scale, share) = if t.abs() > 1.0 {
            let spread = degrees / t + t;
            ((degrees + 1.0) / spread, (t - t.signum()) * ((t + t.signum()) / t) * (degrees / spread), t / spread)
        } else {
            let spread = degrees + t * t;
            ((degrees + 1.0) * t / spread, degrees * (t - 1.0) * (t + 1.0) / spread, t * t / spread)
        };
        let by_degrees = 0.5 * (self.slope - log_tail + (degrees + 1.0) / degrees * share);
        [-slope / scale, by_degrees, slope / scale, by_scale / scale]
    }
}

impl Density for StudentT {
    fn log_prob(&self, value: &[f64], [degrees, location, scale]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let own = Degrees::of(degrees[0], gradient.is_wanted());
        let (t, scale) = ((value[0] - location[0]) / scale[0], scale[0]);
        let log_tail = own.log_tail(t);
        if gradient.is_wanted() {
            gradient.add(own.partials(t, scale, log_tail));
        }
        own.log_prob(log_tail) - scale.ln()
    }

    /// Events of one number of degrees of freedom, which has its gamma functions once.
    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        let [[degrees], location, scale] = batch.parameters else { return None };
        if !batch.serves(1) || !batch.serves(2) {
            return None;
        }
        let [by_degrees, by_location, by_scale] = &mut batch.parameter_gradients;
        let mut by = [&mut *batch.value_gradient, by_degrees, by_location, by_scale];
        let has_slope = by.iter().any(|own| !own.is_empty());
        let own = Degrees::of(*degrees, has_slope);
        let log_scale = if let [scale] = scale { scale.ln() } else { 0.0 };
        let mut total = 0.0;
        for (event, value) in batch.values.iter().enumerate() {
            let scale_here = at(scale, event);
            let t = (value - at(location, event)) / scale_here;
            let log_tail = own.log_tail(t);
            let log_scale = if scale.len() == 1 { log_scale } else { scale_here.ln() };
            let term = own.log_prob(log_tail) - log_scale;
            total += term;
            if let Some(slot) = batch.events.get_mut(event) {
                *slot = term;
            }
            if has_slope {
                for (slots, partial) in by.iter_mut().zip(own.partials(t, scale_here, log_tail)) {
                    if let Some(slot) = slots.get_mut(event) {
                        *slot = batch.scale * partial;
                    }
                }
            }
        }
        Some(total)
    }

    fn on_device(&self, value: Term, [degrees, location, scale]: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![
            (degrees.clone() * 0.5).ln_gamma_difference(0.5),
            (degrees.clone() * PI).ln() * -0.5,
            -scale.clone().ln(),
            (degrees.clone() + 1.0) * -0.5 * (((value - location) / scale).square() / degrees).ln_1p(),
        ])
    }

    fn log_power_integral(
        &self,
        power: f64,
        [degrees, _, scale]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        // A power of the density is, up to its scale, another t density with ν' = β(ν + 1) - 1 degrees of freedom.
        let (degrees, scale) = (degrees[0], scale[0]);
        let own = power * (degrees + 1.0) - 1.0;
        let log_peak = ln_gamma_difference(0.5 * degrees, 0.5) - 0.5 * (degrees * PI).ln();
        let log_area = 0.5 * (degrees * PI).ln() - ln_gamma_difference(0.5 * own, 0.5);
        if gradient.is_wanted() {
            let change = digamma_difference(0.5 * degrees, 0.5) - digamma_difference(0.5 * own, 0.5);
            let by_degrees = 0.5 * (power * change + (1.0 - power) / degrees);
            gradient.add([0.0, by_degrees, 0.0, (1.0 - power) / scale]);
        }
        Some(power * log_peak + log_area + (1.0 - power) * scale.ln())
    }

    fn draw(&self, [degrees, location, scale]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let mixing = noise.gamma(0.5 * degrees[0]) / (0.5 * degrees[0]);
        let draw = location[0] + scale[0] * noise.standard_normal() / mixing.max(f64::MIN_POSITIVE).sqrt();
        out[0] = draw.clamp(f64::MIN, f64::MAX);
    }

    fn mean(&self, [degrees, location, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        (degrees[0] > 1.0).then(|| vec![location[0]])
    }

    fn variance(&self, [degrees, _, scale]: [&[f64]; 3]) -> Option<Vec<f64>> {
        (degrees[0] > 2.0).then(|| vec![scale[0] * scale[0] * degrees[0] / (degrees[0] - 2.0)])
    }

    tails!();
}

impl StudentT {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let [degrees, location, scale] = parameters;
        let standard = Standard { z: (value - location[0]) / scale[0], scale: scale[0] };
        // The tail beyond |t|, and the other one.
        let own = if standard.z < 0.0 { Tail::Lower } else { Tail::Upper };
        let (outer, by_degrees) = log_outer_tail(standard.z.abs(), degrees[0]);
        let outer = outer - LN_2;
        let (log, by_degrees) = if tail == own {
            (outer, by_degrees)
        } else {
            let log = log_one_minus_exp(outer);
            (log, -by_degrees * (outer - log).exp())
        };
        let log_density = Self.log_prob(&[value], parameters, &mut Gradient::default()) + scale[0].ln();
        let [by_value, by_location, by_scale] = standard.partials(tail.rate(log_density, log));
        gradient.add([by_value, by_degrees, by_location, by_scale]);
        log
    }
}

/// $\log P(|T| > t)$ for `t` ≥ 0 and standard $T$, and its derivative by the degrees of freedom.
///
/// With $x = \nu/(\nu + t^2)$ it is $\log I_x(\nu/2, \tfrac12)$, and $x$ changes with $\nu$ as with
/// $-t\thinspace dt/2\nu$.
pub(super) fn log_outer_tail(t: f64, degrees: f64) -> (f64, f64) {
    let LogTails { lower, lower_by, .. } = outer_tails(t, degrees);
    (lower, outer_by_degrees(t, degrees, lower, lower_by[0]))
}

/// $\log P(|T| \le t)$ for `t` ≥ 0 and standard $T$, and its derivative by the degrees of freedom.
pub(super) fn log_inner_tail(t: f64, degrees: f64) -> (f64, f64) {
    let LogTails { upper, upper_by, .. } = outer_tails(t, degrees);
    (upper, -outer_by_degrees(t, degrees, upper, -upper_by[0]))
}

fn outer_tails(t: f64, degrees: f64) -> LogTails {
    let ratio = (t / degrees.sqrt()).powi(2);
    let at = Chance { success: 1.0 / (1.0 + ratio), failure: 1.0 / (1.0 + 1.0 / ratio) };
    log_incomplete_beta(0.5 * degrees, 0.5, at)
}

/// The change of $I_x$ with $\nu$, relative to $e$ to the power `log`; `by_shape` is that by the first shape.
fn outer_by_degrees(t: f64, degrees: f64, log: f64, by_shape: f64) -> f64 {
    if t <= 0.0 {
        return 0.0;
    }
    let log_density = LN_2 + ln_gamma_difference(0.5 * degrees, 0.5)
        - 0.5 * (PI * degrees).ln()
        - 0.5 * (degrees + 1.0) * log1p_square(t / degrees.sqrt());
    0.5 * by_shape + 0.5 * t / degrees * (log_density - log).exp()
}
