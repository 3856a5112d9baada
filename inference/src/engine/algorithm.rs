//! States what a federated algorithm is: a state machine that turns replies into requests, with no input or output.

use std::borrow::Cow;
use std::fmt;

use partita_core::{Key, Noise, Precision, Purpose};
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::Family;
use crate::engine::optimiser::Clip;
use crate::engine::report::Privacy;
use crate::engine::trainer::{Moved, square};
use crate::engine::trust::objective::Objective;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// The coordinator's side of an algorithm.
///
/// The run loop alternates [`Algorithm::outgoing`] and [`Algorithm::incoming`]; the same loop serves every algorithm
/// and every exchange.
///
/// # Laws
/// Nothing depends on the order in which replies arrived. After `load(save())` a run goes on with the same bits.
pub trait Algorithm: Send {
    /// What a report calls the method: the name of its type, unless it says otherwise.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>().split('<').next().unwrap_or_default();
        path.rsplit("::").next().unwrap_or_default()
    }

    /// The requests of the next step.
    ///
    /// # Errors
    /// What the model's global function refuses.
    fn outgoing(&mut self) -> Result<Vec<Request>>;

    /// Takes the outcomes of those requests, in the order of the requests.
    ///
    /// # Errors
    /// [`Error::SiloLost`], [`Error::InSilo`], [`Error::NotFinite`], [`Error::Message`].
    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo>;

    /// The same where the outcomes are not all there: each comes when it is asked for. A method that adds up answers takes
    /// them one by one, so that it need not hold those of all silos at once.
    ///
    /// # Errors
    /// As for [`Algorithm::incoming`], and what the exchange reports.
    fn incoming_in_turn(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        self.incoming(outcomes.collect::<Result<_>>()?)
    }

    /// How the run has ended by the method's own account; `None` while there is more to do.
    fn ended(&self) -> Option<Ending> {
        None
    }

    /// Requests for `draws` sampled bounds at the present posterior on all rows, changing nothing.
    ///
    /// `offset` counts the requests of one assessment, from 0. Noise depends on it and on the draw, as that of a
    /// [`partita_core::Key`] with `offset` as step and the draw as particle: draws that two requests share would make the
    /// standard error too small. There are at most [`Algorithm::draws_a_request`] in one.
    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request>;

    /// What the outcomes of [`Algorithm::elbo_requests`] call for: nothing more, unless a bound takes two exchanges.
    ///
    /// # Errors
    /// As for [`Algorithm::incoming`].
    fn elbo_follow_up(&self, outcomes: Vec<Outcome>, _draws: usize, _offset: u64) -> Result<ElboFollowUp> {
        Ok(ElboFollowUp::Done(outcomes))
    }

    /// The sampled bounds that the outcomes of the last exchange of an estimate gave.
    ///
    /// # Errors
    /// As for [`Algorithm::incoming`].
    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples>;

    /// The draws of all latents behind one sampled bound.
    fn draws_a_bound(&self) -> usize {
        1
    }

    /// The most draws of all latents in one request of an estimate, so that memory and messages stay bounded.
    fn draws_a_request(&self) -> usize {
        crate::engine::settings::DRAWS_A_REQUEST
    }

    /// What the number is that the method maximises and reports as its bound.
    fn objective(&self) -> Objective {
        Objective::Elbo
    }

    /// Whether the bound is $`\mathrm{E}_q[\log p(z) + \sum_j \log p(y_j \mid z) - \log q(z)]`$ with all local latents
    /// integrated out, which the round of trust gives without an exchange of its own.
    fn bounds_marginals(&self) -> bool {
        false
    }

    /// Draws for the round of trust, where the options do not say.
    fn trust_draws(&self) -> usize {
        crate::engine::settings::TRUST_DRAWS
    }

    /// This algorithm as one that is asked silo by silo, if it is one.
    fn asynchronous(&mut self) -> Option<&mut dyn Asynchronous> {
        None
    }

    /// What this method has counted since the run began, beside what every run counts; `None` if nothing.
    fn counts(&self) -> Option<MethodCounts> {
        None
    }

    /// What is promised of single rows of the silos, and what that did to the posterior; `None` where nothing is.
    fn privacy(&self) -> Option<Privacy> {
        None
    }

    /// What may leave a silo.
    fn manifest(&self) -> &Manifest;

    /// The present posterior of the globals.
    fn posterior(&self) -> Posterior<'_>;

    /// Computes the coordinator's own share in this precision from here on, whatever that of its device; whether it can.
    ///
    /// # Errors
    /// What the model refuses.
    fn compute_in(&mut self, _precision: Precision) -> Result<bool> {
        Ok(false)
    }

    /// The coordinator's whole state.
    fn save(&self) -> Message;

    /// Restores a saved state.
    ///
    /// # Errors
    /// [`Error::Message`] if it is not a state of this algorithm with this model and settings.
    fn load(&mut self, state: &Message) -> Result<()>;
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Ending {
    /// All steps were done: with [`crate::Schedule::Adaptive`] the limit was reached.
    #[default]
    Completed,
    /// Nothing was left to gain, or the posterior no longer moved.
    Converged,
    /// The method gave up before it had converged: the answer is not to be trusted.
    NotConverged,
    /// The user interrupted.
    Interrupted,
}

/// An algorithm whose silos need not wait for each other.
///
/// # Laws
/// Every request of [`Asynchronous::ask`] is followed by one [`Asynchronous::take`] or [`Asynchronous::discard`] of its
/// silo before the next. Whatever the order in which silos are taken, a run to convergence ends at the fixed point of
/// visits in turn (`tests/pvi/fixed_point.rs`, and over a network `tests/flower/asynchronous.rs`).
pub trait Asynchronous: Algorithm {
    /// The next request for a silo; none for one that takes no part.
    ///
    /// # Errors
    /// [`Error::Setting`] if the algorithm was not set up to be asynchronous.
    fn ask(&mut self, silo: usize) -> Result<Option<Request>>;

    /// Takes the outcome of the request that this silo was sent last.
    ///
    /// # Errors
    /// As for [`Algorithm::incoming`].
    fn take(&mut self, silo: usize, outcome: Outcome) -> Result<StepInfo>;

    /// Hears that the outcome of that request is not taken, since the run is over: the silo does not know.
    fn discard(&mut self, silo: usize);
}

/// What one method has counted in a run: its own section of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodCounts {
    /// The method.
    pub method: Cow<'static, str>,
    /// What it counted.
    pub counts: Vec<MethodCount>,
}

impl MethodCounts {
    /// The number with this name; `None` for a name that the method does not have.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<u64> {
        self.counts.iter().find(|count| count.name == name).map(|count| count.number)
    }
}

impl fmt::Display for MethodCounts {
    /// A line for each number that is not 0.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for MethodCount { meaning, number, .. } in self.counts.iter().filter(|count| count.number > 0) {
            writeln!(formatter, "{}: {number} {meaning}", self.method)?;
        }
        Ok(())
    }
}

/// One number that a method counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodCount {
    /// The word for it.
    pub name: Cow<'static, str>,
    /// The sentence that begins with the number, without the number.
    pub meaning: Cow<'static, str>,
    /// How many there were.
    pub number: u64,
}

/// What follows the first exchange of an estimate.
#[derive(Debug)]
pub enum ElboFollowUp {
    /// These outcomes are all that the bounds need.
    Done(Vec<Outcome>),
    /// One more exchange.
    Ask(Vec<Request>),
}

/// What a person may want to know of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepInfo {
    /// The steps now done; unchanged by an exchange that is not the last of its step.
    pub step: u64,
    /// The sampled bound of this step, in nats; not a number while an algorithm has not heard of every silo.
    pub elbo: f64,
    /// The Euclidean norm of the gradient by θ and the global parameters, before clipping; `None` where the coordinator
    /// sees no gradient.
    pub gradient_norm: Option<f64>,
    /// The Euclidean distance that the posterior moved, in natural parameters by PVI and in those of its family by
    /// rounds of local steps; `None` where a gradient tells, and where nothing moved.
    pub movement: Option<f64>,
    /// The steps whose gradient was clipped: in rounds of local steps, of the silo that clipped most.
    pub clipped_steps: u64,
    /// The learning rate last used, by the silos where only they step; `None` where steps have none.
    pub rate: Option<f64>,
    /// What the step took.
    pub tally: Tally,
}

impl StepInfo {
    /// An exchange that moved nothing and says nothing of the bound.
    pub(crate) fn still(step: u64, tally: Tally) -> Self {
        Self { step, elbo: f64::NAN, gradient_norm: None, movement: None, clipped_steps: 0, rate: None, tally }
    }

    /// What is known after a step that a trainer took.
    pub(crate) fn moved(step: u64, elbo: f64, moved: Moved, tally: Tally) -> Self {
        let Moved { gradient_norm, is_clipped, rate } = moved;
        let (gradient_norm, clipped_steps) = (Some(gradient_norm), u64::from(is_clipped));
        Self { step, elbo, gradient_norm, movement: None, clipped_steps, rate: Some(rate), tally }
    }
}

/// What one exchange took, to be added up over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Gradient steps of the silo that took the most: those that pass one after another.
    pub parallel_steps: u64,
    /// Gradient steps of all silos together.
    pub silo_steps: u64,
    /// Answers of silos that did not come, without which the run went on.
    pub missed_answers: u64,
}

impl Tally {
    /// So many steps, taken by so many silos at once.
    pub(crate) fn steps(steps: u64, silos: usize) -> Self {
        Self { parallel_steps: steps, silo_steps: steps * silos as u64, ..Self::default() }
    }
}

/// Sampled bounds and gradients at one posterior.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElboSamples {
    /// The sampled bounds, in nats.
    pub elbos: Vec<f64>,
    /// The gradient by the global parameters of each sampled bound; empty where the algorithm does not see it.
    pub gradients: Vec<Vec<f64>>,
    /// Of each bound that averages draws inside its logarithm one of its draws of the globals, as probable as its weight
    /// is large: together draws of the reweighted posterior. Empty for other bounds.
    pub reweighted: Vec<Vec<f64>>,
}

/// The posterior of the globals: a family with its parameters, and θ.
#[derive(Debug, Clone, Copy)]
pub struct Posterior<'a> {
    /// The family.
    pub family: &'a dyn Family,
    /// Its parameters.
    pub parameters: &'a [f64],
    /// The model's own trained parameters.
    pub theta: &'a [f64],
}

impl Posterior<'_> {
    /// The `index`-th keyed draw of the unconstrained global vector, for predictions.
    #[must_use]
    pub fn draw(&self, noise: &Noise, index: u64) -> Vec<f64> {
        let mut numbers = vec![0.0; self.family.noise_len()];
        noise.stream(Key::new(Purpose::Predictive, index)).normal(&mut numbers);
        self.family.draw(self.parameters, &numbers).latent
    }
}

/// Refuses a saved state of another algorithm, another model or another seed.
pub(crate) fn same_run(state: &Message, kind: &str, globals: &str, seed: u64) -> Result<()> {
    let problem = format_args!("it is the state of another algorithm: expected `{kind}`");
    Error::well_formed(state.kind == kind, &state.kind, problem)?;
    let found = state.get_setting("globals")?;
    let problem = format_args!("it was made by another model: its globals are [{found}], this model's [{globals}]");
    Error::well_formed(found == globals, &state.kind, problem)?;
    let found = state.get_word("seed")?;
    let problem = format_args!("it was made with seed {found}, this run has seed {seed}");
    Error::well_formed(found == seed, &state.kind, problem)
}

/// Gives the reply of each silo to `take`, in their order and as it comes; the first silo without one is an error that
/// names it.
pub(crate) fn each_reply(
    outcomes: &mut dyn Iterator<Item = Result<Outcome>>,
    names: &[String],
    step: u64,
    mut take: impl FnMut(&str, Message) -> Result<()>,
) -> Result<()> {
    let mut found = 0;
    for outcome in outcomes {
        if let Some(name) = names.get(found) {
            take(name, outcome?.reply(name, step)?)?;
        }
        found += 1;
    }
    check_count(found, names, step)
}

/// Refuses another number of outcomes than that of silos.
fn check_count(found: usize, names: &[String], step: u64) -> Result<()> {
    if found == names.len() {
        return Ok(());
    }
    let silo = names.get(found).cloned().unwrap_or_else(|| found.to_string());
    Err(Error::SiloLost { silo, step, reason: format!("{found} outcomes for {} silos", names.len()) })
}

/// Takes the replies out of outcomes; the first silo without one is an error that names it.
pub(crate) fn replies(outcomes: Vec<Outcome>, names: &[String], step: u64) -> Result<Vec<Message>> {
    check_count(outcomes.len(), names, step)?;
    outcomes.into_iter().zip(names).map(|(outcome, name)| outcome.reply(name, step)).collect()
}

/// Refuses a number that is not finite, saying whose and what it is.
pub(crate) fn finite(who: &str, step: u64, quantity: impl Fn(usize) -> String, values: &[f64]) -> Result<()> {
    // The vectorised sum of squares is finite unless a number is not, or is beyond 1e154: then look one by one.
    if square(values).is_finite() {
        return Ok(());
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            Err(Error::NotFinite { who: who.to_owned(), step, quantity: quantity(index), found: values[index] })
        }
    }
}

/// The Euclidean norm of a gradient, infinite where only a clip makes it one to move by.
///
/// Refuses one by which no rule could move: with a number that is not finite, or, where nothing clips it, so long that its
/// square is not. Adam would never move again what has such a square in its mean.
pub(crate) fn movable(
    who: &str,
    step: u64,
    clip: Option<Clip>,
    quantity: impl Fn(usize) -> String,
    gradient: &[f64],
) -> Result<f64> {
    let square = square(gradient);
    if square.is_finite() {
        return Ok(square.sqrt());
    }
    finite(who, step, &quantity, gradient)?;
    if clip.is_some() {
        return Ok(f64::INFINITY);
    }
    let largest = gradient.iter().enumerate().max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()));
    let quantity = format!("the square of {}", quantity(largest.map_or(0, |(index, _)| index)));
    Err(Error::NotFinite { who: who.to_owned(), step, quantity, found: f64::INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gradient_without_a_finite_square_is_refused_as_one_that_is_not_finite() {
        let check = |clip, gradient: &[f64]| movable("a", 3, clip, |index| format!("slope {index}"), gradient);
        let clip = Some(Clip { norm: 1.0 });
        assert!(check(None, &[1e150, -1e150]).is_ok() && check(clip, &[1.0, -1e200]).is_ok());
        let refused = check(None, &[1.0, -1e200]).unwrap_err();
        assert!(refused.is_outside() && refused.to_string().contains("the square of slope 1 is inf"), "{refused}");
        assert!(check(clip, &[1e200, f64::NAN]).unwrap_err().to_string().contains("slope 1 is NaN"));
    }
}
