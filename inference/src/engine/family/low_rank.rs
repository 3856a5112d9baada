//! Gives the low-rank-plus-diagonal Gaussian family.

use faer::Mat;
use faer::linalg::solvers::{DenseSolveCore, Llt};

use super::{CovarianceMatrix, Family, FamilyDraw, HALF_LOG_TWO_PI, MomentGradient};
use crate::engine::error::{Error, Result};
use crate::engine::symmetric::Eigen;
use crate::engine::trainer::{distance, norm};

/// The Gaussian with covariance $UU^\top + \mathrm{diag}(d^2)$: $Z = \mu + U\varepsilon_1 + d \odot \varepsilon_2$.
///
/// Captures a few directions of strong correlation among many latents at cost $O(nk^2)$ a draw.
///
/// # Shapes
/// Parameters: $[\mu\ (n), \log d\ (n), U\ \text{row by row}\ (nk)]$; noise $[\varepsilon_1\ (k), \varepsilon_2\ (n)]$.
///
/// # References
/// Ong, Nott and Smith (2018), Gaussian variational approximation with a factor covariance structure.
///
/// # Example
/// ```
/// use partita_inference::{Family, LowRankGaussian};
/// let family = LowRankGaussian::new(2, 1);
/// let draw = family.draw(&[0.0, 0.0, 0.0, 0.0, 1.0, 2.0], &[1.0, 0.5, 0.0]);
/// assert_eq!(draw.latent, [1.5, 2.0]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LowRankGaussian {
    len: usize,
    rank: usize,
}

impl LowRankGaussian {
    /// The family over vectors of length `len` with `rank` directions of correlation.
    #[must_use]
    pub fn new(len: usize, rank: usize) -> Self {
        Self { len, rank }
    }

    fn split<'a>(&self, parameters: &'a [f64]) -> (&'a [f64], &'a [f64], &'a [f64]) {
        let (mean, rest) = parameters.split_at(self.len);
        let (log_scale, factor) = rest.split_at(self.len);
        (mean, log_scale, factor)
    }

    /// $D^{-2}U$ and the inverse of the capacitance $I + U^\top D^{-2} U$, with its log-determinant.
    fn capacitance(&self, log_scale: &[f64], factor: &[f64]) -> Capacitance {
        let weighted =
            Mat::from_fn(self.len, self.rank, |i, j| factor[i * self.rank + j] * (-2.0 * log_scale[i]).exp());
        let matrix = Mat::from_fn(self.rank, self.rank, |i, j| {
            let product: f64 = (0..self.len).map(|k| factor[k * self.rank + i] * weighted[(k, j)]).sum();
            if i == j { 1.0 + product } else { product }
        });
        // I + UᵀD⁻²U is positive definite by construction; only a non-finite parameter can break it.
        match Llt::new(matrix.as_ref(), faer::Side::Lower) {
            Ok(llt) => {
                let log_det = 2.0 * (0..self.rank).map(|i| llt.L()[(i, i)].ln()).sum::<f64>();
                Capacitance { weighted, inverse: llt.inverse(), log_det }
            }
            Err(_) => Capacitance { weighted, inverse: Mat::full(self.rank, self.rank, f64::NAN), log_det: f64::NAN },
        }
    }

    /// The factor that fits best what these variances leave of a covariance, and the variances that it leaves in turn.
    fn alternate(&self, covariance: &Mat<f64>, own: &[f64]) -> Result<(Vec<f64>, Mat<f64>)> {
        let rest = Mat::from_fn(self.len, self.len, |i, j| covariance[(i, j)] - if i == j { own[i] } else { 0.0 });
        let Eigen { vectors, values } = Eigen::of(&rest).ok_or_else(|| Error::Average {
            operation: "low-rank part of a covariance",
            problem: "its eigenvalues could not be computed".into(),
        })?;
        // Eigenvalues ascend: the last ones lead. A direction with a negative one explains nothing.
        let factor = Mat::from_fn(self.len, self.rank, |i, j| match self.len.checked_sub(j + 1) {
            Some(k) if values[k] > 0.0 => vectors[(i, k)] * values[k].sqrt(),
            _ => 0.0,
        });
        let left = |i: usize| {
            let explained: f64 = (0..self.rank).map(|j| factor[(i, j)] * factor[(i, j)]).sum();
            (covariance[(i, i)] - explained).max(LEAST * covariance[(i, i)])
        };
        Ok(((0..self.len).map(left).collect(), factor))
    }

    /// The variances of components' own and the factor that fit a covariance, by alternations.
    ///
    /// These alone take thousands for a weak factor: after each two a step goes on along them.
    ///
    /// # References
    /// Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the convergence of any EM
    /// algorithm: that step.
    fn analyse(&self, covariance: &Mat<f64>) -> Result<(Vec<f64>, Mat<f64>)> {
        let variances: Vec<f64> = (0..self.len).map(|i| covariance[(i, i)]).collect();
        let mut start: Vec<f64> = variances.iter().map(|variance| 0.5 * variance).collect();
        let (mut own, mut factor) = (start.clone(), Mat::<f64>::zeros(self.len, self.rank));
        for _ in 0..MOST {
            let (once, _) = self.alternate(covariance, &start)?;
            (own, factor) = self.alternate(covariance, &once)?;
            let change = |from: &[f64], to: &[f64]| -> Vec<f64> {
                (0..self.len).map(|i| (to[i] - from[i]) / variances[i]).collect()
            };
            let (first, second) = (change(&start, &once), change(&once, &own));
            if second.iter().all(|change| change.abs() < TOLERANCE) {
                break;
            }
            let length = norm(&first) / distance(&first, &second);
            let length = if length.is_finite() { length.max(1.0) } else { 1.0 };
            for (i, slot) in start.iter_mut().enumerate() {
                let by = length * (2.0 * first[i] + length * (second[i] - first[i]));
                *slot = (*slot + by * variances[i]).min(variances[i]).max(LEAST * variances[i]);
            }
        }
        Ok((own, factor))
    }
}

/// The least variance of a component's own in its whole variance, so that a member stays proper.
const LEAST: f64 = 1e-8;
/// The change of these variances in the whole ones at which a factor analysis has converged, and its most pairs of
/// alternations.
const TOLERANCE: f64 = 1e-12;
const MOST: usize = 300;

struct Capacitance {
    weighted: Mat<f64>,
    inverse: Mat<f64>,
    log_det: f64,
}

impl Capacitance {
    /// $\Sigma^{-1} v$ by Woodbury's identity.
    fn solve(&self, log_scale: &[f64], vector: &[f64]) -> Vec<f64> {
        let rank = self.inverse.nrows();
        let inner: Vec<f64> =
            (0..rank).map(|j| vector.iter().enumerate().map(|(i, v)| self.weighted[(i, j)] * v).sum()).collect();
        let solved: Vec<f64> = (0..rank).map(|i| (0..rank).map(|j| self.inverse[(i, j)] * inner[j]).sum()).collect();
        vector
            .iter()
            .enumerate()
            .map(|(i, v)| {
                v * (-2.0 * log_scale[i]).exp() - (0..rank).map(|j| self.weighted[(i, j)] * solved[j]).sum::<f64>()
            })
            .collect()
    }
}

impl Family for LowRankGaussian {
    fn len(&self) -> usize {
        self.len
    }

    fn parameter_len(&self) -> usize {
        2 * self.len + self.len * self.rank
    }

    fn noise_len(&self) -> usize {
        self.len + self.rank
    }

    fn initial(&self, scale: f64) -> Vec<f64> {
        let mut parameters = vec![0.0; self.parameter_len()];
        parameters[self.len..2 * self.len].fill(scale.ln());
        // U = 0 is a saddle point: start each column at a different component, a tenth of the diagonal's size.
        for column in 0..self.rank.min(self.len) {
            parameters[2 * self.len + column * self.rank + column] = 0.1 * scale;
        }
        parameters
    }

    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let (mean, log_scale, factor) = self.split(parameters);
        let (common, own) = noise.split_at(self.rank);
        let deviation: Vec<f64> = (0..self.len)
            .map(|i| {
                let row = &factor[i * self.rank..(i + 1) * self.rank];
                log_scale[i].exp() * own[i] + row.iter().zip(common).map(|(u, e)| u * e).sum::<f64>()
            })
            .collect();
        let capacitance = self.capacitance(log_scale, factor);
        let solved = capacitance.solve(log_scale, &deviation);
        let quadratic: f64 = solved.iter().zip(&deviation).map(|(s, d)| s * d).sum();
        let log_det = 2.0 * log_scale.iter().sum::<f64>() + capacitance.log_det;
        let log_density = -0.5 * (quadratic + log_det) - self.len as f64 * HALF_LOG_TWO_PI;
        let latent = mean.iter().zip(&deviation).map(|(m, d)| m + d).collect();
        FamilyDraw { latent, deviation, log_density, score: solved.iter().map(|s| -s).collect() }
    }

    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        let log_scale = self.split(parameters).1;
        let (common, own) = noise.split_at(self.rank);
        for i in 0..self.len {
            out[i] += grad_mean[i];
            out[self.len + i] += grad_offset[i] * log_scale[i].exp() * own[i];
            for (j, e) in common.iter().enumerate() {
                out[2 * self.len + i * self.rank + j] += grad_offset[i] * e;
            }
        }
    }

    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        let (_, log_scale, factor) = self.split(parameters);
        for i in 0..self.len {
            out[i] += gradient.mean[i];
            out[self.len + i] += 2.0 * (2.0 * log_scale[i]).exp() * gradient.covariance.at(self.len, i, i);
            for k in 0..self.len {
                let twice = 2.0 * gradient.covariance.at(self.len, i, k);
                for j in 0..self.rank {
                    out[2 * self.len + i * self.rank + j] += twice * factor[k * self.rank + j];
                }
            }
        }
    }

    fn entropy(&self, parameters: &[f64]) -> f64 {
        let (_, log_scale, factor) = self.split(parameters);
        let log_det = 2.0 * log_scale.iter().sum::<f64>() + self.capacitance(log_scale, factor).log_det;
        0.5 * log_det + self.len as f64 * (0.5 + HALF_LOG_TWO_PI)
    }

    fn add_entropy_gradient(&self, parameters: &[f64], out: &mut [f64]) {
        // ∇ ½ log|Σ|: by U it is Σ⁻¹U, by log d it is diag(Σ⁻¹) ⊙ d².
        let (_, log_scale, factor) = self.split(parameters);
        let capacitance = self.capacitance(log_scale, factor);
        let columns: Vec<Vec<f64>> = (0..self.rank)
            .map(|j| (0..self.len).map(|i| factor[i * self.rank + j]).collect::<Vec<f64>>())
            .map(|column| capacitance.solve(log_scale, &column))
            .collect();
        for i in 0..self.len {
            // diag(Σ⁻¹) d² = 1 - Σ_j (Σ⁻¹U)_ij U_ij.
            let explained: f64 = (0..self.rank).map(|j| columns[j][i] * factor[i * self.rank + j]).sum();
            out[self.len + i] += 1.0 - explained;
            for (j, column) in columns.iter().enumerate() {
                out[2 * self.len + i * self.rank + j] += column[i];
            }
        }
    }

    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        let (_, log_scale, factor) = self.split(parameters);
        let row = |i: usize| &factor[i * self.rank..(i + 1) * self.rank];
        let mut covariance = vec![0.0; self.len * self.len];
        for i in 0..self.len {
            for j in 0..self.len {
                let own = if i == j { (2.0 * log_scale[i]).exp() } else { 0.0 };
                covariance[i * self.len + j] = own + row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum::<f64>();
            }
        }
        CovarianceMatrix::Full(covariance)
    }

    fn deviations(&self, parameters: &[f64]) -> Vec<f64> {
        let (_, log_scale, factor) = self.split(parameters);
        let own = |(i, log_scale): (usize, &f64)| {
            let row = &factor[i * self.rank..(i + 1) * self.rank];
            ((2.0 * log_scale).exp() + row.iter().map(|u| u * u).sum::<f64>()).sqrt()
        };
        log_scale.iter().enumerate().map(own).collect()
    }

    /// The factor analysis of the correlations, by alternating the diagonal and the leading eigenvectors of the rest.
    /// Of independent components it is exact, and each column is at a component of its own, as at the start.
    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        if let CovarianceMatrix::Diagonal(sds) = spread {
            let mut factor = vec![0.0; self.len * self.rank];
            let mut own: Vec<f64> = sds.iter().map(|sd| sd.ln()).collect();
            for place in 0..self.rank.min(self.len) {
                factor[place * self.rank + place] = 0.1 * sds[place];
                own[place] += 0.5 * 0.99_f64.ln();
            }
            return Ok([mean, &own, &factor].concat());
        }
        // In units of the deviations: components count alike, whatever their own units.
        let whole = spread.matrix();
        let sd = |i: usize| if whole[(i, i)] > 0.0 { whole[(i, i)].sqrt() } else { 1.0 };
        let units: Vec<f64> = (0..self.len).map(sd).collect();
        let covariance = Mat::from_fn(self.len, self.len, |i, j| whole[(i, j)] / (units[i] * units[j]));
        let (own, factor) = self.analyse(&covariance)?;
        let log_scales = own.iter().zip(&units).map(|(variance, unit)| 0.5 * variance.ln() + unit.ln());
        let places = (0..self.len).flat_map(|i| (0..self.rank).map(move |j| (i, j)));
        let entries = places.map(|(i, j)| units[i] * factor[(i, j)]);
        Ok(mean.iter().copied().chain(log_scales).chain(entries).collect())
    }
}
