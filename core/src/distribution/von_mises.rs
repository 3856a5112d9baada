//! Gives the von Mises distribution of angles, the normal distribution of the circle.

use super::{Density, Gradient, distribution};
use crate::math::special::{HALF_LOG_TWO_PI, bessel_ratios, log_bessel_zero, normal_cumulative};
use crate::noise::NoiseStream;

use std::f64::consts::{PI, SQRT_2, TAU};

distribution! {
    /// The von Mises distribution on the angles between $-\pi$ and $\pi$.
    ///
    /// $$ \log p(x) = \kappa\cos(x-\mu) - \log\big(2\pi I_0(\kappa)\big) $$
    /// with $\mu$ = `location`, any angle, and $\kappa$ = `concentration` > 0; `von_mises(μ, κ)` of Stan, for values
    /// between $-\pi$ and $\pi$.
    ///
    /// It has no `log_cdf`: on a circle a distribution function depends on where the circle is cut, so that truncation
    /// and censoring have no meaning. `cumulative` counts from $-\pi$. Mean and variance of the numbers between
    /// $-\pi$ and $\pi$ depend on the cut too, and are not given.
    ///
    /// # Shapes
    /// `location` and `concentration` are numbers or tensors of one shape; a tensor of shape `[1]` serves every event.
    ///
    /// # Numerics
    /// The log density is accurate for any concentration. `cumulative` has absolute accuracy only, 1e-13.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, VonMises};
    /// let log_prob = VonMises::new(0.0, 1e-300).log_prob_of(&Array::scalar(3.0))?;
    /// assert!((log_prob + std::f64::consts::TAU.ln()).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    ///
    /// # References
    /// Best and Fisher (1979), *Efficient simulation of the von Mises distribution*; Hill (1977), Algorithm 518.
    pub struct VonMises: Continuous where |_| Support::Interval(-PI, PI);

    /// The von Mises distribution around `location`.
    pub fn new(location: L in Real, concentration: C in Positive);
}

impl Density for VonMises {
    fn log_prob(&self, value: &[f64], [location, concentration, _]: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (concentration, angle) = (concentration[0], value[0] - location[0]);
        let [log_scaled, ratio] = log_bessel_zero(concentration);
        // cos - 1, without cancellation near the location.
        let fall = -2.0 * (0.5 * angle).sin().powi(2);
        let slope = concentration * angle.sin();
        gradient.add([-slope, slope, fall + (1.0 - ratio), 0.0]);
        concentration * fall - TAU.ln() - log_scaled
    }

    fn log_power_integral(
        &self,
        power: f64,
        [_, concentration, _]: [&[f64]; 3],
        gradient: &mut Gradient<'_>,
    ) -> Option<f64> {
        let [[own, own_ratio], [log_scaled, ratio]] = [power * concentration[0], concentration[0]].map(log_bessel_zero);
        gradient.add([0.0, 0.0, power * (own_ratio - ratio), 0.0]);
        Some((1.0 - power) * TAU.ln() + own - power * log_scaled)
    }

    fn draw(&self, [location, concentration, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let angle = location[0] + deviation(concentration[0], noise);
        let wrapped = angle - TAU * (angle / TAU).round();
        out[0] = wrapped.clamp((-PI).next_up(), PI.next_down());
    }

    fn cumulative(&self, value: f64, [location, concentration, _]: [&[f64]; 3]) -> Option<f64> {
        if value <= -PI || value >= PI {
            return Some(if value < 0.0 { 0.0 } else { 1.0 });
        }
        let (from, to) = (-PI - location[0], value - location[0]);
        if concentration[0] > NORMAL_FROM {
            let [below, up_to] = [from, to].map(|angle| within_half_turn(angle, concentration[0]));
            // From where the circle is cut to the value, across the point opposite the location or not.
            let turns = if up_to.0 < below.0 { 1.0 } else { 0.0 };
            return Some((up_to.1 - below.1 + turns).clamp(0.0, 1.0));
        }
        // The integral of the Fourier series of the density.
        let terms = bessel_ratios(concentration[0]).into_iter().enumerate().map(|(before, ratio)| {
            let order = before as f64 + 1.0;
            ratio / order * ((order * to).sin() - (order * from).sin())
        });
        Some(((0.5 * (to - from) + terms.sum::<f64>()) / PI).clamp(0.0, 1.0))
    }
}

/// Above this concentration the normal limit has all digits.
const NORMAL_FROM: f64 = 1e8;

/// The angle between $-\pi$ and $\pi$, and the probability of those between $-\pi$ and it around the location 0.
///
/// For a large concentration: $u = 2\sqrt\kappa\sin(x/2)$ has the density $\varphi(u)\thinspace(1 + u^2/8\kappa + \dots)$,
/// but for a constant.
fn within_half_turn(angle: f64, concentration: f64) -> (f64, f64) {
    let wrapped = angle - TAU * (angle / TAU).round();
    let u = 2.0 * concentration.sqrt() * (0.5 * wrapped).sin();
    let density = (-0.5 * u * u - HALF_LOG_TWO_PI).exp();
    (wrapped, normal_cumulative(u) - u * density / (8.0 * concentration + 1.0))
}

/// An angle around 0 by rejection from a wrapped Cauchy distribution; by the normal limit where that loses its digits.
fn deviation(concentration: f64, noise: &mut NoiseStream) -> f64 {
    const UNIFORM_TO: f64 = 1e-12;
    if concentration > NORMAL_FROM {
        return noise.standard_normal() / concentration.sqrt();
    }
    if concentration < UNIFORM_TO {
        return TAU * (noise.uniform() - 0.5);
    }
    let length = 1.0_f64.hypot(2.0 * concentration);
    // (τ - √(2τ)) / 2κ with τ = 1 + √(1 + 4κ²), which cancels for small κ.
    let root = (1.0 + length).sqrt();
    let rho = 2.0 * concentration * root / ((1.0 + length) * (root + SQRT_2));
    let spread = (1.0 + rho * rho) / (2.0 * rho);
    loop {
        let z = (PI * noise.uniform()).cos();
        let f = (1.0 + spread * z) / (spread + z);
        let c = concentration * (spread - f);
        let second = noise.uniform();
        if c * (2.0 - c) > second || (c / second).ln() + 1.0 >= c {
            let angle = f.clamp(-1.0, 1.0).acos();
            return if noise.uniform() < 0.5 { -angle } else { angle };
        }
    }
}
