//! Gives the full-rank Gaussian family in the parametrisation of the SFVI paper.

use std::cmp::Ordering;

use faer::Mat;

use super::{CovarianceMatrix, Family, FamilyDraw, HALF_LOG_TWO_PI, MomentGradient};
use crate::engine::error::Result;

/// The Gaussian with any covariance, $Z = \mu + \sigma \odot L\varepsilon$ with $L$ lower unit-triangular.
///
/// # Shapes
/// Parameters: $[\mu\ (n), \log\sigma\ (n), L\ \text{below the diagonal, row by row}\ (n(n-1)/2)]$.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), section 3.1.
///
/// # Example
/// ```
/// use partita_inference::{Family, FullRankGaussian};
/// let draw = FullRankGaussian::new(2).draw(&[0.0, 0.0, 0.0, 0.0, 0.5], &[2.0, 1.0]);
/// assert_eq!(draw.latent, [2.0, 2.0]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FullRankGaussian {
    len: usize,
}

impl FullRankGaussian {
    /// The family over vectors of length `len`.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { len }
    }

    /// Splits parameters into mean, log scales and the strict lower triangle.
    fn split<'a>(&self, parameters: &'a [f64]) -> (&'a [f64], &'a [f64], &'a [f64]) {
        let (mean, rest) = parameters.split_at(self.len);
        let (log_scale, lower) = rest.split_at(self.len);
        (mean, log_scale, lower)
    }

    /// The lower triangular $C = \mathrm{diag}(\sigma)L$, the Cholesky factor of the covariance.
    pub(crate) fn factor(&self, parameters: &[f64]) -> Mat<f64> {
        let (_, log_scale, lower) = self.split(parameters);
        let scale: Vec<f64> = log_scale.iter().map(|r| r.exp()).collect();
        Mat::from_fn(self.len, self.len, |row, column| match row.cmp(&column) {
            Ordering::Less => 0.0,
            Ordering::Equal => scale[row],
            Ordering::Greater => scale[row] * lower_row(lower, row)[column],
        })
    }

    /// The parameters of the member with this mean and this [`FullRankGaussian::factor`], whose diagonal is positive.
    pub(crate) fn of_factor(mean: &[f64], factor: &Mat<f64>) -> Vec<f64> {
        let scale: Vec<f64> = (0..mean.len()).map(|row| factor[(row, row)]).collect();
        let lower = (0..mean.len()).flat_map(|row| (0..row).map(move |column| (row, column)));
        let entries = lower.map(|(row, column)| factor[(row, column)] / scale[row]);
        mean.iter().copied().chain(scale.iter().map(|s| s.ln())).chain(entries).collect()
    }
}

/// The row `index` of a strict lower triangle stored row by row.
pub(super) fn lower_row(lower: &[f64], index: usize) -> &[f64] {
    let start = index * index.saturating_sub(1) / 2;
    &lower[start..start + index]
}

/// $L\varepsilon$ for a unit lower-triangular $L$.
pub(super) fn multiply_lower(lower: &[f64], noise: &[f64]) -> Vec<f64> {
    (0..noise.len())
        .map(|row| noise[row] + lower_row(lower, row).iter().zip(noise).map(|(l, e)| l * e).sum::<f64>())
        .collect()
}

/// $L^{-\top} v$ for a unit lower-triangular $L$, by back substitution.
pub(super) fn solve_transposed(lower: &[f64], vector: &[f64]) -> Vec<f64> {
    let mut solution = vector.to_vec();
    for row in (0..solution.len()).rev() {
        let value = solution[row];
        for (column, l) in lower_row(lower, row).iter().enumerate() {
            solution[column] -= l * value;
        }
    }
    solution
}

impl Family for FullRankGaussian {
    fn len(&self) -> usize {
        self.len
    }

    fn parameter_len(&self) -> usize {
        2 * self.len + self.len * self.len.saturating_sub(1) / 2
    }

    fn full_rank(&self) -> Option<FullRankGaussian> {
        Some(*self)
    }

    fn log_scales(&self) -> Vec<Option<usize>> {
        (self.len..2 * self.len).map(Some).collect()
    }

    fn initial(&self, scale: f64) -> Vec<f64> {
        let mut parameters = vec![0.0; self.parameter_len()];
        parameters[self.len..2 * self.len].fill(scale.ln());
        parameters
    }

    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let (mean, log_scale, lower) = self.split(parameters);
        let scale: Vec<f64> = log_scale.iter().map(|r| r.exp()).collect();
        let deviation: Vec<f64> = multiply_lower(lower, noise).iter().zip(&scale).map(|(w, s)| w * s).collect();
        let latent = mean.iter().zip(&deviation).map(|(m, d)| m + d).collect();
        // log q = -½|ε|² - Σ log σ - ..., and ε = L⁻¹ (Z - μ)/σ, so the score is -σ⁻¹ L⁻ᵀ ε.
        let score = solve_transposed(lower, noise).iter().zip(&scale).map(|(w, s)| -w / s).collect();
        let log_density = log_scale.iter().zip(noise).map(|(r, e)| -r - 0.5 * e * e - HALF_LOG_TWO_PI).sum();
        FamilyDraw { latent, deviation, log_density, score }
    }

    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        let (_, log_scale, lower) = self.split(parameters);
        let (out_mean, rest) = out.split_at_mut(self.len);
        let (out_log_scale, out_lower) = rest.split_at_mut(self.len);
        out_mean.iter_mut().zip(grad_mean).for_each(|(slot, a)| *slot += a);
        let mut entries = out_lower.iter_mut();
        for (row, w) in multiply_lower(lower, noise).iter().enumerate() {
            let weighted = grad_offset[row] * log_scale[row].exp();
            out_log_scale[row] += weighted * w;
            for (slot, e) in entries.by_ref().take(row).zip(noise) {
                *slot += weighted * e;
            }
        }
    }

    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        // Σ = CCᵀ with C = diag(σ) L, so df = tr(G dΣ) = 2 tr(GC dCᵀ), of which the lower triangle can move.
        let (_, log_scale, lower) = self.split(parameters);
        let scale: Vec<f64> = log_scale.iter().map(|r| r.exp()).collect();
        let unit = |row: usize, column: usize| if row == column { 1.0 } else { lower_row(lower, row)[column] };
        out[..self.len].iter_mut().zip(&gradient.mean).for_each(|(slot, g)| *slot += g);
        let mut entry = 2 * self.len;
        for row in 0..self.len {
            for column in 0..=row {
                let weighted = (column..self.len)
                    .map(|k| gradient.covariance.at(self.len, row, k) * scale[k] * unit(k, column))
                    .sum::<f64>();
                let by_factor = 2.0 * scale[row] * weighted;
                out[self.len + row] += by_factor * unit(row, column);
                if column < row {
                    out[entry] += by_factor;
                    entry += 1;
                }
            }
        }
    }

    fn entropy(&self, parameters: &[f64]) -> f64 {
        self.split(parameters).1.iter().sum::<f64>() + self.len as f64 * (0.5 + HALF_LOG_TWO_PI)
    }

    fn add_entropy_gradient(&self, _: &[f64], out: &mut [f64]) {
        out[self.len..2 * self.len].iter_mut().for_each(|slot| *slot += 1.0);
    }

    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        let factor = self.factor(parameters);
        let mut covariance = vec![0.0; self.len * self.len];
        for row in 0..self.len {
            for column in 0..self.len {
                covariance[row * self.len + column] =
                    (0..=row.min(column)).map(|k| factor[(row, k)] * factor[(column, k)]).sum();
            }
        }
        CovarianceMatrix::Full(covariance)
    }

    fn deviations(&self, parameters: &[f64]) -> Vec<f64> {
        let (_, log_scale, lower) = self.split(parameters);
        // The sums on the diagonal of the covariance, in their order: the bits are the same.
        let own = |(row, log_scale): (usize, &f64)| {
            let scale = log_scale.exp();
            let factor = lower_row(lower, row).iter().map(|entry| scale * entry).chain([scale]);
            factor.map(|entry| entry * entry).sum::<f64>().sqrt()
        };
        log_scale.iter().enumerate().map(own).collect()
    }

    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        if let CovarianceMatrix::Diagonal(sds) = spread
            && sds.iter().all(|sd| *sd > 0.0)
        {
            let mut parameters = self.initial(1.0);
            self.set_mean(&mut parameters, mean);
            parameters[self.len..2 * self.len].iter_mut().zip(sds).for_each(|(slot, sd)| *slot = sd.ln());
            return Ok(parameters);
        }
        Ok(Self::of_factor(mean, &spread.cholesky()?))
    }
}
