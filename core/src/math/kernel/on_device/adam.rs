//! Moves parameters on a device by one step of Adam.

use burn::tensor::{DType, Tensor};

use crate::math::kernel::AdamUpdate;

/// Parameters on a device, with the running means of their gradient and of its square.
#[derive(Debug, Clone)]
pub struct AdamTensors<const D: usize> {
    /// The parameters.
    pub value: Tensor<D>,
    /// The running mean of the gradient.
    pub first: Tensor<D>,
    /// The running mean of the square of the gradient.
    pub second: Tensor<D>,
}

impl<const D: usize> AdamTensors<D> {
    /// These parameters, with running means of zero.
    #[must_use]
    pub fn new(value: Tensor<D>) -> Self {
        let zeros = value.zeros_like();
        Self { value, first: zeros.clone(), second: zeros }
    }

    /// One step down `gradient`, with the parameters in these units: [`crate::kernel::adam()`] of the parameters over their units.
    ///
    /// # Shapes
    /// `gradient` and `units` as the parameters.
    ///
    /// # Numerics
    /// In single precision gradients are [`bounded`].
    ///
    /// # Example
    /// ```
    /// use partita_core::Device;
    /// use partita_core::kernel::{AdamUpdate, on_device::AdamTensors};
    /// let device = Device::flex();
    /// let mut own = AdamTensors::new(device.tensor(vec![0.5], [1]));
    /// own.step(device.tensor(vec![-3.0], [1]), None, &AdamUpdate::at(1, 0.01, [0.9, 0.999], 1e-8));
    /// assert!((own.value.into_scalar::<f64>() - 0.51).abs() < 1e-9);
    /// ```
    pub fn step(&mut self, gradient: Tensor<D>, units: Option<&Tensor<D>>, update: &AdamUpdate) {
        #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
        if let Some(moved) = super::fused::adam(self, &gradient, units, update) {
            *self = moved;
            return;
        }
        self.step_plain(gradient, units, update);
    }

    /// [`AdamTensors::step`] in tensor operations.
    pub fn step_plain(&mut self, gradient: Tensor<D>, units: Option<&Tensor<D>>, update: &AdamUpdate) {
        let gradient = bounded(in_units(gradient, units));
        let square = gradient.clone() * gradient.clone();
        self.first = self.first.clone() * update.first[0] + gradient * update.first[1];
        self.second = self.second.clone() * update.second[0] + square * update.second[1];
        let size = self.second.clone().sqrt() + update.epsilon;
        let step = self.first.clone() * update.correction / size * update.rate;
        self.value = self.value.clone() - in_units(step, units);
    }
}

/// A gradient whose square single precision holds: numbers beyond 1e18 become that, so that their running mean of squares
/// is not infinite for ever. What is not finite becomes NaN, and is found in the parameters.
#[must_use]
pub fn bounded<const D: usize>(gradient: Tensor<D>) -> Tensor<D> {
    if gradient.dtype() != DType::F32 {
        return gradient;
    }
    // Not a clamp, in which some devices lose a NaN.
    let beyond = (gradient.clone().abs() * 1e-18).clamp_min(1.0);
    gradient / beyond
}

/// What is multiplied by its units, where it has any.
#[must_use]
pub fn in_units<const D: usize>(tensor: Tensor<D>, units: Option<&Tensor<D>>) -> Tensor<D> {
    match units {
        Some(units) => tensor * units.clone(),
        None => tensor,
    }
}
