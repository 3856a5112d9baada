//! Gives the row-wise Gaussian family of local latents, whose mean and log-scale may be linear in the globals.

use super::full_rank::{lower_row, multiply_lower, solve_transposed};
use super::HALF_LOG_TWO_PI;

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

/// Independent Gaussian blocks, one a row, given the globals.
///
/// $$ Z_r = \mu_r + C_r\,\delta + e^{\rho_r + S_r \delta} \odot L_r \varepsilon_r, \qquad \delta = Z_G - \mu_G $$
/// with $L_r$ lower unit-triangular. $C_r$ exists where `given_globals`, $S_r$ where `scale_given_globals`. There is
/// never a matrix over all rows.
///
/// # Shapes
/// Parameters of a row: $[\mu\ (w), \rho\ (w), L\ (w(w-1)/2), C\ (w\,n_G), S\ (w\,n_G)]$, rows one after another;
/// draws and noise `[rows, width]`, row-major.
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

/// Where the parameters of a row lie.
struct Row<'a> {
    mean: &'a [f64],
    log_scale: &'a [f64],
    lower: &'a [f64],
    linear: &'a [f64],
    scale_linear: &'a [f64],
}

impl RowGaussian {
    /// The family over `rows` rows of `width` latents, given `globals` global latents.
    ///
    /// # Panics
    /// If `options` has not one entry for each column.
    #[must_use]
    pub fn new(rows: usize, width: usize, globals: usize, options: RowOptions) -> Self {
        for list in [&options.dense, &options.given_globals, &options.scale_given_globals, &options.delta] {
            assert_eq!(list.len(), width, "invariant: row options have one entry for each column");
        }
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

    /// Whether draws depend on the globals.
    #[must_use]
    pub fn depends_on_globals(&self) -> bool {
        self.given || self.scale_given
    }

    /// The number of variational parameters of a row.
    #[must_use]
    pub fn row_parameter_len(&self) -> usize {
        let w = self.width;
        let matrices = usize::from(self.given) + usize::from(self.scale_given);
        2 * w + self.lower_len() + matrices * w * self.globals
    }

    /// The number of variational parameters of all rows.
    #[must_use]
    pub fn parameter_len(&self) -> usize {
        self.rows * self.row_parameter_len()
    }

    /// Parameters with means zero, standard deviations `scale` and no dependence on the globals.
    #[must_use]
    pub fn initial(&self, scale: f64) -> Vec<f64> {
        let mut row = vec![0.0; self.row_parameter_len()];
        row[self.width..2 * self.width].fill(scale.ln());
        row.repeat(self.rows)
    }

    /// Means and standard deviations at $\delta = 0$, each `[rows, width]`.
    #[must_use]
    pub fn moments(&self, parameters: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut means = Vec::new();
        let mut deviations = Vec::new();
        for parameters in parameters.chunks_exact(self.row_parameter_len().max(1)) {
            let row = self.row(parameters);
            means.extend_from_slice(row.mean);
            for column in 0..self.width {
                let lower = if self.dense { lower_row(row.lower, column) } else { &[] };
                let norm = (1.0 + lower.iter().map(|l| l * l).sum::<f64>()).sqrt();
                deviations.push(if self.options.delta[column] { 0.0 } else { row.log_scale[column].exp() * norm });
            }
        }
        (means, deviations)
    }

    fn lower_len(&self) -> usize {
        if self.dense { self.width * (self.width - 1) / 2 } else { 0 }
    }

    fn row<'a>(&self, parameters: &'a [f64]) -> Row<'a> {
        let (mean, rest) = parameters.split_at(self.width);
        let (log_scale, rest) = rest.split_at(self.width);
        let (lower, rest) = rest.split_at(self.lower_len());
        let (linear, scale_linear) = rest.split_at(if self.given { self.width * self.globals } else { 0 });
        Row { mean, log_scale, lower, linear, scale_linear }
    }

    /// Draws the rows whose parameters are given, at `deviation` = $\delta$.
    #[must_use]
    pub fn draw(&self, parameters: &[f64], deviation: &[f64], noise: &[f64]) -> RowDraw {
        let (w, g) = (self.width, self.globals);
        let stride = self.row_parameter_len().max(1);
        let mut latent = Vec::with_capacity(noise.len());
        let mut scale = Vec::with_capacity(noise.len());
        for parameters in parameters.chunks_exact(stride) {
            let row = self.row(parameters);
            for column in 0..w {
                let range = column * g..(column + 1) * g;
                let shift = if self.given { dot(&row.linear[range.clone()], deviation) } else { 0.0 };
                let stretch = if self.scale_given { dot(&row.scale_linear[range], deviation) } else { 0.0 };
                latent.push(row.mean[column] + shift);
                scale.push(row.log_scale[column] + stretch);
            }
        }
        let mut log_density: f64 = scale.iter().zip(noise).map(|(s, e)| -s - 0.5 * e * e - HALF_LOG_TWO_PI).sum();
        if self.options.delta.contains(&true) {
            let point = self.options.delta.iter().cycle();
            let ignored = scale.iter().zip(noise).zip(point).filter(|(_, delta)| **delta);
            log_density += ignored.map(|((s, e), _)| s + 0.5 * e * e + HALF_LOG_TWO_PI).sum::<f64>();
        }
        partita_core::kernel::exponential(&mut scale);
        let (standard, whitened) = self.correlate(parameters, noise);
        let mut spread: Vec<f64> = scale.iter().zip(&standard).map(|(s, n)| s * n).collect();
        let mut score: Vec<f64> = scale.iter().zip(&whitened).map(|(s, n)| -n / s).collect();
        if self.options.delta.contains(&true) {
            for (index, (spread, score)) in spread.iter_mut().zip(&mut score).enumerate() {
                if self.options.delta[index % w] {
                    (*spread, *score) = (0.0, 0.0);
                }
            }
        }
        latent.iter_mut().zip(&spread).for_each(|(z, s)| *z += s);
        let mut draw = RowDraw { latent, log_density, score, global_score: vec![0.0; g], spread, scale };
        self.score_globals(parameters, &standard, &whitened, &mut draw);
        draw
    }

    /// $L\varepsilon$ and $L^{-\top}\varepsilon$, row by row.
    fn correlate(&self, parameters: &[f64], noise: &[f64]) -> (Vec<f64>, Vec<f64>) {
        if !self.dense {
            return (noise.to_vec(), noise.to_vec());
        }
        let stride = self.row_parameter_len();
        let mut standard = Vec::with_capacity(noise.len());
        let mut whitened = Vec::with_capacity(noise.len());
        for (parameters, noise) in parameters.chunks_exact(stride).zip(noise.chunks_exact(self.width)) {
            let row = self.row(parameters);
            standard.extend(multiply_lower(row.lower, noise));
            whitened.extend(solve_transposed(row.lower, noise));
        }
        (standard, whitened)
    }

    /// $\nabla_{Z_G} \log q = -C^\top h + S^\top(-1 + L^{-\top}\varepsilon \odot L\varepsilon)$, with $h$ the score by $Z_L$.
    fn score_globals(&self, parameters: &[f64], standard: &[f64], whitened: &[f64], draw: &mut RowDraw) {
        if !self.depends_on_globals() {
            return;
        }
        let (w, g) = (self.width, self.globals);
        for (index, parameters) in parameters.chunks_exact(self.row_parameter_len()).enumerate() {
            let row = self.row(parameters);
            for column in 0..w {
                if self.options.delta[column] {
                    continue;
                }
                let cell = index * w + column;
                let range = column * g..(column + 1) * g;
                if self.given {
                    add_scaled(&mut draw.global_score, -draw.score[cell], &row.linear[range.clone()]);
                }
                if self.scale_given {
                    let factor = whitened[cell] * standard[cell] - 1.0;
                    add_scaled(&mut draw.global_score, factor, &row.scale_linear[range]);
                }
            }
        }
    }

    /// Pulls a gradient by the draw back: adds to `out` (the rows' parameters), returns the gradient by $\delta$.
    #[must_use]
    pub fn pull_back(
        &self,
        parameters: &[f64],
        deviation: &[f64],
        (noise, draw): (&[f64], &RowDraw),
        gradient: &[f64],
        out: &mut [f64],
    ) -> Vec<f64> {
        let (w, g) = (self.width, self.globals);
        let stride = self.row_parameter_len().max(1);
        let mut by_deviation = vec![0.0; g];
        let rows = parameters.chunks_exact(stride).zip(out.chunks_exact_mut(stride));
        for (index, (parameters, out)) in rows.enumerate() {
            let row = self.row(parameters);
            let (out_mean, rest) = out.split_at_mut(w);
            let (out_log_scale, rest) = rest.split_at_mut(w);
            let (out_lower, rest) = rest.split_at_mut(self.lower_len());
            let (out_linear, out_scale_linear) = rest.split_at_mut(if self.given { w * g } else { 0 });
            let mut entries = out_lower.iter_mut();
            for column in 0..w {
                let cell = index * w + column;
                let range = column * g..(column + 1) * g;
                let by_spread = gradient[cell] * draw.spread[cell];
                out_mean[column] += gradient[cell];
                out_log_scale[column] += by_spread;
                if self.given && self.options.given_globals[column] {
                    add_scaled(&mut by_deviation, gradient[cell], &row.linear[range.clone()]);
                    add_scaled(&mut out_linear[range.clone()], gradient[cell], deviation);
                }
                if self.scale_given && self.options.scale_given_globals[column] {
                    add_scaled(&mut by_deviation, by_spread, &row.scale_linear[range.clone()]);
                    add_scaled(&mut out_scale_linear[range], by_spread, deviation);
                }
                if self.dense {
                    let noise = &noise[index * w..index * w + column];
                    for (other, (slot, e)) in entries.by_ref().take(column).zip(noise).enumerate() {
                        if self.options.dense[column] && self.options.dense[other] && !self.options.delta[column] {
                            *slot += gradient[cell] * draw.scale[cell] * e;
                        }
                    }
                }
            }
        }
        by_deviation
    }

    /// Adds `weight` times the gradient of $\sum (\rho + S\delta)$ to `out`; returns its gradient by $\delta$.
    ///
    /// That sum is the part of $-\log q$ that depends on parameters along the draw. With `expected`, the gradient is
    /// that of its expectation $\sum\rho$, since $E\,\delta = 0$.
    #[must_use]
    pub fn add_entropy_gradient(
        &self,
        parameters: &[f64],
        deviation: &[f64],
        (weight, expected): (f64, bool),
        out: &mut [f64],
    ) -> Vec<f64> {
        let (w, g) = (self.width, self.globals);
        let stride = self.row_parameter_len().max(1);
        let mut by_deviation = vec![0.0; g];
        for (parameters, out) in parameters.chunks_exact(stride).zip(out.chunks_exact_mut(stride)) {
            let start = stride - if self.scale_given { w * g } else { 0 };
            for column in (0..w).filter(|&column| !self.options.delta[column]) {
                out[w + column] += weight;
                if self.scale_given && !expected && self.options.scale_given_globals[column] {
                    let range = start + column * g..start + (column + 1) * g;
                    add_scaled(&mut by_deviation, weight, &parameters[range.clone()]);
                    add_scaled(&mut out[range], weight, deviation);
                }
            }
        }
        by_deviation
    }

    /// The expected entropy of the rows whose parameters are given, $\sum\rho + \tfrac n2(1+\log 2\pi)$, in nats.
    #[must_use]
    pub fn entropy(&self, parameters: &[f64]) -> f64 {
        let stride = self.row_parameter_len().max(1);
        parameters
            .chunks_exact(stride)
            .flat_map(|row| row[self.width..2 * self.width].iter().zip(&self.options.delta))
            .filter(|(_, delta)| !**delta)
            .map(|(log_scale, _)| log_scale + 0.5 + HALF_LOG_TWO_PI)
            .sum()
    }
}

#[inline]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[inline]
fn add_scaled(out: &mut [f64], factor: f64, values: &[f64]) {
    out.iter_mut().zip(values).for_each(|(slot, value)| *slot += factor * value);
}
