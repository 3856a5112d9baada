//! Holds a constant sparse matrix of covariates or counts and multiplies it by coefficients as one node of the tape.

mod by_column;
mod entries;
mod low_rank_multinomial;
mod on_device;

pub use low_rank_multinomial::low_rank_multinomial;

use std::sync::Arc;

use burn::tensor::Tensor;
use rayon::prelude::*;

use self::by_column::ByColumn;
use self::entries::Entries;
use crate::array::Array;
use crate::declare::rows::Rows;
use crate::declare::uploaded::Uploaded;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::kernel::{sparse_columns, sparse_product, sparse_transposed};
use crate::math::operation;
use crate::math::parts::fill_in_parts;

/// A constant matrix with many zeros, row by row: bag-of-words counts, pixels, one-hot codes.
///
/// It is never expanded to a dense `rows × columns` matrix. Products read three bytes an entry instead of twelve if
/// there are at most 65,536 columns and 256 different values, as for pixels and small counts.
///
/// # Example
/// ```
/// use partita_core::{Device, SparseRows};
/// let rows = SparseRows::new(&[vec![(0, 1.0), (2, 3.0)], vec![(1, 2.0)]], 3)?;
/// let weights = Device::flex().tensor(vec![1.0, 10.0, 100.0], [3, 1]);
/// assert_eq!(rows.multiply(weights)?.into_data().try_into_vec::<f64>().unwrap(), [301.0, 20.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows {
    entries: Arc<Entries>,
    columns: usize,
    by_column: Arc<ByColumn>,
    /// Whether products stay on the device.
    on_device: bool,
    uploaded: Arc<Uploaded<on_device::Uploads>>,
}

/// Rows of a product that one thread makes at a time.
const PART: usize = 1_024;

impl SparseRows {
    fn of(entries: Entries, columns: usize) -> Self {
        let (by_column, uploaded) = Default::default();
        Self { entries: Arc::new(entries), columns, by_column, on_device: false, uploaded }
    }

    /// A matrix of `columns` columns from the entries (column, value) of each row, in any order.
    ///
    /// # Errors
    /// [`Error::Argument`] for a column out of range or named twice in a row, [`Error::NotFinite`] for a value that is
    /// not finite.
    pub fn new(rows: &[Vec<(u32, f64)>], columns: usize) -> Result<Self> {
        let count = rows.iter().map(Vec::len).sum();
        let mut starts = Vec::with_capacity(rows.len() + 1);
        let (mut places, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count));
        starts.push(0);
        let mut sorted = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            sorted.clone_from(row);
            sorted.sort_unstable_by_key(|(column, _)| *column);
            let twice = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0);
            let outside = sorted.last().filter(|(column, _)| *column as usize >= columns).map(|(column, _)| *column);
            if let Some(column) = twice.or(outside) {
                return Err(Error::Argument {
                    operation: "sparse rows".into(),
                    argument: "column",
                    found: format!("{column} in row {index} of a matrix of {columns} columns"),
                    expected: "each column below the number of columns and once a row; add up repeated entries first",
                });
            }
            for (column, value) in &sorted {
                if !value.is_finite() {
                    return Err(Error::NotFinite { operation: "sparse rows".into(), found: *value, index });
                }
                places.push(*column);
                values.push(*value);
            }
            starts.push(places.len());
        }
        Ok(Self::of(Entries::new(starts, places, values), columns))
    }

    /// The non-zero entries of a dense row-major matrix of `shape` `[rows, columns]`.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not one value a cell; [`Error::NotFinite`].
    pub fn from_dense(values: &[f64], [rows, columns]: [usize; 2]) -> Result<Self> {
        Error::same_length("sparse rows", values.len(), rows * columns, "Give one value for each cell, row by row.")?;
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite { operation: "sparse rows".into(), found: values[index], index });
        }
        let (mut starts, mut places, mut kept) = (vec![0; rows + 1], Vec::new(), Vec::new());
        for (row, end) in values.chunks_exact(columns.max(1)).zip(&mut starts[1..]) {
            for (column, value) in (0_u32..).zip(row).filter(|(_, value)| **value != 0.0) {
                places.push(column);
                kept.push(*value);
            }
            *end = places.len();
        }
        Ok(Self::of(Entries::new(starts, places, kept), columns))
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.entries.starts.len() - 1
    }

    /// The number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of entries kept.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.values.len()
    }

    /// The columns (ascending) and values of one row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> (&[u32], &[f64]) {
        let range = self.entries.starts[row]..self.entries.starts[row + 1];
        (&self.entries.columns[range.clone()], &self.entries.values[range])
    }

    /// These rows, in this order.
    ///
    /// # Errors
    /// [`Error::Argument`] for an index out of range.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|row| **row >= self.rows()) {
            return Err(Error::argument("rows of a sparse matrix", "row", row, "indices below the number of rows"));
        }
        Ok(Self { on_device: self.on_device, ..Self::of(self.entries.select(rows), self.columns) })
    }

    /// The rows of a plate's evaluation.
    ///
    /// # Errors
    /// [`Error::Shape`] if the plate's total is not the matrix's number of rows.
    pub fn take(&self, rows: &Rows<'_>) -> Result<Self> {
        let (found, expected) = ([self.rows(), self.columns()], [rows.total(), self.columns()]);
        let remedy = "Give the plate as many rows as the matrix has.";
        Error::same_shape("rows of a sparse matrix", &found, &expected, remedy)?;
        rows.note(|row, noted| self.entries.note(row, noted));
        let taken = match rows.chosen.as_deref() {
            Some(chosen) => Self { by_column: Arc::new(ByColumn::Never), ..self.select(chosen)? },
            None => self.clone(),
        };
        Ok(Self { on_device: rows.on_device, ..taken })
    }

    /// The matrix product with coefficients: one node of the tape.
    ///
    /// ```math
    /// \eta_{rk} = \sum_c x_{rc}\thinspace w_{ck}
    /// ```
    /// with $`w`$ = `coefficients`.
    ///
    /// # Shapes
    /// `coefficients`: `[columns, k]`. Returns `[rows, k]`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the coefficients have one row for each column of the matrix.
    pub fn multiply(&self, coefficients: Tensor<2>) -> Result<Tensor<2>> {
        self.predictor(coefficients, None)
    }

    /// The linear predictor: the product with coefficients, and an intercept for each output, as one node of the tape.
    ///
    /// ```math
    /// \eta_{rk} = b_k + \sum_c x_{rc}\thinspace w_{ck}
    /// ```
    /// with $`w`$ = `coefficients` and $`b`$ = `intercepts`.
    ///
    /// # Shapes
    /// `coefficients`: `[columns, k]`; `intercepts`: `[k]`. Returns `[rows, k]`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the coefficients have one row for each column of the matrix, and the intercepts one
    /// number for each column of the coefficients.
    pub fn predictor(&self, coefficients: Tensor<2>, intercepts: Option<Tensor<1>>) -> Result<Tensor<2>> {
        let [found, outputs] = coefficients.dims();
        let (product, expected) = ("product of sparse rows with coefficients", [self.columns(), outputs]);
        let remedy = "Give one row of coefficients for each column of the matrix.";
        Error::same_shape(product, &[found, outputs], &expected, remedy)?;
        if let Some(intercepts) = &intercepts {
            let remedy = "Give one intercept for each column of the coefficients.";
            Error::same_shape("intercepts of a linear predictor", &intercepts.dims(), &[outputs], remedy)?;
        }
        if self.on_device {
            return Ok(self.predictor_on_device(coefficients, intercepts));
        }
        operation::computes_on_host("SparseRows::predictor");
        let (matrix, rows) = (self.clone(), self.rows());
        let inputs = [Some(Handle::from(coefficients)), intercepts.map(Handle::from)];
        let output = operation::apply_with_constants(inputs, move |[weights, intercepts], wanted| {
            let intercepts = intercepts.unwrap_or_else(|| vec![0.0; outputs]);
            let eta = matrix.product(&weights.unwrap_or_default(), &intercepts);
            let value = Array { values: eta, shape: vec![rows, outputs] };
            (value, Box::new(move |gradient| matrix.vjp(gradient, outputs, wanted)))
        })?;
        Ok(output.typed())
    }

    /// The product plus intercepts, in parts of fixed length on all threads.
    fn product(&self, weights: &[f64], intercepts: &[f64]) -> Vec<f64> {
        let (starts, view, outputs) = (&self.entries.starts, self.entries.view(), intercepts.len());
        let mut eta = vec![0.0; self.rows() * outputs];
        let parts = eta.par_chunks_mut((PART * outputs).max(1)).enumerate();
        parts.for_each(|(part, eta)| {
            let first = part * PART;
            let last = (first + PART).min(self.rows());
            sparse_product(&starts[first..=last], view, weights, intercepts, eta);
        });
        eta
    }

    /// The transpose times a gradient: where the entries are kept by column, in parts on all threads, with the same bits.
    fn by_coefficients(&self, gradient: &[f64], outputs: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.columns * outputs];
        let threads = rayon::current_num_threads();
        // Each part copies the gradients: no more parts than keep threads busy.
        let part = if threads == 1 { self.columns } else { self.columns.div_ceil(2 * threads) };
        match self.by_column.view(&self.entries, self.columns, 0..self.columns) {
            None => sparse_transposed(&self.entries.starts, self.entries.view(), gradient, outputs, &mut sums),
            Some(blocks) if part == self.columns || outputs == 0 => {
                sparse_columns(&blocks, gradient, outputs, &mut sums);
            }
            Some(_) => {
                let (matrix, gradient) = (self.clone(), gradient.to_vec());
                fill_in_parts(&mut sums, part * outputs, move |index, sums| {
                    let first = index * part;
                    let own = first..first + sums.len() / outputs;
                    if let Some(blocks) = matrix.by_column.view(&matrix.entries, matrix.columns, own) {
                        sparse_columns(&blocks, &gradient, outputs, sums);
                    }
                });
            }
        }
        sums
    }

    /// The gradients by coefficients and by intercepts, as far as `wanted`.
    fn vjp(&self, gradient: &[f64], outputs: usize, wanted: [bool; 2]) -> Vec<Vec<f64>> {
        let mut results = Vec::with_capacity(2);
        if wanted[0] {
            results.push(self.by_coefficients(gradient, outputs));
        }
        if wanted[1] {
            let mut sums = vec![0.0; outputs];
            for row in gradient.chunks_exact(outputs.max(1)) {
                sums.iter_mut().zip(row).for_each(|(slot, gradient)| *slot += gradient);
            }
            results.push(sums);
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{bits, scattered};

    #[test]
    fn gradients_by_coefficients_have_the_same_bits_for_any_number_of_threads() {
        let (shape, outputs) = ([600, 57], 3);
        let dense = scattered(shape[0] * shape[1], -1.0, 1.0).into_iter().map(|number| number.max(0.3) - 0.3);
        let matrix = SparseRows::from_dense(&dense.collect::<Vec<f64>>(), shape).unwrap();
        let gradient = scattered(shape[0] * outputs, -2.0, 1.0);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| matrix.by_coefficients(&gradient, outputs))
        };
        let alone = on(1);
        (0..10).for_each(|_| assert_eq!([bits(&on(2)), bits(&on(5))], [bits(&alone), bits(&alone)]));
        let mut expected = vec![0.0; alone.len()];
        for (row, gradient) in gradient.chunks_exact(outputs).enumerate() {
            let (columns, values) = matrix.row(row);
            for (column, value) in columns.iter().zip(values) {
                let sums = &mut expected[*column as usize * outputs..][..outputs];
                sums.iter_mut().zip(gradient).for_each(|(sum, gradient)| *sum += value * gradient);
            }
        }
        assert!(alone.iter().zip(&expected).all(|(own, expected)| (own - expected).abs() < 1e-12));
    }
}
