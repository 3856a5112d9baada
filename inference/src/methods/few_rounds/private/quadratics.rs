//! Fits a quadratic to a row's log marginal likelihoods at whitened draws, which is linear in them.

use faer::Mat;
use faer::linalg::solvers::Solve;

use crate::engine::error::{Error, Result};
use crate::engine::natural::triangle::{each, pairs};
use crate::engine::whitened::Draws;

/// The least-squares map from values at draws $`\varepsilon_k`$ to the coefficients of
/// $`c + g^\top\varepsilon + \tfrac12\varepsilon^\top A\varepsilon`$.
#[derive(Debug)]
pub(super) struct Quadratics {
    /// One row a coefficient: constant, gradient, and the lower triangle of the curvature.
    map: Mat<f64>,
    len: usize,
}

impl Quadratics {
    /// As many draws of `len` numbers as determine a quadratic twice over.
    pub(super) fn draws(len: usize) -> usize {
        (2 * (1 + len + pairs(len))).next_power_of_two().max(32)
    }

    /// The map for these draws.
    ///
    /// # Errors
    /// [`Error::Setting`] if they do not determine a quadratic.
    pub(super) fn of(draws: &Draws, len: usize) -> Result<Self> {
        let design = Mat::from_fn(draws.len(), 1 + len + pairs(len), |row, column| {
            let noise = draws.get(row);
            match column {
                0 => 1.0,
                _ if column <= len => noise[column - 1],
                _ => {
                    let (i, j) = each(len).nth(column - 1 - len).unwrap_or_default();
                    noise[i] * noise[j] * if i == j { 0.5 } else { 1.0 }
                }
            }
        });
        let normal = design.transpose() * &design;
        let factor = normal.llt(faer::Side::Lower).map_err(|_| Error::Setting {
            setting: "draws",
            found: format!("{} of {len} numbers", draws.len()),
            expected: "more draws, which determine a quadratic",
        })?;
        Ok(Self { map: factor.solve(design.transpose()), len })
    }

    /// The gradient and the lower triangle of the curvature of each of several rows, whose values at the draws are the
    /// columns of `values`: the coefficients of row $i$ follow from its own values alone.
    pub(super) fn rows(&self, values: &Mat<f64>) -> Vec<Vec<f64>> {
        let found = &self.map * values;
        let coefficients = 1..1 + self.len + pairs(self.len);
        (0..values.ncols()).map(|row| coefficients.clone().map(|at| found[(at, row)]).collect()).collect()
    }
}

/// What a row's numbers are multiplied by before they are clipped together: one for the gradient, and `curvature` for the
/// entries of the triangle, those off the diagonal times √2, so that norms are those of the matrix.
pub(super) fn scales(len: usize, curvature: f64) -> Vec<f64> {
    let of = |(i, j): (usize, usize)| curvature * if i == j { 1.0 } else { std::f64::consts::SQRT_2 };
    std::iter::repeat_n(1.0, len).chain(each(len).map(of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quadratic_is_found_exactly_and_each_row_from_its_own_values() {
        let (len, draws) = (3, Draws::new(1, 3, Quadratics::draws(3)).unwrap());
        let map = Quadratics::of(&draws, len).unwrap();
        let (gradient, triangle) = ([0.5, -1.0, 2.0], [-1.0, 0.3, -2.0, 0.1, 0.7, -0.5]);
        let value = |noise: &[f64]| {
            let linear: f64 = noise.iter().zip(gradient).map(|(e, g)| e * g).sum();
            let bent: f64 = each(len)
                .zip(triangle)
                .map(|((i, j), a)| a * noise[i] * noise[j] * if i == j { 0.5 } else { 1.0 })
                .sum();
            7.0 + linear + bent
        };
        let values =
            Mat::from_fn(draws.len(), 2, |k, row| if row == 0 { value(draws.get(k)) } else { f64::from(k as u32) });
        let found = map.rows(&values);
        let expected = [&gradient[..], &triangle].concat();
        assert!(found[0].iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-11), "{found:?}");
        let alone = map.rows(&Mat::from_fn(draws.len(), 1, |k, _| value(draws.get(k))));
        assert!(alone[0].iter().zip(&found[0]).all(|(a, b)| (a - b).abs() < 1e-13));
    }
}
