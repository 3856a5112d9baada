//! Gives the row-wise Gaussian family of local latents, linear in the globals and in the rows that rows belong to.

mod draw;
mod marginal;
mod options;

pub use draw::{RowDraw, RowGradient, RowInputs, RowReach};
pub use marginal::{MarginalOver, OuterMarginals, RowMarginals};
pub use options::RowOptions;

use crate::engine::optimiser::RowPlaces;
use crate::engine::trainer::units::power_of_two;

/// Independent Gaussian blocks, one a row, given the globals and the rows that they belong to.
///
/// $$ Z_r = \mu_r + C_r\thinspace \delta + D_r\thinspace o_r + e^{\rho_r + S_r \delta} \odot L_r \varepsilon_r, \qquad
/// \delta = Z_G - \mu_G $$ with $L_r$ lower unit-triangular. $C_r$ exists where `given_globals`, $S_r$ where
/// `scale_given_globals`, and $D_r$ where `given_outer` in a family [inside](RowGaussian::inside) another: $o_r$ is what
/// the outer row of $r$, drawn before, deviates from its mean parameter. There is never a matrix over all rows.
///
/// # Shapes
/// Parameters of $n$ rows of $w$ latents: $[\mu\ (n, w),\ \rho\ (n, w),\ L\ (n, w(w-1)/2),\ C\ (n_G, n, w),\
/// S\ (n_G, n, w),\ D\ (w_o, n, w)]$, one array after another, so that every loop runs over contiguous cells; draws
/// and noise `[rows, width]`, row-major.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), section 3.1 (mean linear in $Z_G$); Tan, Bhaskaran and Nott (2020) for the
/// scale.
#[derive(Debug, Clone)]
pub struct RowGaussian {
    rows: usize,
    width: usize,
    globals: usize,
    /// The width of an outer row.
    outer: usize,
    options: RowOptions,
    dense: bool,
    given: bool,
    scale_given: bool,
    given_outer: bool,
}

/// The parameters of some rows, taken apart.
struct Parts<'a> {
    mean: &'a [f64],
    log_scale: &'a [f64],
    lower: &'a [f64],
    linear: &'a [f64],
    scale_linear: &'a [f64],
    outer_linear: &'a [f64],
}

/// The same, to be written.
struct PartsMut<'a> {
    mean: &'a mut [f64],
    log_scale: &'a mut [f64],
    lower: &'a mut [f64],
    linear: &'a mut [f64],
    scale_linear: &'a mut [f64],
    outer_linear: &'a mut [f64],
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
        let RowOptions { dense, given_globals, scale_given_globals, given_outer, delta } = &options;
        for list in [dense, given_globals, scale_given_globals, given_outer, delta] {
            assert_eq!(list.len(), width, "invariant: row options have one entry for each column");
        }
        options.dense.iter_mut().zip(&options.delta).for_each(|(dense, delta)| *dense &= !delta);
        let dense = options.dense.iter().filter(|dense| **dense).count() > 1;
        let given = options.given_globals.contains(&true) && globals > 0;
        let scale_given = options.scale_given_globals.contains(&true) && globals > 0;
        Self { rows, width, globals, outer: 0, options, dense, given, scale_given, given_outer: false }
    }

    /// The same rows inside rows of `outer` latents: the columns that are `given_outer` depend on them.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{RowGaussian, RowOptions};
    /// let options = RowOptions { given_outer: vec![true], ..RowOptions::independent(1) };
    /// let visits = RowGaussian::new(3, 1, 0, options).inside(2);
    /// // Mean, log-scale, and one slope for each number of the outer row.
    /// assert_eq!(visits.row_parameter_len(), 4);
    /// ```
    #[must_use]
    pub fn inside(self, outer: usize) -> Self {
        let given_outer = self.options.given_outer.contains(&true) && outer > 0;
        Self { outer, given_outer, ..self }
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

    /// The number of latents of an outer row; zero where rows belong to none.
    #[must_use]
    pub fn outer(&self) -> usize {
        self.outer
    }

    /// Whether draws depend on the outer rows.
    #[must_use]
    pub fn depends_on_outer(&self) -> bool {
        self.given_outer
    }

    /// The number of variational parameters of a row.
    #[must_use]
    pub fn row_parameter_len(&self) -> usize {
        2 * self.width + self.lower_len() + self.columns() * self.width
    }

    /// The numbers that each latent has a slope for: globals by mean and by scale, and those of the outer row.
    fn columns(&self) -> usize {
        let matrices = usize::from(self.given) + usize::from(self.scale_given);
        matrices * self.globals + if self.given_outer { self.outer } else { 0 }
    }

    /// The number of variational parameters of all rows.
    #[must_use]
    pub fn parameter_len(&self) -> usize {
        self.rows * self.row_parameter_len()
    }

    /// Parameters with means zero, standard deviations `scale` and no dependence on globals and outer rows.
    #[must_use]
    pub fn initial(&self, scale: f64) -> Vec<f64> {
        let cells = self.rows * self.width;
        let mut parameters = vec![0.0; self.parameter_len()];
        parameters[cells..2 * cells].fill(scale.ln());
        parameters
    }

    /// [`RowGaussian::initial`] with means and standard deviations of its own for each latent, both `[rows, width]`.
    pub(crate) fn initial_at(&self, [means, scales]: [&[f64]; 2]) -> Vec<f64> {
        let mut parameters = self.initial(1.0);
        parameters[..means.len()].copy_from_slice(means);
        parameters[means.len()..].iter_mut().zip(scales).for_each(|(slot, scale)| *slot = scale.ln());
        parameters
    }

    /// The units in which these parameters move at an adaptive rate: of slopes by globals the standard deviation of the
    /// latent, of means too, or their distance from where they started if that is longer, of the rest one. So a row that
    /// minibatches seldom visit is not long on its way.
    pub(crate) fn units(&self, parameters: &[f64], start: &[f64]) -> Vec<f64> {
        let parts = self.parts(parameters);
        let sds: Vec<f64> = parts.log_scale.iter().map(|log_scale| power_of_two(log_scale.exp())).collect();
        let distances = parameters.iter().zip(start).map(|(mean, start)| (mean - start).abs());
        let longer = |(sd, far): (&f64, f64)| if far > *sd { power_of_two(far) } else { *sd };
        let mut units: Vec<f64> = sds.iter().zip(distances).map(longer).collect();
        units.resize(2 * sds.len() + parts.lower.len(), 1.0);
        units.extend(sds.iter().cycle().take(parts.linear.len()));
        units.resize(parameters.len(), 1.0);
        units
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
        let mut widths = vec![self.width, self.width, self.lower_len()];
        widths.extend(std::iter::repeat_n(self.width, self.columns()));
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

    /// Numbers of each array in the layout of `rows` rows, the last of which takes what is left.
    fn lengths(&self, parameters: &[f64]) -> [usize; 5] {
        let (rows, cells) = self.extent(parameters);
        let of = |given: bool| if given { cells * self.globals } else { 0 };
        [cells, cells, rows * self.lower_len(), of(self.given), of(self.scale_given)]
    }

    fn parts<'a>(&self, parameters: &'a [f64]) -> Parts<'a> {
        let mut rest = parameters;
        let [mean, log_scale, lower, linear, scale_linear] = self.lengths(parameters).map(|length| {
            let (own, after) = rest.split_at(length);
            rest = after;
            own
        });
        Parts { mean, log_scale, lower, linear, scale_linear, outer_linear: rest }
    }

    fn parts_mut<'a>(&self, parameters: &'a mut [f64]) -> PartsMut<'a> {
        let lengths = self.lengths(parameters);
        let mut rest = parameters;
        let [mean, log_scale, lower, linear, scale_linear] = lengths.map(|length| {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(length);
            rest = after;
            own
        });
        PartsMut { mean, log_scale, lower, linear, scale_linear, outer_linear: rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_standard_deviation_for_means_and_their_slopes_the_way_from_the_start_where_it_is_longer() {
        let options = RowOptions { given_globals: vec![true], ..RowOptions::independent(1) };
        let family = RowGaussian::new(2, 1, 2, options);
        let parameters = [3.0, -1.0, 4.0_f64.ln(), 0.25_f64.ln(), 0.0, 0.0, 0.0, 0.0];
        assert_eq!(family.units(&parameters, &[3.0, -1.0]), [4.0, 0.25, 1.0, 1.0, 4.0, 0.25, 4.0, 0.25]);
        assert_eq!(family.units(&parameters, &[2.0, 7.0])[..2], [4.0, 8.0]);
    }
}
