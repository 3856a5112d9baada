//! Maps unconstrained vectors one-to-one onto supports, with the log-determinant and its gradient in closed form.
//!
//! Variational families live on unconstrained vectors; a bijector carries their draws to the support of a latent. It
//! runs on the host in f64 and never on the tape: the tape starts at the constrained value, and [`Bijector::vjp`]
//! propagates the gradient found there to the unconstrained vector.

mod correlation_cholesky;
mod covariance_cholesky;
mod exponential;
mod half_line;
mod identity;
mod interval;
mod ordered;
mod positive_ordered;
mod simplex;

pub use correlation_cholesky::CorrelationCholeskyMap;
pub use covariance_cholesky::CovarianceCholeskyMap;
pub use exponential::ExponentialMap;
pub use half_line::HalfLineMap;
pub use identity::IdentityMap;
pub use interval::IntervalMap;
pub use ordered::OrderedMap;
pub use positive_ordered::PositiveOrderedMap;
pub use simplex::SimplexMap;

use std::fmt::Debug;

use crate::distribution::{Support, Term};
use crate::error::{Error, Result};

/// A smooth one-to-one map from unconstrained vectors to one event of a support.
///
/// With $u$ = `unconstrained` and $x = f(u)$ = `constrained`, $J = \partial x / \partial u$. Where an event has more
/// numbers than degrees of freedom (simplex, Cholesky factors), $\log|\det J|$ is taken with respect to the *free
/// entries*, which each map names; densities on that support must be stated with respect to the same entries.
/// Elementwise maps take events of any length.
///
/// # Shapes
/// `constrained` and `gradient` have the length of the event, `unconstrained` and `out` have
/// [`Bijector::unconstrained_len`] of it; both row-major. Other lengths are a caller's error.
///
/// # Laws
/// `laws::bijector` checks: `inverse` after `forward` and `forward` after `inverse` return their input; the returned
/// log-determinant is that of the numerical Jacobian of the free entries; `vjp` equals finite differences of `gradient
/// · x + weight · log|det J|`, in the tails too.
pub trait Bijector: Debug + Send + Sync {
    /// Length of the unconstrained vector for an event of `constrained` numbers.
    ///
    /// The default is that of maps from numbers to as many numbers.
    ///
    /// # Errors
    /// [`Error::Length`] if no such event exists, for example a matrix that is not square.
    fn unconstrained_len(&self, constrained: usize) -> Result<usize> {
        Ok(constrained)
    }

    /// Writes x = f(u) and returns log|det J| of the forward map, in nats.
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64;

    /// Writes u with f(u) = x.
    ///
    /// # Errors
    /// [`Error::Support`] if x is not in the support; it names the offending number.
    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()>;

    /// Writes Jᵀ·gradient + weight·∇log|det J|: the vector–Jacobian product of a gradient by x, plus `weight` times the
    /// gradient of the log-determinant.
    fn vjp(&self, unconstrained: &[f64], constrained: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]);

    /// The map in tensor operations: $x$ with one row an event, and terms whose sum over events is $\log|\det J|$.
    ///
    /// `None` where tensor operations do not suffice. Must agree with [`Bijector::forward`] to rounding, except that an
    /// $x$ in the far tails may reach an end of its support.
    fn on_device(&self, _unconstrained: Term) -> Option<(Term, Vec<Term>)> {
        None
    }
}

/// Chooses the map onto `support`.
///
/// # Errors
/// [`Error::Argument`] if the support is discrete, or an interval without interior.
///
/// # Example
/// ```
/// use partita_core::{Support, for_support};
/// let mut scale = [0.0];
/// let log_det = for_support(&Support::Positive)?.forward(&[2.0], &mut scale);
/// assert_eq!((scale[0], log_det), (2.0_f64.exp(), 2.0));
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn for_support(support: &Support) -> Result<Box<dyn Bijector>> {
    match support {
        Support::Real | Support::RealVector => Ok(Box::new(IdentityMap)),
        Support::Positive => Ok(Box::new(ExponentialMap)),
        Support::Interval(low, high) => Ok(Box::new(IntervalMap::new(*low, *high)?)),
        Support::GreaterThan(low) => Ok(Box::new(HalfLineMap::above(*low)?)),
        Support::LessThan(high) => Ok(Box::new(HalfLineMap::below(*high)?)),
        Support::Simplex => Ok(Box::new(SimplexMap)),
        Support::Ordered => Ok(Box::new(OrderedMap)),
        Support::PositiveOrdered => Ok(Box::new(PositiveOrderedMap)),
        Support::CorrelationCholesky => Ok(Box::new(CorrelationCholeskyMap)),
        Support::CovarianceCholesky => Ok(Box::new(CovarianceCholeskyMap)),
        Support::NonNegative => Err(Error::Argument {
            operation: "choosing a bijector".into(),
            argument: "support",
            found: support.describe(),
            expected: "a support without a point of positive probability: a latent with one has no density",
        }),
        Support::Boolean
        | Support::Count
        | Support::CountUpTo(_)
        | Support::CountBetween(..)
        | Support::CountVector => Err(Error::Argument {
            operation: "choosing a bijector".into(),
            argument: "support",
            found: support.describe(),
            expected: "a continuous support: a discrete latent has no gradient, so sum it out of the model (a mixture does) or observe it",
        }),
    }
}

/// The error of an inverse at a number outside the support.
fn outside(map: &'static str, support: &str, index: usize, found: f64) -> Error {
    Error::Support {
        operation: format!("inverse of the {map}"),
        distribution: "the map's values".into(),
        found,
        index,
        support: support.into(),
    }
}

/// Raises an underflowed positive number to the smallest normal one; keeps NaN and infinity.
fn above_zero(x: f64) -> f64 {
    x.clamp(f64::MIN_POSITIVE, f64::INFINITY)
}

/// The side of a square matrix of `numbers` entries.
fn side(map: &'static str, numbers: usize) -> Result<usize> {
    let side = numbers.isqrt();
    if side == 0 || side * side != numbers {
        return Err(Error::Length {
            operation: format!("event of the {map}"),
            found: numbers,
            expected: (side + 1) * (side + 1),
            remedy: "Give a square matrix, row-major.".into(),
        });
    }
    Ok(side)
}

/// The error of an event without numbers.
fn empty_event(map: &'static str) -> Error {
    Error::Length {
        operation: format!("event of the {map}"),
        found: 0,
        expected: 1,
        remedy: "Give the event at least one number.".into(),
    }
}
