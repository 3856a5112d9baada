//! Reads a report back from the file that a fit wrote of it.

use std::path::Path;

use super::Report;
use crate::engine::error::{Error, Result};

impl Report {
    /// Reads what [`Report::write_json`] wrote.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read, and one that is no report of this version.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, Report, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../../doc/mean.md")]
    ///
    /// let device = Device::flex();
    /// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
    /// let own = fit(&Mean {}, &silos, &device, &FitOptions::default(), None)?;
    /// let folder = tempfile::tempdir()?;
    /// own.report.write_json(&folder.path().join("result.json"))?;
    /// let read = Report::read_json(&folder.path().join("result.json"))?;
    /// assert_eq!(read.to_string(), own.report.to_string());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_json(path: &Path) -> Result<Self> {
        let wrong = |reason: String| Error::File { operation: "reading the report", path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| wrong(format!("it is no report of this version ({error})")))
    }
}
