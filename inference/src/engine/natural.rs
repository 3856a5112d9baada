//! States what an exponential family is, so that approximate factors can be multiplied, divided and raised to powers.

mod normal;
pub(crate) mod triangle;

pub(crate) use normal::PartFactor;
pub use normal::{CovarianceForm, NormalFamily};

use std::fmt::Debug;

use partita_core::NoiseStream;

use crate::engine::error::{Error, Result};

/// The first place where natural parameters are those of no density.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impropriety {
    /// The component, or the largest entry of the direction, that has no proper density.
    pub component: usize,
    /// What should be positive there: a precision, the smallest eigenvalue of a precision matrix, a shape or a rate.
    pub found: f64,
}

/// An exponential family over one vector, in natural parameters:
///
/// ```math
/// q(\theta) = \exp\bigl(\eta^\top T(\theta) - A(\eta)\bigr)
/// ```
/// with $`\eta`$ = `natural`, the statistics $`T`$ = [`ExponentialFamily::statistics`], the log partition function
/// $`A`$ = [`ExponentialFamily::log_partition`], in nats, which holds all constants, and the mean parameters
/// $`m = \mathrm{E}_q[T] = \nabla A(\eta)`$. The form is minimal: no entry of $`T`$ is a linear function of the others.
///
/// Any $`\eta`$ is a factor $`\exp(\eta^\top T(\theta))`$, with precisions of any sign; only some are densities, and
/// what needs one says so with [`Error::Improper`].
///
/// # Laws
/// `laws::exponential_family` checks that $`m`$ is the gradient of $`A`$ and its derivatives a positive definite
/// matrix, that the maps between natural, mean and standard parameters invert each other, that the divergence of
/// Kullback and Leibler and the entropy agree with quadrature and with draws, and that improper parameters are refused.
///
/// # References
/// Wainwright and Jordan (2008), Graphical models, exponential families, and variational inference, section 3.
pub trait ExponentialFamily: Debug + Send + Sync {
    /// The length of the vector $`\theta`$.
    fn len(&self) -> usize;

    /// The number of natural parameters.
    fn natural_len(&self) -> usize;

    /// $`T(\theta)`$.
    fn statistics(&self, point: &[f64]) -> Vec<f64>;

    /// The first place where `natural` is no density, if any; numbers that are not finite are improper.
    fn impropriety(&self, natural: &[f64]) -> Option<Impropriety>;

    /// $`A(\eta)`$ in nats; not a number for an improper $`\eta`$, which [`ExponentialFamily::check`] finds.
    fn log_partition(&self, natural: &[f64]) -> f64;

    /// $`m = \mathrm{E}_q[T]`$ of a proper $`\eta`$.
    fn mean_parameters(&self, natural: &[f64]) -> Vec<f64>;

    /// $`\eta`$ from mean parameters.
    ///
    /// # Errors
    /// [`Error::Improper`] if they are the means of no member.
    fn natural_of_mean(&self, mean_parameters: &[f64]) -> Result<Vec<f64>>;

    /// The parameters people know a proper member by; the type says which.
    fn standard(&self, natural: &[f64]) -> Vec<f64>;

    /// $`\eta`$ from the parameters people know a member by.
    ///
    /// # Errors
    /// [`Error::Improper`] if a scale, shape or rate is not positive.
    fn natural_of_standard(&self, standard: &[f64]) -> Result<Vec<f64>>;

    /// The gradient of $`\eta^\top T(\theta)`$ by $`\theta`$ for any factor, proper or not.
    fn score(&self, natural: &[f64], point: &[f64]) -> Vec<f64>;

    /// Draws once from a proper $`\eta`$.
    fn draw(&self, natural: &[f64], noise: &mut NoiseStream) -> Vec<f64>;

    /// Refuses natural parameters of no density.
    ///
    /// # Errors
    /// [`Error::Improper`], with the component and what is not positive there.
    fn check(&self, operation: &str, natural: &[f64]) -> Result<()> {
        match self.impropriety(natural) {
            None => Ok(()),
            Some(Impropriety { component, found }) => Err(Error::Improper {
                operation: operation.to_owned(),
                component: format!("component {component}"),
                found,
            }),
        }
    }

    /// The entropy $`A(\eta) - \eta^\top m`$ in nats of a proper $`\eta`$.
    fn entropy(&self, natural: &[f64]) -> f64 {
        self.log_partition(natural) - dot(natural, &self.mean_parameters(natural))
    }

    /// $`\mathrm{KL}(q\,\|\,p) = (\eta_q - \eta_p)^\top m_q - A(\eta_q) + A(\eta_p)`$ in nats, both proper.
    fn kl_divergence(&self, q: &[f64], p: &[f64]) -> f64 {
        kl_by_means(self, q, p)
    }

    /// Whether the vector has no components.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What [`ExponentialFamily::kl_divergence`] says, for any family.
fn kl_by_means<F: ExponentialFamily + ?Sized>(family: &F, q: &[f64], p: &[f64]) -> f64 {
    let means = family.mean_parameters(q);
    let difference: f64 = q.iter().zip(p).zip(&means).map(|((q, p), m)| (q - p) * m).sum();
    difference - family.log_partition(q) + family.log_partition(p)
}

/// The sum of products.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
