//! Decomposes symmetric matrices by their eigenvalues, and takes functions of them.

use faer::Mat;

/// $`A = Q\,\mathrm{diag}(\lambda)\,Q^\top`$.
#[derive(Debug)]
pub(crate) struct Eigen {
    /// $Q$: eigenvectors, in columns.
    pub(crate) vectors: Mat<f64>,
    /// $`\lambda`$, ascending.
    pub(crate) values: Vec<f64>,
}

impl Eigen {
    /// The decomposition of a symmetric matrix, of which the lower triangle is read; `None` where it does not converge.
    pub(crate) fn of(matrix: &Mat<f64>) -> Option<Self> {
        let eigen = matrix.self_adjoint_eigen(faer::Side::Lower).ok()?;
        Some(Self { vectors: eigen.U().to_owned(), values: eigen.S().column_vector().iter().copied().collect() })
    }

    /// $`Q\,\mathrm{diag}(f(\lambda))\,Q^\top`$.
    pub(crate) fn function(&self, function: impl Fn(f64) -> f64) -> Mat<f64> {
        let size = self.values.len();
        let scaled = Mat::from_fn(size, size, |i, j| self.vectors[(i, j)] * function(self.values[j]));
        scaled * self.vectors.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_square_of_a_root_is_the_matrix_and_values_ascend() {
        let matrix = Mat::from_fn(3, 3, |i, j| [[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]][i][j]);
        let eigen = Eigen::of(&matrix).unwrap();
        let root = eigen.function(f64::sqrt);
        assert!(
            (&root * &root - &matrix).norm_max() < 1e-14
                && (eigen.function(|value| value) - &matrix).norm_max() < 1e-14
        );
        assert!(
            eigen.values.windows(2).all(|pair| pair[0] < pair[1])
                && (eigen.values.iter().sum::<f64>() - 9.0).abs() < 1e-14
        );
    }
}
