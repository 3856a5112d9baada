//! Defines the clutter problem, a signal in known noise, as a model; its submodules compute reference posteriors.

mod planar;
mod planar_reference;
mod reference;

pub use planar::{PlanarClutter, PlanarClutterSettings, PlanarCovariance};
pub use planar_reference::PlanarPosterior;
pub use reference::ClutterPosterior;

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::NoiseStream;
use partita::core::special::HALF_LOG_TWO_PI;
use partita::{Model, Normal, Result, Scope, burn};

/// Numbers of which some are a signal with an unknown mean and the rest known noise.
///
/// $$ \theta \sim N(m_0, s_0^2), \qquad
/// x_i \mid \theta \sim (1-w)\thinspace N(\theta, \sigma^2) + w\thinspace N(\nu, \lambda^2) $$
/// with $m_0$ = `prior_mean`, $s_0$ = `prior_sd`, $\sigma$ = `signal_sd`, $w$ = `noise_weight`, $\nu$ = `noise_mean`
/// and $\lambda$ = `noise_sd`, all known.
///
/// # Shapes
/// Global `theta` `[1]`; data `[rows]` in the plate `row`. There is no distribution for the mixture, so `x` is a
/// factor; with $w = 0$ it is a normal observation, the misspecified model, to which robust losses apply.
///
/// # Example
/// ```
/// use partita_studies::{Clutter, ClutterSettings};
/// let settings = ClutterSettings { noise_weight: 0.0, prior_sd: 1.0, ..ClutterSettings::near() };
/// // Without noise it is conjugate: N(1.5, 1/4).
/// let exact = Clutter::new(settings).exact(&[1.0, 2.0, 3.0]);
/// assert!((exact.mean - 1.5).abs() < 1e-12 && (exact.variance - 0.25).abs() < 1e-12);
/// ```
///
/// # References
/// Minka (2001), *Expectation propagation for approximate Bayesian inference*, section 4; Mildner (2024), sections
/// 3.7.1 and 3.7.2, for the settings.
#[derive(Module, Debug)]
pub struct Clutter {
    #[module(skip)]
    settings: ClutterSettings,
}

/// The known parameters of a [`Clutter`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClutterSettings {
    /// $m_0$.
    pub prior_mean: f64,
    /// $s_0$.
    pub prior_sd: f64,
    /// $\sigma$.
    pub signal_sd: f64,
    /// $\nu$.
    pub noise_mean: f64,
    /// $\lambda$.
    pub noise_sd: f64,
    /// $w$.
    pub noise_weight: f64,
}

impl ClutterSettings {
    /// Noise N(0, 2), half of the numbers, for a signal around 2: the mixture has one peak (variances in brackets).
    #[must_use]
    pub fn near() -> Self {
        let (prior_sd, noise_sd) = (10.0_f64.sqrt(), 2.0_f64.sqrt());
        Self { prior_mean: 0.0, prior_sd, signal_sd: 1.0, noise_mean: 0.0, noise_sd, noise_weight: 0.5 }
    }

    /// Noise N(0, 0.75), half of the numbers, for a signal around 4: the mixture has two peaks.
    #[must_use]
    pub fn far() -> Self {
        Self { noise_sd: 0.75_f64.sqrt(), ..Self::near() }
    }
}

impl Clutter {
    /// The model with these known parameters.
    #[must_use]
    pub fn new(settings: ClutterSettings) -> Self {
        Self { settings }
    }

    /// Draws `count` numbers around this signal.
    #[must_use]
    pub fn draw(&self, theta: f64, count: usize, noise: &mut NoiseStream) -> Vec<f64> {
        let own = self.settings;
        let mut one = || {
            let (location, scale) = if noise.uniform() < own.noise_weight {
                (own.noise_mean, own.noise_sd)
            } else {
                (theta, own.signal_sd)
            };
            location + scale * noise.standard_normal()
        };
        (0..count).map(|_| one()).collect()
    }
}

impl Model for Clutter {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("theta", Normal::new(self.settings.prior_mean, self.settings.prior_sd))
    }

    fn local(&self, scope: &mut Scope<'_>, theta: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        let own = self.settings;
        scope.plate("row", data.dims()[0], |scope, rows| {
            let x = rows.take(data)?;
            let component = |deviation: Tensor<1>, log_weight: f64, sd: f64| {
                deviation.powi_scalar(2) * (-0.5 / (sd * sd)) + (log_weight - sd.ln() - HALF_LOG_TWO_PI)
            };
            if own.noise_weight <= 0.0 {
                return scope.observe("x", Normal::new(theta.clone(), own.signal_sd).over(rows), x);
            }
            let signal = component(x.clone() - theta.clone(), (1.0 - own.noise_weight).ln(), own.signal_sd);
            let noise = component(x - own.noise_mean, own.noise_weight.ln(), own.noise_sd);
            let largest = signal.clone().max_pair(noise.clone()).detach();
            scope.factor("x", ((signal - largest.clone()).exp() + (noise - largest.clone()).exp()).log() + largest)
        })
    }
}
