//! Writes draws for ArviZ, with the rows of silos or without.

use std::path::Path;

use partita_core::{Device, Model};
use partita_inference::{Algorithm, ArvizOptions, ArvizRows, ExistingFile, Fit, Fitted, NutsFit, Verdict};

use crate::formula::StudyError;

/// The name of the file.
pub(crate) const DRAWS: &str = "draws.zarr";

/// Writes the draws of a fit in one process, with the rows of these silos.
pub(crate) fn write<M: Model>(
    fit: &Fit,
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    path: &Path,
) -> Result<(), StudyError> {
    fit.write_arviz(path, model, device, &of_rows(silos)).map_err(StudyError::Inference)
}

/// Writes the draws of a sampler, with the rows of these silos and the verdict of its report.
pub(crate) fn write_chains<M: Model>(
    (fit, verdict): (&NutsFit, Verdict),
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    path: &Path,
) -> Result<(), StudyError> {
    fit.write_arviz(path, model, device, &of_rows(silos), verdict).map_err(StudyError::Inference)
}

fn of_rows<D>(silos: &[(String, D)]) -> ArvizOptions<'_, D> {
    let rows = if silos.is_empty() { ArvizRows::Stay } else { ArvizRows::Of(silos) };
    ArvizOptions { rows, existing: ExistingFile::Replace, ..ArvizOptions::default() }
}

/// Writes the draws of a fit whose silos are elsewhere, without a row.
pub(crate) fn write_afar<M: Model>(
    fitted: &Fitted,
    model: &M,
    algorithm: &dyn Algorithm,
    device: &Device,
    path: &Path,
) -> Result<(), StudyError> {
    fitted.write_arviz(path, model, algorithm, device, &of_rows(&[])).map_err(StudyError::Inference)
}
