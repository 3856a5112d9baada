//! Writes draws for ArviZ, where this program was built with such files.

use std::path::Path;

use partita_core::{Device, Model};
use partita_inference::{Algorithm, Fit, Fitted, NutsFit, Verdict};

use crate::formula::StudyError;

/// The name of the file.
pub(crate) const DRAWS: &str = "draws.zarr";

/// Refuses the request where no such file can be written, before anything is fitted.
pub(crate) fn check() -> Result<(), StudyError> {
    if cfg!(feature = "arviz") {
        return Ok(());
    }
    Err(StudyError::Unfit {
        operation: "draws for ArviZ",
        found: "a program that was built without the feature `arviz`".into(),
        expected: "one with it".into(),
        remedy: "Install it with `--features cli,arviz`, or leave `--arviz` out.".into(),
    })
}

/// Writes the draws of a fit in one process, with the rows of these silos.
#[cfg_attr(not(feature = "arviz"), allow(unused_variables, reason = "nothing is written without it"))]
pub(crate) fn write<M: Model>(
    fit: &Fit,
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    path: &Path,
) -> Result<(), StudyError> {
    #[cfg(feature = "arviz")]
    fit.write_arviz(path, model, device, &of_rows(silos)).map_err(StudyError::Inference)?;
    check()
}

/// Writes the draws of a sampler, with the rows of these silos and the verdict of its report.
#[cfg_attr(not(feature = "arviz"), allow(unused_variables, reason = "nothing is written without it"))]
pub(crate) fn write_chains<M: Model>(
    (fit, verdict): (&NutsFit, Verdict),
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    path: &Path,
) -> Result<(), StudyError> {
    #[cfg(feature = "arviz")]
    fit.write_arviz(path, model, device, &of_rows(silos), verdict).map_err(StudyError::Inference)?;
    check()
}

#[cfg(feature = "arviz")]
fn of_rows<D>(silos: &[(String, D)]) -> partita_inference::ArvizOptions<'_, D> {
    use partita_inference::{ArvizOptions, ArvizRows, ExistingFile};
    let rows = if silos.is_empty() { ArvizRows::Stay } else { ArvizRows::Of(silos) };
    ArvizOptions { rows, existing: ExistingFile::Replace, ..ArvizOptions::default() }
}

/// Writes the draws of a fit whose silos are elsewhere, without a row.
#[cfg_attr(not(feature = "arviz"), allow(unused_variables, reason = "nothing is written without it"))]
pub(crate) fn write_afar<M: Model>(
    fitted: &Fitted,
    model: &M,
    algorithm: &dyn Algorithm,
    device: &Device,
    path: &Path,
) -> Result<(), StudyError> {
    #[cfg(feature = "arviz")]
    fitted.write_arviz(path, model, algorithm, device, &of_rows(&[])).map_err(StudyError::Inference)?;
    check()
}
