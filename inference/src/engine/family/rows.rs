//! Gives the row-wise Gaussian family of local latents, whose mean and log-scale may be linear in the globals.

use std::borrow::Cow;

use partita_core::kernel::{add_scaled, dot, exponential};

use super::HALF_LOG_TWO_PI;
use super::full_rank::{lower_row, multiply_lower, solve_transposed};
use crate::engine::optimiser::RowPlaces;

/// What each column of a row may do; each list has one entry for each of the row's `width` columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOptions {
    /// The column is correlated with the row's other dense columns.
    pub dense: Vec<bool>,
    /// The column's mean is linear in the globals.
    pub given_globals: Vec<bool>,
    /// The column's log-scale is linear in the globals.
    pub scale_given_globals: Vec<bool>,
    /// The column is a point mass.
    pub delta: Vec<bool>,
}

impl RowOptions {
    /// So many independent columns that depend on nothing.
    #[must_use]
    pub fn independent(columns: usize) -> Self {
        let none = vec![false; columns];
        Self { dense: none.clone(), given_globals: none.clone(), scale_given_globals: none.clone(), delta: none }
    }

    /// Puts the options of some columns in the place of those from `start` on.
    pub(super) fn place(&mut self, start: usize, own: &Self) {
        let pairs = [
            (&mut self.dense, &own.dense),
            (&mut self.given_globals, &own.given_globals),
            (&mut self.scale_given_globals, &own.scale_given_globals),
            (&mut self.delta, &own.delta),
        ];
        for (all, own) in pairs {
            all[start..].iter_mut().zip(own).for_each(|(slot, own)| *slot = *own);
        }
    }
}

/// Independent Gaussian blocks, one a row, given the globals.
///
/// $$ Z_r = \mu_r + C_r\thinspace \delta + e^{\rho_r + S_r \delta} \odot L_r \varepsilon_r, \qquad \delta = Z_G - \mu_G
/// $$ with $L_r$ lower unit-triangular. $C_r$ exists where `given_globals`, $S_r$ where `scale_given_globals`. There is
/// never a matrix over all rows.
///
/// # Shapes
/// Parameters of $n$ rows of $w$ latents: $[\mu\ (n, w),\ \rho\ (n, w),\ L\ (n, w(w-1)/2),\ C\ (n_G, n, w),\
/// S\ (n_G, n, w)]$, one array after another, so that every loop runs over contiguous cells; draws and noise
/// `[rows, width]`, row-major.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), section 3.1 (mean linear in $Z_G$); Tan, Bhaskaran and Nott (2020) for the
/// scale.
#[derive(Debug, Clone)]
pub struct RowGaussian {
    rows: usize,
    width: usize,
    globals: usize,
    options: RowOptions,
    dense: bool,
    given: bool,
    scale_given: bool,
}

/// One draw of the rows evaluated, with what its pull-back needs.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDraw {
    /// The draw, `[rows, width]`.
    pub latent: Vec<f64>,
    /// $\log q(Z_L \mid Z_G)$ summed over the rows, in nats.
    pub log_density: f64,
    /// $\nabla_{Z_L} \log q$ at fixed parameters and globals.
    pub score: Vec<f64>,
    /// $\nabla_{Z_G} \log q$ at fixed parameters and local latents.
    pub global_score: Vec<f64>,
    /// $e^{\rho + S\delta} \odot L\varepsilon$: the part of the draw its scales multiply.
    spread: Vec<f64>,
    /// $e^{\rho + S\delta}$.
    scale: Vec<f64>,
}

/// The parameters of some rows, taken apart.
struct Parts<'a> {
    mean: &'a [f64],
    log_scale: &'a [f64],
    lower: &'a [f64],
    linear: &'a [f64],
    scale_linear: &'a [f64],
}

impl RowGaussian {
    /// The family over `rows` rows of `width` latents, given `globals` global latents.
    ///
    /// A column that is a point mass is correlated with no other, whatever `options` say.
    ///
    /// # Panics
    /// If `options` has not one entry for each column.
    #[must_use]
    pub fn new(rows: usize, width: usize, globals: usize, mut options: RowOptions) -> Self {
        for list in [&options.dense, &options.given_globals, &options.scale_given_globals, &options.delta] {
            assert_eq!(list.len(), width, "invariant: row options have one entry for each column");
        }
        options.dense.iter_mut().zip(&options.delta).for_each(|(dense, delta)| *dense &= !delta);
        let dense = options.dense.iter().filter(|dense| **dense).count() > 1;
        let given = options.given_globals.contains(&true) && globals > 0;
        let scale_given = options.scale_given_globals.contains(&true) && globals > 0;
        Self { rows, width, globals, options, dense, given, scale_given }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of latents in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of globals that rows may depend on.
    #[must_use]
    pub fn globals(&self) -> usize {
        self.globals
    }

    /// What each column of a row may do.
    #[must_use]
    pub fn options(&self) -> &RowOptions {
        &self.options
    }

    /// Whether draws depend on the globals.
    #[must_use]
    pub fn depends_on_globals(&self) -> bool {
        self.given || self.scale_given
    }

    /// The number of variational parameters of a row.
    #[must_use]
    pub fn row_parameter_len(&self) -> usize {
        let matrices = usize::from(self.given) + usize::from(self.scale_given);
        2 * self.width + self.lower_len() + matrices * self.width * self.globals
    }

    /// The number of variational parameters of all rows.
    #[must_use]
    pub fn parameter_len(&self) -> usize {
        self.rows * self.row_parameter_len()
    }

    /// Parameters with means zero, standard deviations `scale` and no dependence on the globals.
    #[must_use]
    pub fn initial(&self, scale: f64) -> Vec<f64> {
        let cells = self.rows * self.width;
        let mut parameters = vec![0.0; self.parameter_len()];
        parameters[cells..2 * cells].fill(scale.ln());
        parameters
    }

    /// Means and standard deviations at $\delta = 0$, each `[rows, width]`.
    #[must_use]
    pub fn moments(&self, parameters: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let parts = self.parts(parameters);
        let deviation = |cell: usize, log_scale: f64| {
            if self.options.delta[cell % self.width] {
                return 0.0;
            }
            let lower = self.lower_of(parts.lower, cell / self.width);
            let own = if self.dense { lower_row(lower, cell % self.width) } else { &[] };
            log_scale.exp() * (1.0 + own.iter().map(|l| l * l).sum::<f64>()).sqrt()
        };
        let deviations = parts.log_scale.iter().enumerate().map(|(cell, r)| deviation(cell, *r)).collect();
        (parts.mean.to_vec(), deviations)
    }

    /// The parameters of some of the rows that `parameters` are of, in the layout of that many rows.
    #[must_use]
    pub fn gather(&self, parameters: &[f64], rows: &[usize]) -> Vec<f64> {
        let mut out = Vec::with_capacity(rows.len() * self.row_parameter_len());
        for (start, width) in self.arrays(self.extent(parameters).0) {
            out.extend(rows.iter().flat_map(|row| &parameters[start + row * width..start + (row + 1) * width]));
        }
        out
    }

    /// The transpose of [`RowGaussian::gather`]: puts numbers of some rows at their places among zeros.
    #[must_use]
    pub fn scatter(&self, values: &[f64], rows: &[usize]) -> Vec<f64> {
        self.places(rows).scatter(values, self.parameter_len())
    }

    /// Where the parameters of some rows stand among those of all.
    pub(crate) fn places<'a>(&self, rows: &'a [usize]) -> RowPlaces<'a> {
        let pairs = self.arrays(self.rows).into_iter().zip(self.arrays(rows.len()));
        RowPlaces { rows, total: self.rows, arrays: pairs.map(|((all, width), (own, _))| [all, own, width]).collect() }
    }

    /// Sums the numbers of repeated rows, `repeats` times each one after another, into those of the rows.
    #[must_use]
    pub fn sum_repeats(&self, values: &[f64], repeats: usize) -> Vec<f64> {
        let rows = values.len() / self.row_parameter_len().max(1) / repeats.max(1);
        let mut out = Vec::with_capacity(rows * self.row_parameter_len());
        for (start, width) in self.arrays(rows * repeats) {
            for row in 0..rows {
                let own = &values[start + row * repeats * width..start + (row + 1) * repeats * width];
                out.extend((0..width).map(|column| own.iter().skip(column).step_by(width.max(1)).sum::<f64>()));
            }
        }
        out
    }

    /// Start and numbers a row of each array in the layout of `rows` rows.
    fn arrays(&self, rows: usize) -> Vec<(usize, usize)> {
        let matrices = usize::from(self.given) + usize::from(self.scale_given);
        let mut widths = vec![self.width, self.width, self.lower_len()];
        widths.extend(std::iter::repeat_n(self.width, matrices * self.globals));
        let mut start = 0;
        let place = |width: usize| {
            let own = start;
            start += rows * width;
            (own, width)
        };
        widths.into_iter().map(place).collect()
    }

    fn lower_len(&self) -> usize {
        if self.dense { self.width * (self.width - 1) / 2 } else { 0 }
    }

    fn lower_of<'a>(&self, lower: &'a [f64], row: usize) -> &'a [f64] {
        &lower[row * self.lower_len()..(row + 1) * self.lower_len()]
    }

    /// How many rows and cells these parameters are of.
    fn extent(&self, parameters: &[f64]) -> (usize, usize) {
        let rows = parameters.len() / self.row_parameter_len().max(1);
        (rows, rows * self.width)
    }

    fn parts<'a>(&self, parameters: &'a [f64]) -> Parts<'a> {
        let (rows, cells) = self.extent(parameters);
        let (mean, rest) = parameters.split_at(cells);
        let (log_scale, rest) = rest.split_at(cells);
        let (lower, rest) = rest.split_at(rows * self.lower_len());
        let (linear, scale_linear) = rest.split_at(if self.given { cells * self.globals } else { 0 });
        Parts { mean, log_scale, lower, linear, scale_linear }
    }

    /// Draws the rows whose parameters are given, at `deviation` = $\delta$.
    #[must_use]
    pub fn draw(&self, parameters: &[f64], deviation: &[f64], noise: &[f64]) -> RowDraw {
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
        let log_density = self.log_density(&scale, noise);
        exponential(&mut scale);
        let (standard, whitened) = self.correlate(parts.lower, noise);
        let mut spread: Vec<f64> = scale.iter().zip(standard.iter()).map(|(s, n)| s * n).collect();
        let mut score: Vec<f64> = scale.iter().zip(whitened.iter()).map(|(s, n)| -n / s).collect();
        self.silence_points(&mut spread);
        self.silence_points(&mut score);
        latent.iter_mut().zip(&spread).for_each(|(z, s)| *z += s);
        let global_score = self.global_score(&parts, &score, standard.iter().zip(whitened.iter()));
        RowDraw { latent, log_density, score, global_score, spread, scale }
    }

    /// $\sum -(\rho + S\delta) - \tfrac12\varepsilon^2 - \tfrac12\log 2\pi$ over the cells that are no point masses.
    #[expect(clippy::cast_precision_loss, reason = "cell counts are far below 2^52")]
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

    /// Pulls a gradient by the draw back: adds to `out` (the rows' parameters), returns the gradient by $\delta$.
    #[must_use]
    pub fn vjp(
        &self,
        parameters: &[f64],
        deviation: &[f64],
        noise: &[f64],
        draw: &RowDraw,
        gradient: &[f64],
        out: &mut [f64],
    ) -> Vec<f64> {
        let parts = self.parts(parameters);
        let (rows, cells) = self.extent(parameters);
        let (out_mean, rest) = out.split_at_mut(cells);
        let (out_log_scale, rest) = rest.split_at_mut(cells);
        let (out_lower, rest) = rest.split_at_mut(rows * self.lower_len());
        let (out_linear, out_scale_linear) = rest.split_at_mut(if self.given { cells * self.globals } else { 0 });
        let by_log_scale: Vec<f64> = gradient.iter().zip(&draw.spread).map(|(g, s)| g * s).collect();
        out_mean.iter_mut().zip(gradient).for_each(|(slot, g)| *slot += g);
        out_log_scale.iter_mut().zip(&by_log_scale).for_each(|(slot, g)| *slot += g);
        if self.dense {
            self.vjp_lower(noise, &draw.scale, gradient, out_lower);
        }
        let mut by_deviation = vec![0.0; self.globals];
        let (linear, scale) = (
            Self::masked(gradient, &self.options.given_globals),
            Self::masked(&by_log_scale, &self.options.scale_given_globals),
        );
        for (gradient, column, out) in
            [(linear, parts.linear, out_linear), (scale, parts.scale_linear, out_scale_linear)]
        {
            let columns = column.chunks_exact(cells.max(1)).zip(out.chunks_exact_mut(cells.max(1)));
            for ((slot, delta), (column, out)) in by_deviation.iter_mut().zip(deviation).zip(columns) {
                *slot += dot(column, &gradient);
                add_scaled(out, *delta, &gradient);
            }
        }
        by_deviation
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
        parameters: &[f64],
        deviation: &[f64],
        weight: f64,
        expected: bool,
        out: &mut [f64],
    ) -> Vec<f64> {
        let parts = self.parts(parameters);
        let (rows, cells) = self.extent(parameters);
        let mut factors = vec![weight; cells];
        self.silence_points(&mut factors);
        out[cells..2 * cells].iter_mut().zip(&factors).for_each(|(slot, factor)| *slot += factor);
        let mut by_deviation = vec![0.0; self.globals];
        if self.scale_given && !expected {
            let factors = Self::masked(&factors, &self.options.scale_given_globals);
            let start = 2 * cells + rows * self.lower_len() + if self.given { cells * self.globals } else { 0 };
            let columns =
                parts.scale_linear.chunks_exact(cells.max(1)).zip(out[start..].chunks_exact_mut(cells.max(1)));
            for ((slot, delta), (column, out)) in by_deviation.iter_mut().zip(deviation).zip(columns) {
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
