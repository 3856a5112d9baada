//! Gives the logarithm of the gamma function as a differentiable operation on tensors.

use burn::tensor::Tensor;

use super::elementwise::named;
use crate::math::special;

/// The logarithm of the gamma function, entry by entry, for entries > 0.
///
/// $$ \log\Gamma(x), \qquad \frac{d}{dx}\log\Gamma(x) = \psi(x) $$ with $\psi$ = [`digamma`](super::digamma()).
///
/// # Laws
/// `laws::operation` checks the value at integers and halves, and the gradient against differences.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use partita_core::{Device, ln_gamma};
/// let x = Device::flex().tensor(vec![5.0], [1]);
/// let value: f64 = ln_gamma(x).into_scalar();
/// assert!((value - 24.0_f64.ln()).abs() < 1e-14); // Γ(5) = 4!
/// # }
/// ```
///
/// # References
/// NIST Digital Library of Mathematical Functions, 5.2.
#[must_use]
pub fn ln_gamma<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    named("ln_gamma", x, special::ln_gamma, special::digamma)
}
