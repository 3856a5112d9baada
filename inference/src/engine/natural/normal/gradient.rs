//! Takes gradients of normal densities between mean parameters and moments, in closed form.

use std::iter::repeat_n;

use super::NormalFamily;
use super::piece::Piece;
use crate::engine::family::{CovarianceGradient, MomentGradient, real, row_major};
use crate::engine::natural::dot;
use crate::engine::natural::triangle::{each, unpack};

/// The logarithm of a part of a factor up to its constant, $`h^\top\theta - \tfrac12\theta^\top\Lambda\theta`$.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartFactor {
    /// $`h`$.
    pub(crate) linear: Vec<f64>,
    /// $`\Lambda`$: its diagonal where components are independent, else its rows.
    pub(crate) precision: Vec<f64>,
}

impl NormalFamily {
    /// A factor of these natural parameters, part by part.
    pub(crate) fn part_factors(&self, natural: &[f64]) -> Vec<PartFactor> {
        let own = |piece: Piece<'_>| {
            let precision = match piece.part.group() {
                Some(group) => {
                    let precisions = piece.second.iter().flat_map(|second| repeat_n(-2.0 * second, group));
                    precisions.take(piece.len()).collect()
                }
                None => row_major(&piece.precision()),
            };
            PartFactor { linear: piece.first, precision }
        };
        self.pieces(natural).map(own).collect()
    }

    /// The gradient by mean and covariance of a member with this mean from the gradient by its mean parameters.
    pub(crate) fn by_moments(&self, by_means: &[f64], mean: &[f64]) -> MomentGradient {
        let mut parts = Vec::new();
        for piece in self.pieces(by_means) {
            let (size, components) = (piece.len(), &piece.part.components);
            let covariance = if let Some(group) = piece.part.group() {
                // The sum of squares of a group has the variance of each of its components in it.
                let slopes = piece.second.iter().flat_map(|slope| repeat_n(*slope, group));
                CovarianceGradient::Diagonal(slopes.collect())
            } else {
                let matrix = unpack(size, piece.second, 1.0, 0.5);
                CovarianceGradient::Full(row_major(&matrix))
            };
            parts.push((components.clone(), MomentGradient { mean: piece.first, covariance }));
        }
        // The second moment is the covariance and μμᵀ.
        let mut gradient = MomentGradient::join(parts, self.len);
        match &gradient.covariance {
            CovarianceGradient::Diagonal(diagonal) => {
                let slots = gradient.mean.iter_mut().zip(diagonal).zip(mean);
                slots.for_each(|((slot, g), mean)| *slot += 2.0 * g * mean);
            }
            CovarianceGradient::Full(matrix) => {
                let slots = gradient.mean.iter_mut().zip(matrix.chunks_exact(self.len));
                slots.for_each(|(slot, row)| *slot += 2.0 * dot(row, mean));
            }
        }
        gradient
    }

    /// The gradient by the mean parameters of a member with this mean from the gradient by mean and covariance, whose
    /// entries between independent parts are left out.
    ///
    /// The variance of a group of $`n_g`$ components is $`v = (S - |\mu|^2)/n_g`$ with the mean $`S`$ of the sum of
    /// their squares. So the gradient by $`S`$ is the mean $`\bar g`$ of those by their variances, and $`-2\bar g\mu`$
    /// reaches their means.
    pub(crate) fn by_means(&self, gradient: &MomentGradient, mean: &[f64]) -> Vec<f64> {
        let mut by_means = gradient.mean.clone();
        for part in &self.parts {
            let components = &part.components;
            let at = |i: usize, j: usize| gradient.covariance.at(self.len, i, j);
            if let Some(group) = part.group() {
                for own in components.chunks(group) {
                    let slope = own.iter().map(|&i| at(i, i)).sum::<f64>() / real(own.len());
                    own.iter().for_each(|&i| by_means[i] -= 2.0 * slope * mean[i]);
                    by_means.push(slope);
                }
                continue;
            }
            // The covariance is the second moment less μμᵀ.
            for (i, j) in each(components.len()).map(|(i, j)| (components[i], components[j])) {
                by_means[i] -= 2.0 * at(i, j) * mean[j];
                if i != j {
                    by_means[j] -= 2.0 * at(i, j) * mean[i];
                }
                by_means.push(if i == j { at(i, i) } else { 2.0 * at(i, j) });
            }
        }
        by_means
    }
}
