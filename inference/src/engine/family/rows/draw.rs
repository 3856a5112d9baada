//! Draws rows of the row-wise family, and pulls gradients by a draw back to parameters, globals and outer rows.

use std::borrow::Cow;

use partita_core::kernel::{add_scaled, dot, exponential};

use super::{Parts, RowGaussian};
use crate::engine::family::HALF_LOG_TWO_PI;
use crate::engine::family::full_rank::{multiply_lower, solve_transposed};

/// What a draw of some rows is made from.
#[derive(Debug, Clone, Copy)]
pub struct RowInputs<'a> {
    /// The parameters of the rows.
    pub parameters: &'a [f64],
    /// $\delta = Z_G - \mu_G$.
    pub deviation: &'a [f64],
    /// $o$: what the outer row of each row deviates from its mean parameter, `[outer, rows]`; not read where means do
    /// not depend on outer rows.
    pub outer: &'a [f64],
    /// Standard normal numbers, `[rows, width]`.
    pub noise: &'a [f64],
}

/// A gradient by a draw of rows, on its way to their parameters; each `[rows, width]`.
///
/// The two differ where rows inside depend on what these deviate from their means, as for the globals.
#[derive(Debug, Clone, Copy)]
pub struct RowGradient<'a> {
    /// What reaches the means $\mu$.
    pub grad_mean: &'a [f64],
    /// What reaches the rest of the draw, $Z - \mu$.
    pub grad_offset: &'a [f64],
}

/// What a gradient by rows reaches besides their own parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct RowReach {
    /// The gradient by $\delta$.
    pub globals: Vec<f64>,
    /// The gradient by what outer rows deviate from their means, `[outer, rows]`; empty without dependence on them.
    pub outer: Vec<f64>,
}

/// One draw of the rows evaluated, with what its pull-back needs.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDraw {
    /// The draw, `[rows, width]`.
    pub latent: Vec<f64>,
    /// $\log q(Z_L \mid Z_G)$ summed over the rows, given their outer rows, in nats.
    pub log_density: f64,
    /// $\nabla_{Z_L} \log q$ at fixed parameters, globals and outer rows.
    pub score: Vec<f64>,
    /// $\nabla_{Z_G} \log q$ at fixed parameters and local latents; empty where the rows do not depend on the globals.
    pub global_score: Vec<f64>,
    /// The gradient of each row's $\log q$ by its outer row, `[outer, rows]`; empty without dependence on them.
    pub outer_score: Vec<f64>,
    /// $e^{\rho + S\delta} \odot L\varepsilon$: the part of the draw its scales multiply.
    spread: Vec<f64>,
    /// $e^{\rho + S\delta}$.
    scale: Vec<f64>,
}

impl RowGaussian {
    /// Draws the rows whose parameters are given, given globals and outer rows.
    #[must_use]
    pub fn draw(&self, inputs: RowInputs<'_>) -> RowDraw {
        let RowInputs { parameters, deviation, outer, noise } = inputs;
        let parts = self.parts(parameters);
        let cells = noise.len().max(1);
        let mut latent = parts.mean.to_vec();
        let mut scale = parts.log_scale.to_vec();
        for (delta, column) in deviation.iter().zip(parts.linear.chunks_exact(cells)) {
            add_scaled(&mut latent, *delta, column);
        }
        for (delta, column) in deviation.iter().zip(parts.scale_linear.chunks_exact(cells)) {
            add_scaled(&mut scale, *delta, column);
        }
        for (away, column) in self.outer_columns(outer, parts.outer_linear) {
            self.add_by_row(&mut latent, away, column);
        }
        let log_density = self.log_density(&scale, noise);
        exponential(&mut scale);
        let (standard, whitened) = self.correlate(parts.lower, noise);
        let mut spread: Vec<f64> = scale.iter().zip(standard.iter()).map(|(s, n)| s * n).collect();
        let mut score: Vec<f64> = scale.iter().zip(whitened.iter()).map(|(s, n)| -n / s).collect();
        self.silence_points(&mut spread);
        self.silence_points(&mut score);
        latent.iter_mut().zip(&spread).for_each(|(z, s)| *z += s);
        let global_score = self.global_score(&parts, &score, standard.iter().zip(whitened.iter()));
        let mut outer_score = self.sums_by_row(parts.outer_linear, &score);
        outer_score.iter_mut().for_each(|slot| *slot = -*slot);
        RowDraw { latent, log_density, score, global_score, outer_score, spread, scale }
    }

    /// What a draw deviates from the mean parameters of its rows: what rows inside them depend on.
    #[must_use]
    pub fn offset(&self, parameters: &[f64], draw: &RowDraw) -> Vec<f64> {
        draw.latent.iter().zip(self.parts(parameters).mean).map(|(latent, mean)| latent - mean).collect()
    }

    /// For each number of the outer row what it deviates, row by row, and the slopes by it, cell by cell.
    fn outer_columns<'a>(
        &self,
        outer: &'a [f64],
        slopes: &'a [f64],
    ) -> impl Iterator<Item = (&'a [f64], &'a [f64])> + use<'a> {
        let rows = slopes.len() / (self.outer * self.width).max(1);
        outer.chunks_exact(rows.max(1)).zip(slopes.chunks_exact((rows * self.width).max(1)))
    }

    /// Adds to each cell its factor times the number of its row.
    fn add_by_row(&self, cells: &mut [f64], by_row: &[f64], factors: &[f64]) {
        if self.width == 1 {
            let rows = cells.iter_mut().zip(by_row.iter().zip(factors));
            return rows.for_each(|(cell, (number, factor))| *cell += number * factor);
        }
        let rows = cells.chunks_exact_mut(self.width).zip(factors.chunks_exact(self.width));
        rows.zip(by_row).for_each(|((cells, factors), number)| add_scaled(cells, *number, factors));
    }

    /// For each number of the outer row the sum over the cells of each row of slope times `cells`, `[outer, rows]`.
    fn sums_by_row(&self, slopes: &[f64], cells: &[f64]) -> Vec<f64> {
        if !self.given_outer {
            return Vec::new();
        }
        let width = self.width.max(1);
        let columns = slopes.chunks_exact(cells.len().max(1));
        let rows = |column| Iterator::zip(<[f64]>::chunks_exact(column, width), cells.chunks_exact(width));
        columns.flat_map(|column| rows(column).map(|(slopes, cells)| dot(slopes, cells))).collect()
    }

    /// $\sum -(\rho + S\delta) - \tfrac12\varepsilon^2 - \tfrac12\log 2\pi$ over the cells that are no point masses.
    fn log_density(&self, log_scale: &[f64], noise: &[f64]) -> f64 {
        if self.options.delta.contains(&true) {
            let cells = log_scale.iter().zip(noise).zip(self.options.delta.iter().cycle());
            let own = cells.filter(|(_, point)| !**point);
            return own.map(|((s, e), _)| -s - 0.5 * e * e - HALF_LOG_TWO_PI).sum();
        }
        -log_scale.iter().sum::<f64>() - 0.5 * dot(noise, noise) - noise.len() as f64 * HALF_LOG_TWO_PI
    }

    /// The log density of each row of a draw, in nats.
    #[must_use]
    pub fn row_log_densities(&self, draw: &RowDraw, noise: &[f64]) -> Vec<f64> {
        let width = self.width.max(1);
        let rows = draw.scale.chunks_exact(width).zip(noise.chunks_exact(width));
        let cell = |((scale, e), point): ((&f64, &f64), &bool)| {
            if *point { 0.0 } else { -scale.ln() - 0.5 * e * e - HALF_LOG_TWO_PI }
        };
        rows.map(|(scale, noise)| scale.iter().zip(noise).zip(&self.options.delta).map(cell).sum()).collect()
    }

    /// Sets the cells of point masses to zero.
    fn silence_points(&self, cells: &mut [f64]) {
        if self.options.delta.contains(&true) {
            let points = self.options.delta.iter().cycle();
            cells.iter_mut().zip(points).filter(|(_, point)| **point).for_each(|(cell, _)| *cell = 0.0);
        }
    }

    /// Sets the cells of columns for which `allowed` is false to zero.
    fn masked<'a>(cells: &'a [f64], allowed: &[bool]) -> Cow<'a, [f64]> {
        if allowed.iter().all(|allowed| *allowed) {
            return Cow::Borrowed(cells);
        }
        Cow::Owned(cells.iter().zip(allowed.iter().cycle()).map(|(cell, on)| if *on { *cell } else { 0.0 }).collect())
    }

    /// $L\varepsilon$ and $L^{-\top}\varepsilon$, row by row.
    fn correlate<'a>(&self, lower: &[f64], noise: &'a [f64]) -> (Cow<'a, [f64]>, Cow<'a, [f64]>) {
        if !self.dense {
            return (Cow::Borrowed(noise), Cow::Borrowed(noise));
        }
        let mut standard = Vec::with_capacity(noise.len());
        let mut whitened = Vec::with_capacity(noise.len());
        for (row, noise) in noise.chunks_exact(self.width).enumerate() {
            let lower = self.lower_of(lower, row);
            standard.extend(multiply_lower(lower, noise));
            whitened.extend(solve_transposed(lower, noise));
        }
        (Cow::Owned(standard), Cow::Owned(whitened))
    }

    /// $\nabla_{Z_G} \log q = -C^\top h + S^\top(-1 + L^{-\top}\varepsilon \odot L\varepsilon)$, with $h$ the score by
    /// $Z_L$.
    fn global_score<'a>(
        &self,
        parts: &Parts<'_>,
        score: &[f64],
        noise: impl Iterator<Item = (&'a f64, &'a f64)>,
    ) -> Vec<f64> {
        if parts.linear.is_empty() && !self.scale_given {
            return Vec::new();
        }
        let mut global = vec![0.0; self.globals];
        for (slot, column) in global.iter_mut().zip(parts.linear.chunks_exact(score.len().max(1))) {
            *slot -= dot(column, score);
        }
        if self.scale_given {
            let mut factors: Vec<f64> = noise.map(|(standard, whitened)| standard * whitened - 1.0).collect();
            self.silence_points(&mut factors);
            for (slot, column) in global.iter_mut().zip(parts.scale_linear.chunks_exact(score.len().max(1))) {
                *slot += dot(column, &factors);
            }
        }
        global
    }

    /// Pulls a gradient by the draw back: adds to `out` (the rows' parameters), returns what reaches globals and outer
    /// rows.
    #[must_use]
    pub fn vjp(&self, inputs: RowInputs<'_>, draw: &RowDraw, gradient: RowGradient<'_>, out: &mut [f64]) -> RowReach {
        let RowInputs { parameters, deviation, outer, noise } = inputs;
        let RowGradient { grad_mean, grad_offset } = gradient;
        let parts = self.parts(parameters);
        let cells = grad_offset.len();
        let out = self.parts_mut(out);
        let by_log_scale: Vec<f64> = grad_offset.iter().zip(&draw.spread).map(|(g, s)| g * s).collect();
        out.mean.iter_mut().zip(grad_mean).for_each(|(slot, g)| *slot += g);
        out.log_scale.iter_mut().zip(&by_log_scale).for_each(|(slot, g)| *slot += g);
        if self.dense {
            self.vjp_lower(noise, &draw.scale, grad_offset, out.lower);
        }
        let mut globals = vec![0.0; self.globals];
        let (linear, scale) = (
            Self::masked(grad_offset, &self.options.given_globals),
            Self::masked(&by_log_scale, &self.options.scale_given_globals),
        );
        for (gradient, column, out) in
            [(linear, parts.linear, out.linear), (scale, parts.scale_linear, out.scale_linear)]
        {
            let columns = column.chunks_exact(cells.max(1)).zip(out.chunks_exact_mut(cells.max(1)));
            for ((slot, delta), (column, out)) in globals.iter_mut().zip(deviation).zip(columns) {
                *slot += dot(column, &gradient);
                add_scaled(out, *delta, &gradient);
            }
        }
        if !self.given_outer {
            return RowReach { globals, outer: Vec::new() };
        }
        let masked = Self::masked(grad_offset, &self.options.given_outer);
        let columns = outer.chunks_exact((cells / self.width.max(1)).max(1));
        for (away, out) in columns.zip(out.outer_linear.chunks_exact_mut(cells.max(1))) {
            self.add_by_row(out, away, &masked);
        }
        RowReach { globals, outer: self.sums_by_row(parts.outer_linear, &masked) }
    }

    fn vjp_lower(&self, noise: &[f64], scale: &[f64], gradient: &[f64], out: &mut [f64]) {
        let w = self.width;
        for (row, out) in out.chunks_exact_mut(self.lower_len()).enumerate() {
            let mut entries = out.iter_mut();
            for column in 0..w {
                let cell = row * w + column;
                let noise = &noise[row * w..cell];
                for (other, (slot, e)) in entries.by_ref().take(column).zip(noise).enumerate() {
                    if self.options.dense[column] && self.options.dense[other] && !self.options.delta[column] {
                        *slot += gradient[cell] * scale[cell] * e;
                    }
                }
            }
        }
    }

    /// Adds `weight` times the gradient of $\sum (\rho + S\delta)$ to `out`; returns its gradient by $\delta$.
    ///
    /// That sum is the part of $-\log q$ that depends on parameters along the draw. With `expected`, the gradient is
    /// that of its expectation $\sum\rho$, since $E\thinspace \delta = 0$.
    #[must_use]
    pub fn add_entropy_gradient(
        &self,
        inputs: RowInputs<'_>,
        weight: f64,
        expected: bool,
        out: &mut [f64],
    ) -> Vec<f64> {
        let parts = self.parts(inputs.parameters);
        let cells = parts.mean.len();
        let mut factors = vec![weight; cells];
        self.silence_points(&mut factors);
        let out = self.parts_mut(out);
        out.log_scale.iter_mut().zip(&factors).for_each(|(slot, factor)| *slot += factor);
        let mut by_deviation = vec![0.0; self.globals];
        if self.scale_given && !expected {
            let factors = Self::masked(&factors, &self.options.scale_given_globals);
            let columns =
                parts.scale_linear.chunks_exact(cells.max(1)).zip(out.scale_linear.chunks_exact_mut(cells.max(1)));
            for ((slot, delta), (column, out)) in by_deviation.iter_mut().zip(inputs.deviation).zip(columns) {
                *slot += dot(column, &factors);
                add_scaled(out, *delta, &factors);
            }
        }
        by_deviation
    }

    /// The expected entropy of the rows whose parameters are given, $\sum\rho + \tfrac n2(1+\log 2\pi)$, in nats.
    #[must_use]
    pub fn entropy(&self, parameters: &[f64]) -> f64 {
        let cells = self.parts(parameters).log_scale.iter().zip(self.options.delta.iter().cycle());
        cells.filter(|(_, point)| !**point).map(|(log_scale, _)| log_scale + 0.5 + HALF_LOG_TWO_PI).sum()
    }
}
