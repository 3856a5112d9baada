//! Gives operations of Burn that Partita's own tape knows too, with the same bits on either tape.
//!
//! What any other operation of Burn makes of a latent is unknown to Partita's tape, and an evaluation that meets one is
//! repeated on Burn's, which takes a lock of the process for each node. Off the tapes, and on a device, these are Burn's
//! operations.

use burn::backend::ops::{ActivationOps, FloatTensorOps};
use burn::backend::{DispatchDevice, TensorMetadata};
use burn::tensor::{DType, Tensor, activation};

use super::own_tape::{self, Made};
use super::write;
use crate::handle::{Handle, HostDispatch};

/// Tensors one after another along a dimension, as `Tensor::cat`.
///
/// # Panics
/// Without tensors, and if their other dimensions differ.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let device = Device::flex();
/// let (a, b) = (device.leaf::<1>(vec![1.0], [1]), device.leaf::<1>(vec![2.0, 3.0], [2]));
/// let all = taped::joined(vec![a, b.clone()], 0);
/// let gradients = (all.clone() * all.clone()).sum().backward();
/// assert_eq!(all.into_data().try_into_vec::<f64>().unwrap(), [1.0, 2.0, 3.0]);
/// assert_eq!(b.grad(&gradients).unwrap().into_data().try_into_vec::<f64>().unwrap(), [4.0, 6.0]);
/// ```
#[must_use]
pub fn joined<const D: usize>(tensors: Vec<Tensor<D>>, dim: usize) -> Tensor<D> {
    if let [only] = tensors.as_slice() {
        return only.clone();
    }
    let shapes: Vec<[usize; D]> = tensors.iter().map(Tensor::dims).collect();
    let joined = own_tape::burns(tensors.into_iter().map(Handle::from).collect(), |inputs| {
        let tensors: Vec<Tensor<D>> = inputs.iter().map(|input| input.clone().typed()).collect();
        let vjp = move |gradient: &[f64]| split(gradient, &shapes, dim);
        Made { output: Tensor::cat(tensors, dim).into(), vjp: Box::new(vjp) }
    });
    joined.typed()
}

/// The gradient of each part of joined tensors.
fn split<const D: usize>(gradient: &[f64], shapes: &[[usize; D]], dim: usize) -> Vec<Vec<f64>> {
    let lengths: Vec<usize> = shapes.iter().map(|shape| shape[dim..].iter().product()).collect();
    let whole = lengths.iter().sum::<usize>().max(1);
    let mut parts = Vec::with_capacity(lengths.len());
    let mut start = 0;
    for length in lengths {
        let part = gradient.chunks_exact(whole).flat_map(|row| &row[start..start + length]).copied();
        parts.push(part.collect());
        start += length;
    }
    parts
}

/// The same numbers in another shape.
///
/// # Panics
/// If the numbers are not as many as the shape says.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let column = taped::reshaped(Device::flex().leaf::<1>(vec![1.0, 2.0], [2]), [2, 1]);
/// assert_eq!(column.dims(), [2, 1]);
/// ```
#[must_use]
pub fn reshaped<const D: usize, const E: usize>(tensor: Tensor<D>, shape: [usize; E]) -> Tensor<E> {
    Handle::from(tensor).reshaped(&shape).typed()
}

/// So many slices along a dimension, as `Tensor::narrow`.
///
/// # Panics
/// If the tensor has not so many from `start` on.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let x = Device::flex().leaf::<1>(vec![1.0, 2.0, 3.0], [3]);
/// let gradients = taped::part(x.clone(), 0, 1, 2).sum().backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_data().try_into_vec::<f64>().unwrap(), [0.0, 1.0, 1.0]);
/// ```
#[must_use]
pub fn part<const D: usize>(tensor: Tensor<D>, dim: usize, start: usize, length: usize) -> Tensor<D> {
    let shape = tensor.dims();
    let part = own_tape::burns(vec![tensor.into()], |inputs| {
        let output = inputs[0].clone().typed::<D>().narrow(dim, start, length).into();
        let vjp = move |gradient: &[f64]| {
            let each: usize = shape[dim + 1..].iter().product();
            let mut whole = vec![0.0; shape.iter().product()];
            let rows = whole.chunks_exact_mut((shape[dim] * each).max(1));
            for (row, own) in rows.zip(gradient.chunks_exact((length * each).max(1))) {
                row[start * each..(start + length) * each].copy_from_slice(own);
            }
            vec![whole]
        };
        Made { output, vjp: Box::new(vjp) }
    });
    part.typed()
}

/// The sum; dimensions of length one are repeated.
///
/// # Panics
/// If the shapes do not agree.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let device = Device::flex();
/// let (a, b) = (device.leaf::<1>(vec![1.0, 2.0], [2]), device.leaf::<1>(vec![3.0], [1]));
/// let gradients = taped::plus(a, b.clone()).sum().backward();
/// assert_eq!(b.grad(&gradients).unwrap().into_scalar::<f64>(), 2.0);
/// ```
#[must_use]
pub fn plus<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    of_two([a, b], |a, b| a + b, |gradient, _| [gradient.clone(), gradient])
}

/// The product of numbers with numbers; dimensions of length one are repeated.
///
/// # Panics
/// If the shapes do not agree.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let device = Device::flex();
/// let (a, b) = (device.leaf::<1>(vec![1.0, 2.0], [2]), device.leaf::<1>(vec![3.0], [1]));
/// let gradients = taped::times(a, b.clone()).sum().backward();
/// assert_eq!(b.grad(&gradients).unwrap().into_scalar::<f64>(), 3.0);
/// ```
#[must_use]
pub fn times<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    of_two([a, b], |a, b| a * b, |gradient, [a, b]| [gradient.clone() * b, gradient * a])
}

/// The product of matrices.
///
/// # Shapes
/// `[n, k]` and `[k, m]` → `[n, m]`.
///
/// # Panics
/// If the shapes do not agree.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let device = Device::flex();
/// let (a, b) = (device.leaf::<2>(vec![1.0, 2.0], [1, 2]), device.leaf::<2>(vec![3.0, 4.0], [2, 1]));
/// assert_eq!(taped::product(a, b).into_scalar::<f64>(), 11.0);
/// ```
#[must_use]
pub fn product(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    let by = |gradient: Tensor<2>, [a, b]: [Tensor<2>; 2]| {
        [gradient.clone().matmul(b.transpose()), a.transpose().matmul(gradient)]
    };
    of_two([a, b], Tensor::matmul, by)
}

/// The transpose of a matrix.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let row = taped::transposed(Device::flex().leaf::<2>(vec![1.0, 2.0], [2, 1]));
/// assert_eq!(row.dims(), [1, 2]);
/// ```
#[must_use]
pub fn transposed(matrix: Tensor<2>) -> Tensor<2> {
    of_one(matrix, Tensor::transpose, |gradient, _, _| gradient.transpose())
}

/// $e^x$.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let x = Device::flex().leaf::<1>(vec![0.0], [1]);
/// let gradients = taped::exp(x.clone()).backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_scalar::<f64>(), 1.0);
/// ```
#[must_use]
pub fn exp<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    of_one(x, Tensor::exp, |gradient, _, exp| gradient * exp)
}

/// $\log x$.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let x = Device::flex().leaf::<1>(vec![4.0], [1]);
/// let gradients = taped::log(x.clone()).backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_scalar::<f64>(), 0.25);
/// ```
#[must_use]
pub fn log<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    of_one(x, Tensor::log, |gradient, x, _| gradient * x.recip())
}

/// $-x$.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// assert_eq!(taped::negated(Device::flex().leaf::<1>(vec![4.0], [1])).into_scalar::<f64>(), -4.0);
/// ```
#[must_use]
pub fn negated<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    of_one(x, Tensor::neg, |gradient, _, _| gradient.neg())
}

/// $-\log(1 + e^{-x})$.
///
/// # Example
/// ```
/// use partita_core::{Device, taped};
/// let x = Device::flex().leaf::<1>(vec![0.0], [1]);
/// let gradients = taped::log_sigmoid(x.clone()).backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_scalar::<f64>(), 0.5);
/// ```
#[must_use]
pub fn log_sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    of_one(x, activation::log_sigmoid, |gradient, x, _| {
        let [gradient, x] = [gradient, x].map(|own| Handle::from(own).tensor);
        Handle { tensor: HostDispatch::log_sigmoid_backward(x, gradient) }.typed()
    })
}

/// The numbers of a tensor as a constant, of which no gradient is wanted: what a report says of latents.
///
/// # Example
/// ```
/// use partita_core::{Device, Handle, taped};
/// let x = Device::flex().leaf::<1>(vec![4.0], [1]);
/// assert!(!Handle::from(taped::constant(x)).is_tracked());
/// ```
#[must_use]
pub fn constant<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    own_tape::plain(x.into()).typed()
}

/// An operation on one tensor; `by` gives the gradient by it from that of the output, the input and the output.
fn of_one<const D: usize>(
    x: Tensor<D>,
    operation: fn(Tensor<D>) -> Tensor<D>,
    by: fn(Tensor<D>, Tensor<D>, Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let made = own_tape::burns(vec![x.into()], |inputs| {
        let x = inputs[0].clone().typed::<D>();
        let output = operation(x.clone());
        let (kept, like) = (output.clone(), Like::of(&output));
        let vjp = move |gradient: &[f64]| vec![numbers(&by(like.tensor(gradient), x, kept).into())];
        Made { output: output.into(), vjp: Box::new(vjp) }
    });
    made.typed()
}

/// An operation on two tensors; `by` gives the gradients by both from that of the output and both.
fn of_two<const D: usize>(
    inputs: [Tensor<D>; 2],
    operation: fn(Tensor<D>, Tensor<D>) -> Tensor<D>,
    by: fn(Tensor<D>, [Tensor<D>; 2]) -> [Tensor<D>; 2],
) -> Tensor<D> {
    let made = own_tape::burns(inputs.map(Handle::from).into(), |inputs| {
        let [a, b] = [&inputs[0], &inputs[1]].map(|input| input.clone().typed::<D>());
        let output = operation(a.clone(), b.clone());
        let like = Like::of(&output);
        let vjp = move |gradient: &[f64]| {
            let shapes = [a.dims(), b.dims()];
            let gradients = by(like.tensor(gradient), [a, b]).into_iter().zip(shapes);
            gradients.map(|(own, shape)| numbers(&summed(own.into(), &shape))).collect()
        };
        Made { output: output.into(), vjp: Box::new(vjp) }
    });
    made.typed()
}

/// What the tensor of a gradient is like.
struct Like<const D: usize> {
    shape: [usize; D],
    precision: DType,
    device: DispatchDevice,
}

impl<const D: usize> Like<D> {
    fn of(output: &Tensor<D>) -> Self {
        let tensor = Handle::from(output.clone()).tensor;
        Self { shape: output.dims(), precision: tensor.dtype(), device: tensor.device() }
    }

    fn tensor(&self, gradient: &[f64]) -> Tensor<D> {
        let tensor = write::<HostDispatch>(gradient.to_vec(), &self.shape, self.precision, &self.device);
        Handle { tensor }.typed()
    }
}

/// The sums over the dimensions in which a tensor of this shape was repeated, as Burn sums them.
fn summed(gradient: Handle, shape: &[usize]) -> Handle {
    let own = gradient.shape();
    let repeated: Vec<usize> = (0..shape.len()).filter(|dim| own[*dim] != shape[*dim]).collect();
    let tensor = match repeated.as_slice() {
        [] => return gradient,
        [dim] => HostDispatch::float_sum_dim(gradient.tensor, *dim),
        dims => HostDispatch::float_sum_dims(gradient.tensor, dims),
    };
    Handle { tensor }
}

fn numbers(tensor: &Handle) -> Vec<f64> {
    match tensor.read() {
        Ok(array) => array.values,
        Err(_) => unreachable!("invariant: a tensor of a live device can be read"),
    }
}
