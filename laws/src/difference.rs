//! Differentiates functions of numbers numerically, as the slow truth that closed-form derivatives are held against.

/// The distance h of the inner points; balances the truncation (h⁴) against the rounding (ε/h) of the formula below.
///
/// Fixed, not relative to the point: exponentials and logistic functions vary over lengths of one wherever they are.
const STEP: f64 = 1e-3;

/// The derivative of `function` by entry `index` at `point`, by central differences of fourth order.
///
/// # Numerics
/// Truncation is $h^4/30$ times the fifth derivative with $h$ = 1e-3, rounding about 1e-13 times the size of
/// `function`.
///
/// # Panics
/// If `point` has no entry `index`.
///
/// # Example
/// ```
/// let slope = partita_laws::derivative(|x| x[0].sin(), &[0.5], 0);
/// assert!((slope - 0.5_f64.cos()).abs() < 1e-12);
/// ```
#[must_use]
pub fn derivative(function: impl Fn(&[f64]) -> f64, point: &[f64], index: usize) -> f64 {
    let shifted = |steps: f64| {
        let mut moved = point.to_vec();
        moved[index] += steps * STEP;
        function(&moved)
    };
    (8.0 * (shifted(1.0) - shifted(-1.0)) - (shifted(2.0) - shifted(-2.0))) / (12.0 * STEP)
}

/// Whether two numbers are at most `bound` apart; never if one of them is NaN.
pub(super) fn within(found: f64, expected: f64, bound: f64) -> bool {
    (found - expected).abs() <= bound
}

/// log|det| of a square matrix, by Gaussian elimination with pivoting.
pub(super) fn log_abs_det(mut matrix: Vec<f64>, n: usize) -> f64 {
    let mut log_det = 0.0;
    for column in 0..n {
        let size = |row: usize| matrix[row * n + column].abs();
        let pivot = (column..n).max_by(|a, b| size(*a).total_cmp(&size(*b))).unwrap_or(column);
        for k in 0..n {
            matrix.swap(pivot * n + k, column * n + k);
        }
        log_det += matrix[column * n + column].abs().ln();
        for row in column + 1..n {
            let factor = matrix[row * n + column] / matrix[column * n + column];
            for k in column..n {
                matrix[row * n + k] -= factor * matrix[column * n + k];
            }
        }
    }
    log_det
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_derivative_of_a_quartic_is_exact() {
        let found = derivative(|x| x[0].powi(4), &[2.0], 0);
        // Rounding: 1e-16 · 16 / 1e-3.
        assert!((found - 32.0).abs() < 1e-11);
    }

    #[test]
    fn the_determinant_of_a_permuted_diagonal_is_its_product() {
        let found = log_abs_det(vec![0.0, 2.0, 3.0, 1.0], 2);
        assert!((found - 6.0_f64.ln()).abs() < 1e-15);
    }
}
