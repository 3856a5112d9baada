//! Gathers what all parties of a run must agree on.

use std::collections::BTreeMap;

use partita_core::{Loss, NoiseKind, Role, SiteTable};
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};
use crate::engine::estimator::{Estimator, ImportanceGradient};
use crate::engine::family::FamilyPlan;
use crate::engine::optimiser::{Adam, Clip, Optimiser, Schedule};
use crate::engine::plug::Plug;

/// Draws of all latents asked for in one request, so that memory stays bounded.
pub(crate) const DRAWS_A_REQUEST: usize = 64;

/// Draws for the round of trust: a power of two, for which the points of a Sobol set are spread evenly.
pub(crate) const TRUST_DRAWS: usize = 2_048;

/// Where the posterior of the globals starts, before the stochastic steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StartFrom {
    /// [`StartFrom::Mode`] in what [`crate::fit()`] and its kin make, [`StartFrom::Declared`] in parties made one by one.
    #[default]
    Chosen,
    /// Where the model and the family plan say.
    Declared,
    /// At the mode of the log joint density, with the curvature there as its covariance, of more than 64 globals with
    /// its conditional standard deviations; from then on means move in units of their standard deviations, so that
    /// neither start nor learning rate depends on the units of the data.
    ///
    /// The way there is a climb by exact gradients on all rows, which no noise enters: a few exchanges for each of up to
    /// 64 globals, at most 140 for more. It begins where [`StartFrom::Declared`] does. SFVI, SFVI-Avg and pooled fits
    /// make it for models of 1 to 20,000 globals without modules and local latents, in 64 bits; so does each silo of
    /// PVI, alone and before its first visit, to the mode of its local problem. Other methods and models, private silos,
    /// point masses, and a log density without a mode within reach, start as declared. θ stays as it is: where it is the
    /// scale of many non-centred globals, the way from such a mode is long, and with θ and 1,024 of these or more SFVI, SFVI-Avg and pooled
    /// fits start as declared too.
    Mode,
}

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
    /// Optimiser steps: with [`Schedule::Adaptive`] at most, with a schedule that is a function of the step exactly.
    pub steps: u64,
    /// The seed of all randomness.
    pub seed: u64,
    /// How the gradient of the ELBO is estimated.
    pub estimator: Estimator,
    /// What an observation costs. With another loss than the negative log likelihood the fit is of a generalised
    /// posterior, and the bound that is maximised and reported is minus its objective, $`\mathrm{E}_q[\sum_i \ell(x_i,
    /// Z)] + \mathrm{KL}(q \,\|\, p)`$: it no longer bounds an evidence, and compares with bounds of the same loss and
    /// index only.
    #[serde(default)]
    pub loss: Loss,
    /// Monte Carlo draws averaged in a step.
    pub particles: usize,
    /// How the noise of these draws hangs together.
    #[serde(default)]
    pub noise: NoiseKind,
    /// The family of each site.
    pub family: FamilyPlan,
    /// Where the posterior of the globals starts.
    #[serde(default)]
    pub start: StartFrom,
    /// How parameters move.
    pub optimiser: Plug<dyn Optimiser>,
    /// The learning rate.
    pub schedule: Schedule,
    /// The longest gradient let through; every clipped step is counted and reported.
    pub clip: Option<Clip>,
    /// Rows of a plate evaluated in a step, by plate; plates not named are evaluated whole.
    pub minibatch: BTreeMap<String, usize>,
    /// Threads a silo may use for its particles; `None` for what [`crate::FitOptions::threads`] leaves over when silos
    /// that work side by side have one each, and 1 where no fit divides any.
    #[serde(default)]
    pub threads: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            steps: 10_000,
            seed: 1,
            estimator: Estimator::StickingTheLanding,
            loss: Loss::NegativeLogLikelihood,
            particles: 1,
            noise: NoiseKind::Independent,
            family: FamilyPlan::new(),
            start: StartFrom::default(),
            optimiser: Adam::default().into(),
            schedule: Schedule::adaptive(),
            clip: None,
            minibatch: BTreeMap::new(),
            threads: None,
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
        let least_one = |setting, count: usize| Error::unless(count > 0, setting, count, "at least 1");
        if let Estimator::LocallyEnhanced { inner } = self.estimator {
            least_one("inner draws", inner)?;
        }
        least_one("particles", self.particles)?;
        least_one("threads", self.silo_threads())?;
        least_one("steps", usize::from(self.steps > 0))?;
        self.minibatch.values().try_for_each(|&rows| least_one("minibatch rows", rows))?;
        self.check_loss()?;
        self.check_draws()
    }

    /// The learning rate of a step of the run.
    pub(crate) fn rate(&self, step: u64) -> f64 {
        self.schedule.rate(step, self.steps)
    }

    /// The most draws that a party lets itself be asked for in one request, and answers one number each for.
    pub(crate) fn most_draws(&self) -> usize {
        self.particles.max(DRAWS_A_REQUEST)
    }

    /// The threads of one silo.
    #[must_use]
    pub fn silo_threads(&self) -> usize {
        self.threads.unwrap_or(1)
    }

    /// Refuses a loss out of its domain, and estimators that need log likelihoods.
    fn check_loss(&self) -> Result<()> {
        let refuse = |found: String, expected| Err(Error::Setting { setting: "loss", found, expected });
        if let Err(partita_core::Error::Argument { found, expected, .. }) = self.loss.check() {
            return refuse(format!("{} (index {found})", self.loss), expected);
        }
        if self.loss.is_log() {
            return Ok(());
        }
        match self.estimator {
            Estimator::LocallyEnhanced { .. } | Estimator::ImportanceWeighted { .. } => {
                let expected = "the negative log likelihood, since importance weights are ratios of densities; StickingTheLanding, Total, ClosedFormEntropy and LocalReparameterisation take every loss";
                refuse(format!("{} with {:?}", self.loss, self.estimator), expected)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a loss that a model has no observation for.
    pub(crate) fn check_observations(&self, table: &SiteTable) -> Result<()> {
        let has_any = self.loss.is_log() || table.sites().iter().any(|site| site.role == Role::Observed);
        let found = format_args!("{} with a model that observes nothing", self.loss);
        Error::unless(has_any, "loss", found, "a model with `scope.observe`, since factors have no observations")
    }

    /// Refuses estimators, minibatches and noise that do not go together.
    fn check_draws(&self) -> Result<()> {
        let come_in_pairs = self.noise != NoiseKind::Antithetic || self.particles.is_multiple_of(2);
        let found = format_args!("{} with antithetic noise", self.particles);
        let expected = "an even number, since antithetic draws come in pairs";
        Error::unless(come_in_pairs, "particles", found, expected)?;
        let Estimator::ImportanceWeighted { gradient } = self.estimator else { return Ok(()) };
        if let Some(plate) = self.minibatch.keys().next() {
            let found = format!("rows of `{plate}` with ImportanceWeighted");
            let expected =
                "no minibatch, since the logarithm of an estimated weight is biased; LocallyEnhanced takes them";
            return Err(Error::Setting { setting: "minibatch", found, expected });
        }
        let is_unbiased = self.noise == NoiseKind::Independent || gradient == ImportanceGradient::Total;
        let found = format_args!("{:?} with {gradient:?}", self.noise);
        let expected = "Independent, without which this gradient is biased; ImportanceGradient::Total takes any noise";
        Error::unless(is_unbiased, "noise", found, expected)
    }
}
