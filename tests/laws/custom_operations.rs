//! Holds functions of a user's own on the tape to differences, and tests what they are refused for.

use partita_core::{Array, Device, Differentiable, Error, Handle, Result, custom_vjp, custom_vjp_outputs};
use partita_laws::{OperationViolation, custom_operation};

pub(super) fn array(values: &[f64], shape: &[usize]) -> Array {
    Array { values: values.to_vec(), shape: shape.to_vec() }
}

/// Inputs of ranks 1, 2, 1, 3, 1 and 2 with 9 numbers in all.
fn ranks() -> Vec<Array> {
    vec![
        array(&[0.5], &[1]),
        array(&[1.0, -2.0], &[1, 2]),
        array(&[0.25], &[1]),
        array(&[0.75, 1.5], &[2, 1, 1]),
        array(&[-0.5], &[1]),
        array(&[2.0, 0.125], &[2, 1]),
    ]
}

/// y_k = Σ_i w_i^k x_i over all numbers of all inputs: a function whose every derivative differs. `fault` spoils one.
fn mixture(inputs: &[Handle], fault: f64) -> Result<Handle> {
    let weight = |index: usize, k: i32| (1.0 + 0.1 * index as f64).powi(k);
    let node = custom_vjp::<2>("mixture", inputs.iter().cloned(), move |inputs| {
        let all: Vec<f64> = inputs.iter().flat_map(|input| input.values.clone()).collect();
        let value = |k: i32| all.iter().enumerate().map(|(i, x)| weight(i, k) * x * x).sum();
        let value = Array::new(vec![value(1), value(2), value(3)], vec![3, 1])?;
        Ok(Differentiable::new(value, move |gradient, by| {
            let mut index = 0;
            for (input, by) in inputs.iter().zip(by) {
                for (x, by) in input.values.iter().zip(by) {
                    *by += (1..).zip(gradient).map(|(k, g)| g * weight(index, k) * 2.0 * x).sum::<f64>();
                    *by += if index == 6 { fault } else { 0.0 };
                    index += 1;
                }
            }
        }))
    })?;
    Ok(node.into())
}

fn expected(inputs: &[Array]) -> Vec<f64> {
    let all: Vec<f64> = inputs.iter().flat_map(|input| input.values.clone()).collect();
    (1..4).map(|k| all.iter().enumerate().map(|(i, x)| (1.0 + 0.1 * i as f64).powi(k) * x * x).sum()).collect()
}

#[test]
fn inputs_of_any_number_and_rank_keep_the_laws() {
    for count in 1..=6 {
        let inputs = &ranks()[..count];
        let check = custom_operation("mixture", &Device::flex(), inputs, &expected(inputs), |x| mixture(x, 0.0));
        check.unwrap_or_else(|violation| panic!("{count} inputs: {violation}"));
    }
}

#[test]
fn a_planted_fault_is_found_where_it_is() {
    let inputs = ranks();
    let found = custom_operation("mixture", &Device::flex(), &inputs, &expected(&inputs), |x| mixture(x, 1e-6));
    assert!(matches!(found, Err(OperationViolation::Gradient { input: 4, index: 0, .. })), "{found:?}");
}

#[test]
fn several_outputs_of_different_shapes_keep_the_laws() {
    // A quotient with remainder in spirit: the second output is weighted by a tensor operation after the node.
    let both = |inputs: &[Handle]| -> Result<Handle> {
        let outputs = custom_vjp_outputs("sums", inputs.iter().cloned(), |inputs| {
            let x = inputs[0].values.clone();
            let (sum, squares) = (x.iter().sum(), x.iter().map(|x| x * x).collect());
            let values = vec![Array::scalar(sum), Array::new(squares, vec![3, 1])?];
            Ok(Differentiable::several(values, move |gradients, by| {
                for (i, x) in x.iter().enumerate() {
                    by[0][i] += gradients[0][0] + 2.0 * x * gradients[1][i];
                }
            }))
        })?;
        Ok((outputs[0].tensor::<1>()?.reshape([1, 1]) * outputs[1].tensor::<2>()?).into())
    };
    let input = array(&[1.0, 2.0, -0.5], &[3]);
    custom_operation("sums", &Device::flex(), &[input], &[2.5, 10.0, 0.625], both).unwrap();
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let x = || Handle::from(Device::flex().leaf::<1>(vec![-1.0], [1]));
    let with = |value: Array| {
        custom_vjp::<1>("my function", [x()], |_| Ok(Differentiable::new(value, |_, _| ()))).unwrap_err()
    };
    let length = with(array(&[1.0, 2.0], &[3]));
    assert!(length.to_string().starts_with("my function, output 0 of shape [3]: found 2"), "{length}");
    let rank = with(array(&[1.0, 2.0], &[2, 1]));
    assert!(rank.to_string().starts_with("my function, number of dimensions of the output: found 2"), "{rank}");
    let missing = with(array(&[f64::NAN], &[1]));
    assert!(matches!(missing, Error::NotFiniteMade { .. }) && missing.to_string().starts_with("my function, output 0"));
    let none = custom_vjp::<1>("my function", [], |_| Ok(Differentiable::new(Array::scalar(0.0), |_, _| ())));
    assert_eq!(none.unwrap_err().to_string(), "my function: it has no input. Give at least one.");
    let own = custom_vjp::<1>("my function", [x()], |inputs| {
        let problem = format!("{} is negative", inputs[0].values[0]);
        Err(Error::Operation { operation: "my function".into(), problem })
    });
    assert_eq!(own.unwrap_err().to_string(), "my function: -1 is negative");
}

#[test]
fn a_constant_is_given_to_the_function_and_takes_no_gradient() {
    let device = Device::flex();
    let x = device.leaf::<1>(vec![3.0], [1]);
    let constant = device.tensor::<1>(vec![2.0], [1]);
    let product = custom_vjp::<1>("product", [constant.into(), x.clone().into()], |inputs| {
        let (a, b) = (inputs[0].values[0], inputs[1].values[0]);
        Ok(Differentiable::new(Array::scalar(a * b), move |g, by| {
            by[0][0] += b * g[0];
            by[1][0] += a * g[0];
        }))
    });
    let gradients = product.unwrap().backward();
    let slope: f64 = x.grad(&gradients).unwrap().into_scalar();
    assert!((slope - 2.0).abs() < f64::EPSILON);
}
