//! Maps real vectors onto lower Cholesky factors of covariance matrices, with a positive diagonal by the exponential.

use super::{Bijector, above_zero, outside, side};
use crate::error::Result;

const MAP: &str = "covariance Cholesky map";
const SUPPORT: &str = "lower-triangular matrices with diagonal > 0";

/// The map from $k(k+1)/2$ real numbers onto $k \times k$ lower-triangular matrices with positive diagonal.
///
/// The numbers fill the lower triangle row by row: $L_{ij} = u_{ij}$ below the diagonal, $L_{ii} = e^{u_{ii}}$ on it.
/// $$ \log|\det J| = \sum_i u_{ii} $$
/// The free entries are the lower triangle of $L$ with its diagonal. For a density stated on $\Sigma = LL^\top$, add
/// $k \log 2 + \sum_i (k - i + 1) \log L_{ii}$.
///
/// # Shapes
/// Unconstrained `[k (k + 1) / 2]`, constrained `[k, k]` row-major with zeros above the diagonal.
///
/// # Example
/// ```
/// use partita_core::{Bijector, CovarianceCholeskyMap};
/// let mut factor = [0.0; 4];
/// let log_det = CovarianceCholeskyMap.forward(&[0.0, 0.5, 2.0], &mut factor);
/// assert_eq!(factor, [1.0, 0.0, 0.5, 2.0_f64.exp()]);
/// assert_eq!(log_det, 2.0);
/// ```
///
/// # References
/// Pinheiro and Bates, "Unconstrained parametrizations for variance-covariance matrices", 1996, section 2.2
/// (log-Cholesky).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CovarianceCholeskyMap;

impl Bijector for CovarianceCholeskyMap {
    fn unconstrained_len(&self, constrained: usize) -> Result<usize> {
        side(MAP, constrained).map(|k| k * (k + 1) / 2)
    }

    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let k = constrained.len().isqrt();
        let (mut log_det, mut start) = (0.0, 0);
        for (i, row) in constrained.chunks_exact_mut(k.max(1)).enumerate() {
            row[..i].copy_from_slice(&unconstrained[start..start + i]);
            row[i] = above_zero(unconstrained[start + i].exp());
            row[i + 1..].fill(0.0);
            log_det += unconstrained[start + i];
            start += i + 1;
        }
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        let k = side(MAP, constrained.len())?;
        let mut start = 0;
        for (i, row) in constrained.chunks_exact(k).enumerate() {
            let wrong = |(j, x): (usize, &f64)| !x.is_finite() || (j > i && *x != 0.0) || (j == i && *x <= 0.0);
            if let Some(j) = row.iter().enumerate().position(wrong) {
                return Err(outside(MAP, SUPPORT, i * k + j, row[j]));
            }
            unconstrained[start..start + i].copy_from_slice(&row[..i]);
            unconstrained[start + i] = row[i].ln();
            start += i + 1;
        }
        Ok(())
    }

    fn vjp(&self, _: &[f64], constrained: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        let k = constrained.len().isqrt().max(1);
        let mut start = 0;
        for (i, (row, g)) in constrained.chunks_exact(k).zip(gradient.chunks_exact(k)).enumerate() {
            out[start..start + i].copy_from_slice(&g[..i]);
            out[start + i] = g[i] * row[i] + weight;
            start += i + 1;
        }
    }
}
