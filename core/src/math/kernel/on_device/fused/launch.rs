//! Takes tensors to kernels of CubeCL and back.

use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, TensorMetadata};
use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::prelude::{BufferArg, Client, CubeCount, CubeDim};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

use crate::distribution::Term;
use crate::math::operation::{Slope, sloped};

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

/// The log density of each event as one node, with its slopes by a parameter. `kernel` reads what was observed and the
/// parameter, and writes the log density and the slopes, a thread an event. `None` where the device has no kernel, or what was
/// observed is not of this shape.
pub(super) fn log_density(
    observed: &Term,
    parameter: &Tensor<2>,
    shape: [usize; 2],
    kernel: impl FnOnce(&Client, CubeCount, CubeDim, [BufferArg; 4]),
) -> Option<Term> {
    let Term::Tensor(observed) = observed else { return None };
    let [given, by] = [Cells::of(observed, shape)?, Cells::of(parameter, parameter.dims())?];
    let [log_prob, slope] = [given.blank(), by.blank()];
    if let Some((groups, group)) = given.threads(given.count().min(by.count())) {
        kernel(given.client(), groups, group, [&given, &by, &log_prob, &slope].map(Cells::argument));
    }
    Some(Term::Tensor(sloped(log_prob.tensor(), vec![Slope { by: parameter.clone(), slope: slope.tensor() }])))
}
