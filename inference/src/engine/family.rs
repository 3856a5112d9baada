//! States what a variational family is: draws with their log density, and the closed-form pull-back of gradients.
//!
//! Nothing of a Gaussian family goes on the autodiff tape. A draw is made on the host from keyed noise, the gradient of
//! the log joint density by the latents comes from the tape, and the family takes it back to its own parameters here.

mod blocks;
mod covariance_matrix;
mod delta;
mod diagonal;
mod full_rank;
mod isotropic;
mod low_rank;
mod moment_gradient;
mod named;
mod number;
mod plan;
mod rows;
mod site;

pub use covariance_matrix::CovarianceMatrix;
pub use delta::Delta;
pub use diagonal::DiagonalGaussian;
pub(crate) use diagonal::real;
pub use full_rank::FullRankGaussian;
pub use isotropic::IsotropicGaussian;
pub use low_rank::LowRankGaussian;
pub use moment_gradient::{CovarianceGradient, MomentGradient};
pub use named::NamedFamily;
pub use plan::FamilyPlan;
pub use rows::{
    MarginalOver, OuterMarginals, RowDraw, RowGaussian, RowGradient, RowInputs, RowMarginals, RowOptions, RowReach,
};
pub use site::{Gaussian, PointMass, SiteFamily};

pub(crate) use blocks::Blocks;
pub(crate) use covariance_matrix::row_major;
pub(crate) use isotropic::shared_variance;
pub(crate) use number::{DrawNumber, MeansAndVariances, Score};

use std::borrow::Cow;
use std::fmt::Debug;

pub(crate) use partita_core::special::HALF_LOG_TWO_PI;

use crate::engine::error::{Error, Result};

/// One draw from a family with what gradients need of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FamilyDraw<T = f64> {
    /// The draw $Z$.
    pub latent: Vec<T>,
    /// $Z - \mu$: the part of the draw that does not contain the location.
    pub deviation: Vec<T>,
    /// $\log q(Z)$ in nats.
    pub log_density: f64,
    /// $\nabla_Z \log q(Z)$ at fixed parameters; empty where it was not asked for ([`Family::draw_without_score`]).
    pub score: Vec<T>,
}

/// The gradient of a number by a draw, on its way to the parameters of the family.
#[derive(Debug, Clone, Copy)]
pub struct DrawGradient<'a, T = f64> {
    /// What reaches the mean $\mu$.
    pub grad_mean: &'a [T],
    /// What reaches the offset $Z - \mu$.
    pub grad_offset: &'a [T],
    /// What all is multiplied by.
    pub factor: f64,
    /// Whether the gradient of the entropy is added to it.
    pub with_entropy: bool,
    /// What reaches the variance of each component, as that of a linear layer under local reparameterisation; empty for nothing.
    pub by_variance: &'a [T],
    /// The offset $Z - \mu$ of the draw, where it was kept; empty where it was not, and found again where it is needed.
    pub deviation: &'a [T],
    /// Whether it is the first: it is then written in place of what is there, and not added to it.
    pub is_first: bool,
}

impl<'a, T> DrawGradient<'a, T> {
    /// The gradient alone, as [`Family::vjp`] takes it.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{DiagonalGaussian, DrawGradient, Family};
    /// let halved = DrawGradient { factor: 0.5, ..DrawGradient::new(&[3.0], &[4.0]) };
    /// let mut gradient = [0.0; 2];
    /// DiagonalGaussian::new(1).add_gradient(&[1.0, 0.0], &[2.0], halved, &mut gradient)?;
    /// assert_eq!(gradient, [1.5, 4.0]);
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    #[must_use]
    pub fn new(grad_mean: &'a [T], grad_offset: &'a [T]) -> Self {
        Self {
            grad_mean,
            grad_offset,
            factor: 1.0,
            with_entropy: false,
            by_variance: &[],
            deviation: &[],
            is_first: false,
        }
    }
}

/// A variational family over one vector $Z = \mu + s(\eta, \varepsilon)$ with mean $\mu$ and noise $\varepsilon$.
///
/// # Laws
/// `laws::family` checks that `draw` and its `log_density` agree with the moments and with draws into other memory, that
/// `score` is the gradient of the log density, that `vjp` is the transpose of the draw's Jacobian and `vjp_moments` that of mean and
/// covariance, that `entropy` is the mean of $-\log q$ and `add_entropy_gradient` its gradient, that `add_gradient` adds
/// what `vjp`, `add_entropy_gradient` and `vjp_variance` do, that `deviations` are those of the covariance, and that `diagonal` draws the same.
pub trait Family: Debug + Send + Sync {
    /// The length of the vector.
    fn len(&self) -> usize;

    /// The number of variational parameters.
    fn parameter_len(&self) -> usize;

    /// The number of standard normal numbers in one draw: one a component, unless the family says otherwise.
    fn noise_len(&self) -> usize {
        self.len()
    }

    /// Parameters with mean zero and standard deviations `scale`; [`FamilyPlan::start`] sets the mean.
    fn initial(&self, scale: f64) -> Vec<f64>;

    /// Draws once.
    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw;

    /// Draws once into `draw`, in the memory of an earlier draw where the family has a way.
    fn draw_into(&self, parameters: &[f64], noise: &[f64], draw: &mut FamilyDraw) {
        *draw = self.draw(parameters, noise);
    }

    /// The same for an estimator that does not read the score, which is then left empty where the family has a way.
    fn draw_without_score(&self, parameters: &[f64], noise: &[f64], draw: &mut FamilyDraw) {
        self.draw_into(parameters, noise, draw);
    }

    /// Adds to `out` the transpose of the draw's Jacobian times a gradient.
    ///
    /// `grad_mean` is the gradient that reaches the mean, `grad_offset` the one that reaches the offset $Z - \mu$. They
    /// differ where local latents depend on $Z - \mu$ only, as in a structured family.
    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]);

    /// Adds to `out` the factor of `gradient` times what [`Family::vjp`] adds and, where it is asked for,
    /// [`Family::add_entropy_gradient`] and [`Family::vjp_variance`]: in one pass where the family has a way.
    ///
    /// # Errors
    /// As for [`Family::vjp_variance`].
    fn add_gradient(
        &self,
        parameters: &[f64],
        noise: &[f64],
        gradient: DrawGradient<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        let DrawGradient { grad_mean, grad_offset, factor, with_entropy, by_variance, is_first, .. } = gradient;
        if is_first {
            out.fill(0.0);
        }
        let mut own = vec![0.0; self.parameter_len()];
        self.vjp(parameters, noise, grad_mean, grad_offset, &mut own);
        if with_entropy {
            self.add_entropy_gradient(parameters, &mut own);
        }
        partita_core::kernel::add_scaled(out, factor, &own);
        if by_variance.is_empty() {
            return Ok(());
        }
        let by_variance: Vec<f64> = by_variance.iter().map(|gradient| factor * gradient).collect();
        self.vjp_variance(parameters, &by_variance, out)
    }

    /// Adds to `out` the gradient by the parameters that a gradient by the variance of each component gives, where
    /// `gradient` is not zero.
    ///
    /// # Errors
    /// [`Error::Setting`] where such components are not independent of each other and of the rest.
    fn vjp_variance(&self, _parameters: &[f64], gradient: &[f64], _out: &mut [f64]) -> Result<()> {
        let found = format_args!("{self:?} over the weights of a linear layer with local reparameterisation");
        let expected = "Gaussian::diagonal() or Gaussian::isotropic() for these sites";
        Error::unless(gradient.iter().all(|g| *g == 0.0), "family", found, expected)
    }

    /// Adds to `out` the gradient by the parameters that a gradient by mean and covariance gives, entries between
    /// components that the family holds independent left out.
    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]);

    /// Moves the mean to `mean`: the first parameters of a family, unless it says otherwise.
    fn set_mean(&self, parameters: &mut [f64], mean: &[f64]) {
        parameters[..self.len()].copy_from_slice(mean);
    }

    /// Where among the parameters the logarithm of a factor of each component's whole deviation is, if there is one.
    fn log_scales(&self) -> Vec<Option<usize>> {
        vec![None; self.len()]
    }

    /// The entropy in nats.
    fn entropy(&self, parameters: &[f64]) -> f64;

    /// Adds the gradient of the entropy to `out`.
    fn add_entropy_gradient(&self, parameters: &[f64], out: &mut [f64]);

    /// The covariance, as standard deviations alone where components are independent.
    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix;

    /// The same family, if it is the full-rank Gaussian with its parameters: its steps may be taken in coordinates of a
    /// covariance.
    fn full_rank(&self) -> Option<FullRankGaussian> {
        None
    }

    /// The same family, if its components are independent and its parameters are their means, then the logarithms of their standard
    /// deviations: many of its draws may be in single precision.
    fn diagonal(&self) -> Option<DiagonalGaussian> {
        None
    }

    /// The standard deviation of each component: without a matrix over all of them where the family has a way.
    fn deviations(&self, parameters: &[f64]) -> Vec<f64> {
        self.covariance_matrix(parameters).deviations()
    }

    /// The variance of each component: the squares of [`Family::deviations`].
    fn variances(&self, parameters: &[f64]) -> Vec<f64> {
        let mut variances = self.deviations(parameters);
        variances.iter_mut().for_each(|number| *number *= *number);
        variances
    }

    /// The parameters of the member with this mean and covariance, or of the nearest the family has.
    ///
    /// # Errors
    /// [`crate::Error::Improper`] for a covariance that is not positive definite.
    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>>;

    /// The covariance, row-major.
    fn covariance(&self, parameters: &[f64]) -> Vec<f64> {
        self.covariance_matrix(parameters).dense()
    }

    /// The mean $\mu$.
    fn mean(&self, parameters: &[f64]) -> Vec<f64> {
        self.draw(parameters, &vec![0.0; self.noise_len()]).latent
    }

    /// The mean, where it stands among the parameters if it does.
    fn location<'p>(&self, parameters: &'p [f64]) -> Cow<'p, [f64]> {
        Cow::Owned(self.mean(parameters))
    }

    /// Whether the vector has no components.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
