//! Gives the coordinator's side of few rounds: a start from the silos' own posteriors, then natural-gradient steps.

use partita_core::{AnyModel, Device, LogDensity, Loss, Model, SiteTable, theta};

use super::alone::{Alone, SLACK, fit_alone};
use super::messages::{Answer, MOST_LOOKS, RoundRequest, Sizes, StartRequest};
use super::options::FewRoundsOptions;
use super::past::Past;
use super::quadratic::Quadratic;
use super::step::{Share, Step};
use crate::engine::algorithm::{
    Algorithm, ElboSamples, Ending, MethodCount, MethodCounts, Posterior, StepInfo, Tally, finite, replies, same_run,
};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::{Family, FullRankGaussian};
use crate::engine::natural::triangle::pairs;
use crate::engine::normal::Normal;
use crate::engine::settings::{Settings, TRUST_DRAWS};
use crate::engine::terms::silo::global_signature;
use crate::engine::trust::proposal::Proposal;
use crate::engine::trust::values::{MOST_VALUES, Values, ValuesRequest};
use crate::engine::whitened::Draws;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// The kind of a saved coordinator.
const STATE: &str = "few.coordinator";
/// The longest first step of the mean, in standard deviations of each of the globals; it doubles with every step kept.
const REACH: f64 = 2.25;
/// What the mean has to gain, in nats, from which on parts of a step are asked for beside the whole: quadratics say little
/// of what is far away, and an exchange costs more than another look.
const FAR: f64 = 3.0;
/// The longest part of a step that is then asked for, whatever its reach.
const MOST_FRACTION: f64 = 2.0;
/// The reach below which a run has got stuck.
const LEAST_REACH: f64 = 1e-4;
/// Rows times draws of the round of trust, above which there are fewer draws; rows of levels in levels count as often as there
/// are combinations of points at which each is evaluated.
const MOST_ROW_DRAWS: u64 = 100_000_000;
/// The rounds after which a run that has not converged ends, and says so.
const MOST_ROUNDS: u64 = 40;

/// Inference in a handful of rounds, for models of at most 200 globals whose rows have at most eight latents.
///
/// Rows are integrated out in their silos. What is left is a posterior over the globals, $q(z) = N(m, LL^\top)$, and a
/// bound whose gap to the evidence is $\mathrm{KL}(q \,\|\, p(z \mid y))$ alone:
///
/// ```math
/// \mathcal L(m, L) = E_q[\log p(z) + \sum_j \ell_j(z)] + H(q), \qquad
/// \ell_j(z) = \sum_i \log \int p(y_i, u_i \mid z)\, du_i
/// ```
/// The first exchange asks silos for normal distributions near their own posteriors and merges them. Every further one
/// is a natural-gradient step on draws that stay the same, and the last step is taken without looking back.
///
/// # References
/// Khan and Rue (2023), The Bayesian learning rule, JMLR 24; Naylor and Smith (1982) for adaptive quadrature.
#[derive(Debug)]
pub struct FewRounds {
    model: AnyModel,
    device: Device,
    settings: Settings,
    options: FewRoundsOptions,
    table: SiteTable,
    silos: Vec<String>,
    draws: Draws,
    family: FullRankGaussian,
    /// The accepted posterior, in the parameters of the family.
    parameters: Vec<f64>,
    course: Course,
    step: u64,
    manifest: Manifest,
    taken_back: u64,
    points: u64,
    /// Those of all silos, as they said in their starts.
    rows: u64,
    /// Evaluations of rows a draw in all silos of levels in levels, as they said in their starts.
    evaluations: u64,
}

/// A posterior that may come next.
#[derive(Debug, Clone, PartialEq)]
struct Look {
    at: Normal,
    /// The part of the step that leads there.
    fraction: f64,
}

/// What all parties say of a posterior that was asked for, which is a number.
struct Heard {
    look: Look,
    share: Share,
    points: u64,
}

impl Heard {
    fn bound(&self) -> f64 {
        self.share.value + self.look.at.entropy()
    }
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
struct Course {
    phase: Phase,
    /// The accepted posterior.
    at: Normal,
    /// What all parties say of it; `None` before they were asked.
    share: Option<Share>,
    /// The rounds before, as far as they are remembered.
    past: Past,
    /// The posteriors that are asked for next: the step, and far from the optimum also more and less of it.
    next: Vec<Look>,
    /// How far the mean may move in a step, in standard deviations.
    reach: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start = 0,
    Rounds = 1,
    Done = 2,
    /// It has not converged: no part of a step raised the bound, or there were too many rounds.
    Stuck = 3,
}

/// Refuses models and settings that few rounds do not take.
///
/// # Errors
/// [`Error::Setting`] with the name of the method that does.
pub(crate) fn check(settings: &Settings, table: &SiteTable, theta: &[f64]) -> Result<()> {
    let refuse = |found: String, expected| Err(Error::Setting { setting: "algorithm", found, expected });
    if table.global_len() == 0 {
        return refuse("FewRounds for a model without globals".into(), "a model with globals; use Sfvi");
    }
    if !theta.is_empty() {
        let found = format!("FewRounds for a model with {} trained parameters", theta.len());
        return refuse(found, "a model without trained parameters, such as an encoder's; use Sfvi");
    }
    if settings.loss != Loss::NegativeLogLikelihood {
        let found = format!("FewRounds with the loss {}", settings.loss);
        return refuse(found, "the negative log likelihood, whose exponential is integrated; use Sfvi");
    }
    if let Some(plate) = settings.minibatch.keys().next() {
        let found = format!("FewRounds with a minibatch of `{plate}`");
        return refuse(found, "no minibatch, since every round takes all rows; use Sfvi for minibatches");
    }
    Ok(())
}

/// Where a fit begins: at the starts of sites, each with its scale.
pub(super) fn start(settings: &Settings, table: &SiteTable) -> Normal {
    let len = table.global_len();
    let parameters = settings.family.start(&FullRankGaussian::new(len), table);
    let start = Normal::of_parameters(&parameters, len);
    start.unwrap_or_else(|| Normal::independent(table.start(), settings.family.scale()))
}

/// The prior's share at the draws of a distribution.
pub(super) fn prior_share(density: &LogDensity<'_, AnyModel>, draws: &Draws, at: &Normal) -> Result<Share> {
    let found = (0..draws.len()).map(|index| {
        let found = density.global(&at.draw(draws.get(index)))?;
        Ok((found.value, found.globals))
    });
    Ok(Share::of(at, draws, &found.collect::<Result<Vec<_>>>()?))
}

impl FewRounds {
    /// The coordinator of a run over the silos of these names.
    ///
    /// # Errors
    /// [`Error::Setting`] for a model that the method does not take, [`Error::NoSilos`], or what the model's global
    /// function refuses.
    pub fn new<M: Model>(
        model: &M,
        device: &Device,
        settings: &Settings,
        silos: &[String],
        options: &FewRoundsOptions,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        settings.check()?;
        if silos.is_empty() {
            return Err(Error::NoSilos);
        }
        let table = SiteTable::globals(model, device)?;
        check(settings, &table, &theta(model)?)?;
        let len = table.global_len();
        let draws = Draws::new(settings.seed, len, options.draws_for(len)?)?;
        let sizes = Sizes::of_looks(len, MOST_LOOKS);
        let fields = Answer::fields(&sizes).into_iter().chain(Values::fields(&(MOST_VALUES as u64))).collect();
        let at = start(settings, &table);
        Ok(Self {
            model: model.clone(),
            device: device.clone(),
            settings: settings.clone(),
            options: options.clone(),
            table,
            silos: silos.to_vec(),
            draws,
            family: FullRankGaussian::new(len),
            parameters: at.parameters(),
            course: Course {
                phase: Phase::Start,
                next: Vec::new(),
                at,
                share: None,
                past: Past::default(),
                reach: REACH * root(len),
            },
            step: 0,
            manifest: Manifest { fields },
            taken_back: 0,
            points: 0,
            rows: 0,
            evaluations: 0,
        })
    }

    /// The sizes of what is asked for now; a start is one posterior.
    fn sizes(&self) -> Sizes {
        Sizes::of_looks(self.table.global_len(), self.course.next.len().max(1) as u64)
    }

    /// The accepted posterior, as draws are made of it for the bound.
    fn proposal(&self, offset: u64) -> Proposal {
        let around = Normal {
            mean: self.parameters[..self.family.len()].to_vec(),
            factor: self.family.factor(&self.parameters),
        };
        Proposal { around, degrees: 0, seed: self.settings.seed, offset }
    }

    /// The prior at the draws of a distribution.
    fn prior(&self, at: &Normal) -> Result<Share> {
        prior_share(&LogDensity::new(&self.model, &self.device, &self.table), &self.draws, at)
    }

    /// Merges the silos' starts: the prior, with a quadratic for each silo's rows around its own posterior.
    fn merge(&mut self, outcomes: Vec<Outcome>) -> Result<()> {
        let (sizes, len) = (self.sizes(), self.table.global_len());
        let (mut quadratics, mut most) = (Vec::with_capacity(self.silos.len()), self.points);
        let (mut count, mut work) = (0, 0);
        for (reply, silo) in replies(outcomes, &self.silos, self.step)?.iter().zip(&self.silos) {
            let answer = Answer::read(reply, &sizes)?;
            count += answer.rows.unwrap_or_default();
            work += answer.evaluations.unwrap_or_default();
            most = most.max(answer.points);
            let share = answer.shares(&sizes).remove(0);
            let own = answer.own.unwrap_or_default();
            finite(
                silo,
                self.step,
                |_| "its start".into(),
                &[&own, &share.gradient, &share.curvature].map(Vec::as_slice).concat(),
            )?;
            let own = Normal::of_parameters(&own, len).ok_or_else(|| Error::Message {
                kind: Answer::KIND.into(),
                problem: format!("the start of silo `{silo}` has another number of parameters"),
            })?;
            quadratics.push(Quadratic::new(own, &share)?);
        }
        let start = quadratics[0].around.clone();
        let Alone { at: merged, .. } = fit_alone(start, &(), self.options.tolerance, |at, ()| {
            let mut total = self.prior(at)?;
            for quadratic in &quadratics {
                let found: Vec<_> = (0..self.draws.len()).map(|k| quadratic.at(&at.draw(self.draws.get(k)))).collect();
                total = total.plus(&Share::of(at, &self.draws, &found));
            }
            Ok((total, ()))
        })?;
        // Nothing has changed before all of it is known.
        (self.points, self.rows, self.evaluations) = (most, count, work);
        self.accept(merged.clone());
        self.course.next = vec![Look { at: merged, fraction: 1.0 }];
        self.course.phase = Phase::Rounds;
        Ok(())
    }

    fn accept(&mut self, at: Normal) {
        self.parameters = at.parameters();
        self.course.at = at;
    }

    /// What all parties say of the posteriors that were asked for, without those where that is no number.
    fn heard(&self, outcomes: Vec<Outcome>) -> Result<Vec<Heard>> {
        let may_fail = self.course.share.is_some();
        let is_off = |outcome: &Outcome| matches!(outcome, Outcome::Failed(error) if error.is_outside());
        if may_fail && outcomes.iter().any(is_off) {
            return Ok(Vec::new());
        }
        let sizes = self.sizes();
        let (mut shares, mut most) = (Vec::with_capacity(self.silos.len()), self.points);
        for (reply, silo) in replies(outcomes, &self.silos, self.step)?.iter().zip(&self.silos) {
            let answer = Answer::read(reply, &sizes)?;
            shares.push((silo, answer.shares(&sizes)));
            most = most.max(answer.points);
        }
        let mut all = Vec::with_capacity(self.course.next.len());
        'looks: for (index, look) in self.course.next.iter().enumerate() {
            let mut total = match self.prior(&look.at) {
                Err(error) if may_fail && error.is_outside() => continue,
                other => other?,
            };
            for (silo, shares) in &shares {
                let share = &shares[index];
                if may_fail && share.value == f64::NEG_INFINITY {
                    continue 'looks;
                }
                let numbers = [&[share.value], share.gradient.as_slice(), &share.curvature].concat();
                finite(silo, self.step, |_| "its share".into(), &numbers)?;
                total = total.plus(share);
            }
            all.push(Heard { look: look.clone(), share: total, points: most });
        }
        Ok(all)
    }

    /// Takes the best of the posteriors asked for, or takes the step to them back, and finds what to ask for next.
    fn advance(&mut self, heard: Vec<Heard>) -> Result<StepInfo> {
        let before = self.course.share.as_ref().map(|share| share.value + self.course.at.entropy());
        // Of a step that is taken back, the least part says how much is left of it.
        let least = self.course.next.iter().map(|look| look.fraction).fold(f64::INFINITY, f64::min);
        let of_least = heard.iter().find(|own| own.look.fraction <= least).map(Heard::bound);
        let gain_of_least = of_least.zip(before).map(|(bound, before)| bound - before);
        let best = heard.into_iter().reduce(|best, own| if own.bound() > best.bound() { own } else { best });
        let best = best.filter(|own| before.is_none_or(|before| own.bound() - before > -SLACK));
        let used = best.as_ref().map_or(least, |own| own.look.fraction);
        let (step, bound) = match (best, &self.course.share) {
            (Some(heard), _) => {
                let bound = heard.bound();
                let Heard { look, share, points } = heard;
                self.points = points;
                if let Some(before) = &self.course.share {
                    self.course.past.push(&self.course.at, before)?;
                }
                let step = Step::of(&share)?;
                self.course.share = Some(share);
                self.accept(look.at);
                if before.is_some() {
                    self.course.reach *= 2.0;
                }
                (step, bound)
            }
            (None, Some(share)) => {
                let tried = Step::of(&self.course.past.mix(&self.course.at, share))?;
                self.taken_back += 1;
                self.course.past.clear();
                self.course.reach = tried.length() * tried.shortened(least, gain_of_least);
                (Step::of(share)?, before.unwrap_or(f64::NAN))
            }
            (None, None) => unreachable!("invariant: the first share is accepted"),
        };
        self.step += 1;
        let norm = (2.0 * step.decrement()).sqrt();
        let (is_last, is_far) = (step.is_last(self.options.tolerance), step.decrement() > FAR);
        // The plain step decides on the end, and the one that remembers earlier rounds is taken.
        let step = match &self.course.share {
            Some(share) => Step::of(&self.course.past.mix(&self.course.at, share))?,
            None => step,
        };
        if is_last {
            // What is left is less than the tolerance: the last step needs no further look.
            self.accept(step.take(&self.course.at, 1.0));
            (self.course.next, self.course.phase) = (Vec::new(), Phase::Done);
        } else if self.course.reach < LEAST_REACH || self.step > MOST_ROUNDS {
            self.course.phase = Phase::Stuck;
        } else {
            let whole = (self.course.reach / step.length()).min(1.0);
            let far: [f64; MOST_LOOKS as usize] = [whole, (4.0 * whole).min(MOST_FRACTION), 0.25 * whole];
            let fractions = if is_far { &far[..] } else { &far[..1] };
            let look = |fraction: &f64| Look { at: step.take(&self.course.at, *fraction), fraction: *fraction };
            self.course.next = fractions.iter().map(look).collect();
        }
        let info = StepInfo::still(self.step, Tally::steps(1, self.silos.len()));
        Ok(StepInfo { elbo: bound, gradient_norm: Some(norm), rate: Some(used), ..info })
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are few globals")]
fn root(len: usize) -> f64 {
    (len as f64).sqrt()
}

impl Algorithm for FewRounds {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let (step, seed) = (self.step, self.settings.seed);
        let message = match self.course.phase {
            Phase::Start => StartRequest { step, seed }.write(),
            _ => {
                let global = self.course.next.iter().flat_map(|look| look.at.parameters()).collect();
                RoundRequest { step, seed, looks: self.course.next.len() as u64, global }.write()
            }
        };
        Ok(Request::to_all(self.silos.len(), &message))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        if self.course.phase == Phase::Start {
            self.merge(outcomes)?;
            self.step += 1;
            return Ok(StepInfo::still(self.step, Tally::steps(1, self.silos.len())));
        }
        let heard = self.heard(outcomes)?;
        self.advance(heard)
    }

    fn ended(&self) -> Option<Ending> {
        match self.course.phase {
            Phase::Start | Phase::Rounds => None,
            Phase::Done => Some(Ending::Converged),
            Phase::Stuck => Some(Ending::NotConverged),
        }
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        let message = ValuesRequest::of(&self.proposal(offset), &[], draws).write();
        Request::to_all(self.silos.len(), &message)
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        let mut elbos = vec![0.0; draws];
        for (reply, silo) in replies(outcomes, &self.silos, self.step)?.iter().zip(&self.silos) {
            let values = Values::read(reply, &(draws as u64))?.values.unwrap_or_default();
            finite(silo, self.step, |_| "the log marginal likelihood of its rows".into(), &values)?;
            elbos.iter_mut().zip(values).for_each(|(slot, value)| *slot += value);
        }
        let density = LogDensity::new(&self.model, &self.device, &self.table);
        let proposal = self.proposal(offset);
        for (index, slot) in elbos.iter_mut().enumerate() {
            let draw = proposal.draw(index);
            *slot += density.global(&draw)?.value - proposal.log_density(&draw);
        }
        finite("the coordinator", self.step, |_| "the bound".into(), &elbos)?;
        Ok(ElboSamples { elbos, ..ElboSamples::default() })
    }

    fn draws_a_request(&self) -> usize {
        MOST_VALUES
    }

    fn bounds_marginals(&self) -> bool {
        true
    }

    fn trust_draws(&self) -> usize {
        // The more rows, the nearer to normal a posterior is, and the more a draw costs.
        let most = MOST_ROW_DRAWS / self.rows.max(self.evaluations).max(1);
        let draws = usize::try_from(most).unwrap_or(usize::MAX).clamp(256, TRUST_DRAWS);
        1 << draws.ilog2()
    }

    fn counts(&self) -> Option<MethodCounts> {
        let count = |name: &'static str, meaning: &'static str, number| MethodCount {
            name: name.into(),
            meaning: meaning.into(),
            number,
        };
        let counts = vec![
            count(
                "points",
                "points along each latent of a row, or a row where it has more than three, where rows are integrated",
                self.points,
            ),
            count("taken_back", "steps taken back, which lowered the bound", self.taken_back),
        ];
        Some(MethodCounts { method: "few rounds".into(), counts })
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &self.family, parameters: &self.parameters, theta: &[] }
    }

    fn save(&self) -> Message {
        let Course { phase, at, share, past, next, reach } = &self.course;
        let state = Message::new(STATE)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .word("phase", *phase as u64)
            .word("taken_back", self.taken_back)
            .word("points", self.points)
            .word("rows", self.rows)
            .word("evaluations", self.evaluations)
            .number("reach", *reach)
            .setting("globals", &global_signature(&self.table))
            .floats("at", &at.flat())
            .floats("next", &next.iter().flat_map(|look| look.at.flat()).collect::<Vec<_>>())
            .floats("fractions", &next.iter().map(|look| look.fraction).collect::<Vec<_>>())
            .floats("past", &past.flat());
        match share {
            Some(Share { value, gradient, curvature }) => {
                state.number("value", *value).floats("gradient", gradient).floats("curvature", curvature)
            }
            None => state,
        }
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        same_run(state, STATE, &global_signature(&self.table), self.settings.seed)?;
        let len = self.table.global_len();
        let normal = |name: &str, parameters: &[f64]| {
            Normal::of_flat(parameters, len).ok_or_else(|| Error::Message {
                kind: state.kind.clone(),
                problem: format!("`{name}` is no posterior of this model"),
            })
        };
        let share = if state.has("gradient") {
            let (value, gradient) = (state.get_number("value")?, state.expect_floats("gradient", len)?);
            Some(Share { value, gradient, curvature: state.expect_floats("curvature", pairs(len))? })
        } else {
            None
        };
        let phase = match state.get_count("phase", 3)? {
            0 => Phase::Start,
            1 => Phase::Rounds,
            2 => Phase::Done,
            _ => Phase::Stuck,
        };
        let at = normal("at", &state.expect_floats("at", self.family.parameter_len())?)?;
        let fractions = state.get_floats("fractions")?;
        let places = state.expect_floats("next", fractions.len() * self.family.parameter_len())?;
        let places = places.chunks_exact(self.family.parameter_len()).zip(fractions);
        let look = |(own, fraction)| Ok(Look { at: normal("next", own)?, fraction });
        let next = places.map(look).collect::<Result<Vec<_>>>()?;
        let past = Past::of_flat(&state.get_floats("past")?, len).ok_or_else(|| Error::Message {
            kind: state.kind.clone(),
            problem: "`past` holds no rounds of this model".into(),
        })?;
        let reach = state.get_number("reach")?;
        self.taken_back = state.get_count("taken_back", LARGEST_COUNT)?;
        self.points = state.get_count("points", LARGEST_COUNT)?;
        self.rows = state.get_count("rows", LARGEST_COUNT)?;
        self.evaluations = state.get_count("evaluations", LARGEST_COUNT)?;
        self.step = state.get_count("step", LARGEST_COUNT)?;
        self.parameters = at.parameters();
        self.course = Course { phase, at, share, past, next, reach };
        Ok(())
    }
}
