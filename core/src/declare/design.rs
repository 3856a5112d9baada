//! Holds a constant design matrix and multiplies it by coefficients as one node of the tape.

mod on_device;

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::array::Array;
use crate::declare::rows::Rows;
use crate::declare::uploaded::Uploaded;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::kernel::{add_scaled, dot};
use crate::math::operation;

/// A constant design: for each row, `repeats` measurements of `columns` covariates.
///
/// $$ \eta_{rt} = \sum_k x_{rtk}\thinspace \beta_k + b_r $$
/// with $\beta$ = `coefficients` and $b$ = `intercepts`. A plain regression has one measurement a row.
///
/// # Shapes
/// `[rows, repeats, columns]`, given row-major; predictors have shape `[rows, repeats]`.
///
/// # Example
/// ```
/// use partita_core::{Design, Device};
/// let device = Device::flex();
/// let design = Design::new(vec![1.0, 2.0, 3.0, 4.0], [2, 1, 2])?;
/// let predictor = design.predictor(device.tensor(vec![10.0, 1.0], [2]), None)?;
/// assert_eq!(predictor.into_data().try_into_vec::<f64>().unwrap(), [12.0, 34.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Design {
    /// Column by column, so that every loop runs over contiguous numbers.
    values: Arc<Vec<f64>>,
    shape: [usize; 3],
    uploaded: Arc<Uploaded<Tensor<2>>>,
    /// The rows taken, where rows are taken on the device; `values` are then those of all rows.
    taken: Option<on_device::Taken>,
}

impl Design {
    /// Makes a design of row-major `values`.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not one value a cell, [`Error::NotFinite`] for NaN or infinite values.
    pub fn new(values: Vec<f64>, shape: [usize; 3]) -> Result<Self> {
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite { operation: "design matrix".into(), found: values[index], index });
        }
        let given = Array::new(values, shape.to_vec())?.values;
        let columns = shape[2];
        let by_column = (0..columns).flat_map(|column| given.iter().skip(column).step_by(columns)).copied().collect();
        Ok(Self { values: Arc::new(by_column), shape, uploaded: Arc::default(), taken: None })
    }

    /// The shape `[rows, repeats, columns]`.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The rows of a plate's evaluation.
    ///
    /// # Errors
    /// [`Error::Shape`] if the plate's total is not the design's number of rows.
    pub fn take(&self, rows: &Rows<'_>) -> Result<Self> {
        let [found, repeats, columns] = self.shape;
        if found != rows.total() {
            return Err(Error::Shape {
                operation: "rows of a design".into(),
                found: self.shape.to_vec(),
                expected: vec![rows.total(), repeats, columns],
                remedy: "Give the plate as many rows as the design has.".into(),
            });
        }
        if rows.on_device {
            return Ok(self.take_on_device(rows));
        }
        match rows.gather(&self.values, |chosen| self.gather(chosen)) {
            Some(values) => {
                Ok(Self { values, shape: [rows.len(), repeats, columns], uploaded: Arc::default(), taken: None })
            }
            None => Ok(self.clone()),
        }
    }

    /// The cells of these rows, column by column.
    fn gather(&self, chosen: &[usize]) -> Vec<f64> {
        let [found, repeats, columns] = self.shape;
        let mut values = Vec::with_capacity(chosen.len() * repeats * columns);
        for column in self.values.chunks_exact((found * repeats).max(1)) {
            match repeats {
                1 => values.extend(chosen.iter().map(|&row| column[row])),
                _ => {
                    chosen.iter().for_each(|&row| values.extend_from_slice(&column[row * repeats..(row + 1) * repeats]))
                }
            }
        }
        values
    }

    /// The linear predictor, with an intercept for each row where given.
    ///
    /// # Shapes
    /// `coefficients`: `[columns]`; `intercepts`: `[rows]`. Returns `[rows, repeats]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for coefficients or intercepts of other shapes.
    pub fn predictor(&self, coefficients: Tensor<1>, intercepts: Option<Tensor<1>>) -> Result<Tensor<2>> {
        let [rows, repeats, columns] = self.shape;
        check("coefficients", coefficients.dims()[0], columns)?;
        if let Some(intercepts) = &intercepts {
            check("intercepts", intercepts.dims()[0], rows)?;
        }
        if let Some(taken) = &self.taken {
            return Ok(self.predictor_on_device(taken, coefficients, intercepts));
        }
        let values = Arc::clone(&self.values);
        let inputs = [Some(Handle::from(coefficients)), intercepts.map(Handle::from)];
        let output = operation::apply_with_constants(inputs, move |[beta, intercepts], wanted| {
            let eta = multiply(&values, &beta.unwrap_or_default(), intercepts.as_deref(), [rows, repeats, columns]);
            let value = Array { values: eta, shape: vec![rows, repeats] };
            (value, Box::new(move |gradient| vjp(&values, gradient, [rows, repeats, columns], wanted)))
        })?;
        Ok(output.typed())
    }
}

/// Numbers of a column that are multiplied at a time: their predictors stay in the first-level cache.
const TILE: usize = 2_048;

fn check(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Shape {
        operation: format!("{what} of a linear predictor"),
        found: vec![found],
        expected: vec![expected],
        remedy: "One coefficient a column of the design, one intercept a row.".into(),
    })
}

fn multiply(values: &[f64], beta: &[f64], intercepts: Option<&[f64]>, [rows, repeats, _]: [usize; 3]) -> Vec<f64> {
    let mut eta = vec![0.0; rows * repeats];
    if let Some(intercepts) = intercepts {
        eta.chunks_exact_mut(repeats.max(1)).zip(intercepts).for_each(|(row, intercept)| row.fill(*intercept));
    }
    for (tile, start) in eta.chunks_mut(TILE).zip((0..).step_by(TILE)) {
        for (column, coefficient) in values.chunks_exact((rows * repeats).max(1)).zip(beta) {
            add_scaled(tile, *coefficient, &column[start..start + tile.len()]);
        }
    }
    eta
}

fn vjp(values: &[f64], gradient: &[f64], [rows, repeats, columns]: [usize; 3], wanted: [bool; 2]) -> Vec<Vec<f64>> {
    let mut results = Vec::with_capacity(2);
    if wanted[0] {
        let mut by_coefficient = vec![0.0; columns];
        for (tile, start) in gradient.chunks(TILE).zip((0..).step_by(TILE)) {
            for (sum, column) in by_coefficient.iter_mut().zip(values.chunks_exact((rows * repeats).max(1))) {
                *sum += dot(&column[start..start + tile.len()], tile);
            }
        }
        results.push(by_coefficient);
    }
    if wanted[1] {
        results.push(gradient.chunks_exact(repeats.max(1)).map(|row| row.iter().sum()).collect());
    }
    results
}
