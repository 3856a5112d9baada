//! Gives the logistic function of tensors and its logarithm, both with all digits of the tensors' precision.

use burn::tensor::Tensor;

/// $-\log(1 + e^{-x})$.
///
/// Burn's own takes on most devices the logarithm of a sum that is close to one for large $x$.
pub(crate) fn log_sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let size = x.clone().abs();
    // The smaller of 0 and x, whose slope at 0 is one half: so is that of the whole.
    let least = x * 0.5 - size.clone() * 0.5;
    least - size.neg().exp().log1p()
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

    /// Slopes in the flat tail are as exact as one is.
    fn slopes_close(found: &[f64], expected: [f64; 9]) {
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-15), "{found:?}");
    }

    #[test]
    fn values_have_all_digits_and_slopes_are_right_at_zero() {
        let [value, slope] = found(log_sigmoid, &Device::flex());
        close(&value, POINTS.map(|x| -special::softplus(-x)), 1e-15);
        slopes_close(&slope, POINTS.map(|x| special::sigmoid(-x)));
        let [value, slope] = found(sigmoid, &Device::flex());
        close(&value, POINTS.map(special::sigmoid), 2e-15);
        slopes_close(&slope, POINTS.map(|x| special::sigmoid(x) * special::sigmoid(-x)));
    }

    #[test]
    fn the_logarithm_has_all_digits_of_single_precision() {
        let [value, _] = found(log_sigmoid, &Device::flex().with_precision(Precision::Single));
        close(&value, POINTS.map(|x| -special::softplus(-x)), 1e-6);
    }
}
