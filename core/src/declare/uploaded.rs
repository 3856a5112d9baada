//! Keeps tensors made of constant host numbers, so that each is copied to its device once.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use burn::tensor::{DType, Device, Int, Tensor, TensorCreationOptions, TensorData};

/// The tensors made on the device last used.
pub(crate) struct Uploaded<T> {
    kept: Mutex<Option<(Device, DType, T)>>,
}

impl<T> Default for Uploaded<T> {
    fn default() -> Self {
        Self { kept: Mutex::new(None) }
    }
}

impl<T> fmt::Debug for Uploaded<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Uploaded")
    }
}

/// A copy on a device is a cache and does not take part in equality.
impl<T> PartialEq for Uploaded<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Uploaded<T> {}

impl<T: Clone> Uploaded<T> {
    /// The result of `make` for the device and the precision of `like`, made once.
    pub(crate) fn for_tensor<const D: usize>(
        &self,
        like: &Tensor<D>,
        make: impl FnOnce(&TensorCreationOptions) -> T,
    ) -> T {
        let (device, dtype) = (like.device().inner(), like.dtype());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((known, precision, value)) if *known == device && *precision == dtype => value.clone(),
            _ => {
                let value = make(&TensorCreationOptions::new(device.clone()).with_dtype(dtype));
                *kept = Some((device, dtype, value.clone()));
                value
            }
        }
    }
}

/// Indices as a tensor on a device.
pub(crate) fn indices(values: impl ExactSizeIterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let count = values.len();
    #[expect(clippy::cast_possible_wrap, reason = "row indices are far below 2^63")]
    let values: Vec<i64> = values.map(|value| value as i64).collect();
    Tensor::from_data(TensorData::new(values, [count]), device)
}
