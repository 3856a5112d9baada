//! Declares what the label holder and parties with different columns say to each other.

use std::sync::Arc;

use partita_core::vertical::Augmentation;

use crate::engine::error::{Error, Result};
use crate::engine::settings::DRAWS_A_REQUEST;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::{Carried, Rows, length, message};

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    /// The rows that all parties hold.
    pub(crate) rows: u64,
    /// The draws that are answered with a term of the bound.
    pub(crate) draws: u64,
    /// Auxiliary variables of these draws.
    pub(crate) values: u64,
    /// Predictors of these draws, where the gradient by them is answered.
    pub(crate) predictors: u64,
    /// Unknowns of the head at these draws.
    pub(crate) unknowns: u64,
}

/// Rows of all rows, by their indices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Indices(pub(crate) Vec<usize>);

impl Carried for Indices {
    fn put(&self, message: Message, name: &str) -> Message {
        message.floats(name, &as_numbers(&self.0))
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        let refuse = |problem| Err(Error::Message { kind: message.kind.clone(), problem });
        match as_rows(&message.get_floats(name)?) {
            Some(rows) if !rows.is_empty() => match rows.iter().find(|row| **row >= length(limit)) {
                Some(row) => refuse(format!("row {row} was asked for of {limit} rows. Align the rows of all parties")),
                None => Ok(Self(rows)),
            },
            _ => refuse(format!("record `{name}` holds no indices of rows")),
        }
    }
}

/// At most so many numbers; how many there must be is known after other fields were read. Whoever sends them may keep them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AtMost(pub(crate) Arc<Vec<f64>>);

impl Carried for AtMost {
    fn put(&self, message: Message, name: &str) -> Message {
        message.floats(name, &self.0)
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        match message.get_floats(name)? {
            values if values.len() <= length(limit) => Ok(Self(values.into())),
            values => wrong_length(&message.kind, name, values.len(), length(limit)),
        }
    }
}

/// The gradient by a party's auxiliary variables of a step, with the number of that step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answered {
    pub(crate) step: u64,
    pub(crate) gradient: AtMost,
}

impl Carried for Answered {
    fn put(&self, message: Message, name: &str) -> Message {
        self.gradient.put(message.word("answered", self.step), name)
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        let step = message.get_count("answered", LARGEST_COUNT)?;
        Ok(Self { step, gradient: AtMost::get(message, name, limit)? })
    }
}

message! {
    /// Asks for the auxiliary variables of a step.
    struct StepRequest = "vertical.step", sizes: &Sizes {
        /// the step
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the rows that all parties hold
        rows_in_all: u64 = Request <= LARGEST_COUNT,
        /// the rows of the step, where it takes some of them
        rows: Option<Indices> = Request <= sizes.rows,
        /// the gradient by the auxiliary variables of the step before
        gradient: Option<Answered> = Request <= sizes.values,
    }
}

message! {
    /// Asks for the auxiliary variables of draws for a report, on all rows.
    struct EstimateRequest = "vertical.estimate_elbo", sizes: &Sizes {
        /// the first draw
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the rows that all parties hold
        rows_in_all: u64 = Request <= LARGEST_COUNT,
        /// how many draws
        draws: u64 = Request <= DRAWS_A_REQUEST as u64,
        /// the gradient by the auxiliary variables of the last step
        gradient: Option<Answered> = Request <= sizes.values,
    }
}

message! {
    /// Asks for a party's factor of the power likelihood, with what it depends on beside the party.
    struct FactorRequest = "vertical.factor", sizes: &Sizes {
        /// the step, or the first draw for a report
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the rows that all parties hold
        rows_in_all: u64 = Request <= LARGEST_COUNT,
        /// how many parties there are
        parties: u64 = Request <= LARGEST_COUNT,
        /// the sums of the auxiliary variables of all parties
        sum: AtMost = Request <= sizes.values,
        /// the draws of the unknowns of the head
        head: AtMost = Request <= sizes.unknowns,
        /// how many draws for a report; none for those of the step
        draws: Option<u64> = Request <= DRAWS_A_REQUEST as u64,
    }
}

message! {
    /// Asks for contributions to rows never seen in training.
    struct PredictRequest = "vertical.predict", sizes: &Sizes {
        /// the rows to be predicted
        rows_in_all: u64 = Request <= LARGEST_COUNT,
        /// the first draw
        first: u64 = Request <= LARGEST_COUNT,
        /// how many draws
        draws: u64 = Request <= DRAWS_A_REQUEST as u64,
        /// how many parties there are
        parties: u64 = Request <= LARGEST_COUNT,
        /// whether the noise of the auxiliary variables is added
        noise: bool = Request <= 1,
        /// the gradient by the auxiliary variables of the last step
        gradient: Option<Answered> = Request <= sizes.values,
    }
}

message! {
    /// The auxiliary variables of one party.
    struct Values = "vertical.values", sizes: &Sizes {
        /// the step answered
        step: u64 = Request <= LARGEST_COUNT,
        /// z_j: one draw around the party's contributions to the rows of the step; its noise hides a row's contribution at one step, not over many, and not from whoever has the seed of the noise
        z: Rows = Data <= sizes.values,
        /// the party's ELBO term, one number a draw
        elbo: Vec<f64> = Data <= sizes.draws,
        /// how often the party clipped the gradient of its posterior in the step before, local steps included
        clipped: Option<u64> = Data <= LARGEST_COUNT,
    }
}

message! {
    /// What one party's factor of the power likelihood adds.
    struct FactorTerms = "vertical.factor_terms", sizes: &Sizes {
        /// the step answered
        step: u64 = Request <= LARGEST_COUNT,
        /// the party's ELBO term, one number a draw
        elbo: Vec<f64> = Data <= sizes.draws,
        /// gradient of the party's likelihood by the unknowns of the head
        head_gradient: Vec<f64> = Data <= sizes.unknowns,
        /// h_j: gradient of the party's likelihood by the predictor of each row; with the label it tells the predictor, and so the contribution
        predictor_gradient: Rows = Data <= sizes.predictors,
    }
}

message! {
    /// The contributions of one party to rows never seen in training.
    struct Contributions = "vertical.contributions", sizes: &Sizes {
        /// the party's contributions to held-out rows, draw by draw, with the noise of auxiliary variables where it was asked for
        z: Vec<f64> = Data <= sizes.values,
    }
}

/// What `z` is where there are no auxiliary variables.
const UNHIDDEN: &str = "the party's contributions g_j to the rows of the step at one draw of its unknowns, unhidden";

/// What such a model lets leave a party; `clips` where gradients are clipped.
pub(super) fn manifest(sizes: &Sizes, augmentation: Augmentation, clips: bool) -> Manifest {
    let mut fields = Values::fields(sizes);
    fields.retain(|field| clips || field.name != "clipped");
    match augmentation {
        Augmentation::None => fields.iter_mut().filter(|field| field.name == "z").for_each(|z| z.meaning = UNHIDDEN),
        Augmentation::Auxiliary { .. } => {}
        Augmentation::PowerLikelihood { .. } => {
            let more = FactorTerms::fields(sizes).into_iter();
            fields.extend(more.filter(|field| field.name.ends_with("gradient")).collect::<Vec<_>>());
        }
    }
    Manifest { fields }
}

/// Whether a request brings the gradient of a step.
pub(super) fn brings_gradient(request: &Message) -> bool {
    request.has("gradient")
}

/// Refuses a record of another length.
pub(super) fn wrong_length<T>(kind: &str, name: &str, found: usize, expected: usize) -> Result<T> {
    Err(Error::malformed(kind, format_args!("record `{name}` has {found} numbers, expected {expected}")))
}

/// Indices as numbers of a message, and back.
#[expect(clippy::cast_precision_loss, reason = "row indices are far below 2^52")]
pub(super) fn as_numbers(rows: &[usize]) -> Vec<f64> {
    rows.iter().map(|row| *row as f64).collect()
}

/// The indices that [`as_numbers`] wrote; `None` for a number that is no index.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and not negative")]
pub(super) fn as_rows(numbers: &[f64]) -> Option<Vec<usize>> {
    let index = |number: &f64| (*number >= 0.0 && number.fract() == 0.0 && *number < 9e15).then_some(*number as usize);
    numbers.iter().map(index).collect()
}
