//! Factorises and solves with row-major lower triangles on the host, for the operations that put them on the tape.

/// Writes the lower Cholesky factor of the symmetric part of `matrix`, or returns the row and value of a bad pivot.
pub(super) fn factorise(matrix: &[f64], n: usize, factor: &mut [f64]) -> Result<(), (usize, f64)> {
    for i in 0..n {
        for j in 0..=i {
            let symmetric = 0.5 * (matrix[i * n + j] + matrix[j * n + i]);
            let (left, right) = (&factor[i * n..i * n + j], &factor[j * n..j * n + j]);
            let rest = symmetric - left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>();
            if i > j {
                factor[i * n + j] = rest / factor[j * n + j];
            } else if rest > 0.0 && rest.is_finite() {
                factor[i * n + i] = rest.sqrt();
            } else {
                return Err((i, rest));
            }
        }
    }
    Ok(())
}

/// Overwrites `right` (n rows) with the solution of `factor` · x = `right`; entries above the diagonal are not read.
pub(super) fn solve(factor: &[f64], n: usize, right: &mut [f64]) {
    let columns = right.len() / n.max(1);
    for i in 0..n {
        let (done, rest) = right.split_at_mut(i * columns);
        let row = &mut rest[..columns];
        for k in 0..i {
            subtract(row, factor[i * n + k], &done[k * columns..(k + 1) * columns]);
        }
        row.iter_mut().for_each(|entry| *entry /= factor[i * n + i]);
    }
}

/// Overwrites `right` (n rows) with the solution of `factor`ᵀ · x = `right`.
pub(super) fn solve_transposed(factor: &[f64], n: usize, right: &mut [f64]) {
    let columns = right.len() / n.max(1);
    for i in (0..n).rev() {
        let (head, done) = right.split_at_mut((i + 1) * columns);
        let row = &mut head[i * columns..];
        for k in i + 1..n {
            subtract(row, factor[k * n + i], &done[(k - i - 1) * columns..(k - i) * columns]);
        }
        row.iter_mut().for_each(|entry| *entry /= factor[i * n + i]);
    }
}

/// The transpose of a square matrix.
pub(super) fn transpose(matrix: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|cell| matrix[(cell % n) * n + cell / n]).collect()
}

fn subtract(row: &mut [f64], factor: f64, other: &[f64]) {
    for (entry, other) in row.iter_mut().zip(other) {
        *entry -= factor * other;
    }
}
