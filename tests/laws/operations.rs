//! Holds every differentiable operation to closed-form values and finite differences, and tests its errors.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita_core::burn::tensor::Tensor;
use partita_core::{
    Array, Device, Error, Handle, Key, Noise, Precision, Purpose, SparseRows, cholesky, digamma, ln_gamma, log_sum_exp,
    low_rank_multinomial, taped, triangular_solve,
};
use partita_laws::{OperationViolation, custom_operation, operation};

use super::custom_operations::array;

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

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
fn operations_of_both_tapes_keep_the_laws() {
    let device = Device::flex();
    let row = array(&[0.5, 2.0, 1.25], &[1, 3]);
    let matrix = array(&[1.0, -2.0, 0.5, 4.0, 3.0, -1.5], &[2, 3]);
    let joined = |x: &[Tensor<2>]| Ok(taped::joined(vec![x[0].clone(), x[1].clone()], 1));
    let column = array(&[7.0, 8.0], &[2, 1]);
    let expected = [1.0, -2.0, 0.5, 7.0, 4.0, 3.0, -1.5, 8.0];
    operation("joined", &device, &[matrix.clone(), column], &expected, joined).unwrap();
    let rows = |x: &[Tensor<2>]| Ok(taped::joined(vec![x[0].clone(), x[1].clone()], 0));
    let expected = [0.5, 2.0, 1.25, 1.0, -2.0, 0.5, 4.0, 3.0, -1.5];
    operation("joined rows", &device, &[row.clone(), matrix.clone()], &expected, rows).unwrap();
    let part = |x: &[Tensor<2>]| Ok(taped::part(x[0].clone(), 1, 1, 2));
    operation("part", &device, std::slice::from_ref(&matrix), &[-2.0, 0.5, 3.0, -1.5], part).unwrap();
    let reshaped = |x: &[Handle]| -> Result<Handle, Error> { Ok(taped::reshaped(x[0].tensor::<2>()?, [6]).into()) };
    custom_operation("reshaped", &device, std::slice::from_ref(&matrix), &matrix.values, reshaped).unwrap();
    let both = [matrix.clone(), row.clone()];
    let plus = |x: &[Tensor<2>]| Ok(taped::plus(x[0].clone(), x[1].clone()));
    operation("plus", &device, &both, &[1.5, 0.0, 1.75, 4.5, 5.0, -0.25], plus).unwrap();
    let times = |x: &[Tensor<2>]| Ok(taped::times(x[0].clone(), x[1].clone()));
    operation("times", &device, &both, &[0.5, -4.0, 0.625, 2.0, 6.0, -1.875], times).unwrap();
    let product = |x: &[Tensor<2>]| Ok(taped::product(x[0].clone(), taped::transposed(x[1].clone())));
    operation("product", &device, &both, &[-2.875, 6.125], product).unwrap();
}

#[test]
fn functions_of_both_tapes_keep_the_laws() {
    let device = Device::flex();
    let input = array(&[0.5, 2.0, 1.25], &[3]);
    let each = |function: fn(f64) -> f64| input.values.iter().map(|x| function(*x)).collect::<Vec<_>>();
    let keeps = |name, function: fn(Tensor<1>) -> Tensor<1>, expected: Vec<f64>| {
        operation(name, &device, std::slice::from_ref(&input), &expected, |x| Ok(function(x[0].clone()))).unwrap();
    };
    keeps("exp", taped::exp, each(f64::exp));
    keeps("log", taped::log, each(f64::ln));
    keeps("negated", taped::negated, each(|x| -x));
    keeps("log_sigmoid", taped::log_sigmoid, each(|x| -(-x).exp().ln_1p()));
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

#[test]
fn impossible_cases_contribute_nothing_and_a_missing_number_makes_the_sum_missing() {
    let sum = |x: &[f64]| -> f64 { log_sum_exp(Device::flex().tensor::<1>(x.to_vec(), [x.len()])).into_scalar() };
    assert!((sum(&[f64::NEG_INFINITY, 2.0]) - 2.0).abs() < f64::EPSILON);
    assert!(sum(&[f64::NAN, 1.0]).is_nan() && sum(&[f64::NAN]).is_nan());
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
fn the_sparse_predictor_keeps_the_laws_for_few_and_many_outputs() {
    let dense = [0.0, 0.5, 0.0, 2.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -3.0, 0.25, 1.0, 0.75, 0.0];
    let rows = SparseRows::from_dense(&dense, [4, 4]).unwrap();
    for outputs in [3, 18] {
        let weight = |index: usize| (index * 7 % 11) as f64 / 4.0 - 1.0;
        let weights: Vec<f64> = (0..4 * outputs).map(weight).collect();
        let intercepts: Vec<f64> = (0..outputs).map(|k| weight(k + 3)).collect();
        let product = |cell: usize| -> f64 {
            let (row, k) = (cell / outputs, cell % outputs);
            (0..4).map(|column| dense[4 * row + column] * weights[column * outputs + k]).sum()
        };
        let expected: Vec<f64> = (0..4 * outputs).map(product).collect();
        let coefficients = array(&weights, &[4, outputs]);
        let multiply = |x: &[Tensor<2>]| rows.multiply(x[0].clone());
        operation("sparse product", &Device::flex(), std::slice::from_ref(&coefficients), &expected, multiply).unwrap();
        let expected: Vec<f64> = (0..4 * outputs).map(|cell| expected[cell] + intercepts[cell % outputs]).collect();
        let predictor = |x: &[Tensor<2>]| rows.predictor(x[0].clone(), Some(x[1].clone().reshape([outputs])));
        let inputs = [coefficients, array(&intercepts, &[1, outputs])];
        operation("sparse predictor", &Device::flex(), &inputs, &expected, predictor).unwrap();
    }
}

#[test]
fn a_sparse_predictor_refuses_other_shapes() {
    let device = Device::flex();
    let rows = SparseRows::from_dense(&[1.0, 0.0], [1, 2]).unwrap();
    let weights = |rows: usize| device.tensor(vec![0.0; 3 * rows], [rows, 3]);
    assert!(matches!(rows.multiply(weights(3)), Err(Error::Shape { found, .. }) if found == [3, 3]));
    let intercepts = Some(device.tensor(vec![0.0; 2], [2]));
    assert!(matches!(rows.predictor(weights(2), intercepts), Err(Error::Shape { expected, .. }) if expected == [3]));
}

/// Counts of `rows` documents over `columns` words, with one empty document, and random factors and loadings.
fn documents(rows: usize, rank: usize, columns: usize) -> (SparseRows, Array, Array) {
    let mut noise = Noise::new(5).stream(Key::new(Purpose::Check, 0));
    let mut random = |count| fixtures::standard_normals(&mut noise, count);
    let row = |row: usize| {
        let words = (0..columns).filter(|word| row != 1 && (7 * row + 3 * word).is_multiple_of(4));
        words.map(|word| (u32::try_from(word).unwrap(), ((row + word) % 5) as f64)).collect()
    };
    let counts = SparseRows::new(&(0..rows).map(row).collect::<Vec<_>>(), columns).unwrap();
    (counts, array(&random(rows * rank), &[rows, rank]), array(&random(rank * columns), &[rank, columns]))
}

/// The log likelihood of each row from its definition, with a dense matrix.
fn dense(counts: &SparseRows, factors: &Array, loadings: &Array) -> Vec<f64> {
    let [rank, columns] = [loadings.shape[0], loadings.shape[1]];
    let one = |row: usize| {
        let logit = |v: usize| {
            (0..rank).map(|k| factors.values[row * rank + k] * loadings.values[k * columns + v]).sum::<f64>()
        };
        let logits: Vec<f64> = (0..columns).map(logit).collect();
        let normaliser = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
        let (words, counts) = counts.row(row);
        words.iter().zip(counts).map(|(word, count)| count * (logits[*word as usize] - normaliser)).sum()
    };
    (0..counts.rows()).map(one).collect()
}

#[test]
fn low_rank_multinomial_keeps_the_laws() {
    // More than one block of rows, and columns that are no whole blocks; the laws weigh every row differently.
    for (rows, rank, columns) in [(11, 3, 18), (3, 2, 32), (1, 1, 2)] {
        let (counts, factors, loadings) = documents(rows, rank, columns);
        let expected = dense(&counts, &factors, &loadings);
        let value = |x: &[Tensor<2>]| {
            let rows = low_rank_multinomial(&counts, x[0].clone(), x[1].clone())?;
            let count = rows.dims()[0];
            Ok(rows.reshape([count, 1]))
        };
        operation("low-rank multinomial", &Device::flex(), &[factors, loadings], &expected, value).unwrap();
    }
}

#[test]
fn low_rank_multinomial_agrees_with_a_dense_matrix_at_size() {
    let (counts, factors, loadings) = documents(37, 21, 500);
    let expected = dense(&counts, &factors, &loadings);
    let device = Device::flex();
    let tensor = |array: &Array| device.tensor(array.values.clone(), [array.shape[0], array.shape[1]]);
    let found = low_rank_multinomial(&counts, tensor(&factors), tensor(&loadings)).unwrap();
    let found: Vec<f64> = found.into_data().try_into_vec().unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
    }
}

#[test]
fn low_rank_gradients_with_equal_weights_are_those_with_weights_of_their_own() {
    // For equal weights the forward pass is reused; nearly equal ones are computed anew.
    let (counts, factors, loadings) = documents(19, 4, 40);
    let device = Device::flex();
    let leaf = |array: &Array| -> Tensor<2> {
        device.tensor(array.values.clone(), [array.shape[0], array.shape[1]]).autodiff().require_grad()
    };
    let gradients = |weights: Vec<f64>| -> [Vec<f64>; 2] {
        let (w, t) = (leaf(&factors), leaf(&loadings));
        let rows = low_rank_multinomial(&counts, w.clone(), t.clone()).unwrap();
        let gradients = (rows * device.tensor(weights, [19])).sum().backward();
        [w, t].map(|leaf| leaf.grad(&gradients).unwrap().into_data().try_into_vec().unwrap())
    };
    let mut nearly = vec![1.7; 19];
    nearly[18] += 1e-15;
    for (found, expected) in gradients(vec![1.7; 19]).iter().zip(gradients(nearly)) {
        let size = expected.iter().fold(1.0_f64, |size, g| size.max(g.abs()));
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-13 * size));
    }
}

#[test]
fn low_rank_multinomial_refuses_what_does_not_fit() {
    let (counts, factors, loadings) = documents(3, 2, 6);
    let device = Device::flex();
    let (w, t): (Tensor<2>, Tensor<2>) =
        (device.tensor(factors.values, [3, 2]), device.tensor(loadings.values, [2, 6]));
    let wrong = low_rank_multinomial(&counts, w.clone().narrow(0, 0, 2), t.clone()).unwrap_err();
    assert!(matches!(wrong, Error::Shape { .. }) && wrong.to_string().contains("factors"), "{wrong}");
    let wrong = low_rank_multinomial(&counts, w.clone(), t.narrow(1, 0, 5)).unwrap_err();
    assert!(matches!(wrong, Error::Shape { .. }) && wrong.to_string().contains("loadings"), "{wrong}");
    let negative = SparseRows::new(&[vec![(0, 1.0)], vec![(2, -1.0)], vec![]], 6).unwrap();
    let wrong = low_rank_multinomial(&negative, w, device.tensor(vec![0.0; 12], [2, 6])).unwrap_err();
    assert!(matches!(wrong, Error::Support { index: 1, .. }), "{wrong}");
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
