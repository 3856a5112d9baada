//! Holds a tensor without its rank in the type, so that distributions and operations need no const generics.

use std::borrow::Cow;
#[cfg(feature = "flex")]
use std::sync::Arc;

#[cfg(any(feature = "flex", feature = "ndarray", feature = "wgpu", feature = "vulkan", feature = "cuda"))]
use burn::backend::BackendTensor;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Dispatch, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, TensorMetadata};
use burn::tensor::{Shape, Tensor};
use burn_autodiff::NodeId;

use crate::array::Array;
use crate::device::data_to_array;
use crate::error::{Error, Result};
use crate::math::operation::in_place::Addressed;
use crate::math::operation::own_tape::{self, Made};

/// A float tensor whose rank is known only at run time.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) tensor: DispatchTensor,
}

impl Handle {
    /// The length of each dimension.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.tensor.shape().to_vec()
    }

    /// Whether gradients flow through it: false for data and constants.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.tensor.autodiff != DispatchAutodiffContext::Disabled
    }

    /// Whether it is of Burn's CPU device, whose numbers lie in this process.
    #[cfg(feature = "flex")]
    pub(crate) fn is_in_process(&self) -> bool {
        matches!(&self.tensor.kind, DispatchTensorKind::Flex(_))
    }

    /// Whether it is of Burn's CPU device, whose numbers lie in this process.
    #[cfg(not(feature = "flex"))]
    pub(crate) fn is_in_process(&self) -> bool {
        false
    }

    /// Whether both are constants that share their memory, and hence their numbers while either is held.
    ///
    /// False if this cannot be determined, as for tensors that are not on Burn's CPU device.
    pub(crate) fn is_same_constant(&self, other: &Self) -> bool {
        if self.is_tracked() || other.is_tracked() {
            return false;
        }
        match (&self.tensor.kind, &other.tensor.kind) {
            #[cfg(feature = "flex")]
            (
                DispatchTensorKind::Flex(BackendTensor::Float(own)),
                DispatchTensorKind::Flex(BackendTensor::Float(other)),
            ) => {
                Arc::ptr_eq(&own.data_arc(), &other.data_arc())
                    && own.layout() == other.layout()
                    && own.dtype() == other.dtype()
            }
            _ => false,
        }
    }

    /// Its node of a tape; `None` for a constant, and on backends that Partita is not built with.
    pub(crate) fn node_id(&self) -> Option<NodeId> {
        let DispatchTensorKind::Autodiff(own) = &self.tensor.kind else { return None };
        match &**own {
            #[cfg(feature = "flex")]
            DispatchTensorKind::Flex(BackendTensor::Autodiff(own)) => Some(own.id()),
            #[cfg(feature = "ndarray")]
            DispatchTensorKind::NdArray(BackendTensor::Autodiff(own)) => Some(own.id()),
            #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
            DispatchTensorKind::Cube(BackendTensor::Autodiff(own)) => Some(own.id()),
            _ => None,
        }
    }

    /// Whether both are the same node of a tape, or, off the tape, the same constant.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self.node_id(), other.node_id()) {
            (Some(own), Some(other)) => own == other,
            _ => self.is_same_constant(other),
        }
    }

    /// The numbers of a constant, row-major, if this process can address them.
    pub(crate) fn constant(&self) -> Option<&[f64]> {
        if self.is_tracked() { None } else { self.numbers()?.double() }
    }

    /// Reads it to the host.
    ///
    /// # Errors
    /// [`Error::Device`] if the device cannot deliver the data.
    pub fn read(&self) -> Result<Array> {
        if let Some(numbers) = self.numbers() {
            return Ok(numbers.into_array(self.shape()));
        }
        let data = Tensor::<1>::from_dispatch(self.tensor.clone())
            .try_into_data()
            .map_err(|error| Error::Device { operation: "reading a tensor".into(), reason: format!("{error:?}") })?;
        Ok(data_to_array(data))
    }

    /// The numbers where they lie, or copied to the host; a read as [`Handle::read`] is one.
    pub(crate) fn borrow(&self) -> Result<Cow<'_, [f64]>> {
        match self.numbers() {
            Some(numbers) => Ok(numbers.read()),
            None => Ok(Cow::Owned(self.read()?.values)),
        }
    }

    /// The numbers in place, if this process can address them: Burn's own transfer to the host copies them twice.
    fn numbers(&self) -> Option<Addressed<'_>> {
        match &self.tensor.kind {
            #[cfg(feature = "flex")]
            DispatchTensorKind::Flex(BackendTensor::Float(own)) => Addressed::of(own),
            #[cfg(feature = "flex")]
            DispatchTensorKind::Autodiff(own) => match &**own {
                DispatchTensorKind::Flex(BackendTensor::Autodiff(own)) => Addressed::of(own.primitive()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The tensor with its rank in the type.
    ///
    /// # Errors
    /// [`Error::Length`] if it has another rank.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Handle};
    /// let handle = Handle::from(Device::flex().tensor(vec![1.0, 2.0], [1, 2]));
    /// assert_eq!(handle.tensor::<2>()?.dims(), [1, 2]);
    /// assert!(handle.tensor::<1>().is_err());
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn tensor<const D: usize>(&self) -> Result<Tensor<D>> {
        let remedy = "Ask for the rank that it has, or reshape it.";
        Error::same_length("tensor, number of dimensions", self.shape().len(), D, remedy)?;
        Ok(self.clone().typed())
    }

    /// All numbers in one dimension.
    pub(crate) fn flat(self) -> Tensor<1> {
        let length = self.shape().iter().product();
        self.reshaped(&[length]).typed()
    }

    /// The same numbers in another shape.
    pub(crate) fn reshaped(self, shape: &[usize]) -> Self {
        if self.shape() == shape {
            return self;
        }
        let shape = Shape::from(shape.to_vec());
        own_tape::burns(vec![self], |inputs| {
            let output = Self { tensor: HostDispatch::float_reshape(inputs[0].tensor.clone(), shape) };
            Made { output, vjp: Box::new(|gradient: &[f64]| vec![gradient.to_vec()]) }
        })
    }

    /// The sum of two tensors of one dimension and of the same length.
    pub(crate) fn plus(self, other: Self) -> Self {
        own_tape::burns(vec![self, other], |inputs| {
            let [own, other] = [&inputs[0], &inputs[1]].map(|input| input.clone().typed::<1>());
            Made { output: (own + other).into(), vjp: Box::new(|gradient: &[f64]| vec![gradient.to_vec(); 2]) }
        })
    }

    /// The tensor with its rank in the type again.
    ///
    /// The caller states the rank; Burn finds a wrong one at the next operation.
    pub(crate) fn typed<const D: usize>(self) -> Tensor<D> {
        Tensor::from_dispatch(self.tensor)
    }
}

impl<const D: usize> From<Tensor<D>> for Handle {
    fn from(tensor: Tensor<D>) -> Self {
        Self { tensor: tensor.into_dispatch() }
    }
}

pub(crate) type HostDispatch = Dispatch;
