//! Gives the Cholesky factor of a batch of matrices as a differentiable operation, naming the pivot where it fails.

use burn::tensor::Tensor;

use super::triangle::{factorise, solve_transposed, transpose};
use super::{apply, computes_on_host};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// The lower Cholesky factor $L$ of each matrix $A$ of a batch: $LL^\top = A$, positive diagonal.
///
/// The factor is that of the symmetric part $\tfrac12(A + A^\top)$, so that the gradient is exact for every entry:
/// $$ \bar A = \tfrac12 (S + S^\top), \qquad S = L^{-\top}\thinspace  \Phi(L^\top \bar L)\thinspace  L^{-1}, $$
/// where $\Phi$ keeps the lower triangle and halves the diagonal.
///
/// # Shapes
/// `[..., n, n]` → `[..., n, n]`, zeros above the diagonal.
///
/// # Laws
/// `laws::operation` checks $LL^\top = A$ and the gradient against differences.
///
/// # Errors
/// [`Error::Shape`] if the last two dimensions differ; [`Error::NotFinite`] if an entry is missing or infinite;
/// [`Error::NotPositiveDefinite`] with the matrix and the row of the pivot that is not positive.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use partita_core::{Device, cholesky};
/// let matrix = Device::flex().tensor(vec![4.0, 2.0, 2.0, 5.0], [2, 2]);
/// let factor: Vec<f64> = cholesky(matrix)?.into_data().to_vec().unwrap_or_default();
/// assert_eq!(factor, [2.0, 0.0, 1.0, 2.0]);
/// # }
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Murray, "Differentiation of the Cholesky decomposition", 2016, arXiv:1602.07527, equation 10.
pub fn cholesky<const D: usize>(matrix: Tensor<D>) -> Result<Tensor<D>> {
    computes_on_host("cholesky");
    let matrix = Handle::from(matrix);
    let n = side("Cholesky", &matrix.shape())?;
    let read = matrix.read()?;
    if let Some(index) = read.values.iter().position(|entry| !entry.is_finite()) {
        return Err(Error::NotFinite { operation: "Cholesky".into(), found: read.values[index], index });
    }
    let mut factor = Array { values: vec![0.0; read.values.len()], shape: read.shape };
    let pairs = read.values.chunks_exact((n * n).max(1)).zip(factor.values.chunks_exact_mut((n * n).max(1)));
    for (number, (matrix, factor)) in pairs.enumerate() {
        factorise(matrix, n, factor).map_err(|(index, pivot)| Error::NotPositiveDefinite {
            operation: format!("Cholesky of matrix {number} of the batch"),
            index,
            pivot,
        })?;
    }
    let node = move |_| {
        let saved = factor.values.clone();
        let vjp = move |gradient: &[f64]| vec![vjp(&saved, gradient, n)];
        (factor, Box::new(vjp) as super::Vjp)
    };
    Ok(apply(vec![matrix], Box::new(node)).typed())
}

/// The side of the square matrices in the last two dimensions of `shape`.
pub(super) fn side(operation: &str, shape: &[usize]) -> Result<usize> {
    match shape {
        [.., rows, columns] if rows == columns => Ok(*rows),
        [batch @ .., rows, _] => Err(Error::Shape {
            operation: operation.into(),
            found: shape.to_vec(),
            expected: [batch, &[*rows, *rows]].concat(),
            remedy: "Give square matrices in the last two dimensions.".into(),
        }),
        _ => Err(Error::Shape {
            operation: operation.into(),
            found: shape.to_vec(),
            expected: vec![shape.len(), shape.len()],
            remedy: "Give square matrices in the last two dimensions.".into(),
        }),
    }
}

fn vjp(factors: &[f64], gradients: &[f64], n: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(factors.len());
    for (factor, gradient) in factors.chunks_exact((n * n).max(1)).zip(gradients.chunks_exact((n * n).max(1))) {
        // Φ(Lᵀ L̄), of which only the lower triangle is made.
        let mut half = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let product: f64 = (i..n).map(|k| factor[k * n + i] * gradient[k * n + j]).sum();
                half[i * n + j] = if i == j { 0.5 * product } else { product };
            }
        }
        // S = L⁻ᵀ Φ L⁻¹, of which the second solve gives the transpose.
        solve_transposed(factor, n, &mut half);
        let mut result = transpose(&half, n);
        solve_transposed(factor, n, &mut result);
        out.extend((0..n * n).map(|cell| 0.5 * (result[cell] + result[(cell % n) * n + cell / n])));
    }
    out
}
