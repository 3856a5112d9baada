//! Holds where a run of few rounds stands: the accepted posterior, what is remembered, and what is asked for next.

use super::past::Past;
use super::quadratic::Quadratic;
use super::step::Share;
use crate::engine::error::{Error, Result};
use crate::engine::natural::triangle::pairs;
use crate::engine::normal::Normal;
use crate::engine::wire::message::Message;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Course {
    pub(super) phase: Phase,
    /// The accepted posterior.
    pub(super) at: Normal,
    /// What all parties say of it; `None` before they were asked.
    pub(super) share: Option<Share>,
    /// What each silo said of its rows, while they may say it again; else none.
    pub(super) said: Vec<Quadratic>,
    /// The rounds before, as far as they are remembered.
    pub(super) past: Past,
    /// The posterior that is asked for next.
    pub(super) next: Normal,
    /// The part of the step that leads there.
    pub(super) fraction: f64,
    /// How far the mean may move in a step, in standard deviations.
    pub(super) reach: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Start = 0,
    Rounds = 1,
    Done = 2,
    /// It has not converged: no part of a step raised the bound, or there were too many rounds.
    Stuck = 3,
}

impl Course {
    /// Adds it to a saved state.
    pub(super) fn save(&self, state: Message) -> Message {
        let Self { phase, at, share, said, past, next, fraction, reach } = self;
        let state = state
            .word("phase", *phase as u64)
            .number("fraction", *fraction)
            .number("reach", *reach)
            .floats("at", &at.flat())
            .floats("next", &next.flat())
            .floats("said", &said.iter().flat_map(Quadratic::flat).collect::<Vec<_>>())
            .floats("past", &past.flat());
        match share {
            Some(Share { value, gradient, curvature, even }) => {
                let state = state.number("value", *value).floats("gradient", gradient).floats("curvature", curvature);
                even.iter().fold(state, |state, even| state.floats("even", even))
            }
            None => state,
        }
    }

    /// From a saved state of so many globals.
    ///
    /// # Errors
    /// [`Error::Message`] if it is none.
    pub(super) fn load(state: &Message, len: usize) -> Result<Self> {
        let wrong = |name: &str, expected: &str| {
            Error::malformed(&state.kind, format_args!("`{name}` is no {expected} of this model"))
        };
        let normal = |name: &str| {
            let numbers = state.expect_floats(name, Normal::parameters_of(len))?;
            Normal::of_flat(&numbers, len).ok_or_else(|| wrong(name, "posterior"))
        };
        let share = if state.has("gradient") {
            let (value, gradient) = (state.get_number("value")?, state.expect_floats("gradient", len)?);
            let even = if state.has("even") { Some(state.get_floats("even")?) } else { None };
            Some(Share { value, gradient, curvature: state.expect_floats("curvature", pairs(len))?, even })
        } else {
            None
        };
        let said = state.get_floats("said")?;
        let said = said.chunks(2 * Normal::parameters_of(len)).map(|own| Quadratic::of_flat(own, len));
        Ok(Self {
            phase: match state.get_count("phase", 3)? {
                0 => Phase::Start,
                1 => Phase::Rounds,
                2 => Phase::Done,
                _ => Phase::Stuck,
            },
            at: normal("at")?,
            share,
            said: said.collect::<Option<_>>().ok_or_else(|| wrong("said", "list of quadratics"))?,
            past: Past::of_flat(&state.get_floats("past")?, len).ok_or_else(|| wrong("past", "list of rounds"))?,
            next: normal("next")?,
            fraction: state.get_number("fraction")?,
            reach: state.get_number("reach")?,
        })
    }
}
