//! Gives the digamma function as a differentiable operation on tensors.

use burn::tensor::Tensor;

use super::elementwise::named;
use crate::math::special;

/// The digamma function $\psi$, the derivative of the logarithm of the gamma function, for entries > 0.
///
/// $$ \psi(x) = \frac{d}{dx} \log\Gamma(x), \qquad \frac{d}{dx}\psi(x) = \psi_1(x) $$
/// with $\psi_1$ the trigamma function.
///
/// # Laws
/// `laws::operation` checks the value at one and one half, and the gradient against differences.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use partita_core::{Device, digamma};
/// let x = Device::flex().tensor(vec![1.0], [1]);
/// let value: f64 = digamma(x).into_scalar();
/// assert!((value + 0.577_215_664_901_532_9).abs() < 1e-14); // minus Euler's constant
/// # }
/// ```
///
/// # References
/// NIST Digital Library of Mathematical Functions, 5.2 and 5.15.
#[must_use]
pub fn digamma<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    named("digamma", x, special::digamma, special::trigamma)
}
