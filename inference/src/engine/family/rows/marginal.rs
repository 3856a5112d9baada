//! Gives the marginal means and standard deviations of rows: over the globals and over the rows that they belong to.

use partita_core::kernel::{add_scaled, dot};

use super::{Parts, RowGaussian};
use crate::engine::family::CovarianceMatrix;
use crate::engine::family::full_rank::multiply_lower;

/// Means and spread of rows under the whole family, as the rows inside them need it too.
///
/// A latent deviates from its mean by $\tilde C_r \delta + u_r$, where $u_r$ has mean zero given the globals:
/// $\tilde C_r = C_r + D_r \tilde C_o$ and $\mathrm{Cov}(u_r) = E[e^{s}\! \cdot L_r L_r^\top\! \cdot e^{s}] + D_r\,
/// \mathrm{Cov}(u_o) D_r^\top$, with $o$ the outer row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowMarginals {
    /// Means, `[rows, width]`.
    pub means: Vec<f64>,
    /// Marginal standard deviations, `[rows, width]`.
    pub deviations: Vec<f64>,
    /// $\tilde C$, `[rows, width, globals]`; empty where nothing depends on the globals.
    linear: Vec<f64>,
    /// $\mathrm{Cov}(u)$, `[rows, width, width]`.
    residual: Vec<f64>,
}

/// What the marginals of some rows are taken over.
#[derive(Debug, Clone, Copy, Default)]
pub struct MarginalOver<'a> {
    /// The covariance of the globals; without it they are held at their mean.
    pub globals: Option<&'a CovarianceMatrix>,
    /// The marginals of the outer rows, and the outer row of each row; not read where rows do not depend on them.
    pub outer: Option<OuterMarginals<'a>>,
}

/// The marginals of the outer rows of some rows.
#[derive(Debug, Clone, Copy)]
pub struct OuterMarginals<'a> {
    /// Those of all outer rows.
    pub marginals: &'a RowMarginals,
    /// The outer row of each row.
    pub rows: &'a [usize],
}

impl RowMarginals {
    /// Adds the marginals of more rows of the same family after these.
    pub fn append(&mut self, mut more: Self) {
        self.means.append(&mut more.means);
        self.deviations.append(&mut more.deviations);
        self.linear.append(&mut more.linear);
        self.residual.append(&mut more.residual);
    }
}

impl RowGaussian {
    /// Marginal means and standard deviations of the rows whose parameters are given, over globals with a normal
    /// posterior and over their outer rows.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{MarginalOver, CovarianceMatrix, RowGaussian, RowOptions};
    /// let options = RowOptions { given_globals: vec![true], ..RowOptions::independent(1) };
    /// // Mean 2, standard deviation 3 given one global, slope 0.5 by it.
    /// let parameters = [2.0, 3.0_f64.ln(), 0.5];
    /// let globals = CovarianceMatrix::Diagonal(vec![8.0]);
    /// let around = MarginalOver { globals: Some(&globals), outer: None };
    /// let found = RowGaussian::new(1, 1, 1, options).marginals(&parameters, around);
    /// assert!((found.deviations[0] - 5.0).abs() < 1e-12);
    /// ```
    #[must_use]
    pub fn marginals(&self, parameters: &[f64], around: MarginalOver<'_>) -> RowMarginals {
        let parts = self.parts(parameters);
        let (rows, cells, width) = (self.extent(parameters).0, parts.mean.len(), self.width);
        let outer = around.outer.filter(|_| self.given_outer);
        let known = around.globals.filter(|globals| self.globals > 0 && globals.len() == self.globals);
        let over_globals =
            known.filter(|_| self.given || outer.is_some_and(|outer| !outer.marginals.linear.is_empty()));
        let dense = known.map(CovarianceMatrix::dense);
        let scales = dense.as_deref().filter(|_| self.scale_given);
        let mut found = RowMarginals { means: parts.mean.to_vec(), ..RowMarginals::default() };
        for row in 0..rows {
            let slopes = self.slopes_of(parts.outer_linear, row, cells);
            let mut residual = self.own_covariance(&parts, row, scales);
            if let Some(outer) = outer {
                self.add_through_outer(&mut residual, &slopes, outer.residual(row, self.outer));
            }
            let mut variances: Vec<f64> = (0..width).map(|column| residual[column * width + column]).collect();
            if over_globals.is_some()
                && let Some(covariance) = &dense
            {
                let mut linear = match self.given {
                    true => self.slopes_of(parts.linear, row, cells),
                    false => vec![0.0; width * self.globals],
                };
                if let Some(outer) = outer {
                    self.add_composed(&mut linear, &slopes, outer.linear(row, self.outer * self.globals));
                }
                for (variance, slopes) in variances.iter_mut().zip(linear.chunks_exact(self.globals)) {
                    *variance += dot(slopes, &multiply(covariance, slopes));
                }
                found.linear.append(&mut linear);
            }
            found.deviations.extend(variances.iter().map(|variance| variance.sqrt()));
            found.residual.append(&mut residual);
        }
        found
    }

    /// $E[e^{s} \cdot L L^\top \cdot e^{s}]$ of a row, with $s$ normal where it is linear in the globals.
    fn own_covariance(&self, parts: &Parts<'_>, row: usize, globals: Option<&[f64]>) -> Vec<f64> {
        let width = self.width;
        let log_scale = &parts.log_scale[row * width..(row + 1) * width];
        let columns: Vec<Vec<f64>> = (0..width).map(|column| self.spread_by(parts, row, column)).collect();
        let slopes = globals.map(|_| self.slopes_of(parts.scale_linear, row, parts.mean.len()));
        let shifted = globals.zip(slopes.as_ref()).map(|(covariance, slopes)| {
            slopes.chunks_exact(self.globals).map(|own| multiply(covariance, own)).collect::<Vec<_>>()
        });
        let scale_covariance = |i: usize, j: usize| match (&slopes, &shifted) {
            (Some(slopes), Some(shifted)) => dot(&slopes[i * self.globals..(i + 1) * self.globals], &shifted[j]),
            _ => 0.0,
        };
        let mut covariance = vec![0.0; width * width];
        for (cell, slot) in covariance.iter_mut().enumerate() {
            let (i, j) = (cell / width, cell % width);
            if self.options.delta[i] || self.options.delta[j] {
                continue;
            }
            let of_sum = scale_covariance(i, i) + scale_covariance(j, j) + 2.0 * scale_covariance(i, j);
            let correlated: f64 = columns.iter().map(|column| column[i] * column[j]).sum();
            *slot = (log_scale[i] + log_scale[j] + 0.5 * of_sum).exp() * correlated;
        }
        covariance
    }

    /// A column of $L$ of a row.
    fn spread_by(&self, parts: &Parts<'_>, row: usize, column: usize) -> Vec<f64> {
        let mut unit = vec![0.0; self.width];
        unit[column] = 1.0;
        if self.dense { multiply_lower(self.lower_of(parts.lower, row), &unit) } else { unit }
    }

    /// Slopes of a row, stored `[numbers, rows, width]`, as `[width, numbers]`.
    fn slopes_of(&self, slopes: &[f64], row: usize, cells: usize) -> Vec<f64> {
        let column = |cell: usize| slopes.chunks_exact(cells).map(move |column| column[row * self.width + cell]);
        (0..self.width).flat_map(column).collect()
    }

    /// Adds $D \tilde C_o$ to the slopes by globals of a row.
    fn add_composed(&self, linear: &mut [f64], slopes: &[f64], outer: &[f64]) {
        if outer.is_empty() {
            return;
        }
        for (own, slopes) in linear.chunks_exact_mut(self.globals).zip(slopes.chunks_exact(self.outer)) {
            slopes
                .iter()
                .zip(outer.chunks_exact(self.globals))
                .for_each(|(slope, outer)| add_scaled(own, *slope, outer));
        }
    }

    /// Adds $D\, \mathrm{Cov}(u_o) D^\top$ to the covariance of a row.
    fn add_through_outer(&self, residual: &mut [f64], slopes: &[f64], outer: &[f64]) {
        for (own, left) in residual.chunks_exact_mut(self.width).zip(slopes.chunks_exact(self.outer)) {
            let through = multiply(outer, left);
            own.iter_mut().zip(slopes.chunks_exact(self.outer)).for_each(|(slot, right)| *slot += dot(right, &through));
        }
    }
}

impl<'a> OuterMarginals<'a> {
    fn of<'b>(&self, all: &'b [f64], row: usize, each: usize) -> &'b [f64] {
        let outer = self.rows[row];
        if all.is_empty() { all } else { &all[outer * each..(outer + 1) * each] }
    }

    fn residual(&self, row: usize, width: usize) -> &'a [f64] {
        self.of(&self.marginals.residual, row, width * width)
    }

    fn linear(&self, row: usize, each: usize) -> &'a [f64] {
        self.of(&self.marginals.linear, row, each)
    }
}

/// A square matrix times a vector.
fn multiply(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(vector.len().max(1)).map(|row| dot(row, vector)).collect()
}
