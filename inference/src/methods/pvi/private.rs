//! Makes a silo of PVI whose answers follow from noised sums over clipped rows.

use super::messages::{Answer, Sizes};
use super::options::PviOptions;
use super::silo::PviSilo;
use super::solver::GradientDescent;
use crate::engine::error::{Error, Result};
use crate::engine::mechanism::Mechanism;
use crate::engine::terms::noised::noised_fields;
use crate::engine::wire::manifest::Manifest;

/// Refuses private visits that decide by what has no noise.
pub(super) fn check_visits(options: &PviOptions) -> Result<()> {
    let is_solver = options.solver.get::<GradientDescent>().is_some_and(|own| own.stop.is_none());
    let expected = "GradientDescent without early stopping, whose steps follow from noised sums alone";
    Error::unless(is_solver, "solver", format_args!("{:?} in private visits", options.solver), expected)?;
    let found = format_args!("{:?} in private visits", options.divergence);
    let expected = "KullbackLeibler, which private visits have";
    Error::unless(options.is_kullback_leibler(), "divergence", found, expected)
}

impl PviSilo {
    /// Lets the local steps know the rows by the noised sums of `mechanism` alone.
    ///
    /// # Errors
    /// [`Error::Setting`] for options that are not private, for models and settings by which one row would decide on what
    /// another contributes, and for an adaptive rate, which follows from bounds.
    pub fn private(mut self, mechanism: Box<dyn Mechanism>) -> Result<Self> {
        self.silo.hide_rows(self.options.private, mechanism)?;
        Ok(self)
    }

    /// How many rows it has, which everybody may know of a private silo.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.silo.row_count()
    }

    /// What may leave a private silo: all of its answer but the log likelihood, which it does not tell.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest { fields: noised_fields(Answer::fields(&self.sizes())) }
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes {
            natural: self.factor().len() as u64,
            theta: self.silo.theta_len as u64,
            local_steps: self.options.local_steps,
        }
    }
}
