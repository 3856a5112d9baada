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
                // A sum of log densities has the gradient 1 by each.
                for scale in gradient.iter().filter(|scale| scale.to_bits() != 1.0_f64.to_bits()) {
                    weights.iter_mut().for_each(|weight| *weight *= scale);
                }
                vec![weights]
            };
            (Array { values: vec![value], shape: vec![1] }, Box::new(vjp))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn weights_are_multiplied_by_the_gradient_also_where_it_is_no_number() {
        for scale in [1.0, -2.0, f64::NAN] {
            let x = Device::flex().leaf::<1>(vec![3.0, 5.0], [2]);
            let form = linear_form(x.clone().into(), vec![0.5, 7.0]).typed::<1>();
            assert_eq!(Handle::from(form.clone()).read().unwrap().values, [36.5]);
            let by = Handle::from(x.grad(&(form * scale).backward()).unwrap()).read().unwrap().values;
            let same = |found: f64, expected: f64| {
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan())
            };
            assert!(same(by[0], 0.5 * scale) && same(by[1], 7.0 * scale), "{scale}: {by:?}");
        }
    }
}
