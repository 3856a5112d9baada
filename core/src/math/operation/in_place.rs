//! Reads tensors where they lie: Burn's own transfer to the host copies one that is shared twice.

use std::borrow::Cow;

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};

use crate::array::Array;
use crate::device::{count_read, data_to_array, widened};

/// Numbers of a tensor where they lie in this process, row-major.
#[derive(Debug)]
#[cfg_attr(not(feature = "flex"), allow(dead_code, reason = "only Burn's CPU device has numbers in this process"))]
pub(crate) enum Addressed<'t> {
    Double(&'t [f64]),
    Single(&'t [f32]),
}

impl<'t> Addressed<'t> {
    /// Those of a tensor of Burn's CPU device; `None` for a view whose numbers are not next to each other.
    #[cfg(feature = "flex")]
    pub(crate) fn of(tensor: &'t burn_flex::FlexTensor) -> Option<Self> {
        tensor.as_slice().map(Self::Double).or_else(|| tensor.as_slice().map(Self::Single))
    }

    /// The same without a copy, which those in single precision are not.
    pub(crate) fn double(self) -> Option<&'t [f64]> {
        if let Self::Double(numbers) = self { Some(numbers) } else { None }
    }

    /// Counts a read, and reads in double precision.
    pub(crate) fn read(self) -> Cow<'t, [f64]> {
        count_read();
        match self {
            Self::Double(numbers) => Cow::Borrowed(numbers),
            Self::Single(numbers) => Cow::Owned(widened(numbers)),
        }
    }

    /// The same with a shape.
    pub(crate) fn into_array(self, shape: Vec<usize>) -> Array {
        Array { values: self.read().into_owned(), shape }
    }
}

/// The numbers of tensors that this process can address.
pub(crate) trait InPlace: Backend {
    /// Those of a tensor; `None` where they cannot be addressed.
    fn numbers(_: &FloatTensor<Self>) -> Option<Addressed<'_>> {
        None
    }

    /// Whether nothing else holds the tensor's numbers, so that Burn hands them over without a copy.
    fn is_unique(_: &FloatTensor<Self>) -> bool {
        true
    }
}

#[cfg(feature = "flex")]
impl InPlace for burn::backend::Flex {
    fn numbers(tensor: &FloatTensor<Self>) -> Option<Addressed<'_>> {
        Addressed::of(tensor)
    }

    fn is_unique(tensor: &FloatTensor<Self>) -> bool {
        // The tensor holds one, and the handle made here the other.
        std::sync::Arc::strong_count(&tensor.data_arc()) <= 2
    }
}
#[cfg(feature = "ndarray")]
impl InPlace for burn::backend::NdArray {}
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
impl InPlace for burn::backend::Cube {}

/// The numbers of a tensor, to be kept.
pub(super) fn take<B: InPlace>(tensor: FloatTensor<B>) -> Array {
    match B::numbers(&tensor) {
        Some(numbers) if matches!(numbers, Addressed::Single(_)) || !B::is_unique(&tensor) => {
            numbers.into_array(tensor.shape().to_vec())
        }
        _ => transferred::<B>(tensor),
    }
}

/// What `read` makes of the numbers of a tensor.
pub(super) fn with<B: InPlace, T>(tensor: FloatTensor<B>, read: impl FnOnce(&[f64]) -> T) -> T {
    if let Some(numbers) = B::numbers(&tensor) {
        return read(&numbers.read());
    }
    read(&transferred::<B>(tensor).values)
}

fn transferred<B: Backend>(tensor: FloatTensor<B>) -> Array {
    match burn::tensor::try_read_sync(B::float_into_data(tensor)) {
        Some(Ok(data)) => data_to_array(data),
        _ => unreachable!("invariant: a tensor of a live device can be read"),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::backend::Flex;
    use burn::backend::ops::FloatTensorOps;
    use burn::tensor::TensorData;

    use super::*;

    #[test]
    fn numbers_are_the_same_wherever_they_are_read() {
        let device = Default::default();
        let tensor = Flex::float_from_data(TensorData::new(vec![1.0, 2.0, 3.0, 4.0_f64], [2, 2]), &device);
        assert!(Flex::is_unique(&tensor));
        let shared = tensor.clone();
        assert!(!Flex::is_unique(&shared));
        let expected = Array { values: vec![1.0, 2.0, 3.0, 4.0], shape: vec![2, 2] };
        assert_eq!(take::<Flex>(shared), expected);
        // A transposed view is not row-major in memory.
        let transposed = Flex::float_transpose(tensor.clone());
        assert_eq!(with::<Flex, _>(transposed, <[f64]>::to_vec), [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(with::<Flex, _>(tensor.clone(), <[f64]>::to_vec), expected.values);
        assert_eq!(take::<Flex>(tensor), expected);
        let single = Flex::float_from_data(TensorData::new(vec![1.0, 2.0, 3.0, 4.0_f32], [2, 2]), &device);
        assert!(matches!(Flex::numbers(&single), Some(Addressed::Single(_))));
        assert_eq!(with::<Flex, _>(single.clone(), <[f64]>::to_vec), expected.values);
        assert_eq!(take::<Flex>(single), expected);
    }
}
