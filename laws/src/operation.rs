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

/// Checks `function` at `inputs` in double precision on `device`.
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
    let plain = Handle::from(function(&tensors(device, inputs, |_| false)?)?).read()?;
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
    let shape = dimensions::<D>(name, &plain.shape)?;
    for (input, array) in inputs.iter().enumerate() {
        let objective = |entries: &[f64]| -> Result<f64, Error> {
            let mut moved = inputs.to_vec();
            moved[input].values = entries.to_vec();
            let value = Handle::from(function(&tensors(device, &moved, |_| false)?)?).read()?;
            Ok(value.values.iter().zip(&weights).map(|(value, weight)| value * weight).sum())
        };
        for is_alone in [false, true] {
            let tracked = tensors(device, inputs, |other| !is_alone || other == input)?;
            let output = function(&tracked)?;
            if Handle::from(output.clone().detach()).read()? != plain {
                return Err(OperationViolation::Tracking { operation: name });
            }
            let gradients = (output * device.tensor(weights.clone(), shape)).sum().backward();
            let gradient = tracked[input].grad(&gradients).map(|gradient| Handle::from(gradient).read()).transpose()?;
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

fn tensors<const D: usize>(
    device: &Device,
    inputs: &[Array],
    is_tracked: impl Fn(usize) -> bool,
) -> Result<Vec<Tensor<D>>, Error> {
    let make = |(index, input): (usize, &Array)| {
        let (values, shape) = (input.values.clone(), dimensions("input of an operation", &input.shape)?);
        Ok(if is_tracked(index) { device.leaf(values, shape) } else { device.tensor(values, shape) })
    };
    inputs.iter().enumerate().map(make).collect()
}

fn dimensions<const D: usize>(operation: &str, shape: &[usize]) -> Result<[usize; D], Error> {
    shape.try_into().map_err(|_| Error::Length {
        operation: format!("{operation}, number of dimensions"),
        found: shape.len(),
        expected: D,
        remedy: "Give all inputs the rank of the operation.".into(),
    })
}
