//! Gives the coordinator's side of few rounds: a start from the silos' own posteriors, then natural-gradient steps.

use partita_core::kernel::dot;
use partita_core::{AnyModel, Device, LogDensity, Loss, Model, Precision, SiteTable, theta};

use super::alone::{SLACK, fit_alone};
use super::course::{Course, Phase};
use super::messages::{Answer, RoundRequest, Sizes, StartRequest};
use super::options::FewRoundsOptions;
use super::past::Past;
use super::plates::Plates;
use super::quadratic::Quadratic;
use super::step::{Share, Step, shortened};
use super::surrogate::optimum;
use crate::engine::algorithm::{
    Algorithm, ElboSamples, Ending, MethodCount, MethodCounts, Posterior, StepInfo, Tally, finite, replies, same_run,
};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::{Family, FullRankGaussian};
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
/// The reach below which a run has got stuck.
const LEAST_REACH: f64 = 1e-4;
/// Rows times draws of the round of trust, above which there are fewer draws; rows of levels in levels count as often as there
/// are combinations of points at which each is evaluated.
const MOST_ROW_DRAWS: u64 = 100_000_000;
/// The rounds in which silos may say again what they said: later ones are near enough for steps.
const MOST_AGAIN: u64 = 3;
/// The rounds after which a run that has not converged ends, and says so.
const MOST_ROUNDS: u64 = 40;
/// What may be left to gain, in nats, where more costs too much: in single precision, and after so many rounds.
const ROUGHLY: f64 = 1e-3;
const SOME_ROUNDS: u64 = 7;

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
    /// How rows were integrated, by the most points of all silos and rounds.
    plates: Plates,
    /// Those of all silos, as they said in their starts.
    rows: u64,
    /// Evaluations of rows a draw in all silos of levels in levels, as they said in their starts.
    evaluations: u64,
}

/// What all parties say of a posterior, with the step that it gives.
struct Heard {
    share: Share,
    step: Step,
    plates: Plates,
    /// What each silo says from here on, if any of them says it again.
    again: Option<Vec<Quadratic>>,
}

/// Refuses models and settings that few rounds do not take.
///
/// # Errors
/// [`Error::Setting`] with the name of the method that does.
pub(crate) fn check(settings: &Settings, table: &SiteTable, theta: &[f64]) -> Result<()> {
    let found = "FewRounds for a model without globals";
    Error::unless(table.global_len() > 0, "algorithm", found, "a model with globals; use Sfvi")?;
    let found = format_args!("FewRounds for a model with {} trained parameters", theta.len());
    let expected = "a model without trained parameters, such as an encoder's; use Sfvi";
    Error::unless(theta.is_empty(), "algorithm", found, expected)?;
    let found = format_args!("FewRounds with the loss {}", settings.loss);
    let expected = "the negative log likelihood, whose exponential is integrated; use Sfvi";
    Error::unless(settings.loss == Loss::NegativeLogLikelihood, "algorithm", found, expected)?;
    let Some(plate) = settings.minibatch.keys().next() else { return Ok(()) };
    let found = format!("FewRounds with a minibatch of `{plate}`");
    let expected = "no minibatch, since every round takes all rows; use Sfvi for minibatches";
    Err(Error::Setting { setting: "algorithm", found, expected })
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
        let sizes = Sizes::of(len, draws.pairs());
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
                next: at.clone(),
                at,
                share: None,
                said: Vec::new(),
                past: Past::default(),
                fraction: 1.0,
                reach: REACH * root(len),
            },
            step: 0,
            manifest: Manifest { fields },
            taken_back: 0,
            plates: Plates::default(),
            rows: 0,
            evaluations: 0,
        })
    }

    fn sizes(&self) -> Sizes {
        Sizes::of(self.table.global_len(), self.draws.pairs())
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
        let (mut quadratics, mut known) = (Vec::with_capacity(self.silos.len()), self.plates.clone());
        let (mut count, mut work) = (0, 0);
        for (reply, silo) in replies(outcomes, &self.silos, self.step)?.iter().zip(&self.silos) {
            let Answer { own, value, gradient, curvature, plates, rows, evaluations, .. } =
                Answer::read(reply, &sizes)?;
            count += rows.unwrap_or_default();
            work += evaluations.unwrap_or_default();
            let own = own.unwrap_or_default();
            finite(silo, self.step, |_| "its start".into(), &[own.as_slice(), &gradient, &curvature].concat())?;
            let problem = format_args!("the start of silo `{silo}` has another number of parameters");
            let own = Normal::of_parameters(&own, len).ok_or_else(|| Error::malformed(Answer::KIND, problem))?;
            quadratics.push(Quadratic::new(own, &Share { value, gradient, curvature, even: None })?);
            known.take(told(silo, &plates)?);
        }
        let merged = self.merged(quadratics[0].around.clone(), &quadratics)?;
        // Nothing has changed before all of it is known.
        (self.plates, self.rows, self.evaluations) = (known, count, work);
        self.accept(merged.clone());
        self.course.next = merged;
        self.course.said = quadratics;
        self.course.phase = Phase::Rounds;
        Ok(())
    }

    /// The posterior under the prior and what silos said of their rows, from `start`.
    fn merged(&self, start: Normal, said: &[Quadratic]) -> Result<Normal> {
        let merged = fit_alone(start, &(), self.options.tolerance, |at, ()| {
            let mut total = self.prior(at)?;
            for quadratic in said {
                let found: Vec<_> = (0..self.draws.len()).map(|k| quadratic.at(&at.draw(self.draws.get(k)))).collect();
                total = total.plus(&Share::of(at, &self.draws, &found));
            }
            Ok((total, ()))
        });
        Ok(merged?.at)
    }

    /// The sum of what silos said, around the posterior asked for.
    fn said(&self) -> Option<Vec<f64>> {
        let seen = self.course.said.iter().map(|own| own.seen_from(&self.course.next));
        seen.reduce(|sum, own| sum.plus(1.0, &own)).map(|sum| sum.numbers())
    }

    fn accept(&mut self, at: Normal) {
        self.parameters = at.parameters();
        self.course.at = at;
    }

    /// What all parties say of the posterior that was asked for; `None` where that is no number.
    fn total(&self, outcomes: Vec<Outcome>) -> Result<Option<Heard>> {
        let may_fail = self.course.share.is_some();
        let is_off = |outcome: &Outcome| matches!(outcome, Outcome::Failed(error) if error.is_outside());
        if may_fail && outcomes.iter().any(is_off) {
            return Ok(None);
        }
        let (sizes, mut known) = (self.sizes(), self.plates.clone());
        let mut total = match self.prior(&self.course.next) {
            Err(error) if may_fail && error.is_outside() => return Ok(None),
            other => other?,
        };
        let (mut said, mut is_again) = (Vec::with_capacity(self.course.said.len()), false);
        for (reply, silo) in replies(outcomes, &self.silos, self.step)?.iter().zip(&self.silos) {
            let Answer { own, again, value, gradient, curvature, even, plates, .. } = Answer::read(reply, &sizes)?;
            finite(silo, self.step, |_| "its share".into(), &[&[value], gradient.as_slice(), &curvature].concat())?;
            finite(silo, self.step, |_| "its gradients".into(), even.as_deref().unwrap_or_default())?;
            let share = Share { value, gradient, curvature, even };
            if !self.course.said.is_empty() {
                is_again |= again.is_some();
                said.push(match own.zip(again) {
                    Some((own, again)) => self.said_again(silo, &own, &again)?,
                    None => Quadratic::new(self.course.next.clone(), &share)?,
                });
            }
            total = total.plus(&share);
            known.take(told(silo, &plates)?);
        }
        let step = Step::of(&total)?;
        Ok(Some(Heard { share: total, step, plates: known, again: is_again.then_some(said) }))
    }

    /// What a silo says again of its rows, around a distribution of its own.
    fn said_again(&self, silo: &str, own: &[f64], again: &[f64]) -> Result<Quadratic> {
        finite(silo, self.step, |_| "what it says again".into(), &[own, again].concat())?;
        let len = self.table.global_len();
        let found = Normal::of_parameters(own, len).zip(again.split_at_checked(len));
        let problem = format_args!("what silo `{silo}` says again has another number of parameters");
        let (around, (gradient, curvature)) = found.ok_or_else(|| Error::malformed(Answer::KIND, problem))?;
        Quadratic::new(
            around,
            &Share { value: 0.0, gradient: gradient.into(), curvature: curvature.into(), even: None },
        )
    }

    /// Takes a share of the posterior asked for, or takes the step to it back, and finds what to ask for next.
    fn advance(&mut self, heard: Option<Heard>) -> Result<StepInfo> {
        let before = self.course.share.as_ref().map(|share| share.value + self.course.at.entropy());
        let used = self.course.fraction;
        let bound_of = |heard: &Heard| heard.share.value + self.course.next.entropy();
        let gain = heard.as_ref().zip(before).map(|(heard, before)| bound_of(heard) - before);
        let is_kept = |_: &Heard| gain.is_none_or(|gain| gain > -SLACK);
        let mut again = None;
        let (step, bound) = match (heard.filter(is_kept), &self.course.share) {
            (Some(heard), _) => {
                let bound = bound_of(&heard);
                let Heard { share, step, plates, again: found } = heard;
                again = found;
                self.plates = plates;
                if let Some(before) = &self.course.share {
                    self.course.past.push(&self.course.at, before)?;
                }
                self.course.share = Some(share);
                let next = self.course.next.clone();
                self.accept(next);
                if before.is_some() {
                    self.course.reach *= 2.0;
                }
                (step, bound)
            }
            (None, Some(share)) => {
                let shift = self.course.at.whiten(&self.course.next.mean);
                self.taken_back += 1;
                self.course.past.clear();
                self.course.reach = dot(&shift, &shift).sqrt() * shortened(dot(&shift, &share.gradient), gain);
                (Step::of(share)?, before.unwrap_or(f64::NAN))
            }
            (None, None) => unreachable!("invariant: the first share is accepted"),
        };
        self.step += 1;
        let norm = (2.0 * step.decrement()).sqrt();
        let is_rough = self.device.precision() == Precision::Single || self.step > SOME_ROUNDS;
        let least = if is_rough { ROUGHLY } else { 0.0 };
        let is_last = step.left() < self.options.tolerance.max(least);
        self.course.said = again.filter(|_| self.step <= MOST_AGAIN).unwrap_or_default();
        let is_stuck = self.course.reach < LEAST_REACH || self.step > MOST_ROUNDS;
        if !self.course.said.is_empty() {
            (self.course.next, self.course.fraction) = (self.merged(self.course.at.clone(), &self.course.said)?, 1.0);
        } else if is_stuck && !is_last {
            self.course.phase = Phase::Stuck;
        } else {
            // The plain step decides on the end, and the one that knows more is taken where it is within reach.
            let optimum = match &self.course.share {
                Some(share) => optimum(&self.course, share, &step, &self.draws)?,
                None => None,
            };
            let is_whole = is_last || optimum.is_some();
            let fraction = if is_whole { 1.0 } else { step.fraction_within(self.course.reach) };
            self.course.next = optimum.unwrap_or_else(|| step.take(&self.course.at, fraction));
            self.course.fraction = fraction;
        }
        if self.course.said.is_empty() && is_last {
            // What is left is less than the tolerance: the last step needs no further look.
            self.accept(self.course.next.clone());
            self.course.phase = Phase::Done;
            // Nothing is known there: a step after the end is taken as a first one.
            self.course.share = None;
        }
        let info = StepInfo::still(self.step, Tally::steps(1, self.silos.len()));
        Ok(StepInfo { elbo: bound, gradient_norm: Some(norm), rate: Some(used), ..info })
    }
}

/// What a silo tells of its plates.
fn told(silo: &str, text: &str) -> Result<Plates> {
    let problem = format_args!("what silo `{silo}` tells of its plates is no list of plates");
    Plates::parse(text).ok_or_else(|| Error::malformed(Answer::KIND, problem))
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
            _ => RoundRequest { step, seed, global: self.course.next.parameters(), said: self.said() }.write(),
        };
        Ok(Request::to_all(self.silos.len(), &message))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        if self.course.phase == Phase::Start {
            self.merge(outcomes)?;
            self.step += 1;
            return Ok(StepInfo::still(self.step, Tally::steps(1, self.silos.len())));
        }
        let heard = self.total(outcomes)?;
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
        let mut counts = self.plates.counts();
        counts.push(MethodCount {
            name: "taken_back".into(),
            meaning: "steps taken back, which lowered the bound".into(),
            number: self.taken_back,
        });
        Some(MethodCounts { method: "few rounds".into(), counts })
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &self.family, parameters: &self.parameters, theta: &[] }
    }

    fn save(&self) -> Message {
        let state = Message::new(STATE)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .word("taken_back", self.taken_back)
            .word("rows", self.rows)
            .word("evaluations", self.evaluations)
            .setting("plates", &self.plates.text())
            .setting("globals", &global_signature(&self.table));
        self.course.save(state)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        same_run(state, STATE, &global_signature(&self.table), self.settings.seed)?;
        let course = Course::load(state, self.table.global_len())?;
        self.taken_back = state.get_count("taken_back", LARGEST_COUNT)?;
        self.plates = Plates::parse(state.get_setting("plates")?)
            .ok_or_else(|| Error::Message { kind: STATE.into(), problem: "`plates` is no list of plates".into() })?;
        self.rows = state.get_count("rows", LARGEST_COUNT)?;
        self.evaluations = state.get_count("evaluations", LARGEST_COUNT)?;
        self.step = state.get_count("step", LARGEST_COUNT)?;
        self.parameters = course.at.parameters();
        self.course = course;
        Ok(())
    }
}
