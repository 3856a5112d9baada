//! Gives the logistic function of tensors and its logarithm, both with all digits of the tensors' precision.

use burn::tensor::Tensor;

/// $-\log(1 + e^{-x})$.
///
/// Burn's own takes on most devices the logarithm of a sum that is close to one for large $x$.
pub(crate) fn log_sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    // The smaller of 0 and x, whose slope is exactly 0 above 0, so that the flat tail keeps its digits, and one half at 0.
    let below = x.clone().detach().sign() * -0.5 + 0.5;
    x.clone() * below - x.abs().neg().exp().log1p()
}

/// $1/(1 + e^{-x})$.
///
/// Burn's own computes in single precision on most devices.
pub(crate) fn sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    log_sigmoid(x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Precision};
    use crate::handle::Handle;
    use crate::math::special;

    const POINTS: [f64; 9] = [-700.0, -40.0, -3.0, -1e-3, 0.0, 1e-3, 2.0, 20.0, 40.0];

    /// The value at each point and the slope there.
    fn found(function: fn(Tensor<1>) -> Tensor<1>, device: &Device) -> [Vec<f64>; 2] {
        let x = device.leaf::<1>(POINTS.to_vec(), [POINTS.len()]);
        let y = function(x.clone());
        let slopes = x.grad(&y.clone().sum().backward()).unwrap();
        [y.inner(), slopes].map(|tensor| Handle::from(tensor).read().unwrap().values)
    }

    fn close(found: &[f64], expected: [f64; 9], bound: f64) {
        for ((found, expected), x) in found.iter().zip(expected).zip(POINTS) {
            assert!((found - expected).abs() <= bound * expected.abs(), "{found} {expected} at {x}");
        }
    }

    #[test]
    fn values_have_all_digits_and_slopes_are_right_at_zero() {
        let [value, slope] = found(log_sigmoid, &Device::flex());
        close(&value, POINTS.map(|x| -special::softplus(-x)), 1e-15);
        close(&slope, POINTS.map(|x| special::sigmoid(-x)), 1e-15);
        let [value, slope] = found(sigmoid, &Device::flex());
        close(&value, POINTS.map(special::sigmoid), 2e-15);
        close(&slope, POINTS.map(|x| special::sigmoid(x) * special::sigmoid(-x)), 3e-15);
    }

    #[test]
    fn the_logarithm_has_all_digits_of_single_precision() {
        let [value, slope] = found(log_sigmoid, &Device::flex().with_precision(Precision::Single));
        close(&value, POINTS.map(|x| -special::softplus(-x)), 1e-6);
        close(&slope, POINTS.map(|x| special::sigmoid(-x)), 1e-5);
    }
}
