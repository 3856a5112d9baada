//! States what solves a silo's local problem in partitioned variational inference, and chooses it in words.

mod conjugate;
mod expectation;
mod gradient;
mod lbfgs;
mod natural_gradient;
mod power_expectation;
mod quadratic;

pub use conjugate::Conjugate;
pub use expectation::Expectation;
pub use gradient::{EarlyStop, GradientDescent, Monitor, Start};
pub use lbfgs::Lbfgs;
pub use natural_gradient::NaturalGradient;
pub use power_expectation::PowerExpectation;
pub(crate) use quadratic::quadratic;

use std::fmt::Debug;

use partita_core::{Device, Key, Noise};
use serde::{Deserialize, Serialize};

use crate::engine::divergence::{Divergence, KullbackLeibler};
use crate::engine::error::{Error, Result};
use crate::engine::family::Family;
use crate::engine::natural::NormalFamily;
use crate::engine::settings::Settings;

/// A silo's local problem: its data, and the cavity in place of a prior.
///
/// ```math
/// q_m = \operatorname*{arg\,max}_q \mathcal F_m(q), \qquad
/// \mathcal F_m(q) = \mathrm{E}_q[\log p(y_m \mid \theta)] + \mathrm{E}_q[\log q^{\setminus m}(\theta)] - \mathrm{E}_q[\log q(\theta)]
/// ```
/// where the cavity $`q^{\setminus m} \propto q / t_m`$ is a factor that need not be a density. The last two terms are
/// $`-\mathrm{KL}(q \,\|\, q^{\setminus m})`$; a generalised problem has another divergence there. With local latents,
/// $`\log p(y_m \mid \theta)`$ is the bound that their present posterior gives.
///
/// # Laws
/// `laws::local_problem` checks that vectors have the lengths of the families, that the same step says the same
/// whenever it is asked, and that the gradient of the log likelihood is its derivative.
pub trait LocalProblem {
    /// The variational family of the globals, whose parameters gradients are by.
    fn family(&self) -> &dyn Family;

    /// The same densities in natural parameters.
    fn natural_family(&self) -> &NormalFamily;

    /// Where the family's parameters start before anything is known: [`crate::FamilyPlan::start`].
    fn initial(&self) -> Vec<f64>;

    /// Natural parameters of the cavity.
    fn cavity(&self) -> &[f64];

    /// What keeps $`q`$ near the cavity; one without a closed form draws with the noise of `step`.
    fn divergence(&self, _step: u64) -> Box<dyn Divergence> {
        Box::new(KullbackLeibler)
    }

    /// What a solver that draws for itself at `step` draws from.
    fn noise(&self, step: u64) -> (Noise, Key);

    /// Samples the objective at `parameters` with the noise of `step`, and moves the silo's local latents by `rate`.
    ///
    /// # Errors
    /// What the model reports; [`crate::Error::NotFinite`].
    fn sample(&mut self, parameters: &[f64], step: u64, rate: f64) -> Result<Sampled>;

    /// $`\log p(y_m \mid \theta)`$ in nats and its gradient by the unconstrained globals $`\theta`$ = `point`; where
    /// the settings ask for minibatches, its estimate by that of `step`, the same rows at every point.
    ///
    /// # Errors
    /// What the model reports; [`crate::Error::Setting`] for a model with local latents, which have to be drawn.
    fn log_likelihood(&mut self, point: &[f64], step: u64) -> Result<(f64, Vec<f64>)>;
}

/// A sampled local objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// $`\mathcal F_m`$ in nats, up to the cavity's constant.
    pub free_energy: f64,
    /// $`\mathrm{E}_q[\log p(y_m \mid \theta)]`$ in nats.
    pub log_likelihood: f64,
    /// The gradient of $`-\mathcal F_m`$ by the parameters of the family.
    pub gradient: Vec<f64>,
}

/// What a silo is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalUpdate {
    /// Natural parameters of the posterior that the coordinator sent.
    pub received: Vec<f64>,
    /// Whether that is still the prior, which may be far too wide to start from.
    pub is_prior: bool,
    /// The first step of the visit: it names the noise.
    pub first: u64,
    /// The most steps to take.
    pub steps: u64,
    /// The steps of the whole run.
    pub total: u64,
}

/// What a silo found.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// Natural parameters of $`q_m`$.
    pub natural: Vec<f64>,
    /// $`\mathrm{E}_{q_m}[\log p(y_m \mid \theta)]`$ in nats, as sampled last.
    pub log_likelihood: f64,
    /// Gradient steps taken.
    pub steps: u64,
    /// How many of them were clipped.
    pub clipped: u64,
    /// How many of them were halved to stay in the domain of the divergence.
    pub shortened: u64,
}

/// Solves local problems, one visit after another.
///
/// # Laws
/// On a conjugate problem every solver that converges finds the same $`q_m`$. After `load(save())` further visits give
/// the same bits as without.
pub trait LocalSolver: Debug + Send {
    /// Solves the problem of a visit.
    ///
    /// # Errors
    /// What the problem reports; [`crate::Error::Improper`] if the solution is no density.
    fn solve(&mut self, problem: &mut dyn LocalProblem, visit: &LocalUpdate) -> Result<Solved>;

    /// What is kept between visits, as named vectors.
    fn save(&self) -> Vec<(String, Vec<f64>)> {
        Vec::new()
    }

    /// Restores it; false if it is of another solver.
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        state.is_empty()
    }
}

/// A local solver in words.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SolverChoice {
    /// [`GradientDescent`], with the optimiser, schedule and estimator of [`crate::Settings`].
    Gradient(GradientDescent),
    /// [`Conjugate`].
    Conjugate,
    /// [`NaturalGradient`].
    NaturalGradient(NaturalGradient),
    /// [`Lbfgs`].
    Lbfgs(Lbfgs),
    /// [`PowerExpectation`].
    PowerExpectation(PowerExpectation),
}

impl Default for SolverChoice {
    fn default() -> Self {
        Self::Gradient(GradientDescent::default())
    }
}

impl SolverChoice {
    /// The solver of one silo, with optimiser, schedule and clipping of the settings where it needs them.
    #[must_use]
    pub fn start(self, settings: &Settings, device: &Device) -> Box<dyn LocalSolver> {
        match self {
            Self::Gradient(options) => Box::new(gradient::GradientSolver::new(options, settings, device)),
            Self::Conjugate => Box::new(Conjugate),
            Self::NaturalGradient(options) => {
                let is_sampled = !settings.minibatch.is_empty();
                Box::new(natural_gradient::NaturalGradientSolver::new(options, is_sampled))
            }
            Self::Lbfgs(options) => Box::new(lbfgs::LbfgsSolver::new(options)),
            Self::PowerExpectation(options) => Box::new(power_expectation::PowerExpectationSolver::new(options)),
        }
    }

    /// The learning rate of the last step of a visit that begins at `first`; `None` for a solver without one.
    pub(crate) fn last_rate(self, settings: &Settings, first: u64, steps: u64) -> Option<f64> {
        let Self::Gradient(options) = self else { return None };
        let visit = LocalUpdate { received: Vec::new(), is_prior: false, first, steps, total: settings.steps };
        Some(options.last_rate(settings, &visit))
    }

    /// Whether it solves problems with another divergence than Kullback and Leibler's.
    pub(crate) fn takes_divergences(self) -> bool {
        !matches!(self, Self::Conjugate | Self::PowerExpectation(_))
    }

    /// Refuses settings that the solver would not follow; those of the optimiser and the estimator are
    /// [`SolverChoice::Gradient`]'s alone.
    ///
    /// # Errors
    /// [`Error::Setting`] for minibatches with a solver of the whole likelihood, and for clipping where there is
    /// nothing to clip: neither gradient descent nor steps of θ.
    pub fn check_settings(self, settings: &Settings, trains_theta: bool) -> Result<()> {
        let name = match self {
            Self::Gradient(_) => return Ok(()),
            Self::Conjugate => "Conjugate",
            Self::NaturalGradient(_) => "NaturalGradient",
            Self::Lbfgs(_) => "Lbfgs",
            Self::PowerExpectation(_) => "PowerExpectation",
        };
        if let (Some(clip), false) = (settings.clip, trains_theta) {
            return Err(Error::Setting {
                setting: "clip",
                found: format!("{clip:?} with {name}"),
                expected: "None, since this solver has no gradient that could be clipped; SolverChoice::Gradient has",
            });
        }
        match settings.minibatch.iter().next() {
            Some((plate, rows)) if !matches!(self, Self::NaturalGradient(_)) => Err(Error::Setting {
                setting: "minibatch",
                found: format!("{rows} rows of `{plate}` with {name}"),
                expected: "no minibatch, since this solver takes the whole likelihood; SolverChoice::Gradient and NaturalGradient take minibatches",
            }),
            _ => Ok(()),
        }
    }

    /// Whether parameters θ that stay in a silo take steps with it.
    pub(crate) fn trains_private_theta(self) -> bool {
        matches!(self, Self::Gradient(_))
    }

    /// Refuses constants that mean nothing.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        match self {
            Self::Gradient(options) => options.check(),
            Self::Conjugate => Ok(()),
            Self::NaturalGradient(options) => options.check(),
            Self::Lbfgs(options) => options.check(),
            Self::PowerExpectation(options) => options.check(),
        }
    }
}
