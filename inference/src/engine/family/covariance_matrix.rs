//! Holds a covariance in the smallest form that says it: standard deviations, or a dense matrix.

use faer::Mat;
use faer::linalg::solvers::Llt;

use crate::engine::error::{Error, Result};

/// The entries of a square matrix, row by row.
pub(crate) fn row_major(matrix: &Mat<f64>) -> Vec<f64> {
    let size = matrix.nrows();
    (0..size * size).map(|cell| matrix[(cell / size, cell % size)]).collect()
}

/// The covariance of a member of a family.
#[derive(Debug, Clone, PartialEq)]
pub enum CovarianceMatrix {
    /// Standard deviations of independent components.
    Diagonal(Vec<f64>),
    /// A covariance, row-major.
    Full(Vec<f64>),
}

impl CovarianceMatrix {
    /// The number of components.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Diagonal(sds) => sds.len(),
            Self::Full(covariance) => covariance.len().isqrt(),
        }
    }

    /// Whether there are no components.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The standard deviation of each component.
    #[must_use]
    pub fn deviations(&self) -> Vec<f64> {
        match self {
            Self::Diagonal(sds) => sds.clone(),
            Self::Full(covariance) => covariance.iter().step_by(self.len() + 1).map(|v| v.sqrt()).collect(),
        }
    }

    /// The covariance, row-major.
    #[must_use]
    pub fn dense(&self) -> Vec<f64> {
        match self {
            Self::Full(covariance) => covariance.clone(),
            Self::Diagonal(sds) => {
                let mut covariance = vec![0.0; sds.len() * sds.len()];
                covariance.iter_mut().step_by(sds.len() + 1).zip(sds).for_each(|(slot, sd)| *slot = sd * sd);
                covariance
            }
        }
    }

    pub(crate) fn matrix(&self) -> Mat<f64> {
        let (size, dense) = (self.len(), self.dense());
        Mat::from_fn(size, size, |i, j| dense[i * size + j])
    }

    pub(crate) fn from_matrix(matrix: &Mat<f64>) -> Self {
        Self::Full(row_major(matrix))
    }

    /// The lower Cholesky factor.
    pub(crate) fn cholesky(&self) -> Result<Mat<f64>> {
        let decomposed = Llt::new(self.matrix().as_ref(), faer::Side::Lower);
        decomposed.map(|llt| llt.L().to_owned()).map_err(|_| Error::Improper {
            operation: "the Cholesky factor of a covariance".into(),
            component: "the covariance, which is not positive definite,".into(),
            found: self.matrix().determinant(),
        })
    }

    /// The covariance of some components.
    pub(crate) fn part(&self, components: &[usize]) -> Self {
        match self {
            Self::Diagonal(sds) => Self::Diagonal(components.iter().map(|&component| sds[component]).collect()),
            Self::Full(covariance) => {
                let size = self.len();
                let cells = components.iter().flat_map(|&i| components.iter().map(move |&j| i * size + j));
                Self::Full(cells.map(|cell| covariance[cell]).collect())
            }
        }
    }

    /// The covariance of independent parts at their components.
    pub(crate) fn join(parts: Vec<(Vec<usize>, Self)>, len: usize) -> Self {
        if parts.iter().all(|(_, spread)| matches!(spread, Self::Diagonal(_))) {
            let mut sds = vec![0.0; len];
            for (components, spread) in parts {
                components.iter().zip(spread.deviations()).for_each(|(&component, sd)| sds[component] = sd);
            }
            return Self::Diagonal(sds);
        }
        let mut covariance = vec![0.0; len * len];
        for (components, spread) in parts {
            let own = spread.dense();
            for (row, &i) in components.iter().enumerate() {
                for (column, &j) in components.iter().enumerate() {
                    covariance[i * len + j] = own[row * components.len() + column];
                }
            }
        }
        Self::Full(covariance)
    }
}
