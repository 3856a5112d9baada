//! Averages the global posteriors of silos: Wasserstein barycentre, plain parameter mean, logarithmic pool.

mod barycentre;
mod log_pool;
mod parameter_mean;

pub use barycentre::Barycentre;
pub use log_pool::LogPool;
pub use parameter_mean::ParameterMean;

use std::any::Any;
use std::fmt::Debug;

use faer::Mat;
use faer::linalg::solvers::{DenseSolveCore, Llt};

use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceMatrix, Family};
use crate::engine::plug::plug;
use crate::engine::symmetric::Eigen;

/// Makes one member of a family out of several.
///
/// # Laws
/// The average of equal members is that member, whatever the weights; it does not depend on the order of members with
/// equal weights. `laws::averaging` checks both.
pub trait Averaging: Any + Debug + Send + Sync {
    /// The average of `members` (parameters of `family`) with `weights` that sum to one.
    ///
    /// # Errors
    /// [`Error::Average`] if a covariance is not positive definite or an iteration does not converge.
    fn average(&self, family: &dyn Family, members: &[Vec<f64>], weights: &[f64]) -> Result<Vec<f64>>;
}

plug! {
    Averaging, "an average",
    names { Barycentre: Barycentre, ParameterMean: ParameterMean, LogPool: LogPool },
    values {}
}

/// Means, and the spreads in one common form: standard deviations where all are diagonal, else covariances.
pub(crate) enum Members {
    Diagonal(Vec<(Vec<f64>, Vec<f64>)>),
    Full(Vec<(Vec<f64>, Mat<f64>)>),
}

impl Members {
    pub(crate) fn of(family: &dyn Family, members: &[Vec<f64>]) -> Self {
        let spreads: Vec<(Vec<f64>, CovarianceMatrix)> =
            members.iter().map(|member| (family.mean(member), family.covariance_matrix(member))).collect();
        if spreads.iter().all(|(_, spread)| matches!(spread, CovarianceMatrix::Diagonal(_))) {
            let sds = |(mean, spread)| match spread {
                CovarianceMatrix::Diagonal(sds) => (mean, sds),
                CovarianceMatrix::Full(_) => unreachable!("invariant: every spread was found diagonal"),
            };
            return Self::Diagonal(spreads.into_iter().map(sds).collect());
        }
        Self::Full(spreads.into_iter().map(|(mean, spread)| (mean, spread.matrix())).collect())
    }
}

/// The weighted sum of vectors.
pub(crate) fn weighted<'a>(vectors: impl Iterator<Item = &'a [f64]>, weights: &[f64]) -> Vec<f64> {
    let mut sum: Vec<f64> = Vec::new();
    for (vector, weight) in vectors.zip(weights) {
        sum.resize(vector.len(), 0.0);
        sum.iter_mut().zip(vector).for_each(|(slot, value)| *slot += weight * value);
    }
    sum
}

/// The eigenvalues of a covariance.
pub(crate) fn eigen(matrix: &Mat<f64>) -> Result<Eigen> {
    Eigen::of(matrix).ok_or_else(|| Error::Average {
        operation: "eigenvalues of a covariance",
        problem: "they could not be computed".into(),
    })
}

/// The inverse of a covariance.
pub(crate) fn inverse(matrix: &Mat<f64>) -> Result<Mat<f64>> {
    let decomposed = Llt::new(matrix.as_ref(), faer::Side::Lower);
    decomposed.map(|llt| llt.inverse()).map_err(|error| Error::Average {
        operation: "inverse of a covariance",
        problem: format!("it is not positive definite ({error:?}); a point mass has no precision to pool"),
    })
}
