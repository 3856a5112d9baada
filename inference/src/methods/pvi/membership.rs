//! Lets silos leave PVI, join it, and be removed from its posterior, and damps each in its own way.

use crate::engine::error::{Error, Result};
use crate::engine::natural::ExponentialFamily;
use crate::methods::pvi::Pvi;

impl Pvi {
    /// Lets a silo rest: its factor stays in the posterior, and it is visited no more until it joins again. An answer
    /// that is under way is still taken.
    ///
    /// # Errors
    /// [`Error::Setting`] for an index that no silo has.
    pub fn leave(&mut self, silo: usize) -> Result<()> {
        self.check_index(silo)?;
        self.ledger.set_present(silo, false);
        self.work[silo] = None;
        Ok(())
    }

    /// Lets a silo take part (again). It is sent its factor as the coordinator has it, so that one restored from an old
    /// disk, or whose last answer was lost, agrees.
    ///
    /// # Errors
    /// [`Error::Setting`] for an index that no silo has.
    pub fn join(&mut self, silo: usize) -> Result<()> {
        self.check_index(silo)?;
        self.ledger.set_present(silo, true);
        Ok(())
    }

    /// Takes a silo's factor out of the posterior, exactly, and lets it rest. An answer that is under way is not taken,
    /// and the bound is that of the others.
    ///
    /// # Errors
    /// [`Error::Setting`] for an index that no silo has, and with [`crate::Factors::Shared`], where no factor is of one
    /// silo's data: fit without this silo from the start; [`Error::Improper`] if what remains is no density, which
    /// leaves everything as it was: visit the others again, or fit without this silo from the start.
    pub fn remove(&mut self, silo: usize) -> Result<()> {
        self.check_index(silo)?;
        if self.options.factors.is_shared() {
            let found = format!("silo `{}` to be removed from one factor for all", self.coordinator.silos[silo]);
            let expected = "Factors::Own, with which every silo has a factor of its data; or a fit without this silo";
            return Err(Error::Setting { setting: "factors", found, expected });
        }
        let own = &self.ledger.factors[silo];
        let rest: Vec<f64> = self.natural.iter().zip(own).map(|(all, own)| all - own).collect();
        self.family.check(&format!("removing silo `{}` from the posterior", self.coordinator.silos[silo]), &rest)?;
        self.natural = rest;
        self.ledger.clear(silo);
        self.turn.residuals[silo] = f64::INFINITY;
        self.asked.iter_mut().filter(|asked| asked.silo == silo).for_each(|asked| asked.is_void = true);
        self.leave(silo)?;
        self.version += 1;
        self.publish()
    }

    fn check_index(&self, silo: usize) -> Result<()> {
        let count = self.sizes.len();
        let found = format_args!("silo {silo} of a run over {count} silos");
        Error::unless(silo < count, "silo", found, "the place of a silo in the list of the run, from 0")
    }

    /// Damps each silo by a factor of its own, in (0, 1]: with factors that sum to one, a synchronous round is a
    /// logarithmic opinion pool with these weights.
    ///
    /// # Errors
    /// [`Error::Setting`] for other numbers, or not one a silo.
    pub fn damp(&mut self, dampings: Vec<f64>) -> Result<()> {
        let count = self.sizes.len();
        let are_sound = dampings.len() == count && dampings.iter().all(|damping| *damping > 0.0 && *damping <= 1.0);
        let found = format_args!("{dampings:?} for {count} silos");
        Error::unless(are_sound, "damping", found, "one number in (0, 1] a silo")?;
        self.dampings = Some(dampings);
        Ok(())
    }

    /// $`\rho`$ of a silo now.
    pub(super) fn damping(&self, silo: usize) -> f64 {
        let here = self.ledger.present.iter().filter(|here| **here).count();
        let is_first = self.ledger.is_one(silo);
        match &self.dampings {
            Some(own) if !(is_first && self.options.first_damping.is_some()) => own[silo],
            _ => self.options.damping_of(here, is_first),
        }
    }
}
