//! Names the file of draws for ArviZ, and says how it is written, with the rows of silos or without.

use partita_inference::{ArvizOptions, ArvizRows, ExistingFile};

/// The name of the file.
pub(crate) const DRAWS: &str = "draws.zarr";

/// In place of a file that is there, with the rows of these silos.
pub(crate) fn draws_of<D>(silos: &[(String, D)]) -> ArvizOptions<'_, D> {
    let rows = if silos.is_empty() { ArvizRows::Stay } else { ArvizRows::Of(silos) };
    ArvizOptions { rows, existing: ExistingFile::Replace, ..ArvizOptions::default() }
}
