//! States what a silo's local problem is in partitioned variational inference, and what solves it.

mod conjugate;
mod expectation;
mod gradient;
mod lbfgs;
mod natural_gradient;
mod power_expectation;
mod quadratic;

pub use conjugate::Conjugate;
pub use expectation::Expectation;
pub(super) use gradient::GradientSolver;
pub use gradient::{EarlyStop, GradientDescent, Monitor, Start};
pub use lbfgs::Lbfgs;
pub use natural_gradient::NaturalGradient;
pub use power_expectation::PowerExpectation;
pub(crate) use quadratic::quadratic;

use std::any::Any;
use std::fmt::Debug;

use partita_core::{Device, Key, Noise};

use crate::engine::divergence::{Divergence, KullbackLeibler};
use crate::engine::error::{Error, Result};
use crate::engine::family::Family;
use crate::engine::natural::NormalFamily;
use crate::engine::plug::{Plug, plug};
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

    /// Where a visit starts that goes on from the posterior that was sent: there, and at [`LocalProblem::initial`] while
    /// that is still the prior. A silo whose settings say [`crate::StartFrom::Mode`] starts its first visit at the mode of
    /// its local problem, where it finds one.
    ///
    /// # Errors
    /// What the model reports; [`crate::Error::Improper`] for a posterior that is no density.
    fn begin(&mut self, update: &LocalUpdate) -> Result<Vec<f64>> {
        match update.is_prior {
            true => Ok(self.initial()),
            false => self.natural_family().member(self.family(), &update.received),
        }
    }

    /// Whether a full-rank posterior moves in coordinates of the covariance at which the visit began: after a start at a
    /// mode.
    fn is_whitened(&self) -> bool {
        false
    }

    /// Natural parameters of the cavity.
    fn cavity(&self) -> &[f64];

    /// What keeps $`q`$ near the cavity; one without a closed form draws with the noise of `step`.
    fn divergence(&self, _step: u64) -> Plug<dyn Divergence> {
        KullbackLeibler.into()
    }

    /// What a solver that draws for itself at `step` draws from.
    fn noise(&self, step: u64) -> (Noise, Key);

    /// Samples the objective at `parameters` with the noise of `step`, and moves the silo's local latents by `rate`.
    ///
    /// # Errors
    /// What the model reports; [`crate::Error::NotFinite`].
    fn sample(&mut self, parameters: &[f64], step: u64, rate: f64) -> Result<Sampled>;

    /// Lets the rules of the silo's local latents forget what they have seen, where a solver has undone steps.
    fn forget(&mut self) {}

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

/// How a silo solves its local problems: what a user chooses, from which every silo starts a solver of its own.
///
/// # Laws
/// `laws::local_solver` checks that on a conjugate problem a solver that converges finds the exact $`q_m`$, and that
/// after `load(save())` further visits give the same bits as without.
pub trait LocalSolver: Any + Debug + Send + Sync {
    /// The solver of one silo, with optimiser, schedule and clipping of the settings where it needs them.
    fn start(&self, settings: &Settings, device: &Device) -> Box<dyn SolverState>;

    /// Refuses constants that mean nothing in visits of at most so many steps.
    ///
    /// # Errors
    /// [`Error::Setting`].
    fn check(&self, _local_steps: u64) -> Result<()> {
        Ok(())
    }

    /// Refuses settings that the solver would not follow. Unless it says otherwise it takes the whole likelihood and
    /// has no gradient to clip.
    ///
    /// # Errors
    /// [`Error::Setting`] for minibatches, and for clipping where there are no steps of θ to clip either.
    fn check_settings(&self, settings: &Settings, trains_theta: bool) -> Result<()> {
        check_clip(&format!("{self:?}"), settings, trains_theta)?;
        let Some((plate, rows)) = settings.minibatch.iter().next() else { return Ok(()) };
        Err(Error::Setting {
            setting: "minibatch",
            found: format!("{rows} rows of `{plate}` with {self:?}"),
            expected: "no minibatch, since this solver takes the whole likelihood; GradientDescent and NaturalGradient take minibatches",
        })
    }

    /// Whether it solves problems with another divergence than Kullback and Leibler's, that of
    /// [`LocalProblem::divergence`].
    fn takes_divergences(&self) -> bool {
        false
    }

    /// Whether parameters θ that stay in a silo take steps with it: by [`LocalProblem::sample`].
    fn trains_private_theta(&self) -> bool {
        false
    }

    /// The learning rate of the last step of a visit that stops at its end; `None` for a solver without one.
    fn last_rate(&self, _settings: &Settings, _visit: &LocalUpdate) -> Option<f64> {
        None
    }
}

plug! {
    LocalSolver, "a solver",
    names { Conjugate: Conjugate },
    values {
        Gradient: GradientDescent, NaturalGradient: NaturalGradient, Lbfgs: Lbfgs, PowerExpectation: PowerExpectation
    }
}

/// Refuses clipping where there is nothing to clip: neither gradient descent nor steps of θ.
fn check_clip(solver: &str, settings: &Settings, trains_theta: bool) -> Result<()> {
    let (Some(clip), false) = (settings.clip, trains_theta) else { return Ok(()) };
    Err(Error::Setting {
        setting: "clip",
        found: format!("{clip:?} with {solver}"),
        expected: "None, since this solver has no gradient that could be clipped; GradientDescent has",
    })
}

/// Solves the local problems of one silo, one visit after another.
///
/// # Laws
/// Those of [`LocalSolver`].
pub trait SolverState: Debug + Send {
    /// Solves the problem of a visit.
    ///
    /// # Errors
    /// What the problem reports; [`crate::Error::Improper`] if the solution is no density.
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved>;

    /// What is kept between visits, as named vectors.
    fn save(&self) -> Vec<(String, Vec<f64>)> {
        Vec::new()
    }

    /// Restores it; false if it is of another solver.
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        state.is_empty()
    }
}
