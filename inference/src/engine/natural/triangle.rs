//! Packs symmetric and lower triangular matrices: each pair of components once.

use faer::Mat;

/// The number of pairs $`i \ge j`$ of `size` components.
pub(crate) fn pairs(size: usize) -> usize {
    size * (size + 1) / 2
}

/// The pairs $`(i, j)`$ with $`i \ge j`$, row by row.
pub(crate) fn each(size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..size).flat_map(|i| (0..=i).map(move |j| (i, j)))
}

/// The symmetric matrix of packed entries, the ones off the diagonal times `off` and those on it times `on`.
pub(crate) fn unpack(size: usize, packed: &[f64], on: f64, off: f64) -> Mat<f64> {
    let mut matrix = Mat::zeros(size, size);
    for ((i, j), value) in each(size).zip(packed) {
        let value = value * if i == j { on } else { off };
        (matrix[(i, j)], matrix[(j, i)]) = (value, value);
    }
    matrix
}

/// The packed entries of a symmetric matrix, the ones off the diagonal times `off` and those on it times `on`.
pub(crate) fn pack(matrix: &Mat<f64>, on: f64, off: f64) -> Vec<f64> {
    each(matrix.nrows()).map(|(i, j)| matrix[(i, j)] * if i == j { on } else { off }).collect()
}
