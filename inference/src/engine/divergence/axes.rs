//! Brings two normal densities to axes in which both have independent components, so that divergences become sums.

use faer::Mat;

use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceGradient, CovarianceMatrix, MomentGradient};
use crate::engine::natural::{ExponentialFamily, NormalFamily};
use crate::engine::symmetric::Eigen;

/// $`q`$ and $`p`$ in axes in which $`q = N(0, I)`$ and $`p = N(-w, \mathrm{diag}(r))`$, part by part.
///
/// With $`\Sigma_q = CC^\top`$ and $`C^{-1}\Sigma_p C^{-\top} = V \mathrm{diag}(r) V^\top`$ the axes are those of
/// $`V^\top C^{-1}`$. Nothing is squared that has a mean in it, so that far means cost no digits.
#[derive(Debug)]
pub(super) struct Axes {
    parts: Vec<Part>,
    len: usize,
    /// $`w`$: how far the mean of $`q`$ lies from that of $`p`$, in standard deviations of $`q`$.
    pub(super) offset: Vec<f64>,
    /// $`r`$: the variance of $`p`$ in variances of $`q`$.
    pub(super) ratio: Vec<f64>,
    /// $`\tfrac12\log|\Sigma_q|`$.
    pub(super) log_scale: f64,
}

#[derive(Debug)]
struct Part {
    components: Vec<usize>,
    scale: Scale,
}

/// What carries the axes back to components.
#[derive(Debug)]
enum Scale {
    Deviations(Vec<f64>),
    /// $`CV`$ and $`C^{-\top}V`$.
    Full(Mat<f64>, Mat<f64>),
}

/// The gradient of a divergence in the axes: by the mean $`s u`$, by the covariance $`\mathrm{diag}(v) + c\,uu^\top`$.
#[derive(Debug)]
pub(super) struct Slopes {
    /// $`u`$.
    pub(super) direction: Vec<f64>,
    /// $`s`$.
    pub(super) by_mean: f64,
    /// $`v`$.
    pub(super) by_variance: Vec<f64>,
    /// $`c`$.
    pub(super) outer: f64,
}

impl Axes {
    /// The common axes of two densities.
    ///
    /// # Errors
    /// [`Error::Improper`] if one of them is no density.
    pub(super) fn new(divergence: &str, family: &NormalFamily, q: &[f64], p: &[f64]) -> Result<Self> {
        family.check(&format!("{divergence} of a posterior from its cavity: the posterior"), q)?;
        family.check(&format!("{divergence} of a posterior from its cavity: the cavity"), p)?;
        let mut axes =
            Self { parts: Vec::new(), len: family.len(), offset: Vec::new(), ratio: Vec::new(), log_scale: 0.0 };
        for ((components, mean, spread), (_, other, wide)) in family.moments_by_part(q).zip(family.moments_by_part(p)) {
            let distance: Vec<f64> = mean.iter().zip(other).map(|(q, p)| q - p).collect();
            let scale = match (spread, wide) {
                (CovarianceMatrix::Diagonal(own), CovarianceMatrix::Diagonal(wide)) => {
                    axes.offset.extend(distance.iter().zip(&own).map(|(distance, sd)| distance / sd));
                    axes.ratio.extend(wide.iter().zip(&own).map(|(wide, own)| (wide / own).powi(2)));
                    axes.log_scale += own.iter().map(|sd| sd.ln()).sum::<f64>();
                    Scale::Deviations(own)
                }
                (own, wide) => axes.add_full(&own, &wide, &distance)?,
            };
            axes.parts.push(Part { components: components.to_vec(), scale });
        }
        Ok(axes)
    }

    fn add_full(&mut self, own: &CovarianceMatrix, wide: &CovarianceMatrix, distance: &[f64]) -> Result<Scale> {
        let size = distance.len();
        let factor = own.cholesky()?;
        let inverse = inverse_lower(&factor);
        let whitened = &inverse * wide.matrix() * inverse.transpose();
        let Eigen { vectors, values } = Eigen::of(&whitened).ok_or_else(|| Error::Improper {
            operation: "the common axes of a posterior and its cavity".into(),
            component: "their covariances".into(),
            found: f64::NAN,
        })?;
        let backward = inverse.transpose() * &vectors;
        self.offset.extend((0..size).map(|j| (0..size).map(|i| backward[(i, j)] * distance[i]).sum::<f64>()));
        self.ratio.extend(values);
        self.log_scale += (0..size).map(|i| factor[(i, i)].ln()).sum::<f64>();
        Ok(Scale::Full(&factor * &vectors, backward))
    }

    /// Refuses a $`q`$ whose variance somewhere reaches that of $`p`$ over `least`.
    pub(super) fn above(&self, least: f64, divergence: &'static str, index: f64) -> Result<()> {
        let Some(place) = (0..self.ratio.len()).min_by(|&a, &b| self.ratio[a].total_cmp(&self.ratio[b])) else {
            return Ok(());
        };
        if self.ratio[place] > least {
            return Ok(());
        }
        let (component, deviation) = self.component(place);
        let found = deviation * deviation;
        let largest = found * self.ratio[place] / least;
        Err(Error::DivergenceDomain { divergence, index, component, found, largest })
    }

    /// The component that has most of an axis, and how far one standard deviation of $`q`$ along the axis goes in it.
    pub(super) fn component(&self, place: usize) -> (usize, f64) {
        let mut before = 0;
        for part in &self.parts {
            let size = part.components.len();
            let Some(own) = place.checked_sub(before).filter(|own| *own < size) else {
                before += size;
                continue;
            };
            return match &part.scale {
                Scale::Deviations(deviations) => (part.components[own], deviations[own]),
                Scale::Full(forward, _) => {
                    let size_of = |i: &usize| forward[(*i, own)].abs();
                    let largest = (0..size).max_by(|a, b| size_of(a).total_cmp(&size_of(b))).unwrap_or(0);
                    (part.components[largest], forward[(largest, own)])
                }
            };
        }
        (place, f64::NAN)
    }

    /// The gradient by mean and covariance of $`q`$; entries between independent parts are zero.
    pub(super) fn gradient(&self, slopes: &Slopes) -> MomentGradient {
        let mut parts = Vec::new();
        let mut before = 0;
        for part in &self.parts {
            let here = before..before + part.components.len();
            before = here.end;
            let (direction, by_variance) = (&slopes.direction[here.clone()], &slopes.by_variance[here]);
            parts.push((part.components.clone(), part.scale.gradient(direction, by_variance, slopes)));
        }
        MomentGradient::join(parts, self.len)
    }
}

impl Scale {
    fn gradient(&self, direction: &[f64], by_variance: &[f64], slopes: &Slopes) -> MomentGradient {
        let size = direction.len();
        match self {
            Self::Deviations(deviations) => {
                let mean = direction.iter().zip(deviations).map(|(u, sd)| slopes.by_mean * u / sd).collect();
                let own = direction.iter().zip(by_variance).zip(deviations);
                let variance = own.map(|((u, v), sd)| (v + slopes.outer * u * u) / (sd * sd)).collect();
                MomentGradient { mean, covariance: CovarianceGradient::Diagonal(variance) }
            }
            Self::Full(_, backward) => {
                let vector: Vec<f64> =
                    (0..size).map(|i| (0..size).map(|k| backward[(i, k)] * direction[k]).sum()).collect();
                let cell = |i: usize, j: usize| {
                    let along = (0..size).map(|k| backward[(i, k)] * by_variance[k] * backward[(j, k)]).sum::<f64>();
                    along + slopes.outer * vector[i] * vector[j]
                };
                let matrix = (0..size * size).map(|place| cell(place / size, place % size)).collect();
                let mean = vector.iter().map(|value| slopes.by_mean * value).collect();
                MomentGradient { mean, covariance: CovarianceGradient::Full(matrix) }
            }
        }
    }
}

/// The inverse of a lower triangular matrix, by forward substitution.
fn inverse_lower(lower: &Mat<f64>) -> Mat<f64> {
    let size = lower.nrows();
    let mut inverse = Mat::<f64>::zeros(size, size);
    for column in 0..size {
        for row in column..size {
            let known: f64 = (column..row).map(|k| lower[(row, k)] * inverse[(k, column)]).sum();
            let unit = if row == column { 1.0 } else { 0.0 };
            inverse[(row, column)] = (unit - known) / lower[(row, row)];
        }
    }
    inverse
}
