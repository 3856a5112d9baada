//! Maps real vectors onto Cholesky factors of correlation matrices, whose rows lie on half spheres.

use std::f64::consts::LN_2;

use super::{Bijector, above_zero, outside, side};
use crate::error::Result;

const MAP: &str = "correlation Cholesky map";
const SUPPORT: &str = "lower-triangular matrices with diagonal > 0 and rows of length 1";
/// How far from one the length of a row may be.
const LENGTH_TOLERANCE: f64 = 1e-6;

/// The map from $k(k-1)/2$ real numbers onto $k \times k$ lower Cholesky factors of correlation matrices.
///
/// The numbers fill the strict lower triangle row by row. With $z_{ij} = \tanh u_{ij}$ and the remainder of row i's
/// squared unit length $\rho_{ij} = \prod_{l<j} (1 - z_{il}^2)$:
/// $$ L_{ij} = z_{ij} \sqrt{\rho_{ij}} \ (j < i), \qquad L_{ii} = \sqrt{\rho_{ii}}, \qquad
///    \log|\det J| = \sum_{i>j} \log(1 - z_{ij}^2) + \tfrac12 \log\rho_{ij}. $$
/// The free entries are the strict lower triangle of $L$ (not of the correlation matrix $LL^\top$).
///
/// # Shapes
/// Unconstrained `[k (k - 1) / 2]`, constrained `[k, k]` row-major with zeros above the diagonal.
///
/// # Numerics
/// Works with $\log(1 - \tanh^2 u) = -2 \log\cosh u$ and inverts by $\sinh u = L_{ij} / \sqrt{\sum_{l>j} L_{il}^2}$,
/// so that correlations near ±1 keep their digits; an underflowed diagonal is raised to the smallest normal number.
///
/// # Example
/// ```
/// use partita_core::{Bijector, CorrelationCholeskyMap};
/// let mut factor = [0.0; 4];
/// let log_det = CorrelationCholeskyMap.forward(&[0.6_f64.atanh()], &mut factor);
/// let expected = [1.0, 0.0, 0.6, 0.8];
/// assert!(factor.iter().zip(expected).all(|(x, e)| (x - e).abs() < 1e-15));
/// assert!((log_det - 0.64_f64.ln()).abs() < 1e-15);
/// ```
///
/// # References
/// Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion method",
/// 2009; Stan Reference Manual, "Cholesky factors of correlation matrices".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorrelationCholeskyMap;

impl Bijector for CorrelationCholeskyMap {
    fn unconstrained_len(&self, constrained: usize) -> Result<usize> {
        side(MAP, constrained).map(|k| k * (k - 1) / 2)
    }

    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let k = constrained.len().isqrt().max(1);
        let (mut log_det, mut start) = (0.0, 0);
        for (i, row) in constrained.chunks_exact_mut(k).enumerate() {
            let mut half_log_rest = 0.0_f64;
            for (x, u) in row.iter_mut().zip(&unconstrained[start..start + i]) {
                let log_sech = -log_cosh(*u);
                *x = u.tanh() * half_log_rest.exp();
                log_det += 2.0 * log_sech + half_log_rest;
                half_log_rest += log_sech;
            }
            row[i] = above_zero(half_log_rest.exp());
            row[i + 1..].fill(0.0);
            start += i;
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
            // From the diagonal backwards, so that the remainder is a sum of squares and loses no digits.
            let mut rest = row[i];
            for (u, x) in unconstrained[start..start + i].iter_mut().zip(row).rev() {
                *u = (x / rest).asinh();
                rest = rest.hypot(*x);
            }
            if (rest - 1.0).abs() > LENGTH_TOLERANCE {
                return Err(outside(MAP, &format!("{SUPPORT}; row {i} has length {rest}"), i * k + i, row[i]));
            }
            start += i;
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], constrained: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        let k = constrained.len().isqrt().max(1);
        let mut start = 0;
        for (i, (row, g)) in constrained.chunks_exact(k).zip(gradient.chunks_exact(k)).enumerate() {
            let angles = &unconstrained[start..start + i];
            let half_log_rests = angles.iter().scan(0.0, |sum, u| {
                let before = *sum;
                *sum -= log_cosh(*u);
                Some(before)
            });
            for (slot, before) in out[start..start + i].iter_mut().zip(half_log_rests) {
                *slot = before;
            }
            // ∂L_ij/∂u_ij = (1 − z²) √ρ_ij, and every later entry of the row shrinks by −z of itself. The
            // log-determinant contains −2 log cosh u_ij once, and half of it for each later entry left of the diagonal.
            let (mut later, mut later_count) = (row[i] * g[i], 0.0);
            for j in (0..i).rev() {
                let (u, half_log_rest) = (angles[j], out[start + j]);
                let direct = g[j] * (half_log_rest - 2.0 * log_cosh(u)).exp();
                out[start + j] = direct - u.tanh() * (later + weight * (2.0 + later_count));
                later += row[j] * g[j];
                later_count += 1.0;
            }
            start += i;
        }
    }
}

/// log cosh u without overflow.
fn log_cosh(u: f64) -> f64 {
    let u = u.abs();
    if u < 0.5 {
        // cosh u − 1 = 2 sinh²(u/2) keeps the digits that the difference |u| − log 2 would lose.
        (2.0 * (0.5 * u).sinh().powi(2)).ln_1p()
    } else {
        u + (-2.0 * u).exp().ln_1p() - LN_2
    }
}
