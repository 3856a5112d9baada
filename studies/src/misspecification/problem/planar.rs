//! Defines the clutter problem in the plane: a signal with an unknown mean of two components, in known noise.

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::NoiseStream;
use partita::{Model, Normal, Result, Scope, burn};

use super::HALF_LOG_TWO_PI;

/// A symmetric positive definite matrix of the plane, row by row.
pub type PlanarCovariance = [[f64; 2]; 2];

/// Points of the plane of which some are a signal with an unknown mean and the rest known noise.
///
/// ```math
/// \theta \sim N(0, s_0^2 I), \qquad x_i \mid \theta \sim (1-w)\thinspace N(\theta, \Sigma)
///   + w\thinspace N(\nu, \Lambda)
/// ```
/// with $`s_0`$ = `prior_sd`, $`\Sigma`$ = `signal_covariance`, $`w`$ = `noise_weight`, $`\nu`$ = `noise_mean` and
/// $`\Lambda`$ = `noise_covariance`, all known. [`Clutter`](crate::Clutter) is the same in one dimension.
///
/// # Shapes
/// Global `theta` `[2]`; data `[rows, 2]` in the plate `row`, where `x` is a factor.
///
/// # Example
/// ```
/// use partita_studies::{PlanarClutter, PlanarClutterSettings};
/// let settings = PlanarClutterSettings { noise_weight: 0.0, prior_sd: 1.0, ..PlanarClutterSettings::isotropic() };
/// // Without noise it is conjugate: two points of variance 0.8 have the precision 1 + 2/0.8.
/// let exact = PlanarClutter::new(settings).exact(&[[1.0, 2.0], [3.0, -1.0]]);
/// assert!((exact.covariance[0][0] - 1.0 / 3.5).abs() < 1e-12 && exact.covariance[0][1].abs() < 1e-12);
/// assert!((exact.mean[0] - 5.0 / 3.5).abs() < 1e-12 && (exact.mean[1] - 1.25 / 3.5).abs() < 1e-12);
/// ```
///
/// # References
/// Mildner (2024), *Federated learning under misspecification*, sections 3.7.3, 3.7.4, 4.5.3 and 4.5.4.
#[derive(Module, Debug)]
pub struct PlanarClutter {
    #[module(skip)]
    pub(super) settings: PlanarClutterSettings,
}

/// The known parameters of a [`PlanarClutter`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanarClutterSettings {
    /// $`s_0`$.
    pub prior_sd: f64,
    /// $`\Sigma`$; only its lower triangle is read.
    pub signal_covariance: PlanarCovariance,
    /// $`\nu`$.
    pub noise_mean: [f64; 2],
    /// $`\Lambda`$; only its lower triangle is read.
    pub noise_covariance: PlanarCovariance,
    /// $`w`$.
    pub noise_weight: f64,
}

impl PlanarClutterSettings {
    /// Signal with covariance 0.8 I in noise N((1, 1), 1.5 I), half of the points each, and the prior N(0, 10 I).
    #[must_use]
    pub fn isotropic() -> Self {
        let round = |variance| [[variance, 0.0], [0.0, variance]];
        Self {
            prior_sd: 10.0_f64.sqrt(),
            signal_covariance: round(0.8),
            noise_mean: [1.0; 2],
            noise_covariance: round(1.5),
            noise_weight: 0.5,
        }
    }
}

impl PlanarClutter {
    /// The model with these known parameters. A covariance that is not positive definite gives a log density of NaN,
    /// which fits refuse.
    #[must_use]
    pub fn new(settings: PlanarClutterSettings) -> Self {
        Self { settings }
    }

    /// Draws `count` points around this signal.
    #[must_use]
    pub fn draw(&self, theta: [f64; 2], count: usize, noise: &mut NoiseStream) -> Vec<[f64; 2]> {
        let own = self.settings;
        let mut one = || {
            let (location, covariance) = if noise.uniform() < own.noise_weight {
                (own.noise_mean, own.noise_covariance)
            } else {
                (theta, own.signal_covariance)
            };
            let Whitening { first, slope, second } = Whitening::new(covariance);
            let (z, w) = (noise.standard_normal(), noise.standard_normal());
            [location[0] + first * z, location[1] + slope * z + second * w]
        };
        (0..count).map(|_| one()).collect()
    }
}

/// The lower Cholesky factor of a covariance: `[[first, 0], [slope, second]]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whitening {
    pub(super) first: f64,
    pub(super) slope: f64,
    pub(super) second: f64,
}

impl Whitening {
    pub(super) fn new(covariance: PlanarCovariance) -> Self {
        let first = covariance[0][0].sqrt();
        let slope = covariance[1][0] / first;
        Self { first, slope, second: (covariance[1][1] - slope * slope).sqrt() }
    }

    /// The log of the normal density at its mean.
    pub(super) fn log_peak(self) -> f64 {
        -(self.first * self.second).ln() - 2.0 * HALF_LOG_TWO_PI
    }
}

impl Model for PlanarClutter {
    type Globals = Tensor<1>;
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("theta", Normal::new(0.0, self.settings.prior_sd).iid([2]))
    }

    fn local(&self, scope: &mut Scope<'_>, theta: &Tensor<1>, data: &Tensor<2>) -> Result<()> {
        let own = self.settings;
        scope.plate("row", data.dims()[0], |scope, rows| {
            let x = rows.take(data)?;
            let count = x.dims()[0];
            let column = |index: usize| x.clone().slice([0..count, index..index + 1]).reshape([count]);
            let component = |deviation: [Tensor<1>; 2], log_weight: f64, covariance| {
                let whitening = Whitening::new(covariance);
                let [first, second] = deviation;
                let first = first / whitening.first;
                let second = (second - first.clone() * whitening.slope) / whitening.second;
                (first.powi_scalar(2) + second.powi_scalar(2)) * -0.5 + (log_weight + whitening.log_peak())
            };
            let from_signal = [0, 1].map(|index| column(index) - theta.clone().narrow(0, index, 1));
            let from_noise = [0, 1].map(|index| column(index) - own.noise_mean[index]);
            let signal = component(from_signal, (1.0 - own.noise_weight).ln(), own.signal_covariance);
            let noise = component(from_noise, own.noise_weight.ln(), own.noise_covariance);
            let largest = signal.clone().max_pair(noise.clone()).detach();
            scope.factor("x", ((signal - largest.clone()).exp() + (noise - largest.clone()).exp()).log() + largest)
        })
    }
}
