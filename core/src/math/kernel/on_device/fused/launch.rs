//! Takes tensors to kernels of CubeCL and back.

use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, TensorMetadata};
use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::prelude::{BufferArg, Client, CubeCount, CubeDim};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

/// Numbers of single precision on a CubeCL device, row-major without gaps.
#[derive(Debug, Clone)]
pub(super) struct Cells(CubeTensor);

impl Cells {
    /// Those of a tensor, without its tape; `None` for another shape, on other devices and in double precision.
    pub(super) fn of<const D: usize>(tensor: &Tensor<D>, shape: [usize; D]) -> Option<Self> {
        match tensor.clone().inner().into_dispatch().kind {
            DispatchTensorKind::Cube(BackendTensor::Float(own))
                if own.dtype == DType::F32 && tensor.dims() == shape =>
            {
                Some(Self(into_contiguous(own)))
            }
            _ => None,
        }
    }

    /// As many that a kernel is to write.
    pub(super) fn blank(&self) -> Self {
        let Self(own) = self;
        let (client, device) = (own.client.clone(), own.device.clone());
        Self(empty_device_contiguous_dtype(client, device, own.shape(), DType::F32))
    }

    /// The tensor of these numbers.
    pub(super) fn tensor<const D: usize>(self) -> Tensor<D> {
        let kind = DispatchTensorKind::Cube(BackendTensor::Float(self.0));
        Tensor::from_dispatch(DispatchTensor { kind, autodiff: DispatchAutodiffContext::Disabled })
    }

    /// What a kernel reads or writes.
    pub(super) fn argument(&self) -> BufferArg {
        self.0.clone().into_buffer_arg()
    }

    pub(super) fn client(&self) -> &Client {
        &self.0.client
    }

    /// Threads: how many groups, and how many in each, for `count` numbers; `None` where there are none.
    pub(super) fn threads(&self, count: usize) -> Option<(CubeCount, CubeDim)> {
        let group = CubeDim::new(self.client(), count);
        (count > 0).then(|| (calculate_cube_count_elemwise(self.client(), count, group), group))
    }

    /// How many numbers they are.
    pub(super) fn count(&self) -> usize {
        self.0.shape().num_elements()
    }
}
