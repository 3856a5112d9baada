//! Holds a constant sparse matrix of covariates or counts and multiplies it by coefficients as one node of the tape.

mod on_device;

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::kernel::add_scaled;
use crate::operation;
use crate::rows::Rows;
use crate::uploaded::Uploaded;

/// A constant matrix with many zeros, row by row: bag-of-words counts, pixels, one-hot codes.
///
/// It is never expanded to a dense `rows × columns` matrix.
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
    content: Arc<Content>,
    /// Whether products are to stay on the device.
    on_device: bool,
}

#[derive(Debug, PartialEq)]
struct Content {
    /// Row r has the entries `starts[r]..starts[r + 1]`.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
    width: usize,
    uploaded: Uploaded<on_device::Entries>,
}

impl SparseRows {
    /// A matrix of `columns` columns from the entries (column, value) of each row, in any order.
    ///
    /// # Errors
    /// [`Error::Argument`] for a column out of range or named twice in a row, [`Error::NotFinite`] for a value that is not.
    pub fn new(rows: &[Vec<(u32, f64)>], columns: usize) -> Result<Self> {
        let count = rows.iter().map(Vec::len).sum();
        let mut content = Content {
            starts: Vec::with_capacity(rows.len() + 1),
            columns: Vec::with_capacity(count),
            values: Vec::with_capacity(count),
            width: columns,
            uploaded: Uploaded::default(),
        };
        content.starts.push(0);
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
                content.columns.push(*column);
                content.values.push(*value);
            }
            content.starts.push(content.columns.len());
        }
        Ok(Self { content: Arc::new(content), on_device: false })
    }

    /// The entries that are not zero of a dense row-major matrix of `shape` `[rows, columns]`.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not one value a cell; [`Error::NotFinite`].
    pub fn from_dense(values: &[f64], [rows, columns]: [usize; 2]) -> Result<Self> {
        if values.len() != rows * columns {
            return Err(Error::Length {
                operation: "sparse rows".into(),
                found: values.len(),
                expected: rows * columns,
                remedy: "Give one value for each cell, row by row.".into(),
            });
        }
        let entries = |row: &[f64]| (0_u32..).zip(row.iter().copied()).filter(|(_, value)| *value != 0.0).collect();
        let rows: Vec<Vec<(u32, f64)>> = values.chunks_exact(columns.max(1)).map(entries).collect();
        Self::new(&rows, columns)
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.content.starts.len() - 1
    }

    /// The number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.content.width
    }

    /// The number of entries kept.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.content.values.len()
    }

    /// The columns (ascending) and values of one row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> (&[u32], &[f64]) {
        let range = self.content.starts[row]..self.content.starts[row + 1];
        (&self.content.columns[range.clone()], &self.content.values[range])
    }

    /// These rows, in this order.
    ///
    /// # Errors
    /// [`Error::Argument`] for a row there is not.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|row| **row >= self.rows()) {
            return Err(Error::Argument {
                operation: "rows of a sparse matrix".into(),
                argument: "row",
                found: row.to_string(),
                expected: "indices below the number of rows",
            });
        }
        let count = rows.iter().map(|&row| self.content.starts[row + 1] - self.content.starts[row]).sum();
        let mut content = Content {
            starts: Vec::with_capacity(rows.len() + 1),
            columns: Vec::with_capacity(count),
            values: Vec::with_capacity(count),
            width: self.content.width,
            uploaded: Uploaded::default(),
        };
        content.starts.push(0);
        for &row in rows {
            let (columns, values) = self.row(row);
            content.columns.extend_from_slice(columns);
            content.values.extend_from_slice(values);
            content.starts.push(content.columns.len());
        }
        Ok(Self { content: Arc::new(content), on_device: self.on_device })
    }

    /// The rows of a plate's evaluation.
    ///
    /// # Errors
    /// [`Error::Shape`] if the plate's total is not the matrix's number of rows.
    pub fn take(&self, rows: &Rows<'_>) -> Result<Self> {
        if self.rows() != rows.total() {
            return Err(Error::Shape {
                operation: "rows of a sparse matrix".into(),
                found: vec![self.rows(), self.columns()],
                expected: vec![rows.total(), self.columns()],
                remedy: "Give the plate as many rows as the matrix has.".into(),
            });
        }
        let taken = rows.indices().map_or_else(|| Ok(self.clone()), |chosen| self.select(chosen))?;
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
    /// [`Error::Shape`] if the coefficients have not one row a column of the matrix.
    pub fn multiply(&self, coefficients: Tensor<2>) -> Result<Tensor<2>> {
        let [found, outputs] = coefficients.dims();
        if found != self.columns() {
            return Err(Error::Shape {
                operation: "product of sparse rows with coefficients".into(),
                found: vec![found, outputs],
                expected: vec![self.columns(), outputs],
                remedy: "Give one row of coefficients for each column of the matrix.".into(),
            });
        }
        if self.on_device {
            return Ok(self.multiply_on_device(coefficients));
        }
        let matrix = self.clone();
        let output = operation::apply(
            vec![Handle::from(coefficients)],
            Box::new(move |arrays| {
                let weights = arrays.into_iter().next().map(|array| array.values).unwrap_or_default();
                let mut eta = vec![0.0; matrix.rows() * outputs];
                matrix.content.forward(&weights, outputs, &mut eta);
                let value = Array { values: eta, shape: vec![matrix.rows(), outputs] };
                let back = move |gradient: &[f64]| {
                    let mut weights = vec![0.0; matrix.columns() * outputs];
                    matrix.content.backward(gradient, outputs, &mut weights);
                    vec![weights]
                };
                (value, Box::new(back))
            }),
        );
        Ok(output.typed())
    }
}

impl Content {
    fn forward(&self, weights: &[f64], outputs: usize, eta: &mut [f64]) {
        for (row, out) in eta.chunks_exact_mut(outputs.max(1)).enumerate() {
            for entry in self.starts[row]..self.starts[row + 1] {
                let column = self.columns[entry] as usize;
                add_scaled(out, self.values[entry], &weights[column * outputs..(column + 1) * outputs]);
            }
        }
    }

    fn backward(&self, gradient: &[f64], outputs: usize, weights: &mut [f64]) {
        for (row, own) in gradient.chunks_exact(outputs.max(1)).enumerate() {
            for entry in self.starts[row]..self.starts[row + 1] {
                let column = self.columns[entry] as usize;
                add_scaled(&mut weights[column * outputs..(column + 1) * outputs], self.values[entry], own);
            }
        }
    }
}
