//! Gives the logistic function of tensors in their own precision.

use burn::tensor::Tensor;
use partita_core::taped;

/// $1/(1 + e^{-x})$, by its logarithm: Burn's own computes in single precision on most devices.
pub(crate) fn sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    taped::exp(taped::log_sigmoid(x))
}

#[cfg(test)]
mod tests {
    use partita_core::{Device, Handle, special};

    use super::sigmoid;

    #[test]
    fn values_and_slopes_are_those_of_the_host() {
        const POINTS: [f64; 7] = [-700.0, -40.0, -3.0, 0.0, 1e-3, 2.0, 40.0];
        let x = Device::flex().leaf::<1>(POINTS.to_vec(), [POINTS.len()]);
        let y = sigmoid(x.clone());
        let slopes = x.grad(&y.clone().sum().backward()).unwrap();
        let [values, slopes] = [y.inner(), slopes].map(|tensor| Handle::from(tensor).read().unwrap().values);
        for ((x, value), slope) in POINTS.into_iter().zip(values).zip(slopes) {
            let expected = special::sigmoid(x);
            assert!((value - expected).abs() <= 2e-15 * expected, "{value} {expected} at {x}");
            let expected = expected * special::sigmoid(-x);
            assert!((slope - expected).abs() <= 4e-15 * expected, "{slope} {expected} at {x}");
        }
    }
}
