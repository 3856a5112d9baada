//! Keeps what all rounds of local steps have in common: the globals, the rounds done, and the answers of silos.

use super::messages::{Round, RoundAnswer, Sizes};
use crate::engine::algorithm::{ElboSamples, StepInfo, Tally, each_reply, finite};
use crate::engine::clipped::ClippedCount;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::real;
use crate::engine::private_steps::PrivateSteps;
use crate::engine::report::Privacy;
use crate::engine::terms::coordinator::{Bounds, Coordinator};
use crate::engine::terms::noised::open_or_noised;
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
    /// Whether local steps are in coordinates of the covariance at which a round begins.
    pub(super) is_whitened: bool,
    /// How silos hide their rows from local steps, where they do.
    private: Option<PrivateSteps>,
    /// Of private rounds in the last third of the run.
    clipped_rows: ClippedCount,
}

impl Join {
    /// Rounds of so many steps over silos with so many observations.
    pub(super) fn new(
        globals: Coordinator,
        local_steps: u64,
        sizes: Vec<usize>,
        private: Option<PrivateSteps>,
    ) -> Result<Self> {
        Error::unless(local_steps > 0, "local_steps", local_steps, "at least 1")?;
        private.map_or(Ok(()), PrivateSteps::check)?;
        globals.check_sizes(&sizes)?;
        let own = RoundAnswer::fields(&sizes_of(&globals, local_steps));
        let manifest = open_or_noised(&globals.manifest, own, private);
        Ok(Self {
            globals,
            local_steps,
            sizes,
            round: 0,
            manifest,
            is_whitened: false,
            private,
            clipped_rows: ClippedCount::default(),
        })
    }

    /// What is promised of the rows, where they are hidden.
    pub(super) fn privacy(&self) -> Option<Privacy> {
        self.private.map(|own| own.report(self.clipped_rows, &self.sizes, self.local_steps))
    }

    /// Asks for bounds; private silos are not asked, since bounds have no noise.
    pub(super) fn ask_bounds(&self, draws: usize, offset: u64) -> Vec<Request> {
        if self.private.is_some() { Vec::new() } else { self.globals.ask_bounds(draws, offset) }
    }

    /// The bounds that were asked for.
    pub(super) fn bounds(&self, outcomes: Vec<Outcome>, count: usize, offset: u64) -> Result<ElboSamples> {
        match self.private {
            Some(_) => Ok(ElboSamples { elbos: vec![f64::NAN; count], ..ElboSamples::default() }),
            None => self.globals.bounds_of(&self.globals.silos, outcomes, Bounds { count, offset }),
        }
    }

    /// The step of the run at which the present round begins.
    pub(super) fn first_step(&self) -> u64 {
        self.round * self.local_steps
    }

    /// The observations of all silos.
    pub(super) fn total(&self) -> f64 {
        real(self.sizes.iter().sum())
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
            undone: self.globals.trainer.is_undone().then_some(1),
            whitened: self.is_whitened.then_some(1),
        };
        let message = shared.iter().fold(message.write(), Message::share);
        Request { silo, message: Message { kind: kind.to_owned(), ..message } }
    }

    /// Gives the answer of each of these silos to the present round to `take`, checked, in their order; returns the count of
    /// clipped rows with theirs.
    pub(super) fn each_answer(
        &self,
        outcomes: &mut dyn Iterator<Item = Result<Outcome>>,
        silos: &[String],
        mut take: impl FnMut(Answered) -> Result<()>,
    ) -> Result<ClippedCount> {
        let mut clipped_rows = self.clipped_rows;
        let is_late = 3 * self.first_step() >= 2 * self.globals.settings.steps;
        let (step, sizes) = (self.first_step(), sizes_of(&self.globals, self.local_steps));
        each_reply(outcomes, silos, step, |silo, reply| {
            let answer = RoundAnswer::read(&reply, &sizes)?;
            drop(reply.records);
            let problem = format_args!("silo `{silo}` answered round {}, asked was round {}", answer.round, self.round);
            Error::well_formed(answer.round == self.round, &reply.kind, problem)?;
            finite(silo, step, |index| self.globals.describe(index), &answer.global)?;
            finite(silo, step, |index| format!("θ[{index}]"), &answer.theta)?;
            let RoundAnswer { global, theta, clipped, .. } = answer;
            let elbo = match (self.private, answer.elbo) {
                (None, Some(elbo)) => elbo,
                (Some(_), None) => f64::NAN,
                (private, _) => {
                    let expected = if private.is_some() { "none: it has no noise" } else { "one" };
                    let problem = format!("the answer of silo `{silo}` has a bound or none, expected {expected}");
                    return Err(Error::Message { kind: reply.kind, problem });
                }
            };
            if let Some(rows) = answer.clipped_rows.filter(|_| is_late) {
                finite(silo, step, |_| "its number of clipped rows".into(), &[rows])?;
                clipped_rows.add(rows, 1.0 / real(silos.len()));
            }
            take(Answered { global, theta, elbo, clipped_steps: clipped })
        })?;
        Ok(clipped_rows)
    }

    /// Moves the globals to where a round has led, with the mean bound of its last steps.
    pub(super) fn end_round(&mut self, to: Joined) -> Result<StepInfo> {
        let before = self.globals.trainer.values().to_vec();
        self.globals.trainer.set_parameters(&to.parameters);
        self.globals.set_theta(&to.theta)?;
        let rate = self.last_rate();
        // A private run has no bound that could be heeded.
        if self.private.is_none() && self.globals.trainer.heed(to.elbo) {
            self.globals.show_theta()?;
        }
        self.clipped_rows = to.clipped_rows;
        self.round += 1;
        self.globals.step = self.first_step();
        Ok(StepInfo {
            step: self.globals.step,
            elbo: to.elbo,
            gradient_norm: None,
            movement: Some(distance(self.globals.trainer.values(), &before)),
            clipped_steps: to.clipped_steps,
            rate: Some(rate),
            tally: Tally::steps(self.local_steps, to.silos),
        })
    }

    /// Ends a round that was undone, of which nothing is left.
    pub(super) fn end_undone(&mut self) -> Result<StepInfo> {
        self.globals.show_theta()?;
        self.round += 1;
        self.globals.step = self.first_step();
        Ok(StepInfo::still(self.globals.step, Tally::steps(self.local_steps, self.globals.silos.len())))
    }

    /// Refuses a bound that is no number, where there is one.
    pub(super) fn check_bound(&self, what: &str, bound: f64) -> Result<()> {
        match self.private {
            Some(_) => Ok(()),
            None => finite("the coordinator", self.first_step(), |_| what.into(), &[bound]),
        }
    }

    /// The rate of the last local step of the present round.
    fn last_rate(&mut self) -> f64 {
        let last = self.first_step() + self.local_steps - 1;
        let rates = self.globals.trainer.rates(self.local_steps);
        rates.map_or_else(|| self.globals.trainer.descent.rate(last), |[_, rate]| rate)
    }

    /// The whole state, as the saved state of a method of this kind.
    pub(super) fn save(&self, kind: &str) -> Message {
        let state = self.globals.save(kind).word("round", self.round);
        let state = if self.is_whitened { state.word(WHITENED, 1) } else { state };
        self.clipped_rows.write(state, CLIPPED)
    }

    /// Takes it back.
    pub(super) fn load(&mut self, state: &Message, kind: &str) -> Result<()> {
        let round = state.get_count("round", LARGEST_COUNT)?;
        let clipped_rows = ClippedCount::read(state, CLIPPED)?;
        self.globals.load(state, kind)?;
        (self.round, self.clipped_rows) = (round, clipped_rows);
        self.is_whitened = state.has(WHITENED);
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

/// The name of what says in a saved state that local steps are in coordinates of a covariance.
const WHITENED: &str = "whitened";

/// The name of the saved count of clipped rows.
const CLIPPED: &str = "clipped_rows";

/// Where one silo's round has led.
pub(super) struct Answered {
    pub(super) global: Vec<f64>,
    pub(super) theta: Vec<f64>,
    /// No number for a private silo.
    pub(super) elbo: f64,
    /// Its steps whose gradient was clipped.
    pub(super) clipped_steps: u64,
}

/// Where a round has led.
pub(super) struct Joined {
    pub(super) parameters: Vec<f64>,
    pub(super) theta: Vec<f64>,
    pub(super) elbo: f64,
    /// Those of the silo that clipped most.
    pub(super) clipped_steps: u64,
    /// How many silos answered.
    pub(super) silos: usize,
    /// Of private rounds in the last third of the run, this one among them.
    pub(super) clipped_rows: ClippedCount,
}

/// What the lengths of messages follow from.
fn sizes_of(globals: &Coordinator, local_steps: u64) -> Sizes {
    Sizes {
        parameters: globals.trainer.parameters().len() as u64,
        theta: globals.trainer.theta().len() as u64,
        local_steps,
    }
}
