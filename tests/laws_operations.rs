//! Holds every differentiable operation to closed-form values and finite-difference gradients, and its errors to account.

use partita_core::burn::tensor::Tensor;
use partita_core::laws::{OperationViolation, operation};
use partita_core::{Array, Device, Error, Precision, cholesky, digamma, ln_gamma, log_sum_exp, triangular_solve};

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

fn array(values: &[f64], shape: &[usize]) -> Array {
    Array { values: values.to_vec(), shape: shape.to_vec() }
}

#[test]
fn ln_gamma_keeps_the_laws() {
    let half = std::f64::consts::PI.sqrt().ln();
    let input = array(&[0.5, 2.0, 5.0, 11.0], &[2, 2]);
    let expected = [half, 0.0, 24.0_f64.ln(), 3_628_800.0_f64.ln()];
    operation("ln_gamma", &Device::flex(), &[input], &expected, |x| Ok(ln_gamma::<2>(x[0].clone()))).unwrap();
}

#[test]
fn digamma_keeps_the_laws() {
    let input = array(&[0.5, 1.0, 2.0, 4.0], &[4]);
    let expected = [-EULER - 4.0_f64.ln(), -EULER, 1.0 - EULER, 11.0 / 6.0 - EULER];
    operation("digamma", &Device::flex(), &[input], &expected, |x| Ok(digamma::<1>(x[0].clone()))).unwrap();
}

#[test]
fn log_sum_exp_keeps_the_laws() {
    let input = array(&[0.0, 0.0, 0.0, 1.0, 2.0, 3.0, -900.0, -901.0, -900.0], &[1, 3, 3]);
    let e = std::f64::consts::E;
    let expected = [3.0_f64.ln(), (e + e.powi(2) + e.powi(3)).ln(), -900.0 + (2.0 + 1.0 / e).ln()];
    operation("log_sum_exp", &Device::flex(), &[input], &expected, |x| Ok(log_sum_exp::<3>(x[0].clone()))).unwrap();
}

#[test]
fn impossible_cases_have_no_gradient() {
    let device = Device::flex();
    let x = device.tensor(vec![f64::NEG_INFINITY; 2], [1, 2]).autodiff().require_grad();
    let gradients = log_sum_exp(x.clone()).sum().backward();
    let gradient: Vec<f64> = x.grad(&gradients).unwrap().into_data().try_into_vec().unwrap();
    assert_eq!(gradient, [0.0, 0.0]);
}

/// Two 3×3 matrices L Lᵀ and their factors L.
fn factors() -> (Array, Array) {
    let factors = [2.0, 0.0, 0.0, 0.5, 1.5, 0.0, -1.0, 0.25, 3.0, 1.0, 0.0, 0.0, 0.9, 1.2, 0.0, 0.3, -0.7, 0.8];
    let product = |cell: usize| {
        let (start, i, j) = (cell / 9 * 9, cell % 9 / 3, cell % 3);
        (0..3).map(|k| factors[start + 3 * i + k] * factors[start + 3 * j + k]).sum()
    };
    let products: Vec<f64> = (0..18).map(product).collect();
    (array(&products, &[2, 3, 3]), array(&factors, &[2, 3, 3]))
}

#[test]
fn cholesky_keeps_the_laws() {
    let (matrices, factors) = factors();
    operation("cholesky", &Device::flex(), &[matrices], &factors.values, |x| cholesky::<3>(x[0].clone())).unwrap();
}

#[test]
fn cholesky_of_one_number_is_its_root() {
    operation("cholesky", &Device::flex(), &[array(&[9.0], &[1, 1])], &[3.0], |x| cholesky::<2>(x[0].clone())).unwrap();
}

#[test]
fn triangular_solve_keeps_the_laws() {
    let (_, factors) = factors();
    let solution = [1.0, -2.0, 0.5, 3.0, 2.0, 0.25, -1.0, 1.0, 4.0, 0.75, -0.5, 2.0];
    let right = |cell: usize| {
        let (matrix, i, column) = (cell / 6, cell % 6 / 2, cell % 2);
        (0..=i).map(|k| factors.values[9 * matrix + 3 * i + k] * solution[6 * matrix + 2 * k + column]).sum()
    };
    let right = Array::new((0..12).map(right).collect(), vec![2, 3, 2]).unwrap();
    let solve = |x: &[Tensor<3>]| triangular_solve::<3>(x[0].clone(), x[1].clone());
    operation("triangular_solve", &Device::flex(), &[factors, right], &solution, solve).unwrap();
}

#[test]
fn triangular_solve_does_not_read_above_the_diagonal() {
    let factor = array(&[2.0, f64::NAN, 1.0, 4.0], &[2, 2]);
    let device = Device::flex();
    let solution =
        triangular_solve(device.tensor(factor.values, [2, 2]), device.tensor(vec![6.0, 11.0], [2, 1])).unwrap();
    let solution: Vec<f64> = solution.into_data().try_into_vec().unwrap();
    assert_eq!(solution, [3.0, 2.0]);
}

#[test]
fn single_precision_goes_in_and_out() {
    let device = Device::flex().with_precision(Precision::Single);
    let factor = cholesky(device.tensor(vec![4.0, 2.0, 2.0, 5.0], [2, 2])).unwrap();
    let factor: Vec<f32> = factor.into_data().try_into_vec().unwrap();
    assert_eq!(factor, [2.0, 0.0, 1.0, 2.0]);
}

#[test]
fn cholesky_names_the_pivot_and_the_matrix() {
    let matrices = vec![1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0];
    let error = cholesky(Device::flex().tensor(matrices, [2, 2, 2])).unwrap_err();
    assert!(matches!(error, Error::NotPositiveDefinite { index: 1, .. }), "{error}");
    assert!(error.to_string().contains("matrix 1 of the batch: pivot 1 is -3e0"), "{error}");
}

#[test]
fn cholesky_refuses_missing_entries_and_other_shapes() {
    let device = Device::flex();
    let missing = cholesky(device.tensor(vec![1.0, f64::NAN, 0.0, 1.0], [2, 2])).unwrap_err();
    assert!(matches!(missing, Error::NotFinite { index: 1, .. }));
    let oblong = cholesky(device.tensor(vec![1.0; 6], [2, 3])).unwrap_err();
    assert!(matches!(oblong, Error::Shape { .. }));
    let vector = cholesky(device.tensor(vec![1.0; 4], [4])).unwrap_err();
    assert!(matches!(vector, Error::Shape { .. }));
}

#[test]
fn triangular_solve_refuses_a_zero_on_the_diagonal_and_other_shapes() {
    let device = Device::flex();
    let singular = device.tensor(vec![1.0, 0.0, 1.0, 0.0], [2, 2]);
    let error = triangular_solve(singular, device.tensor(vec![1.0; 2], [2, 1])).unwrap_err();
    assert!(matches!(error, Error::Parameter { parameter: "factor", index: 3, .. }));
    let identity = device.tensor(vec![1.0, 0.0, 0.0, 1.0], [2, 2]);
    let error = triangular_solve(identity, device.tensor(vec![1.0; 3], [3, 1])).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }));
}

#[test]
fn the_laws_find_a_value_and_a_gradient_that_are_wrong() {
    let device = Device::flex();
    let input = array(&[2.0], &[1]);
    let value =
        operation("wrong value", &device, std::slice::from_ref(&input), &[1.0], |x| Ok(ln_gamma::<1>(x[0].clone())));
    assert!(matches!(value, Err(OperationViolation::Value { index: 0, .. })));
    // Detaching hides half of the derivative of x².
    let half = |x: &[Tensor<1>]| Ok(x[0].clone() * x[0].clone().detach());
    let gradient = operation("half a gradient", &device, &[input], &[4.0], half);
    assert!(matches!(gradient, Err(OperationViolation::Gradient { input: 0, index: 0, .. })));
}
