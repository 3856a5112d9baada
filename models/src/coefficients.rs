//! Holds a Gaussian posterior of regression coefficients and gives the mean and variance of a row's predictor.

use partita_core::{Error, Result};

/// A Gaussian posterior of regression coefficients, the intercept first.
///
/// # Example
/// ```
/// use partita_models::Coefficients;
/// let posterior = Coefficients::mean_field(vec![1.0, 2.0], &[0.5, 0.25])?;
/// // The predictor of the row x = 3 is b_0 + 3 b_1, with mean 1 + 3 * 2 and variance 0.5 + 9 * 0.25.
/// assert_eq!(posterior.project(&[3.0])?, [(7.0, 2.75)]);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Coefficients {
    mean: Vec<f64>,
    spread: CovarianceMatrix,
}

#[derive(Debug, Clone, PartialEq)]
enum CovarianceMatrix {
    Variances(Vec<f64>),
    /// The covariance matrix, row by row.
    Covariance(Vec<f64>),
}

impl Coefficients {
    /// Independent coefficients with these means and variances.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is one variance for each mean.
    pub fn mean_field(mean: Vec<f64>, variances: &[f64]) -> Result<Self> {
        length("variances of coefficients", variances.len(), mean.len())?;
        Ok(Self { mean, spread: CovarianceMatrix::Variances(variances.to_vec()) })
    }

    /// Coefficients with these means and this covariance matrix, row by row.
    ///
    /// # Errors
    /// [`Error::Length`] unless the matrix has one row and one column for each mean.
    pub fn full(mean: Vec<f64>, covariance: Vec<f64>) -> Result<Self> {
        length("covariance of coefficients", covariance.len(), mean.len() * mean.len())?;
        Ok(Self { mean, spread: CovarianceMatrix::Covariance(covariance) })
    }

    /// The means.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The variances, the diagonal of the covariance matrix.
    #[must_use]
    pub fn variances(&self) -> Vec<f64> {
        match &self.spread {
            CovarianceMatrix::Variances(variances) => variances.clone(),
            CovarianceMatrix::Covariance(matrix) => matrix.iter().step_by(self.mean.len() + 1).copied().collect(),
        }
    }

    /// The mean and the variance of the linear predictor of each row.
    ///
    /// ```math
    /// m_i = \tilde x_i^\top \mu,\qquad s_i^2 = \tilde x_i^\top \Sigma\thinspace \tilde x_i,
    /// \qquad \tilde x_i = (1, x_i)
    /// ```
    ///
    /// # Shapes
    /// `inputs`: `[rows, coefficients - 1]`, row by row, without the one of the intercept.
    ///
    /// # Errors
    /// [`Error::Length`] if `inputs` is not a whole number of rows, or the intercept is the only coefficient.
    pub fn project(&self, inputs: &[f64]) -> Result<Vec<(f64, f64)>> {
        let columns = self.mean.len().saturating_sub(1);
        if columns == 0 {
            return Err(refused("coefficients of a prediction", self.mean.len(), 2));
        }
        length("inputs of a prediction", inputs.len(), inputs.len() / columns * columns)?;
        let mut row = vec![1.0; columns + 1];
        let projected = inputs.chunks_exact(columns).map(|inputs| {
            row[1..].copy_from_slice(inputs);
            let mean = dot(&row, &self.mean);
            let variance: f64 = match &self.spread {
                CovarianceMatrix::Variances(variances) => {
                    variances.iter().zip(&row).map(|(variance, x)| variance * x * x).sum()
                }
                CovarianceMatrix::Covariance(matrix) => {
                    matrix.chunks_exact(columns + 1).zip(&row).map(|(line, x)| x * dot(line, &row)).sum()
                }
            };
            (mean, variance)
        });
        Ok(projected.collect())
    }
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Row-major rows of `columns` inputs with a one before each row.
pub(crate) fn with_intercept(inputs: &[f64], columns: usize) -> Vec<f64> {
    let row = |inputs: &[f64]| std::iter::once(1.0).chain(inputs.iter().copied()).collect::<Vec<_>>();
    inputs.chunks_exact(columns.max(1)).flat_map(row).collect()
}

/// Refuses numbers that are not as many as the coefficients of a model.
pub(crate) fn length(operation: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(refused(operation, found, expected)) }
}

fn refused(operation: &str, found: usize, expected: usize) -> Error {
    let remedy = "Give one number a coefficient, the intercept first, and rows without the one of the intercept.";
    Error::Length { operation: operation.into(), found, expected, remedy: remedy.into() }
}
