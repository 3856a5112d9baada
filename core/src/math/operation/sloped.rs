//! Puts a value whose slopes are known on Burn's tape as one node, whose backward pass multiplies by them.

use burn::backend::{Autodiff, Backend, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{Shape, Tensor};
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

use super::parts;
use crate::handle::HostDispatch;

/// A tensor that gradients flow through, and the slope of a value by it.
///
/// # Shapes
/// The slope is `[events, width]`; the tensor too, or `[1, 1]` where it serves every event.
#[derive(Debug)]
pub(crate) struct Slope {
    pub(crate) by: Tensor<2>,
    pub(crate) slope: Tensor<2>,
}

/// `value` with these slopes.
///
/// # Shapes
/// `value` `[events, 1]`.
///
/// # Panics
/// If given more than three slopes: callers pass fixed lists.
pub(crate) fn sloped(value: Tensor<2>, slopes: Vec<Slope>) -> Tensor<2> {
    let value = value.into_dispatch();
    let mut slopes = slopes.into_iter().map(|own| (own.by.into_dispatch(), own.slope.into_dispatch()));
    let tensor = match (slopes.next(), slopes.next(), slopes.next(), slopes.next()) {
        (None, ..) => value,
        (Some((a, by_a)), None, ..) => HostDispatch::sloped_1(value, a, by_a),
        (Some((a, by_a)), Some((b, by_b)), None, _) => HostDispatch::sloped_2(value, a, by_a, b, by_b),
        (Some((a, by_a)), Some((b, by_b)), Some((c, by_c)), None) => {
            HostDispatch::sloped_3(value, a, by_a, b, by_b, c, by_c)
        }
        _ => unreachable!("invariant: a value has at most three slopes"),
    };
    Tensor::from_dispatch(tensor)
}

/// Values with slopes by one to three tensors on the devices that have kernels which compute both.
#[backend_extension(Autodiff, Cube)]
pub(crate) trait SlopedOperations: Backend {
    fn sloped_1(value: FloatTensor<Self>, a: FloatTensor<Self>, by_a: FloatTensor<Self>) -> FloatTensor<Self>;
    fn sloped_2(
        value: FloatTensor<Self>,
        a: FloatTensor<Self>,
        by_a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        by_b: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
    fn sloped_3(
        value: FloatTensor<Self>,
        a: FloatTensor<Self>,
        by_a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        by_b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        by_c: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

/// Implements values with slopes by `$apply`, a function of the value and two arrays.
macro_rules! sloped_operations {
    ([$($generics:tt)*] $backend:ty, $apply:expr) => {
        impl<$($generics)*> SlopedOperations for $backend {
            fn sloped_1(value: FloatTensor<Self>, a: FloatTensor<Self>, by_a: FloatTensor<Self>) -> FloatTensor<Self> {
                $apply(value, [a], [by_a])
            }
            fn sloped_2(
                value: FloatTensor<Self>,
                a: FloatTensor<Self>,
                by_a: FloatTensor<Self>,
                b: FloatTensor<Self>,
                by_b: FloatTensor<Self>,
            ) -> FloatTensor<Self> {
                $apply(value, [a, b], [by_a, by_b])
            }
            fn sloped_3(
                value: FloatTensor<Self>,
                a: FloatTensor<Self>,
                by_a: FloatTensor<Self>,
                b: FloatTensor<Self>,
                by_b: FloatTensor<Self>,
                c: FloatTensor<Self>,
                by_c: FloatTensor<Self>,
            ) -> FloatTensor<Self> {
                $apply(value, [a, b, c], [by_a, by_b, by_c])
            }
        }
    };
}

sloped_operations!([] burn::backend::Cube, untracked::<Self, _>);
sloped_operations!([B: SlopedOperations, C: CheckpointStrategy] Autodiff<B, C>, tracked::<B, C, _>);

fn untracked<B: Backend, const N: usize>(
    value: FloatTensor<B>,
    _: [FloatTensor<B>; N],
    _: [FloatTensor<B>; N],
) -> FloatTensor<B> {
    value
}

fn tracked<B: Backend, C: CheckpointStrategy, const N: usize>(
    value: FloatTensor<Autodiff<B, C>>,
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    slopes: [FloatTensor<Autodiff<B, C>>; N],
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = inputs.each_ref().map(|input| input.node());
    let shapes = inputs.map(|input| input.shape());
    let value = value.into_primitive();
    match SlopesBackward.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(preparation) => {
            let slopes = slopes.map(|slope| slope.into_primitive());
            preparation.finish((slopes, shapes), value)
        }
        OpsKind::UnTracked(preparation) => preparation.finish(value),
    }
}

#[derive(Debug)]
struct SlopesBackward;

impl<B: Backend, const N: usize> Backward<B, N> for SlopesBackward {
    /// The slopes, and the shapes of what they are slopes by.
    type State = ([FloatTensor<B>; N], [Shape; N]);

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let (slopes, shapes) = ops.state;
        for ((parent, slope), shape) in ops.parents.into_iter().zip(slopes).zip(shapes) {
            let Some(node) = parent else { continue };
            let product = B::float_mul(gradient.clone(), slope);
            let own = if product.shape() == shape { product } else { B::float_reshape(sum::<B>(product), shape) };
            gradients.register::<B>(node.id, own);
        }
    }
}

/// [`super::ordered_sum`] of what is on no tape.
fn sum<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let count = tensor.shape().num_elements();
    let parts = parts(count);
    let rows = B::float_reshape(tensor, Shape::from(vec![parts, count / parts]));
    B::float_sum_dim(B::float_sum_dim(rows, 1), 0)
}
