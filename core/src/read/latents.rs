//! Holds unconstrained values of the latents of one silo, and refuses those of the wrong length.

use crate::declare::scope::{Origin, Source};
use crate::declare::site::SiteTable;
use crate::error::{Error, Result};
use crate::number::Number;

/// Unconstrained values of all latents of one silo.
///
/// # Shapes
/// `globals`: [`SiteTable::global_len`]; `locals[k]`: rows × width of block k of [`SiteTable::blocks`], row-major (the
/// rows of the minibatch where there is one). A plate without latents is a block of width 0, and has an empty vector.
#[derive(Debug, Clone, Copy)]
pub struct Latents<'a, T = f64> {
    /// The global vector.
    pub globals: &'a [T],
    /// One vector for each local block.
    pub locals: &'a [Vec<f64>],
}

impl<'a, T: Number> Latents<'a, T> {
    /// The source of a reading at these values.
    pub(crate) fn source(self) -> Source<'a> {
        Source { globals: Origin::Given(T::numbers(self.globals)), locals: Origin::Given(self.locals) }
    }
}

impl SiteTable {
    /// Refuses a global vector of this length, where it is the wrong one.
    pub(crate) fn check_globals(&self, found: usize) -> Result<()> {
        length("global vector", found, self.global_len)
    }

    /// Refuses latent vectors of the wrong length.
    pub(crate) fn check_latents<T>(
        &self,
        globals: &[T],
        locals: Option<&[Vec<f64>]>,
        rows: impl Fn(usize) -> usize,
    ) -> Result<()> {
        self.check_globals(globals.len())?;
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
