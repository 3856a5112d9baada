//! Asks silos for the log marginal likelihood of their rows at draws of the globals, and answers.

use partita_core::{Loss, Precision, SiteTable};

use super::judging::JudgingSilo;
pub(crate) use super::judging::Sizes;
use super::proposal::{MOST_DEGREES, Proposal};
use crate::engine::error::{Error, Result};
use crate::engine::integral::{AtDraws, RowIntegral, Until};
use crate::engine::natural::triangle::pairs;
use crate::engine::normal::Normal;
use crate::engine::report::Severity;
use crate::engine::terms::particles::Worker;
use crate::engine::whitened::Draws;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::message;

/// The most draws in one request.
pub(crate) const MOST_VALUES: usize = 4_096;

impl Sizes {
    /// Those of a normal distribution over so many globals.
    pub(crate) fn of(globals: usize, theta: usize) -> Self {
        Self { parameters: (globals + pairs(globals)) as u64, theta: theta as u64 }
    }
}

message! {
    /// Asks a silo for the log marginal likelihood of its rows at draws of the globals.
    struct ValuesRequest = "trust.values", sizes: &Sizes {
        /// the number of the look, or of the first draw of normal ones
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// parameters of the normal distribution around which draws are made
        global: Vec<f64> = Request <= sizes.parameters,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
        /// degrees of freedom of the draws, 0 for normal ones
        degrees: u64 = Request <= MOST_DEGREES,
        /// how many draws
        draws: u64 = Request <= MOST_VALUES as u64,
    }
}

message! {
    /// One number a draw, or why there are none.
    struct Values = "trust.valued", sizes: &u64 {
        /// the log marginal likelihood of its rows at each draw of the globals
        values: Option<Vec<f64>> = Data <= *sizes,
        /// why there are none, by number; 0 if there are
        refusal: u64 = Request <= Refusal::ALL.len() as u64,
    }
}

/// Why a silo has no log marginal likelihoods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Rows have more latents than are integrated.
    Latents = 1,
    /// Nested levels have too many combinations of nodes.
    Levels = 2,
    /// Another loss than the negative log likelihood.
    Loss = 3,
    /// The device computes in single precision.
    Precision = 4,
    /// Rows are integrated by draws, which say too little.
    Draws = 5,
    /// Rows are not resolved by the most points.
    Points = 6,
}

impl Refusal {
    const ALL: [Self; 6] = [Self::Latents, Self::Levels, Self::Loss, Self::Precision, Self::Draws, Self::Points];

    /// The refusal of this number; `None` for no refusal.
    pub(crate) fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|own| *own as u64 == number)
    }

    /// Why, in words that follow a "since".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Latents => "rows, or the silo itself, have more than eight latents, which are too many to integrate",
            Self::Levels => "nested levels of rows need more combinations of nodes than are visited",
            Self::Loss => "the loss is not the negative log likelihood, whose exponential is integrated",
            Self::Precision => "the device computes in single precision",
            Self::Draws => {
                "its rows are integrated by draws, of which 4,096 a row give log likelihoods that are too noisy"
            }
            Self::Points => {
                "integrals over its rows are not resolved by points, as where their latents are very wide, or have heavy tails or several modes; sample with `Nuts`, or give latents of rows that are not normal a normal distribution"
            }
        }
    }

    /// How grave it is that a posterior was not compared: families are far too narrow where few outer rows have nested
    /// ones, and integrals that points do not resolve were those of the fit.
    pub(crate) fn severity(self) -> Severity {
        if matches!(self, Self::Levels | Self::Points) { Severity::Doubt } else { Severity::Limit }
    }
}

impl ValuesRequest {
    /// A request for so many draws.
    pub(crate) fn of(proposal: &Proposal, theta: &[f64], draws: usize) -> Self {
        let Proposal { around, degrees, seed, offset } = proposal;
        Self {
            step: *offset,
            seed: *seed,
            global: around.parameters(),
            theta: theta.to_vec(),
            degrees: *degrees,
            draws: draws as u64,
        }
    }

    /// Where the draws that are asked for come from.
    ///
    /// # Errors
    /// [`Error::Message`] for a distribution of another model.
    pub(crate) fn proposal(&self, globals: usize) -> Result<Proposal> {
        let problem = "its posterior has another number of parameters than this model's";
        let around = Normal::of_parameters(&self.global, globals);
        let around = around.ok_or_else(|| Error::malformed(Self::KIND, problem))?;
        Ok(Proposal { around, degrees: self.degrees, seed: self.seed, offset: self.step })
    }

    /// How many draws are asked for.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.draws).unwrap_or(usize::MAX)
    }
}

impl Values {
    /// Log marginal likelihoods at so many draws of `proposal`, unless draws of rows, or too few points for them, make them
    /// too noisy. Rules begin where those at the draws of `around` lead to.
    ///
    /// # Errors
    /// What the model reports at a node, beside that a density is no number.
    pub(crate) fn at(rows: &mut AtDraws, around: &Normal, proposal: &Proposal, count: usize) -> Result<Self> {
        if let Some(refusal) = unresolved(rows, &around.mean)? {
            return Ok(Self::refused(refusal));
        }
        let values = rows.values(around, count, |index| proposal.draw(index))?;
        Ok(Self { values: Some(values), refusal: 0 })
    }

    fn refused(refusal: Refusal) -> Self {
        Self { values: None, refusal: refusal as u64 }
    }
}

/// Why integrals over rows say too little around these globals; `None` where they are resolved.
///
/// # Errors
/// What the model reports at a node, beside that a density is no number.
pub(crate) fn unresolved(rows: &AtDraws, globals: &[f64]) -> Result<Option<Refusal>> {
    let (refusal, most) = if RowIntegral::drawn(&rows.table).is_some() {
        (Refusal::Draws, MOST_NOISE)
    } else if rows.integral.is_nested() {
        (Refusal::Levels, MOST_NOISE)
    } else {
        // Neighbouring rules err alike: their difference is less than their error.
        (Refusal::Points, NOISE)
    };
    if rows.noise > most {
        return Ok(Some(refusal));
    }
    Ok((rows.missed(globals)? > MOST_MISSED).then_some(Refusal::Points))
}

/// Where rows are integrated by draws, the standard deviation of differences between globals, in nats, up to which draws
/// are added, and above which nothing is answered.
pub(crate) const NOISE: f64 = 0.05;
const MOST_NOISE: f64 = 0.2;
/// The mass that rules may miss, in nats summed over rows: a second mode as large as the first is 0.7 of a single row.
const MOST_MISSED: f64 = 0.5;
/// How far numbers of points are raised: the error of the integrals is in nats summed over rows.
pub(crate) const UNTIL: Until = Until { tolerance: 0.01, most: usize::MAX, nodes: usize::MAX, noise: NOISE };

impl JudgingSilo {
    pub(super) fn values(&self, request: &Message) -> Result<Message> {
        let refuse = |refusal: Refusal| Ok(Values::refused(refusal).write());
        if self.settings.loss != Loss::NegativeLogLikelihood {
            return refuse(Refusal::Loss);
        }
        if self.device.precision() == Precision::Single {
            return refuse(Refusal::Precision);
        }
        let Worker { model, data } = &self.worker;
        let table = SiteTable::of(model, &self.device, data)?;
        if RowIntegral::check(&table).is_err() {
            return refuse(Refusal::Latents);
        }
        if RowIntegral::check_levels(&table).is_err() {
            return refuse(Refusal::Levels);
        }
        let request = ValuesRequest::read(request, &Sizes::of(table.global_len(), self.shared()?))?;
        let proposal = request.proposal(table.global_len())?;
        let draws = Draws::enough(self.settings.seed, table.global_len())?;
        let rows = AtDraws::new(self.at(&request.theta)?, self.settings.silo_threads(), &self.device, table, draws)?;
        let mut rows = rows.ready_around(&proposal.around, UNTIL)?;
        Ok(Values::at(&mut rows, &proposal.around, &proposal, request.count())?.write())
    }
}
