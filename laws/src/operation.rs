//! Checks the laws of differentiable operations: closed-form values, and gradients against differences.

use burn::tensor::Tensor;
use partita_core::{Array, Device, Error, Handle, Key, Noise, Purpose};

use crate::difference::{derivative, within};

const SEED: u64 = 271_828;
/// Relative to the largest number: a few hundred last digits, for values that sum that many terms.
const VALUE: f64 = 1e-13;
/// Fourth-order differences are good to about 1e-11 relative to the largest number in them.
const DIFFERENCE: f64 = 1e-8;

/// A law of differentiable operations that does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationViolation {
    /// A value is not the closed form's.
    #[error("{operation}: value {found} at index {index}, expected {expected}")]
    Value {
        /// The operation.
        operation: &'static str,
        /// The flat index.
        index: usize,
        /// What the operation gave.
        found: f64,
        /// The closed form.
        expected: f64,
    },
    /// Tracking the inputs changes the value.
    #[error("{operation}: tracking gradients changes the value")]
    Tracking {
        /// The operation.
        operation: &'static str,
    },
    /// A gradient is not the derivative.
    #[error("{operation}: gradient {found} by entry {index} of input {input}, differences give {expected}")]
    Gradient {
        /// The operation.
        operation: &'static str,
        /// The input.
        input: usize,
        /// The flat index of the entry.
        index: usize,
        /// What the backward pass gave; NaN if it gave nothing.
        found: f64,
        /// What the differences give.
        expected: f64,
    },
    /// The operation or the device failed.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Checks `function` at `inputs` in double precision on `device`: tensors of one rank in and out.
///
/// The value must be `expected` with and without tracking; the gradient of a fixed random combination of the outputs by
/// every entry of every input must equal central differences, whether all inputs are tracked or only that one.
///
/// # Errors
/// The first [`OperationViolation`] found.
///
/// # Example
/// ```
/// use partita_core::{Array, Device, log_sum_exp};
/// use partita_laws as laws;
/// let input = Array::new(vec![0.0, 0.0], vec![1, 2])?;
/// let function = |x: &[partita_core::burn::tensor::Tensor<2>]| Ok(log_sum_exp::<2>(x[0].clone()));
/// laws::operation("log-sum-exp", &Device::flex(), &[input], &[2.0_f64.ln()], function)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn operation<const D: usize>(
    name: &'static str,
    device: &Device,
    inputs: &[Array],
    expected: &[f64],
    function: impl Fn(&[Tensor<D>]) -> Result<Tensor<D>, Error>,
) -> Result<(), OperationViolation> {
    let of_ranks = |inputs: &[Handle]| {
        let inputs = inputs.iter().map(Handle::tensor::<D>).collect::<Result<Vec<_>, _>>()?;
        Ok(Handle::from(function(&inputs)?))
    };
    custom_operation(name, device, inputs, expected, of_ranks)
}

/// As [`operation()`], for inputs and an output of any ranks up to four: the law of `custom_vjp`, `scan` and their like.
///
/// # Errors
/// The first [`OperationViolation`] found.
///
/// # Example
/// A vector-Jacobian product that forgets a factor is found:
/// ```
/// use partita_core::{Array, Device, Differentiable, Handle, Result, custom_vjp};
/// use partita_laws as laws;
/// // The derivative of x² is 2x.
/// fn square(inputs: &[Handle], factor: f64) -> Result<Handle> {
///     let value = custom_vjp::<1>("square", [inputs[0].clone()], move |inputs| {
///         let x = inputs[0].values[0];
///         Ok(Differentiable::new(Array::scalar(x * x), move |gradient, by| by[0][0] += factor * x * gradient[0]))
///     })?;
///     Ok(value.into())
/// }
/// let (device, input) = (Device::flex(), [Array::scalar(3.0)]);
/// laws::custom_operation("square", &device, &input, &[9.0], |x| square(x, 2.0))?;
/// let fault = laws::custom_operation("square", &device, &input, &[9.0], |x| square(x, 1.0)).unwrap_err();
/// assert!(matches!(fault, laws::OperationViolation::Gradient { input: 0, index: 0, .. }), "{fault}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn custom_operation(
    name: &'static str,
    device: &Device,
    inputs: &[Array],
    expected: &[f64],
    function: impl Fn(&[Handle]) -> Result<Handle, Error>,
) -> Result<(), OperationViolation> {
    let leaves = leaves(device, inputs);
    let at = |arrays: &[Array], is_tracked: &dyn Fn(usize) -> bool| {
        let constant = |array: &Array| device.tensor(array.values.clone(), [array.len()]);
        let flat = |(index, array): (usize, &Array)| match is_tracked(index) {
            true => of_shape(leaves[index].clone(), &array.shape),
            false => of_shape(constant(array), &array.shape),
        };
        arrays.iter().enumerate().map(flat).collect::<Result<Vec<_>, Error>>().and_then(|inputs| function(&inputs))
    };
    let plain = at(inputs, &|_| false)?.read()?;
    let size = plain.values.iter().fold(1.0, |size: f64, value| size.max(value.abs()));
    for index in 0..plain.len().max(expected.len()) {
        let at = |values: &[f64]| values.get(index).copied().unwrap_or(f64::NAN);
        let (found, expected) = (at(&plain.values), at(expected));
        if !within(found, expected, VALUE * size) {
            return Err(OperationViolation::Value { operation: name, index, found, expected });
        }
    }
    let mut weights = vec![0.0; plain.len()];
    Noise::new(SEED).stream(Key::new(Purpose::Check, 0)).normal(&mut weights);
    for (input, array) in inputs.iter().enumerate() {
        let objective = |entries: &[f64]| -> Result<f64, Error> {
            let mut moved = inputs.to_vec();
            moved[input].values = entries.to_vec();
            let value = at(&moved, &|_| false)?.read()?;
            Ok(value.values.iter().zip(&weights).map(|(value, weight)| value * weight).sum())
        };
        for is_alone in [false, true] {
            let output = at(inputs, &|other| !is_alone || other == input)?;
            if output.read()? != plain {
                return Err(OperationViolation::Tracking { operation: name });
            }
            let output = flat(&output)?;
            let gradients = (output * device.tensor(weights.clone(), [weights.len()])).sum().backward();
            let gradient = leaves[input].grad(&gradients).map(|gradient| Handle::from(gradient).read()).transpose()?;
            for index in 0..array.len() {
                // An input that cannot be moved by a step gives NaN, which is a violation below.
                let expected = derivative(|entries| objective(entries).unwrap_or(f64::NAN), &array.values, index);
                let found = gradient.as_ref().map_or(f64::NAN, |gradient| gradient.values[index]);
                if !within(found, expected, DIFFERENCE * (size + expected.abs())) {
                    return Err(OperationViolation::Gradient { operation: name, input, index, found, expected });
                }
            }
        }
    }
    Ok(())
}

/// The inputs as vectors with gradient.
fn leaves(device: &Device, inputs: &[Array]) -> Vec<Tensor<1>> {
    inputs.iter().map(|input| device.leaf(&input.values, [input.len()])).collect()
}

/// A vector in another shape of at most four dimensions.
fn of_shape(flat: Tensor<1>, shape: &[usize]) -> Result<Handle, Error> {
    Ok(match *shape {
        [_] => flat.into(),
        [a, b] => flat.reshape([a, b]).into(),
        [a, b, c] => flat.reshape([a, b, c]).into(),
        [a, b, c, d] => flat.reshape([a, b, c, d]).into(),
        _ => return Err(too_many_dimensions(shape)),
    })
}

/// The numbers of a tensor of at most four dimensions.
fn flat(tensor: &Handle) -> Result<Tensor<1>, Error> {
    let shape = tensor.shape();
    let length = [shape.iter().product::<usize>()];
    Ok(match shape.len() {
        1 => tensor.tensor::<1>()?,
        2 => tensor.tensor::<2>()?.reshape(length),
        3 => tensor.tensor::<3>()?.reshape(length),
        4 => tensor.tensor::<4>()?.reshape(length),
        _ => return Err(too_many_dimensions(&shape)),
    })
}

fn too_many_dimensions(shape: &[usize]) -> Error {
    Error::Length {
        operation: "law of operations, number of dimensions".into(),
        found: shape.len(),
        expected: 4,
        remedy: "Give tensors of one to four dimensions.".into(),
    }
}
