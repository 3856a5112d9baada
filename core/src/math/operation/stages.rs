//! Sums many numbers in stages, so that all cores of a device take part and the order is always the same.

use burn::tensor::Tensor;

/// The fewest numbers that are worth a second stage.
const FEW: usize = 4_096;

/// The sum of all numbers of a tensor, in an order that depends on their count alone.
///
/// Burn sums a whole tensor on a GPU by four groups of threads that add to one number in any order: a small part of the
/// cores, and other bits at every run. Sums along a dimension have neither fault.
///
/// # Example
/// ```
/// use partita_core::{Device, ordered_sum};
/// let numbers = Device::flex().tensor((0..10_000).map(f64::from).collect(), [100, 100]);
/// assert_eq!(ordered_sum(numbers).into_scalar::<f64>(), 49_995_000.0);
/// ```
#[must_use]
pub fn ordered_sum<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let count: usize = tensor.dims().iter().product();
    if count == 0 {
        return tensor.sum();
    }
    let parts = parts(count);
    let sums: Tensor<2> = tensor.reshape([parts, count / parts]).sum_dim(1);
    let all = if parts > 1 { sums.sum_dim(0) } else { sums };
    all.reshape([1])
}

/// A number of equal parts of `count` numbers near their square root; one where they are few, or have no such divisor.
pub(crate) fn parts(count: usize) -> usize {
    if count < FEW {
        return 1;
    }
    let root = count.isqrt();
    (2..=root).rev().find(|parts| count.is_multiple_of(*parts)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn parts_divide_a_count_near_its_root_and_sums_have_the_gradient_one() {
        assert_eq!([10, 4_095, 4_096, 5_088_320, 159_010].map(parts), [1, 1, 64, 320, 10]);
        // A prime has no parts.
        assert_eq!(parts(104_729), 1);
        for count in [0, 1, 5, 4_096, 104_729] {
            let leaf = Device::flex().leaf::<1>((0..count).map(f64::from).collect::<Vec<_>>(), [count as usize]);
            let sum = ordered_sum(leaf.clone());
            let gradient = leaf.grad(&sum.backward()).unwrap().into_data().try_into_vec::<f64>().unwrap();
            let expected = f64::from(count) * (f64::from(count) - 1.0) / 2.0;
            assert!((sum.into_scalar::<f64>() - expected).abs() < 1e-3, "{count}");
            assert!(gradient.iter().all(|own| (own - 1.0).abs() < 1e-15), "{count}");
        }
    }
}
