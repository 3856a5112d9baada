//! Puts a function of one number and its derivative on the tape for every entry of a tensor.

use burn::tensor::Tensor;

use super::{apply, computes_on_host};
use crate::handle::Handle;

/// A function of one number with its own `derivative`, applied to every entry as one node of the tape.
///
/// Where a model needs a scalar function of a few numbers, one such node costs less than a chain of Burn's operations.
///
/// # Example
/// ```
/// use partita_core::{Device, elementwise};
/// let omega = Device::flex().tensor(vec![0.0], [1]);
/// let sd: f64 = elementwise(omega, |omega| (-omega).exp(), |omega| -(-omega).exp()).into_scalar();
/// assert_eq!(sd, 1.0);
/// ```
#[must_use]
pub fn elementwise<const D: usize>(x: Tensor<D>, function: fn(f64) -> f64, derivative: fn(f64) -> f64) -> Tensor<D> {
    named("elementwise", x, function, derivative)
}

/// As [`elementwise`], for a function with a name of its own.
pub(super) fn named<const D: usize>(
    name: &str,
    x: Tensor<D>,
    function: fn(f64) -> f64,
    derivative: fn(f64) -> f64,
) -> Tensor<D> {
    computes_on_host(name);
    apply(
        vec![Handle::from(x)],
        Box::new(move |mut inputs| {
            let x = inputs.swap_remove(0);
            let mut value = x.clone();
            value.values.iter_mut().for_each(|entry| *entry = function(*entry));
            let vjp =
                move |gradient: &[f64]| vec![x.values.iter().zip(gradient).map(|(x, g)| g * derivative(*x)).collect()];
            (value, Box::new(vjp))
        }),
    )
    .typed()
}
