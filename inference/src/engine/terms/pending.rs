//! Keeps the gradients of a silo's own parameters until the coordinator says what each draw weighs.

use crate::engine::checkpoint::{NamedVectors, named};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::descent;
use crate::engine::explosion::{real, whole};
use crate::engine::terms::Silo;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// The name of the saved step.
const STEP: &str = "pending.step";

/// The gradients of one step by the silo's own parameters: for each draw one vector a block.
///
/// What a draw weighs depends on the shares of all silos, which only the coordinator knows after the step. It sends the
/// weights with its next request, whichever that is, so that they cost no round; the silo applies them once.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) step: u64,
    /// The learning rate of the step.
    pub(crate) rate: f64,
    pub(crate) draws: Vec<Vec<Vec<f64>>>,
}

/// What the draws of the last step weigh, as the coordinator sends it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LastWeights {
    pub(crate) step: u64,
    /// What multiplies the gradient of each draw; empty before the first step.
    pub(crate) weights: Vec<f64>,
}

impl LastWeights {
    /// What a request says of them.
    pub(crate) fn told(step: Option<u64>, weights: Option<&[f64]>) -> Self {
        match (step, weights) {
            (Some(step), Some(weights)) => Self { step, weights: weights.to_vec() },
            _ => Self::default(),
        }
    }

    /// The step whose draws are weighed, where some are.
    pub(crate) fn of_step(&self) -> Option<u64> {
        (!self.weights.is_empty()).then_some(self.step)
    }

    /// What its draws weigh, where they do.
    pub(crate) fn each(&self) -> Option<Vec<f64>> {
        (!self.weights.is_empty()).then(|| self.weights.clone())
    }

    /// Adds the weights to a saved state.
    pub(crate) fn put(&self, message: Message) -> Message {
        if self.weights.is_empty() {
            return message;
        }
        message.word("weighted_step", self.step).floats("weights", &self.weights)
    }

    /// Reads them off a saved state.
    pub(crate) fn get(message: &Message) -> Result<Self> {
        if !message.has("weights") {
            return Ok(Self::default());
        }
        Ok(Self { step: message.get_count("weighted_step", LARGEST_COUNT)?, weights: message.get_floats("weights")? })
    }
}

impl Pending {
    /// The weights that a request brings for this step.
    fn weights(&self, LastWeights { step, weights }: LastWeights) -> Result<Vec<f64>> {
        let (found, expected, own) = (weights.len(), self.draws.len(), self.step);
        let problem =
            format_args!("it has {found} weights of step {step}, the silo waits for {expected} of step {own}");
        Error::well_formed(step == own && found == expected, "the weights of a step", problem)?;
        Ok(weights)
    }

    /// Everything as named vectors.
    fn save(&self) -> NamedVectors {
        let mut state = vec![(STEP.to_owned(), vec![real(self.step), self.rate])];
        for (draw, blocks) in self.draws.iter().enumerate() {
            let named = |(block, values): (usize, &Vec<f64>)| (format!("pending.{draw}.{block}"), values.clone());
            state.extend(blocks.iter().enumerate().map(named));
        }
        state
    }

    /// What [`Pending::save`] gave, for this many draws of blocks with these lengths; `None` if it does not fit.
    fn load(state: &[(String, Vec<f64>)], draws: usize, lengths: &[usize]) -> Option<Self> {
        let [step, rate] = *named(state, STEP)? else { return None };
        let block = |draw: usize, (index, length): (usize, &usize)| {
            let saved = named(state, &format!("pending.{draw}.{index}"));
            saved.filter(|values| values.len() == *length).map(<[f64]>::to_vec)
        };
        let blocks = |draw| lengths.iter().enumerate().map(|place| block(draw, place)).collect();
        let draws = (0..draws).map(blocks).collect::<Option<_>>()?;
        Some(Self { step: whole(step), rate, draws })
    }
}

/// The name of how many noised sums a private silo has given.
const GIVEN: &str = "noised.given";

impl Silo {
    /// Takes the step of the local parameters that waited for these weights; nothing if none waits.
    pub(crate) fn settle(&mut self, last: LastWeights) -> Result<()> {
        let Some(pending) = &self.pending else { return Ok(()) };
        let weights = pending.weights(last)?;
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let rate = pending.rate;
        let rows = self.locals.rows(pending.step);
        self.locals.descend(&rows, descent(pending.draws, &weights, 1.0), &[], rate);
        Ok(())
    }

    /// The local posterior with what waits, as named vectors.
    pub(crate) fn state(&self) -> NamedVectors {
        let mut state = self.locals.save();
        state.extend(self.pending.iter().flat_map(Pending::save));
        state.extend(self.save_seen());
        state.extend(self.noised.as_ref().map(|own| (GIVEN.to_owned(), vec![f64::from_bits(own.given)])));
        state
    }

    /// Restores what [`Silo::state`] gave; false if it does not fit.
    pub(crate) fn restore(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let lengths: Vec<usize> = self.locals.parameters().iter().map(Vec::len).collect();
        self.pending = Pending::load(state, self.settings.particles, &lengths);
        match (&mut self.noised, named(state, GIVEN)) {
            (Some(noised), Some([given])) => noised.given = given.to_bits(),
            (None, None) => {}
            _ => return false,
        }
        self.pending.is_some() == named(state, STEP).is_some() && self.load_seen(state) && self.locals.load(state)
    }
}
