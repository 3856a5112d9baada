//! Averages the global posteriors of silos: Wasserstein barycentre, plain parameter mean, logarithmic pool.

mod barycentre;
mod log_pool;
mod means;
mod parameter_mean;

pub use barycentre::Barycentre;
pub use log_pool::LogPool;
pub use means::Means;
pub(crate) use means::{Members, WeightedMean};
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

    /// Where the average of members of `family`, of which `member` is one, is a weighted mean of numbers: a coordinator
    /// then adds up silos as they answer, and holds none of them. `None` where an average takes all members at once.
    fn means(&self, _family: &dyn Family, _member: &[f64]) -> Option<Means> {
        None
    }
}

plug! {
    Averaging, "an average",
    names { Barycentre: Barycentre, ParameterMean: ParameterMean, LogPool: LogPool },
    values {}
}

/// The mean and the covariance of each member.
pub(crate) fn moments(family: &dyn Family, members: &[Vec<f64>]) -> Vec<(Vec<f64>, Mat<f64>)> {
    members.iter().map(|member| (family.mean(member), family.covariance_matrix(member).matrix())).collect()
}

/// The weighted sum of vectors.
pub(crate) fn weighted<'a>(vectors: impl Iterator<Item = &'a [f64]>, weights: &[f64]) -> Vec<f64> {
    let mut mean = WeightedMean::default();
    vectors.zip(weights).for_each(|(vector, weight)| mean.add(vector, *weight));
    mean.sum
}

/// Whether the components of a member are independent, and its standard deviations say all.
pub(crate) fn is_diagonal(family: &dyn Family, member: &[f64]) -> bool {
    matches!(family.covariance_matrix(member), CovarianceMatrix::Diagonal(_))
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
