//! Holds a gradient by mean and covariance in the smallest form that says it, on its way to a family's parameters.

/// The gradient of a number by the mean and the covariance of a density.
#[derive(Debug, Clone, PartialEq)]
pub struct MomentGradient {
    /// By the mean.
    pub mean: Vec<f64>,
    /// By the covariance.
    pub covariance: CovarianceGradient,
}

/// The gradient of a number by a covariance.
#[derive(Debug, Clone, PartialEq)]
pub enum CovarianceGradient {
    /// By the variances of independent components.
    Diagonal(Vec<f64>),
    /// The symmetric matrix $`G`$ with $`df = \mathrm{tr}(G\,d\Sigma)`$, row-major.
    Full(Vec<f64>),
}

impl CovarianceGradient {
    /// Its diagonal.
    #[must_use]
    pub fn by_variance(&self, len: usize) -> Vec<f64> {
        match self {
            Self::Diagonal(diagonal) => diagonal.clone(),
            Self::Full(matrix) => matrix.iter().step_by(len + 1).copied().collect(),
        }
    }

    /// The entry of components `i` and `j` of `len`.
    #[must_use]
    pub fn at(&self, len: usize, i: usize, j: usize) -> f64 {
        match self {
            Self::Diagonal(diagonal) if i == j => diagonal[i],
            Self::Diagonal(_) => 0.0,
            Self::Full(matrix) => matrix[i * len + j],
        }
    }
}

impl MomentGradient {
    /// The gradient by the moments of some components.
    pub(crate) fn part(&self, components: &[usize]) -> Self {
        let mean: Vec<f64> = components.iter().map(|&component| self.mean[component]).collect();
        let covariance = match &self.covariance {
            CovarianceGradient::Diagonal(diagonal) => {
                CovarianceGradient::Diagonal(components.iter().map(|&component| diagonal[component]).collect())
            }
            CovarianceGradient::Full(matrix) => {
                let size = self.mean.len();
                let cells = components.iter().flat_map(|&i| components.iter().map(move |&j| i * size + j));
                CovarianceGradient::Full(cells.map(|cell| matrix[cell]).collect())
            }
        };
        Self { mean, covariance }
    }

    /// The gradient by the moments of a vector made of independent parts.
    pub(crate) fn join(parts: Vec<(Vec<usize>, Self)>, len: usize) -> Self {
        let mut mean = vec![0.0; len];
        let is_diagonal =
            parts.iter().all(|(_, gradient)| matches!(gradient.covariance, CovarianceGradient::Diagonal(_)));
        let mut covariance = vec![0.0; if is_diagonal { len } else { len * len }];
        for (components, gradient) in parts {
            let size = components.len();
            components.iter().zip(&gradient.mean).for_each(|(&component, own)| mean[component] = *own);
            for (row, &i) in components.iter().enumerate() {
                if is_diagonal {
                    covariance[i] = gradient.covariance.at(size, row, row);
                    continue;
                }
                for (column, &j) in components.iter().enumerate() {
                    covariance[i * len + j] = gradient.covariance.at(size, row, column);
                }
            }
        }
        let form = if is_diagonal { CovarianceGradient::Diagonal } else { CovarianceGradient::Full };
        Self { mean, covariance: form(covariance) }
    }
}
