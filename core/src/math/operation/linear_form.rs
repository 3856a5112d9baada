//! Sums a tensor's numbers times given weights as one node of the tape: how a gradient from elsewhere enters it.

use super::apply;
use crate::array::Array;
use crate::handle::Handle;
use crate::math::kernel::dot;

/// $`\sum_i w_i x_i`$, with one weight for each number of `input`; its gradient by them are the weights.
pub(crate) fn linear_form(input: Handle, weights: Vec<f64>) -> Handle {
    apply(
        vec![input],
        Box::new(move |arrays| {
            let value = arrays.iter().map(|array| dot(&array.values, &weights)).sum();
            let vjp = move |gradient: &[f64]| {
                let mut weights = weights;
                match gradient {
                    [scale] if (*scale - 1.0).abs() > 0.0 => weights.iter_mut().for_each(|weight| *weight *= scale),
                    _ => {}
                }
                vec![weights]
            };
            (Array { values: vec![value], shape: vec![1] }, Box::new(vjp))
        }),
    )
}
