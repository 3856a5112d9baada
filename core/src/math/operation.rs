//! Puts a function computed on the host, with its own derivative, on Burn's tape as one differentiable operation.
//!
//! Every operation Burn lacks (log-gamma, Cholesky, fused log densities, ...) reads its inputs in f64 and returns
//! the value together with a closure for the vector-Jacobian product. One node of the tape costs a few microseconds
//! whatever it computes, so that a fused log density is one node instead of ten.

#![cfg_attr(
    feature = "ndarray",
    allow(deprecated, reason = "Burn deprecates its ndarray backend; the feature offers it while it lasts")
)]

mod affine;
mod cholesky;
mod custom;
mod digamma;
mod elementwise;
mod expand_rows;
mod hidden_markov;
pub(crate) mod in_place;
mod inner_products;
mod linear_form;
mod ln_gamma;
mod log_sum_exp;
mod on_host;
pub(crate) mod own_tape;
mod scan;
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
mod sloped;
mod stages;
pub mod taped;
mod triangle;
mod triangular_solve;

pub(crate) use affine::{affine, roots, squares};
pub use cholesky::cholesky;
pub use custom::{Differentiable, custom_vjp, custom_vjp_outputs};
pub use digamma::digamma;
pub use elementwise::elementwise;
pub(crate) use expand_rows::expand_rows;
pub use hidden_markov::hidden_markov;
pub(crate) use inner_products::inner_products;
pub(crate) use linear_form::linear_form;
pub use ln_gamma::ln_gamma;
pub use log_sum_exp::log_sum_exp;
pub(crate) use on_host::{computes_on_host, named_on_host, naming};
pub use scan::{Recurrence, Scan, scan};
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
pub(crate) use sloped::{Slope, sloped};
pub use stages::ordered_sum;
pub(crate) use stages::parts;
pub use triangular_solve::triangular_solve;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::{Autodiff, AutodiffBackend, Backend, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, TensorData};
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

use self::in_place::InPlace;
use crate::array::Array;
use crate::device::rounded;
use crate::error::Result;
use crate::handle::{Handle, HostDispatch};

/// The vector-Jacobian product of a host function: output gradient in, one gradient for each input out.
///
/// An empty vector stands for a gradient of zeros.
pub(crate) type Vjp = Box<dyn FnOnce(&[f64]) -> Vec<Vec<f64>> + Send>;

/// The function itself: inputs in; value and vector-Jacobian product out.
pub(crate) type HostFunction = Box<dyn FnOnce(Vec<Array>) -> (Array, Vjp) + Send>;

/// Applies `function` to one to four tensors as a single node of the tape.
///
/// # Panics
/// If given no tensor or more than four: callers pass fixed lists.
pub(crate) fn apply(inputs: Vec<Handle>, function: HostFunction) -> Handle {
    let mut tensors = inputs.into_iter().map(|input| input.tensor);
    let (first, second, third, fourth) = (tensors.next(), tensors.next(), tensors.next(), tensors.next());
    let tensor = match (first, second, third, fourth) {
        (Some(a), None, None, None) => HostDispatch::host_1(a, function),
        (Some(a), Some(b), None, None) => HostDispatch::host_2(a, b, function),
        (Some(a), Some(b), Some(c), None) => HostDispatch::host_3(a, b, c, function),
        (Some(a), Some(b), Some(c), Some(d)) => HostDispatch::host_4(a, b, c, d, function),
        _ => unreachable!("invariant: a host function has one to four tracked inputs"),
    };
    Handle { tensor }
}

/// As [`apply`] for inputs of which some are constants or absent. `function` gets the numbers of each, and which of them
/// get a gradient.
///
/// One node cannot mix tracked tensors and constants: beside a tracked tensor a constant is read to the host first.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device) if a constant cannot be read.
pub(crate) fn apply_with_constants<const N: usize>(
    inputs: [Option<Handle>; N],
    function: impl FnOnce([Option<Vec<f64>>; N], [bool; N]) -> (Array, Vjp) + Send + 'static,
) -> Result<Handle> {
    let any_tracked = inputs.iter().flatten().any(Handle::is_tracked);
    let (mut nodes, mut numbers, mut is_node) = (Vec::with_capacity(N), [const { None }; N], [false; N]);
    for (index, input) in inputs.into_iter().enumerate() {
        match input {
            Some(input) if any_tracked && !input.is_tracked() => numbers[index] = Some(input.read()?.values),
            Some(input) => {
                nodes.push(input);
                is_node[index] = true;
            }
            None => {}
        }
    }
    let function = move |arrays: Vec<Array>| {
        let slots = numbers.iter_mut().zip(is_node).filter(|(_, is_node)| *is_node);
        slots.zip(arrays).for_each(|((slot, _), array)| *slot = Some(array.values));
        function(numbers, is_node)
    };
    Ok(apply(nodes, Box::new(function)))
}

/// Host functions of one to four tensors on every backend Partita is built with.
#[backend_extension(
    Autodiff,
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))
)]
pub(crate) trait HostOperations: Backend {
    fn host_1(a: FloatTensor<Self>, function: HostFunction) -> FloatTensor<Self>;
    fn host_2(a: FloatTensor<Self>, b: FloatTensor<Self>, function: HostFunction) -> FloatTensor<Self>;
    fn host_3(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        function: HostFunction,
    ) -> FloatTensor<Self>;
    fn host_4(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        function: HostFunction,
    ) -> FloatTensor<Self>;
}

/// Implements host functions of one to four tensors by `$apply`, a function of an array of them.
macro_rules! host_operations {
    ([$($generics:tt)*] $backend:ty, $apply:expr) => {
        impl<$($generics)*> HostOperations for $backend {
            fn host_1(a: FloatTensor<Self>, function: HostFunction) -> FloatTensor<Self> {
                $apply([a], function)
            }
            fn host_2(a: FloatTensor<Self>, b: FloatTensor<Self>, function: HostFunction) -> FloatTensor<Self> {
                $apply([a, b], function)
            }
            fn host_3(
                a: FloatTensor<Self>,
                b: FloatTensor<Self>,
                c: FloatTensor<Self>,
                function: HostFunction,
            ) -> FloatTensor<Self> {
                $apply([a, b, c], function)
            }
            fn host_4(
                a: FloatTensor<Self>,
                b: FloatTensor<Self>,
                c: FloatTensor<Self>,
                d: FloatTensor<Self>,
                function: HostFunction,
            ) -> FloatTensor<Self> {
                $apply([a, b, c, d], function)
            }
        }
    };
}

#[cfg(feature = "flex")]
host_operations!([] burn::backend::Flex, untracked::<Self, _>);
#[cfg(feature = "ndarray")]
host_operations!([] burn::backend::NdArray, untracked::<Self, _>);
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
host_operations!([] burn::backend::Cube, untracked::<Self, _>);
host_operations!([B: HostOperations + InPlace, C: CheckpointStrategy] Autodiff<B, C>, tracked::<B, C, _>);

fn untracked<B: InPlace, const N: usize>(inputs: [FloatTensor<B>; N], function: HostFunction) -> FloatTensor<B> {
    forward::<B, N>(inputs, function).0
}

fn tracked<B: InPlace, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    function: HostFunction,
) -> FloatTensor<Autodiff<B, C>> {
    if let Some(places) = own_tape::find(inputs.each_ref().map(|input| Some(input.id()))) {
        let (output, vjp) = forward::<B, N>(inputs.map(|input| input.into_primitive()), function);
        let size = own_tape::Size::of(&output);
        let output = Autodiff::<B, C>::from_inner(output);
        own_tape::record(places, output.id(), size, vjp);
        return output;
    }
    let nodes = inputs.each_ref().map(|input| input.node());
    let shapes = inputs.each_ref().map(|input| input.shape().to_vec());
    let (output, vjp) = forward::<B, N>(inputs.map(|input| input.into_primitive()), function);
    let saved = Saved { vjp: Arc::new(Mutex::new(Some(vjp))), shapes };
    match HostBackward.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(preparation) => preparation.finish(saved, output),
        OpsKind::UnTracked(preparation) => preparation.finish(output),
    }
}

/// What Burn's backward pass needs: the vector-Jacobian product and the shapes to give its results.
#[derive(Clone)]
struct Saved<const N: usize> {
    vjp: Arc<Mutex<Option<Vjp>>>,
    shapes: [Vec<usize>; N],
}

impl<const N: usize> fmt::Debug for Saved<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Saved").field("shapes", &self.shapes).finish_non_exhaustive()
    }
}

fn forward<B: InPlace, const N: usize>(inputs: [FloatTensor<B>; N], function: HostFunction) -> (FloatTensor<B>, Vjp) {
    let device = inputs[0].device();
    let dtype = inputs[0].dtype();
    let arrays = inputs.map(in_place::take::<B>);
    let (value, vjp) = function(arrays.into());
    (write::<B>(value.values, &value.shape, dtype, &device), vjp)
}

fn write<B: Backend>(values: Vec<f64>, shape: &[usize], dtype: DType, device: &B::Device) -> FloatTensor<B> {
    let data = match dtype {
        DType::F64 => TensorData::new(values, shape),
        // Burn's own conversion takes number by number.
        DType::F32 => TensorData::new(rounded(&values), shape),
        other => TensorData::new(values, shape).convert_dtype(other),
    };
    B::float_from_data(data, device)
}

#[derive(Debug)]
struct HostBackward;

impl<B: InPlace, const N: usize> Backward<B, N> for HostBackward {
    type State = Saved<N>;

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = gradients.consume::<B>(&ops.node);
        let device = output.device();
        let dtype = output.dtype();
        let vjp = ops.state.vjp.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(vjp) = vjp else { unreachable!("invariant: Burn runs the backward pass of a node once") };
        let results = in_place::with::<B, _>(output, vjp);
        for ((parent, result), shape) in ops.parents.iter().zip(results).zip(&ops.state.shapes) {
            if let Some(node) = parent
                && !result.is_empty()
            {
                gradients.register::<B>(node.id, write::<B>(result, shape, dtype, &device));
            }
        }
    }
}
