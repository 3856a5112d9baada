//! Lets a silo take its local steps on its device, with one read at their end, and keeps what both know in step.

use super::fit::{DeviceFit, Interval, Owner, Read, Standing, Units};
use crate::engine::checkpoint::{NamedVectors, named, prefixed, with_prefix};
use crate::engine::error::Result;
use crate::engine::party::Program;
use crate::engine::terms::Silo;
use crate::engine::terms::particles::Worker;

/// The local steps of a silo on its device.
///
/// Its local posterior stays there until something else is asked of the silo, such as bounds, which are computed on the host.
#[derive(Debug)]
pub(crate) struct DeviceSteps {
    fit: DeviceFit,
    /// Whether rows have moved on the device since they were read.
    is_ahead: bool,
}

/// Where local steps begin.
pub(crate) struct Begin<'a> {
    /// The parameters of the global posterior.
    pub(crate) global: &'a [f64],
    /// The part of θ that parties share.
    pub(crate) theta: &'a [f64],
    /// Whether the rule of globals and θ goes on where it was.
    pub(crate) keep_optimiser: bool,
}

/// What moves, to go back to.
pub(crate) struct Before {
    fit: Standing,
    is_ahead: bool,
}

/// What the names of the device's state begin with.
const DEVICE: &str = "device.";
/// Whether rows have moved since they were read.
const AHEAD: &str = "ahead";

impl DeviceSteps {
    /// Those of a silo, the `index`-th of the run, from where it stands.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for what has no device form, as for [`DeviceFit::new`].
    pub(crate) fn new(silo: &Silo, index: u32) -> Result<Self> {
        let Worker { model, data } = &silo.workers[0];
        let owner = Owner { globals: index, silo: index, seed: silo.locals.seed() };
        let fit = DeviceFit::new(&silo.name, owner, (model, data), &silo.device, &silo.settings)?;
        Ok(Self { fit, is_ahead: false })
    }

    /// Units of the parameters of the host's family, then of θ, as tensors.
    pub(crate) fn units(&self, units: &[f64]) -> Units {
        self.fit.units(units)
    }

    /// Lets the rules of rows forget what they have seen.
    pub(crate) fn restart_rows(&mut self) {
        self.fit.restart_rows();
    }

    /// Takes steps, then reads once; where it fails, [`DeviceSteps::go_back`] undoes it.
    ///
    /// # Errors
    /// As for [`DeviceFit::interval`].
    pub(crate) fn take(&mut self, begin: &Begin<'_>, interval: &Interval<'_>) -> Result<Read> {
        if !begin.keep_optimiser {
            self.fit.restart();
        }
        self.fit.set(begin.global, begin.theta);
        let read = self.fit.interval(interval)?;
        self.is_ahead = true;
        Ok(read)
    }

    /// What moves, as it is now: tensors are shared, not copied.
    pub(crate) fn before(&self) -> Before {
        Before { fit: self.fit.standing(), is_ahead: self.is_ahead }
    }

    /// Goes back to where it stood.
    pub(crate) fn go_back(&mut self, Before { fit, is_ahead }: Before) {
        self.fit.go_back(fit);
        self.is_ahead = is_ahead;
    }

    /// Reads the local posterior to the host, where it has moved.
    pub(crate) fn read_rows(&mut self, silo: &mut Silo) -> Result<()> {
        if self.is_ahead {
            let mut parameters = silo.local_parameters();
            self.fit.read_rows(&mut parameters)?;
            silo.set_local_parameters(parameters)?;
            self.is_ahead = false;
        }
        Ok(())
    }

    /// Marginal means and standard deviations of the latents of the silo's rows.
    pub(crate) fn moments(&self, silo: &Silo) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        if self.is_ahead { self.fit.moments(silo.seen_covariance().as_ref()) } else { silo.moments() }
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> Result<NamedVectors> {
        let mut state = self.fit.state()?;
        state.push((AHEAD.to_owned(), vec![f64::from(u8::from(self.is_ahead))]));
        Ok(prefixed(DEVICE, state).collect())
    }

    /// Takes it back from a state that may hold other vectors; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let device = with_prefix(state, DEVICE);
        let Some([ahead, ..]) = named(&device, AHEAD) else { return false };
        self.is_ahead = *ahead > 0.5;
        self.fit.load(&device)
    }
}
