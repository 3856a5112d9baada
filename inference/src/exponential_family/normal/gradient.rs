//! Takes gradients of normal densities between mean parameters and moments, in closed form.

use super::NormalFamily;
use crate::exponential_family::dot;
use crate::exponential_family::triangle::{each, unpack};
use crate::family::{CovarianceGradient, MomentGradient};

impl NormalFamily {
    /// The gradient by mean and covariance of a member with this mean from the gradient by its mean parameters.
    pub(crate) fn by_moments(&self, by_means: &[f64], mean: &[f64]) -> MomentGradient {
        let mut parts = Vec::new();
        for piece in self.pieces(by_means) {
            let (size, components) = (piece.len(), &piece.part.components);
            let covariance = if piece.part.is_full {
                let matrix = unpack(size, piece.second, 1.0, 0.5);
                CovarianceGradient::Full((0..size * size).map(|cell| matrix[(cell / size, cell % size)]).collect())
            } else {
                CovarianceGradient::Diagonal(piece.second.to_vec())
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

    /// The gradient by the mean parameters of a member with this mean from the gradient by mean and covariance, whose entries
    /// between independent parts are left out.
    pub(crate) fn by_means(&self, gradient: &MomentGradient, mean: &[f64]) -> Vec<f64> {
        let mut by_means = gradient.mean.clone();
        for part in &self.parts {
            let components = &part.components;
            let at = |i: usize, j: usize| gradient.covariance.at(self.len, components[i], components[j]);
            let pairs: Box<dyn Iterator<Item = (usize, usize)>> = if part.is_full {
                Box::new(each(components.len()))
            } else {
                Box::new((0..components.len()).map(|i| (i, i)))
            };
            // The covariance is the second moment less μμᵀ.
            for (i, j) in pairs {
                by_means[components[i]] -= 2.0 * at(i, j) * mean[components[j]];
                if i != j {
                    by_means[components[j]] -= 2.0 * at(i, j) * mean[components[i]];
                }
                by_means.push(if i == j { at(i, i) } else { 2.0 * at(i, j) });
            }
        }
        by_means
    }
}
