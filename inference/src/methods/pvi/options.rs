//! States how PVI visits silos, damps their answers and treats absence.

use serde::{Deserialize, Serialize};

use crate::engine::divergence::{Divergence, KullbackLeibler};
use crate::engine::error::{Error, Result};
use crate::engine::plug::Plug;
use crate::engine::private_steps::PrivateSteps;
use crate::methods::pvi::schedule::{Order, SiloSchedule};
use crate::methods::pvi::solver::{GradientDescent, LocalSolver};

/// What a silo takes out of the posterior before it solves its local problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Factors {
    /// Its own factor: partitioned variational inference.
    #[default]
    Own,
    /// Nothing: one sweep is variational continual learning, more are streaming variational Bayes, which counts data
    /// again with every sweep.
    Forgotten,
    /// The mean factor of the $`M`$ silos that take part, $`(q/p)^{1/M}`$, as in stochastic (power) expectation
    /// propagation: no silo has one of its own, so that none can be removed, and all have to answer.
    Shared,
    /// The same with the silo's share of the rows as power, $`(q/p)^{N_m/N}`$. With one natural-gradient step a visit
    /// it climbs $`\mathrm{E}_q[\log p(y_m \mid \theta)] - \tfrac{N_m}{N}\mathrm{KL}(q \,\|\, p)`$, which over a sweep
    /// is the whole bound: global inference that steps on the rows of one silo after another (Ashman et al., 2022,
    /// section 5, with its weight mended).
    SharedBySize,
}

impl Factors {
    /// Whether there is one factor for all.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::SharedBySize)
    }
}

/// What a silo finds before the factors in the posterior that it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PriorShare {
    /// The prior.
    #[default]
    Whole,
    /// The prior to the power $`N_m/N`$: with one undamped synchronous round the Bayesian committee machine that splits
    /// it.
    BySize,
}

/// What becomes of a round when a silo does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MissingSilo {
    /// The run ends with an error that names the silo.
    #[default]
    Fail,
    /// The silo's factor stays in the posterior as it is, and the run goes on; θ rests meanwhile. The bound of a report
    /// is not a number if a silo is absent at the end.
    GoOn,
}

/// How PVI goes about it.
///
/// # Example
/// ```
/// use partita_inference::{PviOptions, SiloSchedule};
/// let options = PviOptions { schedule: SiloSchedule::Synchronous, damping: Some(0.1), ..PviOptions::new(200) };
/// assert!(options.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PviOptions {
    /// Which silos are visited.
    pub schedule: SiloSchedule,
    /// $`\rho`$, applied once, by the silo: its answer is $`\rho(\eta_{q_m} - \eta_q)`$. `None` is 1 where one silo is
    /// visited at a time, and 1 over the number of silos that may answer together elsewhere, with which the posterior
    /// is proper whenever the local solutions are; but of answers to several posteriors, as asynchronous ones may be,
    /// nothing is promised.
    pub damping: Option<f64>,
    /// Damps every silo by its share of the rows, $`\rho_m = \rho M N_m / N`$, instead of all alike. With the default
    /// $`\rho = 1/M`$ a synchronous round is a logarithmic opinion pool weighted by size. [`crate::Pvi::damp`] takes
    /// any weights, such as scores on common data.
    pub damping_by_size: bool,
    /// $`\rho`$ for a silo whose factor is still 1, where it should be smaller than later: the first answers start from
    /// the prior, and silos that answer together each bring their whole data. `None` is the same as later.
    #[serde(default)]
    pub first_damping: Option<f64>,
    /// The most gradient steps of a visit; [`crate::Settings::steps`] counts them over all exchanges.
    pub local_steps: u64,
    /// How a silo solves its local problem.
    pub solver: Plug<dyn LocalSolver>,
    /// What keeps a silo's posterior near its cavity: the divergence of Kullback and Leibler is partitioned variational
    /// inference, any other generalised. It changes how uncertain the posterior is, and for other than Kullback and
    /// Leibler's the answer depends on the number of silos.
    #[serde(default)]
    pub divergence: Plug<dyn Divergence>,
    /// What a silo takes out of the posterior.
    pub factors: Factors,
    /// What part of the prior a silo sees.
    pub prior: PriorShare,
    /// How often an answer whose product is no density may be halved before the run ends with an error; every time is
    /// counted and reported. Not in the papers, which know damping alone.
    pub backtracking: u32,
    /// Keeps a component of a silo's factor as it is where a visit would give it a negative precision. Every cavity is
    /// then a density, whatever noise local solutions have; in return a factor that should have a negative precision
    /// somewhere, as likelihoods that are not log-concave can give, is flat there. For diagonal families, and isotropic
    /// ones, which are held as a whole; held components are counted and reported. Not in the papers.
    #[serde(default)]
    pub hold_improper: bool,
    /// What happens when a silo does not answer.
    pub missing_silo: MissingSilo,
    /// Exchanges between two steps of the model's own parameters θ, where it has any; 0 for never. While a silo rests,
    /// θ rests too. Those that stay in a silo ([`partita_core::Model::private_len`]) take a step with every local one
    /// instead.
    pub theta_every: u64,
    /// Visits stay on each silo's device, of which one read a visit is made: by [`GradientDescent`] without early stopping, with
    /// the divergence of Kullback and Leibler. [`crate::Schedule::Adaptive`] is [`crate::Schedule::cosine`] then, over each
    /// visit or, for a solver that keeps its optimiser, over the run.
    #[serde(default)]
    pub on_device: bool,
    /// Lets the local steps of every silo know its rows by noised sums over clipped ones alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<PrivateSteps>,
}

impl PviOptions {
    /// Sequential visits of at most so many gradient steps, undamped, each silo with its own factor.
    #[must_use]
    pub fn new(local_steps: u64) -> Self {
        Self {
            schedule: SiloSchedule::Sequential(Order::Fixed),
            damping: None,
            damping_by_size: false,
            first_damping: None,
            local_steps,
            solver: GradientDescent::default().into(),
            divergence: KullbackLeibler.into(),
            factors: Factors::Own,
            prior: PriorShare::Whole,
            backtracking: 0,
            hold_improper: false,
            missing_silo: MissingSilo::Fail,
            theta_every: 1,
            on_device: false,
            private: None,
        }
    }

    /// Whether what is solved is variational inference, not generalised.
    pub(super) fn is_kullback_leibler(&self) -> bool {
        self.divergence.get::<KullbackLeibler>().is_some()
    }

    /// Refuses options that mean nothing.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(&self) -> Result<()> {
        self.schedule.check()?;
        Error::unless(self.local_steps > 0, "local_steps", self.local_steps, "at least 1")?;
        self.solver.check(self.local_steps)?;
        self.divergence.check()?;
        if let Some(private) = self.private {
            private.check()?;
            super::private::check_visits(self)?;
        }
        if self.on_device {
            self.check_device()?;
        }
        let is_taken = self.is_kullback_leibler() || self.solver.takes_divergences();
        let found = format_args!("{:?} with {:?}", self.divergence, self.solver);
        let expected = "a solver that takes any divergence: GradientDescent, NaturalGradient or Lbfgs";
        Error::unless(is_taken, "divergence", found, expected)?;
        let found = format_args!("true with Factors::{:?}", self.factors);
        let expected = "false, since silos take no factor of their own out of the posterior; Factors::Own do";
        Error::unless(!self.hold_improper || self.factors == Factors::Own, "hold_improper", found, expected)?;
        let goes_on = self.factors.is_shared() && self.missing_silo == MissingSilo::GoOn;
        let found = "a run that goes on without silos, with one factor for all";
        let expected = "a run that ends where a silo is missing, since one factor for all counts every silo that takes part; or factors of the silos' own";
        Error::unless(!goes_on, "missing_silo", found, expected)?;
        for (setting, damping) in [("damping", self.damping), ("first_damping", self.first_damping)] {
            if let Some(damping) = damping
                && !(damping > 0.0 && damping <= 1.0)
            {
                let expected = "a number in (0, 1], or None for 1 over the number of silos that answer together";
                return Err(Error::Setting { setting, found: damping.to_string(), expected });
            }
        }
        Ok(())
    }

    /// Refuses visits that have no device form.
    fn check_device(&self) -> Result<()> {
        let is_solver = self.solver.get::<GradientDescent>().is_some_and(|own| own.stop.is_none());
        let expected = "GradientDescent without early stopping, which has a device form; or false";
        Error::unless(is_solver, "on_device", format_args!("true with {:?}", self.solver), expected)?;
        let found = format_args!("true with {:?}", self.divergence);
        let expected = "KullbackLeibler, the one divergence that has a device form; or false";
        Error::unless(self.is_kullback_leibler(), "on_device", found, expected)?;
        let expected = "false: the sums over rows that are clipped and noised are computed on the host";
        Error::unless(self.private.is_none(), "on_device", "true with private visits", expected)?;
        Ok(())
    }

    /// Refuses steps of θ, of which the model has so many, beside another divergence than Kullback and Leibler's: they
    /// climb the bound that belongs to that one.
    pub(super) fn check_theta(&self, theta: &[f64]) -> Result<()> {
        let is_served = theta.is_empty() || self.theta_every == 0 || self.is_kullback_leibler();
        let found = format_args!("{:?} for a model with {} parameters θ to train", self.divergence, theta.len());
        let expected = "KullbackLeibler, whose bound steps of θ climb, or theta_every: 0";
        Error::unless(is_served, "divergence", found, expected)
    }

    /// $`\rho`$ of each silo where it is in proportion to its rows.
    ///
    /// # Errors
    /// [`Error::Setting`] if one is above 1.
    pub(super) fn dampings_by_size(&self, sizes: &[usize]) -> Result<Vec<f64>> {
        let (count, rows) = (sizes.len(), sizes.iter().sum::<usize>());
        let damping = self.damping_of(count, false);
        let own = |size: &usize| damping * count as f64 * (*size as f64 / rows as f64);
        let dampings: Vec<f64> = sizes.iter().map(own).collect();
        match dampings.iter().position(|own| *own > 1.0) {
            None => Ok(dampings),
            Some(silo) => Err(Error::Setting {
                setting: "damping_by_size",
                found: format!(
                    "a damping of {} for silo {silo} with {} of {rows} rows, which is rho = {damping} times {count} silos times its share",
                    dampings[silo], sizes[silo]
                ),
                expected: "at most 1 for every silo: lower the damping (1 over the number of silos is always right), or leave silos visited one at a time undamped without damping_by_size",
            }),
        }
    }

    /// $`\rho`$ with so many silos, for one whose factor is still 1 or for others.
    pub(super) fn damping_of(&self, silos: usize, is_first: bool) -> f64 {
        if is_first && let Some(damping) = self.first_damping {
            return damping;
        }
        let together = match self.schedule {
            SiloSchedule::Sequential(_) => 1,
            SiloSchedule::Subset(size) => size.min(silos),
            SiloSchedule::Synchronous | SiloSchedule::Asynchronous(_) => silos,
        };
        self.damping.unwrap_or(1.0 / together.max(1) as f64)
    }
}
