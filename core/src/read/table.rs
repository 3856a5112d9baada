//! Reads a model as its site table: which sites there are, what they support, and where their latents stand.

use crate::declare::model::Model;
use crate::declare::scope::{Density, LocalPart, Reading, Scope, Source, Terms};
use crate::declare::site::SiteTable;
use crate::declare::theta::{theta, with_theta};
use crate::device::Device;
use crate::error::Result;

impl SiteTable {
    /// Reads a model's site table for one silo's data, checking the data against their supports.
    ///
    /// # Errors
    /// Whatever the model's statements refuse; see [`Scope`].
    pub fn of<M: Model>(model: &M, device: &Device, data: &M::Data) -> Result<Self> {
        let mut scope = Scope::of_site_table(device);
        let globals = scope.run(|scope| model.global(scope))?;
        scope.begin_local(LocalPart::WHOLE);
        scope.run(|scope| model.local(scope, &globals, data))?;
        Ok(Self { global_tape: Self::globals(model, device)?.global_tape, ..scope.into_table() })
    }

    /// Reads the global sites only: all that a coordinator without data can see.
    ///
    /// # Errors
    /// As for [`SiteTable::of`].
    pub fn globals<M: Model>(model: &M, device: &Device) -> Result<Self> {
        let mut scope = Scope::of_site_table(device);
        scope.run(|scope| model.global(scope))?;
        let mut table = scope.into_table();
        // One scored evaluation at the start, with θ on the tape, tells whether anything of the global part needs it.
        let model = with_theta(model, &theta(model)?, device)?;
        let start = table.start();
        let reading = Reading::Density(Density::of(Terms::Joint));
        let mut scope = Scope::new(device, &table, Source::globals(&start), reading);
        scope.run(|scope| model.global(scope))?;
        table.global_tape = scope.outcome.tape.is_some();
        Ok(table)
    }
}
