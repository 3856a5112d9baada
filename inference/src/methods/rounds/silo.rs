//! Gives the silo's side of rounds of local steps: many steps on its own data, from the common posterior or point.

use partita_core::{Part, Precision, Purpose};

use super::messages::{POINT_ROUND, Round, RoundAnswer, Sizes};
use super::private::NoisedChange;
use crate::engine::checkpoint::{NamedVectors, prefixed, with_prefix};
use crate::engine::error::{Error, Result};
use crate::engine::moments::mean_and_variance;
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::terms::coordinator::tensors;
use crate::engine::terms::objective::GlobalPrior;
use crate::engine::terms::particles::Draws;
use crate::engine::terms::silo::{Silo, check_rate};
use crate::engine::trainer::{Coordinates, Descent, units};
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// What names of the state of the optimiser of globals begin with.
const GLOBAL: &str = "global.";

/// One party of SFVI-Avg or of federated averaging of points; it also answers what a party of SFVI does, so that one
/// run may go from rounds to steps.
#[derive(Debug)]
pub struct AveragingSilo {
    pub(super) silo: Silo,
    index: u32,
    descent: Descent,
    /// Local steps of the present round whose gradient was clipped.
    clipped: u64,
    /// The most local steps of a round that its owner allows.
    most_steps: u64,
    /// What a round changes leaves the silo through this, where the silo as a whole is protected.
    pub(super) noised_change: Option<NoisedChange>,
}

/// Where a silo stands within a round.
struct Point<'a> {
    /// The parameters of the global family, then θ.
    values: &'a mut [f64],
    /// How many of them are the family's.
    parameters: usize,
    /// Where the round began.
    start: &'a [f64],
    /// The learning rate with the coordinates of the values, where they follow from the run.
    rate: Option<(f64, &'a mut Coordinates)>,
}

/// The learning rates of the first and the last step of a round.
pub(super) struct RoundPace {
    rates: [f64; 2],
}

/// What a round says of its learning rates.
pub(super) fn round_pace(request: &Round) -> Result<Option<RoundPace>> {
    let Some([first, last]) = request.rates.as_deref() else { return Ok(None) };
    Ok(Some(RoundPace { rates: [check_rate(Round::KIND, *first)?, check_rate(Round::KIND, *last)?] }))
}

/// The units in which parameters and θ move at the rates of a round.
pub(super) fn round_units(silo: &Silo, request: &Round) -> Coordinates {
    let theta = units::of_theta(&request.theta, &tensors(&silo.workers[0].model));
    Coordinates::of_units(&*silo.family, &request.global, theta)
}

/// Refuses a model with local latents for point estimation.
pub(super) fn check_points(silo: &Silo) -> Result<()> {
    let Some(site) = silo.table.latents(Part::Local).next() else { return Ok(()) };
    Err(Error::Setting {
        setting: "algorithm",
        found: format!("FedOpt for a model whose site `{}` is latent in each silo", site.name),
        expected: "a model whose latents are all global; SfviAvg and Sfvi take local latents",
    })
}

impl RoundPace {
    /// The rate of a step of so many: on a straight line.
    pub(super) fn rate(&self, step: u64, steps: u64) -> f64 {
        let [first, last] = self.rates;
        first + (last - first) * (step as f64 / steps.saturating_sub(1).max(1) as f64)
    }
}

impl AveragingSilo {
    /// Lets a silo, the `index`-th of the run, take local steps.
    #[must_use]
    pub fn new(silo: Silo, index: u32) -> Self {
        let descent = Descent::new(&silo.settings, &silo.device);
        Self { silo, index, descent, clipped: 0, most_steps: LARGEST_COUNT, noised_change: None }
    }

    /// The same silo, which refuses rounds of more local steps than this.
    #[must_use]
    pub fn at_most(self, local_steps: u64) -> Self {
        Self { most_steps: local_steps, ..self }
    }

    /// Lets a silo take local steps of point estimation.
    ///
    /// # Errors
    /// [`Error::Setting`] for a model with local latents: a mean of losses over observations has no place for them.
    pub fn of_points(silo: Silo, index: u32) -> Result<Self> {
        check_points(&silo)?;
        Ok(Self::new(silo, index))
    }

    /// The local steps of a round.
    fn round(&mut self, kind: &str, message: &Message) -> Result<Message> {
        let request = &Round::read_as(kind, message, &self.sizes())?;
        let Round { round, step: first, local_steps: count, ref global, ref theta, .. } = *request;
        self.noised_change.as_ref().map_or(Ok(()), |own| own.check(round))?;
        let is_undone = request.undone.is_some();
        if !request.keep_optimiser || is_undone {
            self.descent.restart();
        }
        if is_undone {
            self.silo.locals.forget(&self.silo.settings, &self.silo.device);
        }
        self.silo.begin_noised(message, count)?;
        self.silo.set_theta(theta)?;
        let coordinates = |units: Coordinates| match request.whitened {
            Some(_) => units.whitened(&*self.silo.family, global),
            None => units,
        };
        let mut pace = round_pace(request)?.map(|pace| (pace, coordinates(round_units(&self.silo, request))));
        let parameters = global.len();
        let mut point = [global.as_slice(), theta].concat();
        let start = point.clone();
        let mut last = Vec::new();
        self.clipped = 0;
        for step in first..first + count {
            let rate = pace.as_mut().map(|(pace, coordinates)| (pace.rate(step - first, count), coordinates));
            let at = Point { values: &mut point, parameters, start: &start, rate };
            let elbo = match self.local_step(step, at, request) {
                // A refusal without noise would tell that rows are outside there: such a round has changed nothing.
                Err(error) if self.noised_change.is_some() && error.is_outside() => {
                    point.clone_from(&start);
                    break;
                }
                found => found?,
            };
            // The bound reported is the mean over the last tenth of the round.
            if step - first >= count - count.div_ceil(10) {
                last.push(elbo);
            }
        }
        self.silo.step = first + count;
        self.silo.see(&start[..parameters]);
        let mut clipped = self.clipped;
        if let Some(own) = &mut self.noised_change {
            // Which steps were clipped follows from rows without noise.
            (point, clipped) = (own.release(message, &start, &point)?, 0);
        }
        let theta = point.split_off(parameters);
        let clipped_rows = self.silo.clipped_rows(count);
        // Bounds of rows have no noise.
        let elbo = (!self.is_private()).then(|| mean_and_variance(&last).0);
        Ok(RoundAnswer { round, global: point, elbo, clipped_rows, clipped, theta }.write())
    }

    /// One step on this silo's data.
    fn local_step(&mut self, step: u64, point: Point<'_>, round: &Round) -> Result<f64> {
        let Round { weight, entropy: entropy_weight, prior, proximal, .. } = *round;
        let Point { values, parameters, start, rate } = point;
        let (silo, owner) = (&mut self.silo, self.index);
        let count = silo.settings.particles;
        let draw = Draws { purpose: Purpose::Fit, step, count, owner, weight, entropy_weight, may_join: true };
        let theta = values.len() - parameters;
        let mut objective = silo.local_objective(&values[..parameters], theta, draw, GlobalPrior::Model(prior))?;
        let bound = objective.bound;
        if proximal > 0.0 {
            let pulled = objective.gradient.iter_mut().zip(values.iter().zip(start));
            pulled.for_each(|(g, (own, from))| *g += proximal * (own - from));
        }
        let (rate, coordinates) = match rate {
            Some((rate, coordinates)) => (rate, Some(coordinates)),
            None => (self.descent.rate(step), None),
        };
        let is_clipped = self.descent.step(rate, coordinates, values, &mut objective.gradient);
        self.clipped += u64::from(is_clipped);
        silo.move_locals(objective, rate);
        silo.set_theta(&values[parameters..])?;
        Ok(bound)
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes::of_silo(&self.silo, self.most_steps)
    }
}

impl Program for AveragingSilo {
    fn standing(&self) -> Standing<'_> {
        self.silo.standing()
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            kind @ (Round::KIND | POINT_ROUND) => self.round(kind, request),
            other if self.is_private() => {
                let problem = "a private silo answers rounds alone: bounds, weights and checks have no noise".into();
                Err(Error::Message { kind: other.to_owned(), problem })
            }
            _ => self.silo.reply(request),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        let mut state = self.silo.state();
        state.extend(prefixed(GLOBAL, self.descent.save()));
        Ok(state)
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let (globals, own): (Vec<_>, Vec<_>) = state.iter().cloned().partition(|(name, _)| name.starts_with(GLOBAL));
        Ok(self.silo.load(step, &own)? && self.descent.load(with_prefix(&globals, GLOBAL)))
    }

    fn commit(&self, request: &Message) -> Commit {
        match request.kind.as_str() {
            Round::KIND | POINT_ROUND => Commit::AsItGoes,
            _ => self.silo.commit(request),
        }
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.silo.moments()
    }

    fn set_precision(&mut self, precision: Precision) -> Result<bool> {
        if self.is_private() { Ok(false) } else { self.silo.set_precision(precision) }
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.silo.kept_theta()
    }
}
