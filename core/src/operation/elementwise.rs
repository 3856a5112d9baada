//! Puts a function of one number and its derivative on the tape for every entry of a tensor.

use burn::tensor::Tensor;

use super::apply;
use crate::handle::Handle;

/// Applies `function` to every entry; the backward pass multiplies by `derivative` at the same entry.
pub(super) fn elementwise<const D: usize>(
    x: Tensor<D>,
    function: fn(f64) -> f64,
    derivative: fn(f64) -> f64,
) -> Tensor<D> {
    apply(
        vec![Handle::from(x)],
        Box::new(move |mut inputs| {
            let x = inputs.swap_remove(0);
            let mut value = x.clone();
            value.values.iter_mut().for_each(|entry| *entry = function(*entry));
            let pull_back =
                move |gradient: &[f64]| vec![x.values.iter().zip(gradient).map(|(x, g)| g * derivative(*x)).collect()];
            (value, Box::new(pull_back))
        }),
    )
    .typed()
}
