//! Computes location + scale · value as one node of the tape, for non-centred sites.

use super::apply;
use crate::array::Array;
use crate::distribution::Parameter;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// `location + scale · value`, where location and scale are numbers, one-element tensors or of the value's shape.
pub(crate) fn affine(location: Parameter, scale: Parameter, value: Handle) -> Result<Handle> {
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
            let [location, scale, value] =
                constants.map(|constant| constant.or_else(|| arrays.next()).map(|array| array.values).unwrap_or_default());
            let at = |values: &[f64], index: usize| if values.len() == 1 { values[0] } else { values[index] };
            let result = (0..numbers).map(|i| at(&location, i) + at(&scale, i) * at(&value, i)).collect();
            let output = Array { values: result, shape };
            (output, Box::new(move |gradient| pull_back(gradient, [&location, &scale, &value], wanted)))
        }),
    ))
}

fn pull_back(gradient: &[f64], [location, scale, value]: [&Vec<f64>; 3], wanted: [bool; 3]) -> Vec<Vec<f64>> {
    let at = |values: &[f64], index: usize| if values.len() == 1 { values[0] } else { values[index] };
    let reduce = |like: &[f64], terms: Vec<f64>| if like.len() == 1 { vec![terms.iter().sum()] } else { terms };
    let mut results = Vec::with_capacity(3);
    if wanted[0] {
        results.push(reduce(location, gradient.to_vec()));
    }
    if wanted[1] {
        results.push(reduce(scale, gradient.iter().enumerate().map(|(i, g)| g * at(value, i)).collect()));
    }
    if wanted[2] {
        results.push(reduce(value, gradient.iter().enumerate().map(|(i, g)| g * at(scale, i)).collect()));
    }
    results
}
