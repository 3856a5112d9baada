//! Counts what goes on inside PVI that no other method knows, for its section of the report and for checkpoints.

use crate::engine::algorithm::{MethodCount, MethodCounts};
use crate::engine::error::Result;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// What happened since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Local problems whose cavity was no density.
    pub(super) improper_cavities: u64,
    /// Rounds whose answers were shortened because their product was no density.
    pub(super) shortened_rounds: u64,
    /// Components of factors that stayed what they were.
    pub(super) held_components: u64,
    /// Answers that did not come, without which the run went on.
    pub(super) missed_answers: u64,
    /// Local steps that were halved because the divergence does not exist where they led.
    pub(super) shortened_steps: u64,
}

impl Counts {
    fn named(&self) -> [MethodCount; 5] {
        let Self { improper_cavities, shortened_rounds, held_components, missed_answers, shortened_steps } = *self;
        [
            ("improper_cavities", "local problems had a cavity that is no density", improper_cavities),
            ("shortened_rounds", "rounds had their answers shortened by backtracking", shortened_rounds),
            (
                "held_components",
                "components of factors were held, since their precision would have been negative",
                held_components,
            ),
            ("missed_answers", "answers of silos did not come, and the run went on", missed_answers),
            ("shortened_steps", "local steps were halved to stay where the divergence exists", shortened_steps),
        ]
        .map(|(name, meaning, number)| MethodCount { name: name.into(), meaning: meaning.into(), number })
    }

    /// The section of the report.
    pub(super) fn section(&self) -> MethodCounts {
        MethodCounts { method: "pvi".into(), counts: self.named().to_vec() }
    }

    pub(super) fn save(&self, state: Message) -> Message {
        self.named().iter().fold(state, |state, count| state.word(&key(&count.name), count.number))
    }

    pub(super) fn load(state: &Message) -> Result<Self> {
        let of = |name| state.get_count(&key(name), LARGEST_COUNT);
        Ok(Self {
            improper_cavities: of("improper_cavities")?,
            shortened_rounds: of("shortened_rounds")?,
            held_components: of("held_components")?,
            missed_answers: of("missed_answers")?,
            shortened_steps: of("shortened_steps")?,
        })
    }
}

fn key(name: &str) -> String {
    format!("pvi.counts.{name}")
}
