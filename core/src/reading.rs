//! Reads one model declaration five ways: site table, prior draws, log density, predictive draws, pointwise likelihood.

mod density;
mod draw;
mod encoding;
mod resident;
mod resident_encoding;

pub(crate) use density::gradients_of;
pub use density::{Assessment, Enhanced, LogDensity};
pub use draw::{
    Draw, natural_values, pointwise_log_likelihood, predictive_draw, predictive_log_likelihood, prior_draw,
};
pub use encoding::Encoded;
pub use resident::DeviceAssessment;
pub use resident_encoding::DeviceEncoded;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::scope::{Scope, Source, Table};
use crate::site::{Part, SiteTable};
use crate::theta::{theta, with_theta};

/// Unconstrained values of all latents of one silo.
///
/// # Shapes
/// `globals`: [`SiteTable::global_len`]; `locals[k]`: rows × width of block k, row-major (the rows of the minibatch
/// where there is one).
#[derive(Debug, Clone, Copy)]
pub struct Latents<'a> {
    /// The global vector.
    pub globals: &'a [f64],
    /// One vector for each local block.
    pub locals: &'a [Vec<f64>],
}

impl SiteTable {
    /// Reads a model's site table for one silo's data, checking the data against their supports.
    ///
    /// # Errors
    /// Whatever the model's statements refuse; see [`Scope`].
    pub fn of<M: Model>(model: &M, device: &Device, data: &M::Data) -> Result<Self> {
        let mut scope = Scope::new(device, Table::Building(Self::default()), Source::default());
        let globals = model.global(&mut scope)?;
        scope.part = Part::Local;
        model.local(&mut scope, &globals, data)?;
        let Table::Building(table) = scope.table else { unreachable!("invariant: this scope builds its table") };
        Ok(Self { global_tape: Self::globals(model, device)?.global_tape, ..table })
    }

    /// Reads the global sites only: all that a coordinator without data can see.
    ///
    /// # Errors
    /// As for [`SiteTable::of`].
    pub fn globals<M: Model>(model: &M, device: &Device) -> Result<Self> {
        let mut scope = Scope::new(device, Table::Building(Self::default()), Source::default());
        model.global(&mut scope)?;
        let Table::Building(mut table) = scope.table else { unreachable!("invariant: this scope builds its table") };
        // One scored evaluation at the start, with θ on the tape, tells whether anything of the global part needs it.
        let model = with_theta(model, &theta(model)?, device)?;
        let start = vec![0.0; table.global_len];
        let source = Source { globals: Some(&start), ..Source::default() };
        let mut scope = Scope::new(device, Table::Known(&table), source);
        (scope.scoring, scope.tracking) = (true, true);
        model.global(&mut scope)?;
        table.global_tape = scope.outcome.tape.is_some();
        Ok(table)
    }

    /// Refuses latent vectors of the wrong length.
    fn check_latents(&self, globals: &[f64], locals: Option<&[Vec<f64>]>, rows: impl Fn(usize) -> usize) -> Result<()> {
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
    if found == expected {
        return Ok(());
    }
    Err(Error::Length {
        operation: operation.into(),
        found,
        expected,
        remedy: "Take the lengths from the model's site table.".into(),
    })
}
