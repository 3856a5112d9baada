//! States how PVI is carried out by noised sums over clipped rows, and makes a silo of it whose answers follow from these.

use serde::{Deserialize, Serialize};

use super::messages::{Answer, Sizes};
use super::options::PviOptions;
use super::silo::PviSilo;
use super::solver::GradientDescent;
use crate::engine::error::{Error, Result};
use crate::engine::mechanism::Mechanism;
use crate::engine::optimiser::Schedule;
use crate::engine::report::Privacy;
use crate::engine::rows::outermost_rows;
use crate::engine::terms::noised::NoisedRows;
use crate::engine::wire::manifest::{Field, Manifest, Release};

/// Visits whose local steps know the rows by noised sums alone (perturbed local optimisation): what a silo answers follows
/// from these, and may leave it as it is.
///
/// A step samples rows, clips the gradient of each by the globals, and adds noise to their sum, as differentially private
/// stochastic gradient descent does; the cavity and the family's own terms depend on no row. The noise is **not** in the
/// posterior: its deviations are those of a posterior without noise.
///
/// # References
/// Heikkilä, Ashman, Swaroop, Turner and Honkela (2023), Differentially private partitioned variational inference, TMLR;
/// Abadi et al. (2016), Deep learning with differential privacy; Sharma et al. (2019), Differentially private federated
/// variational inference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PrivateVisits {
    /// Epsilon of everything that one silo sends in the run, for the report.
    pub epsilon: f64,
    /// Delta, for the report.
    pub delta: f64,
    /// The scale of the noise on each number, in units of the clip.
    pub noise: f64,
    /// The norm to which a row's gradient at one draw of the globals is clipped.
    pub clip: f64,
    /// The probability with which each row is in the sum of a step.
    pub rate: f64,
    /// The sums of a silo in the whole run: its visits times their local steps.
    pub sums: u64,
}

impl PrivateVisits {
    /// Refuses constants outside their ranges, and visits that decide by what has no noise.
    pub(super) fn check(self, options: &PviOptions) -> Result<()> {
        let refuse = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
        for (setting, value) in [("noise", self.noise), ("clip", self.clip)] {
            if !(value > 0.0 && value.is_finite()) {
                return refuse(setting, value.to_string(), "a finite number > 0");
            }
        }
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return refuse("rate", self.rate.to_string(), "a number above 0 and at most 1");
        }
        if self.sums == 0 {
            return refuse("sums", "0".into(), "at least 1");
        }
        if options.solver.get::<GradientDescent>().is_none_or(|own| own.stop.is_some()) {
            let expected = "GradientDescent without early stopping, whose steps follow from noised sums alone";
            return refuse("solver", format!("{:?} in private visits", options.solver), expected);
        }
        if !options.is_kullback_leibler() {
            let expected = "KullbackLeibler, which private visits have";
            return refuse("divergence", format!("{:?} in private visits", options.divergence), expected);
        }
        Ok(())
    }

    /// What is promised; the noise is not in the posterior.
    pub(super) fn report(self) -> Privacy {
        let Self { epsilon, delta, noise, sums: releases, .. } = self;
        Privacy::promised(epsilon, delta, releases, noise)
    }
}

impl PviSilo {
    /// Lets the local steps know the rows by the noised sums of `mechanism` alone.
    ///
    /// # Errors
    /// [`Error::Setting`] for options that are not private, for models and settings by which one row would decide on what
    /// another contributes, and for an adaptive rate, which follows from bounds.
    pub fn private(mut self, mechanism: Box<dyn Mechanism>) -> Result<Self> {
        let Some(PrivateVisits { noise, clip, rate, sums, .. }) = self.options.private else {
            let (found, expected) = ("options without `private`".into(), "the promise and the noise that keeps it");
            return Err(Error::Setting { setting: "privacy", found, expected });
        };
        if matches!(self.silo.settings.schedule, Schedule::Adaptive { .. }) {
            let found = "Schedule::Adaptive in private visits".into();
            return Err(Error::Setting { setting: "schedule", found, expected: "a function of the step" });
        }
        let count = self.silo.rows_apart()?;
        self.silo.work_by_rows();
        let request = Vec::new();
        self.silo.noised = Some(NoisedRows { mechanism, count, clip, noise, rate, sums, given: 0, request });
        Ok(self)
    }

    /// How many rows it has, which everybody may know of a private silo.
    #[must_use]
    pub fn rows(&self) -> usize {
        outermost_rows(&self.silo.table)
    }

    /// What may leave a private silo: all of its answer but the log likelihood, which it does not tell.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        let noised = |field: Field| match (field.release, field.name) {
            (Release::Forbidden, name) if name != "log_likelihood" => Field { release: Release::Noised, ..field },
            _ => field,
        };
        Manifest { fields: Answer::fields(&self.sizes()).into_iter().map(noised).collect() }
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes {
            natural: self.factor().len() as u64,
            theta: self.silo.theta_len as u64,
            local_steps: self.options.local_steps,
        }
    }
}
