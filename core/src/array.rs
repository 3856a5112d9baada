//! Holds numbers on the host: the values and the shape of a tensor once read from its device.

use crate::error::{Error, Result};

/// Numbers on the host in row-major order, always in f64.
///
/// # Shapes
/// `values.len()` is the product of `shape`; a scalar has shape `[1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The numbers, row-major.
    pub values: Vec<f64>,
    /// The length of each dimension.
    pub shape: Vec<usize>,
}

impl Array {
    /// Makes an array of `values` with `shape`.
    ///
    /// # Errors
    /// [`Error::Length`] if the number of values is not the product of `shape`.
    ///
    /// # Example
    /// ```
    /// let array = partita_core::Array::new(vec![1.0, 2.0, 3.0], vec![3])?;
    /// assert_eq!(array.values[2], 3.0);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn new(values: Vec<f64>, shape: Vec<usize>) -> Result<Self> {
        let (expected, remedy) = (shape.iter().product(), "Give one value for each cell of the shape.");
        Error::same_length(format_args!("array of shape {shape:?}"), values.len(), expected, remedy)?;
        Ok(Self { values, shape })
    }

    /// Makes an array of shape `[1]`.
    #[must_use]
    pub fn scalar(value: f64) -> Self {
        Self { values: vec![value], shape: vec![1] }
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
