//! Gathers what all parties of a run must agree on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::estimator::Estimator;
use crate::family::FamilyPlan;
use crate::optimiser::{Clip, Optimiser, Schedule};

/// The settings of a fit, the same for coordinator and silos.
///
/// # Example
/// ```
/// use partita_inference::{Estimator, Settings};
/// let settings = Settings { steps: 2_000, particles: 4, estimator: Estimator::Total, ..Settings::default() };
/// assert!(settings.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Optimiser steps.
    pub steps: u64,
    /// The seed of all randomness.
    pub seed: u64,
    /// How the gradient of the ELBO is estimated.
    pub estimator: Estimator,
    /// Monte Carlo draws averaged in a step.
    pub particles: usize,
    /// The family of each site.
    pub family: FamilyPlan,
    /// How parameters move.
    pub optimiser: Optimiser,
    /// The learning rate.
    pub schedule: Schedule,
    /// The longest gradient let through; every clipped step is counted and reported.
    pub clip: Option<Clip>,
    /// Rows of a plate evaluated in a step, by plate; plates not named are evaluated whole.
    pub minibatch: BTreeMap<String, usize>,
    /// Threads a silo may use for its particles.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            steps: 10_000,
            seed: 1,
            estimator: Estimator::StickingTheLanding,
            particles: 1,
            family: FamilyPlan::new(),
            optimiser: Optimiser::adam(),
            schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
            clip: None,
            minibatch: BTreeMap::new(),
            threads: 1,
        }
    }
}

impl Settings {
    /// Refuses settings that cannot run.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(&self) -> Result<()> {
        self.schedule.check()?;
        self.optimiser.check()?;
        if let Some(clip) = self.clip {
            clip.check()?;
        }
        let least_one = |setting, count: usize| {
            if count > 0 {
                return Ok(());
            }
            Err(Error::Setting { setting, found: "0".into(), expected: "at least 1" })
        };
        if let Estimator::LocallyEnhanced { inner } = self.estimator {
            least_one("inner draws", inner)?;
        }
        least_one("particles", self.particles)?;
        least_one("threads", self.threads)?;
        least_one("steps", usize::from(self.steps > 0))?;
        self.minibatch.values().try_for_each(|&rows| least_one("minibatch rows", rows))
    }
}
