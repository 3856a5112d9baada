//! Computes location + scale · value as one node of the tape, for non-centred sites.

use crate::array::Array;
use crate::distribution::Parameter;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::kernel::dot;
use crate::math::operation::apply;

/// The map of a standardised value to its natural scale: numbers, one-element tensors or tensors of the value's shape.
#[derive(Debug)]
pub(super) struct Affine {
    pub(super) location: Parameter,
    pub(super) scale: Parameter,
}

/// `location + scale · value`.
pub(super) fn affine(map: Affine, value: Handle) -> Result<Handle> {
    let Affine { location, scale } = map;
    let shape = value.shape();
    let tracked = [location.is_tracked(), scale.is_tracked(), value.is_tracked()];
    let parameters = [location, scale, Parameter::Tensor(value)];
    let mut constants: [Option<Array>; 3] = [None, None, None];
    let mut inputs = Vec::with_capacity(3);
    for ((slot, parameter), is_tracked) in constants.iter_mut().zip(&parameters).zip(tracked) {
        match parameter {
            Parameter::Tensor(handle) if is_tracked => inputs.push(handle.clone()),
            parameter => *slot = Some(parameter.read()?),
        }
    }
    let numbers: usize = shape.iter().product();
    for parameter in &parameters {
        if let Parameter::Tensor(handle) = parameter {
            let found = handle.shape();
            let length = found.iter().product::<usize>();
            if length != 1 && length != numbers {
                return Err(Error::Shape {
                    operation: "location + scale · value of a non-centred site".into(),
                    found,
                    expected: shape,
                    remedy: "Give location and scale one element, or the shape of the site.".into(),
                });
            }
        }
    }
    let all_constant = inputs.is_empty();
    if all_constant && let Parameter::Tensor(handle) = &parameters[2] {
        inputs.push(handle.clone());
        constants[2] = None;
    }
    let wanted = if all_constant { [false, false, true] } else { tracked };
    Ok(apply(
        inputs,
        Box::new(move |arrays| {
            let mut arrays = arrays.into_iter();
            let [location, scale, value] = constants
                .map(|constant| constant.or_else(|| arrays.next()).map(|array| array.values).unwrap_or_default());
            let mut result = product(&scale, &value, numbers);
            match location.as_slice() {
                [location] => result.iter_mut().for_each(|slot| *slot += location),
                all => result.iter_mut().zip(all).for_each(|(slot, location)| *slot += location),
            }
            let output = Array { values: result, shape };
            (output, Box::new(move |gradient| vjp(gradient, [&location, &scale, &value], wanted)))
        }),
    ))
}

/// The product of two vectors of `numbers` numbers; a vector of length one is repeated.
fn product(a: &[f64], b: &[f64], numbers: usize) -> Vec<f64> {
    match (a, b) {
        ([a], [b]) => vec![a * b; numbers],
        ([one], all) | (all, [one]) => all.iter().map(|value| one * value).collect(),
        (a, b) => a.iter().zip(b).map(|(a, b)| a * b).collect(),
    }
}

fn vjp(gradient: &[f64], [location, scale, value]: [&Vec<f64>; 3], wanted: [bool; 3]) -> Vec<Vec<f64>> {
    // A parameter of one number is shared by all: its gradient is the sum.
    let through = |like: &[f64], factor: &[f64]| {
        if like.len() == 1 && gradient.len() > 1 {
            return match factor {
                [factor] => vec![factor * gradient.iter().sum::<f64>()],
                factor => vec![dot(factor, gradient)],
            };
        }
        product(factor, gradient, gradient.len())
    };
    let mut results = Vec::with_capacity(3);
    if wanted[0] {
        results.push(through(location, &[1.0]));
    }
    if wanted[1] {
        results.push(through(scale, value));
    }
    if wanted[2] {
        results.push(through(value, scale));
    }
    results
}
