//! Keeps what all rounds of local steps have in common: the globals, the rounds done, and the answers of silos.

use super::messages::{Round, RoundAnswer, Sizes};
use crate::engine::algorithm::{StepInfo, Tally, each_reply, finite};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::terms::coordinator::Coordinator;
use crate::engine::trainer::distance;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message, Record};

/// The coordinator's side of rounds: what a method adds is whom it asks what, and how answers become one.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) globals: Coordinator,
    /// Local steps of each silo in a round.
    pub(super) local_steps: u64,
    /// Observations of each silo.
    pub(super) sizes: Vec<usize>,
    pub(super) round: u64,
    pub(super) manifest: Manifest,
}

impl Join {
    /// Rounds of so many steps over silos with so many observations.
    pub(super) fn new(globals: Coordinator, local_steps: u64, sizes: Vec<usize>) -> Result<Self> {
        if local_steps == 0 {
            return Err(Error::Setting { setting: "local_steps", found: "0".into(), expected: "at least 1" });
        }
        globals.check_sizes(&sizes)?;
        let mut manifest = globals.manifest.clone();
        let known: Vec<&str> = manifest.fields.iter().map(|field| field.name).collect();
        let own = RoundAnswer::fields(&sizes_of(&globals, local_steps));
        let new: Vec<_> = own.into_iter().filter(|field| !known.contains(&field.name)).collect();
        manifest.fields.extend(new);
        Ok(Self { globals, local_steps, sizes, round: 0, manifest })
    }

    /// The step of the run at which the present round begins.
    pub(super) fn first_step(&self) -> u64 {
        self.round * self.local_steps
    }

    /// The observations of all silos.
    pub(super) fn total(&self) -> f64 {
        as_float(self.sizes.iter().sum())
    }

    /// What requests of the present round have in common.
    pub(super) fn shared(&self) -> Vec<Record> {
        let (global, theta) = (self.globals.trainer.parameters(), self.globals.trainer.theta());
        let mut shared = Message::new(Round::KIND).floats("global", global).floats("theta", theta).records;
        // As of every message: what has no numbers is not sent.
        shared.retain(|record| !record.bytes.is_empty());
        shared
    }

    /// Asks a silo for the present round.
    pub(super) fn ask(&self, silo: usize, steps: LocalSteps, shared: &[Record]) -> Request {
        let LocalSteps { kind, keep_optimiser, weight, entropy, prior, proximal, rates } = steps;
        let message = Round {
            step: self.first_step(),
            seed: self.globals.settings.seed,
            // These are shared.
            global: Vec::new(),
            theta: Vec::new(),
            round: self.round,
            local_steps: self.local_steps,
            keep_optimiser,
            weight,
            entropy,
            prior,
            proximal,
            rates: rates.map(Vec::from),
        };
        let message = shared.iter().fold(message.write(), Message::share);
        Request { silo, message: Message { kind: kind.to_owned(), ..message } }
    }

    /// Gives the answer of each of these silos to the present round to `take`, checked, in their order.
    pub(super) fn each_answer(
        &self,
        outcomes: &mut dyn Iterator<Item = Result<Outcome>>,
        silos: &[String],
        mut take: impl FnMut(RoundAnswer) -> Result<()>,
    ) -> Result<()> {
        let (step, sizes) = (self.first_step(), sizes_of(&self.globals, self.local_steps));
        each_reply(outcomes, silos, step, |silo, reply| {
            let answer = RoundAnswer::read(&reply, &sizes)?;
            drop(reply.records);
            if answer.round != self.round {
                let problem = format!("silo `{silo}` answered round {}, asked was round {}", answer.round, self.round);
                return Err(Error::Message { kind: reply.kind, problem });
            }
            finite(silo, step, |index| self.globals.describe(index), &answer.global)?;
            finite(silo, step, |index| format!("θ[{index}]"), &answer.theta)?;
            take(answer)
        })
    }

    /// Moves the globals to where a round has led, with the mean bound of its last steps.
    pub(super) fn end_round(&mut self, to: Joined) -> Result<StepInfo> {
        let before = self.globals.trainer.values().to_vec();
        self.globals.trainer.set_parameters(&to.parameters);
        self.globals.set_theta(&to.theta)?;
        let rate = self.last_rate();
        if self.globals.trainer.heed(to.elbo) {
            self.globals.show_theta()?;
        }
        self.round += 1;
        self.globals.step = self.first_step();
        Ok(StepInfo {
            step: self.globals.step,
            elbo: to.elbo,
            gradient_norm: None,
            movement: Some(distance(self.globals.trainer.values(), &before)),
            clipped: to.is_clipped,
            rate: Some(rate),
            tally: Tally::steps(self.local_steps, to.silos),
        })
    }

    /// The rate of the last local step of the present round.
    fn last_rate(&mut self) -> f64 {
        let last = self.first_step() + self.local_steps - 1;
        let rates = self.globals.trainer.rates(self.local_steps);
        rates.map_or_else(|| self.globals.trainer.descent.rate(last), |[_, rate]| rate)
    }

    /// The whole state, as the saved state of a method of this kind.
    pub(super) fn save(&self, kind: &str) -> Message {
        self.globals.save(kind).word("round", self.round)
    }

    /// Takes it back.
    pub(super) fn load(&mut self, state: &Message, kind: &str) -> Result<()> {
        let round = state.get_count("round", LARGEST_COUNT)?;
        self.globals.load(state, kind)?;
        self.round = round;
        Ok(())
    }
}

/// What one silo's local steps of a round ascend.
pub(super) struct LocalSteps {
    /// The kind of the request, whose first word is what the owner of a silo allows.
    pub(super) kind: &'static str,
    /// Whether the optimiser of the globals goes on where it was.
    pub(super) keep_optimiser: bool,
    /// What the silo's own log density is multiplied by.
    pub(super) weight: f64,
    /// What the entropy of its local posterior is multiplied by.
    pub(super) entropy: f64,
    /// What the log density of the globals is multiplied by.
    pub(super) prior: f64,
    /// $\mu$ of the proximal term $`\tfrac\mu2\lVert w - w_t\rVert^2`$ over global parameters and θ.
    pub(super) proximal: f64,
    /// The learning rates of the first and the last of them, where they follow from the run.
    pub(super) rates: Option<[f64; 2]>,
}

/// Where a round has led.
pub(super) struct Joined {
    pub(super) parameters: Vec<f64>,
    pub(super) theta: Vec<f64>,
    pub(super) elbo: f64,
    /// Whether a silo clipped a gradient.
    pub(super) is_clipped: bool,
    /// How many silos answered.
    pub(super) silos: usize,
}

/// What the lengths of messages follow from.
fn sizes_of(globals: &Coordinator, local_steps: u64) -> Sizes {
    Sizes {
        parameters: globals.trainer.parameters().len() as u64,
        theta: globals.trainer.theta().len() as u64,
        local_steps,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of observations are far below 2^52")]
pub(super) fn as_float(count: usize) -> f64 {
    count as f64
}
