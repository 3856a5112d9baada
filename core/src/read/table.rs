//! Reads a model as its site table: which sites there are, what they support, and where their latents stand.

use crate::declare::model::Model;
use crate::declare::scope::{Scope, Source, Table};
use crate::declare::site::{Part, SiteTable};
use crate::declare::theta::{theta, with_theta};
use crate::device::Device;
use crate::error::Result;

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
}
