//! Holds unconstrained values of the latents of one silo, and refuses those of the wrong length.

use crate::declare::scope::{Origin, Source};
use crate::declare::site::SiteTable;
use crate::error::{Error, Result};

/// Unconstrained values of all latents of one silo.
///
/// # Shapes
/// `globals`: [`SiteTable::global_len`]; `locals[k]`: rows × width of block k of [`SiteTable::blocks`], row-major (the
/// rows of the minibatch where there is one). A plate without latents is a block of width 0, and has an empty vector.
#[derive(Debug, Clone, Copy)]
pub struct Latents<'a> {
    /// The global vector.
    pub globals: &'a [f64],
    /// One vector for each local block.
    pub locals: &'a [Vec<f64>],
}

impl<'a> Latents<'a> {
    /// The source of a reading at these values.
    pub(crate) fn source(self) -> Source<'a> {
        Source { globals: Origin::Given(self.globals), locals: Origin::Given(self.locals) }
    }
}

impl SiteTable {
    /// Refuses latent vectors of the wrong length.
    pub(crate) fn check_latents(
        &self,
        globals: &[f64],
        locals: Option<&[Vec<f64>]>,
        rows: impl Fn(usize) -> usize,
    ) -> Result<()> {
        length("global vector", globals.len(), self.global_len)?;
        let Some(locals) = locals else { return Ok(()) };
        length("local blocks", locals.len(), self.blocks.len())?;
        for (index, (values, block)) in locals.iter().zip(&self.blocks).enumerate() {
            length("local vector", values.len(), rows(index) * block.width)?;
        }
        Ok(())
    }
}

fn length(operation: &str, found: usize, expected: usize) -> Result<()> {
    Error::same_length(operation, found, expected, "Take the lengths from the model's site table.")
}
