//! Puts a function of a user's own, with its vector-Jacobian product, on the tape as one node.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;

use super::{Vjp, apply, computes_on_host, taped};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// How many tracked tensors one node takes; the last of more are put together first.
const INPUTS: usize = 4;

type AddGradients = Box<dyn FnOnce(&[&[f64]], &mut [Vec<f64>]) + Send>;

/// The value of a function together with its vector-Jacobian product: what [`custom_vjp`] asks of a user's function.
pub struct Differentiable {
    values: Vec<Array>,
    vjp: AddGradients,
}

impl fmt::Debug for Differentiable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Differentiable").field("values", &self.values).finish_non_exhaustive()
    }
}

impl Differentiable {
    /// One output $y$: `vjp(gradient, by)` adds $`\sum_k g_k \thinspace \partial y_k / \partial x_{ij}`$ to `by[i][j]`.
    ///
    /// # Shapes
    /// `gradient` has one number for each of `value`; `by` has one vector of zeros for each input, of its length.
    pub fn new(value: Array, vjp: impl FnOnce(&[f64], &mut [Vec<f64>]) + Send + 'static) -> Self {
        Self::several(vec![value], move |gradients, by| vjp(gradients.first().copied().unwrap_or_default(), by))
    }

    /// Several outputs: as [`Differentiable::new`], with one gradient for each output.
    pub fn several(values: Vec<Array>, vjp: impl FnOnce(&[&[f64]], &mut [Vec<f64>]) + Send + 'static) -> Self {
        Self { values, vjp: Box::new(vjp) }
    }
}

/// A differentiable function of one's own on the host, as one node of the tape.
///
/// `function` reads the inputs in f64, whatever the precision of the tensors, and returns its value with a closure for
/// the vector-Jacobian product. Both may capture what they need: data, settings, intermediate results. The product
/// adds to vectors that have the lengths of the inputs, so that it cannot give a gradient of another shape.
///
/// # Shapes
/// Inputs of any number and rank, on one device; an output of rank `D`.
///
/// # Errors
/// What `function` returns; [`Error::Operation`] if there is no input; [`Error::Length`] if the output's rank is not `D`,
/// or its numbers are not as many as its shape says; [`Error::NotFiniteMade`] if it has a NaN and no input has. All name
/// the operation.
///
/// # Laws
/// `laws::custom_operation` checks the value, and the product against central differences.
///
/// # Example
/// ```
/// use partita_core::{Array, Device, Differentiable, custom_vjp};
/// // A power law with a captured exponent: y = a xᵏ for a vector x and one number a.
/// let exponent = 3;
/// let device = Device::flex();
/// let (x, a) = (device.leaf::<2>(vec![1.0, 2.0], [1, 2]), device.leaf::<1>(vec![0.5], [1]));
/// let y = custom_vjp::<2>("power law", [x.clone().into(), a.into()], move |inputs| {
///     let (x, a) = (inputs[0].clone(), inputs[1].values[0]);
///     let values = x.values.iter().map(|x| a * x.powi(exponent)).collect();
///     let value = Array::new(values, x.shape.clone())?;
///     Ok(Differentiable::new(value, move |gradient, by| {
///         for (i, (g, x)) in gradient.iter().zip(&x.values).enumerate() {
///             by[0][i] += g * a * f64::from(exponent) * x.powi(exponent - 1);
///             by[1][0] += g * x.powi(exponent);
///         }
///     }))
/// })?;
/// assert_eq!(y.clone().sum().into_scalar::<f64>(), 4.5);
/// let gradient: Vec<f64> = x.grad(&y.sum().backward()).unwrap().into_data().to_vec().unwrap();
/// assert_eq!(gradient, [1.5, 6.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn custom_vjp<const D: usize>(
    name: &str,
    inputs: impl IntoIterator<Item = Handle>,
    function: impl FnOnce(Vec<Array>) -> Result<Differentiable> + Send + 'static,
) -> Result<Tensor<D>> {
    let (node, shapes) = node(name, inputs.into_iter().collect(), function)?;
    match <[Vec<usize>; 1]>::try_from(shapes) {
        Ok([shape]) if shape.len() == D => Ok(node.reshaped(&shape).typed()),
        Ok([shape]) => Err(Error::Length {
            operation: format!("{name}, number of dimensions of the output"),
            found: shape.len(),
            expected: D,
            remedy: "Name the rank that the function gives: `custom_vjp::<2>(...)` for a matrix.".into(),
        }),
        Err(shapes) => Err(Error::Length {
            operation: format!("{name}, number of outputs"),
            found: shapes.len(),
            expected: 1,
            remedy: "Use `custom_vjp_outputs` for a function of several outputs.".into(),
        }),
    }
}

/// As [`custom_vjp`], for a function of several outputs, whose shapes may differ: still one node that computes.
///
/// # Errors
/// Those of [`custom_vjp`]; [`Error::Length`] for an output without numbers.
///
/// # Example
/// ```
/// use partita_core::{Array, Device, Differentiable, custom_vjp_outputs};
/// let angle = Device::flex().leaf::<1>(vec![0.5], [1]);
/// let outputs = custom_vjp_outputs("circle", [angle.clone().into()], |inputs| {
///     let (sin, cos) = inputs[0].values[0].sin_cos();
///     let values = vec![Array::scalar(cos), Array::scalar(sin)];
///     Ok(Differentiable::several(values, move |gradients, by| {
///         by[0][0] += cos * gradients[1][0] - sin * gradients[0][0];
///     }))
/// })?;
/// let (x, y) = (outputs[0].tensor::<1>()?, outputs[1].tensor::<1>()?);
/// let gradients = (x * 2.0 + y).backward();
/// let slope: f64 = angle.grad(&gradients).unwrap().into_scalar();
/// assert!((slope - (0.5_f64.cos() - 2.0 * 0.5_f64.sin())).abs() < 1e-15);
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn custom_vjp_outputs(
    name: &str,
    inputs: impl IntoIterator<Item = Handle>,
    function: impl FnOnce(Vec<Array>) -> Result<Differentiable> + Send + 'static,
) -> Result<Vec<Handle>> {
    let (node, shapes) = node(name, inputs.into_iter().collect(), function)?;
    if let Some(index) = shapes.iter().position(|shape| shape.contains(&0)) {
        return Err(Error::Length {
            operation: format!("{name}, output {index} of shape {:?}", shapes[index]),
            found: 0,
            expected: 1,
            remedy: "Give outputs of one number or more, and leave out those of none.".into(),
        });
    }
    let mut start = 0;
    let part = |shape: &Vec<usize>| {
        let length: usize = shape.iter().product();
        let part = taped::part(node.clone().typed::<1>(), 0, start, length);
        start += length;
        Handle::from(part).reshaped(shape)
    };
    Ok(shapes.iter().map(part).collect())
}

/// The values of all outputs in one vector as a node of the tape, and their shapes.
fn node(
    name: &str,
    inputs: Vec<Handle>,
    function: impl FnOnce(Vec<Array>) -> Result<Differentiable> + Send + 'static,
) -> Result<(Handle, Vec<Vec<usize>>)> {
    computes_on_host(name);
    let split = Split::new(name, inputs)?;
    let outcome: Outcome = Arc::default();
    let (operation, inner, constants, parts) = (name.to_owned(), outcome.clone(), split.constants, split.parts);
    let run = move |arrays: Vec<Array>| {
        let inputs = gather(constants, &parts, arrays);
        let lengths: Vec<usize> = inputs.iter().map(Array::len).collect();
        let is_missing = inputs.iter().any(has_nan);
        let checked = function(inputs).and_then(|made| checked(&operation, made, is_missing));
        let mut outcome = inner.lock().unwrap_or_else(PoisonError::into_inner);
        match checked {
            Ok(Differentiable { values, vjp }) => {
                let sizes: Vec<usize> = values.iter().map(Array::len).collect();
                let flat: Vec<f64> = values.iter().flat_map(|value| value.values.iter().copied()).collect();
                *outcome = Some(Ok(values.into_iter().map(|value| value.shape).collect()));
                let back = move |gradient: &[f64]| parts_of_gradient(vjp, gradient, &sizes, &lengths, &parts);
                (Array { shape: vec![flat.len()], values: flat }, Box::new(back) as Vjp)
            }
            Err(error) => {
                *outcome = Some(Err(error));
                (Array { values: vec![], shape: vec![0] }, Box::new(|_: &[f64]| vec![]) as Vjp)
            }
        }
    };
    let node = apply(split.tracked, Box::new(run));
    let shapes = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    match shapes {
        Some(shapes) => Ok((node, shapes?)),
        None => unreachable!("invariant: Burn runs the forward pass of a node at once"),
    }
}

/// What the function answered: the shapes of its outputs, or why there are none.
type Outcome = Arc<Mutex<Option<Result<Vec<Vec<usize>>>>>>;

/// Inputs, by whether gradients flow through them.
struct Split {
    /// The tensors of the node.
    tracked: Vec<Handle>,
    /// For each tensor of the node the inputs that it holds: all but the last hold one.
    parts: Vec<Vec<(usize, Vec<usize>)>>,
    /// Every input that no tensor of the node holds.
    constants: Vec<Option<Array>>,
}

impl Split {
    fn new(name: &str, inputs: Vec<Handle>) -> Result<Self> {
        let is_plain = !inputs.iter().any(Handle::is_tracked);
        let (mut tracked, mut parts, mut constants) = (vec![], vec![], vec![]);
        for (index, input) in inputs.into_iter().enumerate() {
            // The node needs one tensor, to know its device.
            if input.is_tracked() || (is_plain && index == 0) {
                parts.push(vec![(index, input.shape())]);
                tracked.push(input);
                constants.push(None);
            } else {
                constants.push(Some(input.read()?));
            }
        }
        if tracked.is_empty() {
            return Err(Error::Operation {
                operation: name.into(),
                problem: "it has no input. Give at least one.".into(),
            });
        }
        if tracked.len() > INPUTS {
            let rest = tracked.split_off(INPUTS - 1).into_iter().map(Handle::flat).collect();
            tracked.push(taped::joined(rest, 0).into());
            let rest = parts.split_off(INPUTS - 1).concat();
            parts.push(rest);
        }
        Ok(Self { tracked, parts, constants })
    }
}

/// Every input in its place.
fn gather(mut inputs: Vec<Option<Array>>, parts: &[Vec<(usize, Vec<usize>)>], arrays: Vec<Array>) -> Vec<Array> {
    for (parts, array) in parts.iter().zip(arrays) {
        if let [(index, _)] = parts.as_slice() {
            inputs[*index] = Some(array);
            continue;
        }
        let mut rest = array.values.as_slice();
        for (index, shape) in parts {
            let (own, others) = rest.split_at(shape.iter().product());
            inputs[*index] = Some(Array { values: own.to_vec(), shape: shape.clone() });
            rest = others;
        }
    }
    inputs.into_iter().flatten().collect()
}

/// The gradients of the tensors of the node.
fn parts_of_gradient(
    vjp: AddGradients,
    gradient: &[f64],
    sizes: &[usize],
    lengths: &[usize],
    parts: &[Vec<(usize, Vec<usize>)>],
) -> Vec<Vec<f64>> {
    let mut by: Vec<Vec<f64>> = lengths.iter().map(|length| vec![0.0; *length]).collect();
    let mut rest = gradient;
    let mut gradients = Vec::with_capacity(sizes.len());
    for size in sizes {
        let (own, others) = rest.split_at(*size);
        gradients.push(own);
        rest = others;
    }
    vjp(&gradients, &mut by);
    let of_part = |parts: &Vec<(usize, Vec<usize>)>| match parts.as_slice() {
        [(index, _)] => std::mem::take(&mut by[*index]),
        parts => parts.iter().flat_map(|(index, _)| std::mem::take(&mut by[*index])).collect(),
    };
    parts.iter().map(of_part).collect()
}

fn has_nan(array: &Array) -> bool {
    array.values.iter().any(|value| value.is_nan())
}

fn checked(operation: &str, made: Differentiable, is_missing: bool) -> Result<Differentiable> {
    for (index, value) in made.values.iter().enumerate() {
        let expected: usize = value.shape.iter().product();
        let output = format_args!("{operation}, output {index} of shape {:?}", value.shape);
        Error::same_length(output, value.len(), expected, "Give one value for each cell of the shape.")?;
        if !is_missing && has_nan(value) {
            return Err(Error::NotFiniteMade { operation: format!("{operation}, output {index}"), found: f64::NAN });
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn an_output_without_numbers_is_refused() {
        let x = Device::flex().leaf::<1>(vec![0.5], [1]);
        let error = custom_vjp_outputs("pair", [x.into()], |inputs| {
            let empty = Array { values: vec![], shape: vec![2, 0] };
            Ok(Differentiable::several(vec![inputs[0].clone(), empty], |_, _| {}))
        });
        let error = error.unwrap_err();
        let Error::Length { operation, found: 0, .. } = &error else { panic!("{error:?}") };
        assert!(operation.contains("pair, output 1 of shape [2, 0]"), "{operation}");
    }
}
