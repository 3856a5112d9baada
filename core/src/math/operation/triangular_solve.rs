//! Solves a batch of lower-triangular systems as a differentiable operation, with gradients to both sides.

use burn::tensor::Tensor;

use super::cholesky::side;
use super::triangle::{solve, solve_transposed};
use super::{apply, computes_on_host};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;

const OPERATION: &str = "triangular solve";

/// The solution $X$ of $LX = B$ with $L$ = `factor` lower-triangular and $B$ = `right`, for each matrix of a batch.
///
/// Entries of `factor` above the diagonal are not read and get gradient zero:
/// $$ \bar B = L^{-\top} \bar X, \qquad \bar L = -\operatorname{tril}(\bar B X^\top). $$
///
/// # Shapes
/// `factor` `[..., n, n]`, `right` `[..., n, m]` with the same batch → `[..., n, m]`.
///
/// # Laws
/// `laws::operation` checks $LX = B$ and both gradients against differences.
///
/// # Errors
/// [`Error::Shape`] if the factor is not square or the shapes do not match; [`Error::Parameter`] if a number on the
/// diagonal of the factor is zero or missing.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use partita_core::{Device, triangular_solve};
/// let device = Device::flex();
/// let factor = device.tensor(vec![2.0, 0.0, 1.0, 4.0], [2, 2]);
/// let right = device.tensor(vec![6.0, 11.0], [2, 1]);
/// let solution: Vec<f64> = triangular_solve(factor, right)?.into_data().to_vec().unwrap_or_default();
/// assert_eq!(solution, [3.0, 2.0]);
/// # }
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", 2008,
/// section 2.3.1.
pub fn triangular_solve<const D: usize>(factor: Tensor<D>, right: Tensor<D>) -> Result<Tensor<D>> {
    computes_on_host("triangular_solve");
    let (factor, right) = (Handle::from(factor), Handle::from(right));
    let (shape, found) = (factor.shape(), right.shape());
    let n = side(OPERATION, &shape)?;
    let columns = found.last().copied().unwrap_or(1);
    let expected = [&shape[..D - 1], &[columns]].concat();
    let remedy = "Give both sides the same batch and as many rows; a vector is a matrix of one column.";
    Error::same_shape(format_args!("{OPERATION}, right side"), &found, &expected, remedy)?;
    for (number, matrix) in factor.read()?.values.chunks_exact((n * n).max(1)).enumerate() {
        let is_singular = |entry: f64| entry == 0.0 || entry.is_nan();
        if let Some(row) = (0..n).find(|row| is_singular(matrix[row * n + row])) {
            let cell = row * n + row;
            return Err(Error::Parameter {
                distribution: OPERATION.into(),
                parameter: "factor",
                found: matrix[cell],
                index: number * n * n + cell,
                expected: "a number other than zero on the diagonal",
            });
        }
    }
    Ok(apply(vec![factor, right], Box::new(move |inputs| node(inputs, n, columns))).typed())
}

fn node(mut inputs: Vec<Array>, n: usize, columns: usize) -> (Array, super::Vjp) {
    let mut solution = inputs.swap_remove(1);
    let factors = inputs.swap_remove(0).values;
    let (square, block) = ((n * n).max(1), (n * columns).max(1));
    for (factor, right) in factors.chunks_exact(square).zip(solution.values.chunks_exact_mut(block)) {
        solve(factor, n, right);
    }
    let solutions = solution.values.clone();
    let vjp = move |gradient: &[f64]| {
        let mut right_gradient = gradient.to_vec();
        let mut factor_gradient = vec![0.0; factors.len()];
        let systems = factors.chunks_exact(square).zip(solutions.chunks_exact(block));
        let gradients = factor_gradient.chunks_exact_mut(square).zip(right_gradient.chunks_exact_mut(block));
        for ((factor, solution), (factor_gradient, right_gradient)) in systems.zip(gradients) {
            solve_transposed(factor, n, right_gradient);
            for i in 0..n {
                for j in 0..=i {
                    let left = &right_gradient[i * columns..(i + 1) * columns];
                    let right = &solution[j * columns..(j + 1) * columns];
                    factor_gradient[i * n + j] = -left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>();
                }
            }
        }
        vec![factor_gradient, right_gradient]
    };
    (solution, Box::new(vjp))
}
