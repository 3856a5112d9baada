//! Lets the local steps of rounds know the rows by noised sums alone.

use super::messages::RoundAnswer;
use super::silo::AveragingSilo;
use crate::engine::error::Result;
use crate::engine::mechanism::Mechanism;
use crate::engine::private_steps::PrivateSteps;
use crate::engine::terms::noised::noised_fields;
use crate::engine::wire::manifest::Manifest;

impl AveragingSilo {
    /// Lets the local steps know the rows by the noised sums of `mechanism` alone: the silo answers rounds, and nothing else.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for options that are not private, for models and settings by which one row would decide on
    /// what another contributes, and for an adaptive rate, which follows from bounds.
    pub fn private(mut self, options: Option<PrivateSteps>, mechanism: Box<dyn Mechanism>) -> Result<Self> {
        self.silo.hide_rows(options, mechanism)?;
        Ok(self)
    }

    /// How many rows it has, which everybody may know of a private silo.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.silo.row_count()
    }

    /// What may leave a private silo: all of its answer but the bound, which it does not tell.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest { fields: noised_fields(RoundAnswer::fields(&self.sizes())) }
    }
}
