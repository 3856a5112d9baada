//! Gives the coordinator of a vertical fit: the labels, the posterior of the head, and one or two exchanges a step.

use std::borrow::Cow;
use std::sync::Arc;

use partita_core::data::Minibatches;
use partita_core::kernel::add_scaled;
use partita_core::vertical::{Augmentation, Labels};
use partita_core::{Device, Key, Noise, Precision, SiteTable};
use rayon::prelude::*;

use crate::engine::algorithm::{
    Algorithm, ElboFollowUp, ElboSamples, Posterior, StepInfo, Tally, finite, movable, replies, same_run,
};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::add;
use crate::engine::exchange::{Outcome, Request};
use crate::engine::panic::COORDINATOR;
use crate::engine::settings::{DRAWS_A_REQUEST, Settings};
use crate::engine::terms::silo::global_signature as signature;
use crate::engine::trainer::{Descent, Trainer};
use crate::engine::trust::objective::Objective;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::methods::columns::messages::{
    Answered, AtMost, EstimateRequest, FactorTerms, Indices, Sizes, StepRequest, Values, manifest,
};
use crate::methods::columns::unknowns::{Draws, Unknowns};
use crate::methods::columns::{PLATE, VerticalOptions};

/// Numbers of auxiliary variables that a party sends at once for a report: 8 MiB.
const NUMBERS_A_REQUEST: usize = 1 << 20;

/// Fewer numbers than these are read from replies by one thread.
const FEW: usize = 16_384;

/// The coordinator of a fit over parties that hold different columns.
///
/// **Augmented variables**, one exchange a step. Labels stay with the coordinator.
/// ```math
/// \mathcal L = \underbrace{\mathrm E\log p(y \mid \textstyle\sum_j z_j, \gamma) + \mathrm E\log\tfrac{p(\gamma)}{q(\gamma)}}_{\mathcal L_0,\ \text{coordinator}}
///   + \sum_j \underbrace{\mathrm E\Big[\log\tfrac{N(z_j \mid g_j, \rho^2)}{q(z_j \mid \theta_j)} + \log\tfrac{p(\theta_j)}{q(\theta_j)}\Big]}_{\mathcal L_j,\ \text{party } j}
/// ```
/// A request brings $`\partial\hat{\mathcal L}_0/\partial z_j`$ of the step before and announces the rows of this one;
/// the reply is $`z_j`$ of these rows. The gradient is the same vector for every party, since $`z`$ enters through its
/// sum. Without auxiliary variables ([`Augmentation::None`]) parties send $`g_j`$ itself in the same messages.
///
/// **Power likelihood**, two exchanges a step. All parties know the labels; the coordinator uses their number only.
/// ```math
/// \pi \propto \prod_j p\big(y \mid g_j + \textstyle\sum_{k \ne j} z_k, \gamma\big)^{1/J}\, N(z_j \mid g_j, \rho^2)\, p_j(\theta_j)
/// ```
/// Parties send $`z_j`$; the coordinator answers with the sum $`s = \sum_k z_k`$ and its draw of $`\gamma`$. Party
/// $`j`$ evaluates its factor at $`g_j + s - z_j`$ and sends $`h_j`$, the gradient of its logarithm by that predictor,
/// which is the gradient by $`z_k`$ for every $`k \ne j`$ and by $`g_j`$. The coordinator returns $`\sum_{k \ne j}
/// h_k`$ to party $`j`$ with the next request. Each message has one number a row and output where the printed algorithm
/// has one for every party too, and all say the same, since $`z`$ enters through sums.
///
/// A party takes its step when the gradient comes, and says with its next reply whether it clipped it: what
/// [`StepInfo::clipped_steps`] says of a step is about the head in that step and the parties in the one before. Nothing is
/// heard of the last step of a run.
///
/// # References
/// Hassan, Sutton, Mira and Mengersen (2024), sections 4.3 and 4.4, Algorithms 1 and 2, with the noise of a draw kept
/// for its gradient.
#[derive(Debug)]
pub struct VerticalCoordinator {
    pub(super) labels: Labels,
    pub(super) device: Device,
    pub(super) settings: Settings,
    augmentation: Augmentation,
    pub(super) table: SiteTable,
    /// The posterior of the head.
    trainer: Trainer,
    pub(super) parties: Vec<String>,
    pub(super) step: u64,
    minibatches: Option<Minibatches>,
    /// The gradients that parties have yet to hear of.
    last: Option<Last>,
    /// What the first of two exchanges of a step left.
    first: Option<FirstExchange>,
    manifest: Manifest,
}

/// The gradients by auxiliary variables of a step: one vector for all parties, or one a party.
#[derive(Debug)]
struct Last {
    step: u64,
    gradients: Vec<Arc<Vec<f64>>>,
}

/// What the first of two exchanges of a step found.
#[derive(Debug)]
struct FirstExchange {
    /// The sums of all auxiliary variables, draw by draw.
    sums: Vec<f64>,
    /// Whether a party clipped its gradient in the step before.
    clipped: bool,
}

/// What the replies of all parties make of some draws.
pub(super) struct Sampled {
    pub(super) bounds: Vec<f64>,
    /// By the parameters of the head's posterior, draw by draw.
    pub(super) gradients: Vec<Vec<f64>>,
    /// By the auxiliary variables, all draws one after another: one vector for all parties, or one a party.
    pub(super) by_values: Vec<Vec<f64>>,
}

impl VerticalCoordinator {
    /// The coordinator of a fit over the parties of these names.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::NoSilos`], or what the head refuses of its labels.
    pub fn new(
        labels: &Labels,
        device: &Device,
        settings: &Settings,
        options: &VerticalOptions,
        parties: &[String],
    ) -> Result<Self> {
        options.check(settings)?;
        if parties.is_empty() {
            return Err(Error::NoSilos);
        }
        let table = labels.table(device)?;
        let family = settings.family.global_family(&table)?;
        let minibatches = match settings.minibatch.get(PLATE).filter(|size| **size < labels.rows()) {
            Some(&size) => Some(Minibatches::new(labels.rows(), size).map_err(|error| Error::Setting {
                setting: "minibatch",
                found: error.to_string(),
                expected: "at least one row",
            })?),
            None => None,
        };
        let parameters = settings.family.start(&*family, &table);
        let mut own = Self {
            trainer: Trainer::new(family, parameters, &[], Descent::new(settings, device)),
            labels: labels.clone(),
            device: device.clone(),
            settings: settings.clone(),
            augmentation: options.augmentation,
            table,
            parties: parties.to_vec(),
            step: 0,
            minibatches,
            last: None,
            first: None,
            manifest: Manifest::default(),
        };
        own.manifest = manifest(&own.largest(), own.augmentation, settings.clip.is_some());
        Ok(own)
    }

    fn has_two_exchanges(&self) -> bool {
        matches!(self.augmentation, Augmentation::PowerLikelihood { .. })
    }

    /// The rows of a step; `None` for all.
    fn rows(&self, step: u64) -> Option<Vec<usize>> {
        let noise = Noise::new(self.settings.seed);
        self.minibatches.as_ref().map(|batches| batches.rows_at(step, &noise, Key::COORDINATOR))
    }

    /// The lengths of replies about so many draws on so many rows.
    fn sizes(&self, draws: usize, rows: usize) -> Sizes {
        let values = (draws * rows * self.labels.outputs()) as u64;
        let unknowns = (draws * self.table.global_len()) as u64;
        Sizes { rows: self.labels.rows() as u64, draws: draws as u64, values, predictors: values, unknowns }
    }

    /// The lengths of replies about so many report draws, which need no gradient by predictors.
    fn sizes_of_report(&self, draws: usize) -> Sizes {
        Sizes { predictors: 0, ..self.sizes(draws, self.labels.rows()) }
    }

    /// The longest that replies may be.
    fn largest(&self) -> Sizes {
        let most_rows = self.minibatches.as_ref().map_or(self.labels.rows(), Minibatches::batch_size);
        let (step, report) =
            (self.sizes(self.settings.particles, most_rows), self.sizes_of_report(self.draws_a_request()));
        Sizes {
            draws: step.draws.max(report.draws),
            values: step.values.max(report.values),
            unknowns: step.unknowns.max(report.unknowns),
            ..step
        }
    }

    /// One request a party, with the gradient that the party has yet to hear of.
    fn requests(&self, write: impl Fn(Option<Answered>) -> Message) -> Vec<Request> {
        let with = |last: &Last, own: &Arc<Vec<f64>>| {
            write(Some(Answered { step: last.step, gradient: AtMost(Arc::clone(own)) }))
        };
        let messages: Vec<Message> = match &self.last {
            None => vec![write(None); self.parties.len()],
            // One gradient for all is written once.
            Some(last) if last.gradients.len() == 1 => vec![with(last, &last.gradients[0]); self.parties.len()],
            Some(last) => last.gradients.iter().map(|own| with(last, own)).collect(),
        };
        messages.into_iter().enumerate().map(|(silo, message)| Request { silo, message }).collect()
    }

    /// What every party replied, checked for its step and for numbers that are not finite. Replies are read side by side.
    fn heard<T: Send>(
        &self,
        outcomes: Vec<Outcome>,
        step: u64,
        read: impl Fn(&Message) -> Result<(u64, T)> + Sync,
    ) -> Result<Vec<T>> {
        let at = self.step;
        let one = |reply: &Message, party: &str| -> Result<T> {
            let (found, own) = read(reply)?;
            let problem = format_args!("it is the answer to step {found}, asked was step {step}");
            Error::well_formed(found == step, &reply.kind, problem)?;
            if !reply.has_finite_squares() {
                for (name, values) in reply.named_floats() {
                    finite(party, at, |index| format!("number {index} of `{name}` in its reply"), &values)?;
                }
            }
            Ok(own)
        };
        let replies = replies(outcomes, &self.parties, at)?;
        let located = |(reply, party): (&Message, &String)| one(reply, party).map_err(|e| e.in_silo(party, at));
        // What is short is not worth the threads.
        if replies.iter().map(Message::size).sum::<usize>() < 8 * FEW {
            return replies.iter().zip(&self.parties).map(located).collect();
        }
        let read: Vec<Result<T>> = replies.par_iter().zip(&self.parties).map(located).collect();
        read.into_iter().collect()
    }

    /// The auxiliary variables of every party. In a power likelihood their terms of the bound come with the second
    /// exchange.
    fn values(&self, outcomes: Vec<Outcome>, step: u64, sizes: &Sizes) -> Result<Vec<Values>> {
        let sizes = if self.has_two_exchanges() { Sizes { draws: 0, ..*sizes } } else { *sizes };
        self.heard(outcomes, step, |reply| Values::read(reply, &sizes).map(|own| (own.step, own)))
    }

    fn factors(&self, outcomes: Vec<Outcome>, step: u64, sizes: &Sizes) -> Result<Vec<FactorTerms>> {
        self.heard(outcomes, step, |reply| FactorTerms::read(reply, sizes).map(|own| (own.step, own)))
    }

    /// Whether a party clipped its gradient in the step before.
    fn clipped(&self, values: &[Values]) -> Result<bool> {
        let mut clipped = false;
        for (own, party) in values.iter().zip(&self.parties).filter(|_| self.settings.clip.is_some()) {
            let Some(count) = own.clipped else {
                let problem = "it does not say how often it clipped its gradient: its settings have no `clip`".into();
                return Err(Error::Message { kind: Values::KIND.into(), problem }.in_silo(party, self.step));
            };
            clipped |= count > 0;
        }
        Ok(clipped)
    }

    /// The draws of the unknowns of the head.
    pub(super) fn heads(&self, draws: Draws) -> impl Iterator<Item = Unknowns> {
        let noise = Noise::new(self.settings.seed).kind(self.settings.noise);
        draws.keys().map(move |key| Unknowns::draw(&self.trainer, &noise, key))
    }

    /// What the unknowns of the head add to the bound at a draw, and the gradient by their posterior's parameters, with
    /// `by_latents` that of the likelihood.
    pub(super) fn head_term(&self, head: &Unknowns, by_latents: &[f64]) -> Result<(f64, Vec<f64>)> {
        let located = |error| Error::Model(error).in_silo(COORDINATOR, self.step);
        let mut prior = self.labels.prior(&self.device, &self.table, &head.draw.latent).map_err(located)?;
        add_scaled(&mut prior.globals, 1.0, by_latents);
        let mut gradient = vec![0.0; self.trainer.values().len()];
        let elbo = head.vjp(&self.trainer, self.settings.estimator, prior, &mut gradient);
        Ok((elbo, gradient))
    }

    /// Moves the posterior of the head up the mean gradient of a step, and ends the step.
    fn ascend(&mut self, sampled: Sampled) -> Result<StepInfo> {
        let Sampled { bounds, gradients, by_values } = sampled;
        let (who, step) = (COORDINATOR, self.step);
        #[expect(clippy::cast_precision_loss, reason = "particle counts are far below 2^52")]
        let share = 1.0 / bounds.len() as f64;
        let elbo = bounds.iter().sum::<f64>() * share;
        let mut gradient = vec![0.0; self.trainer.values().len()];
        gradients.iter().for_each(|own| add_scaled(&mut gradient, -share, own));
        finite(who, step, |_| "the bound".into(), &[elbo])?;
        let quantity = |index: usize| format!("the gradient by parameter {index} of the head's posterior");
        let norm = movable(who, step, self.settings.clip, quantity, &gradient)?;
        for gradient in &by_values {
            finite(who, step, |index| format!("the gradient by auxiliary variable {index}"), gradient)?;
        }
        let moved = self.trainer.step(step, elbo, &mut gradient, norm);
        self.last = Some(Last { step, gradients: by_values.into_iter().map(Arc::new).collect() });
        self.step += 1;
        Ok(StepInfo::moved(self.step, elbo, moved, Tally::steps(1, self.parties.len())))
    }

    /// What its saved state is called: each model has its own.
    fn state_kind(&self) -> &'static str {
        if self.has_two_exchanges() { "vertical.power_likelihood" } else { "vertical.augmented" }
    }
}

impl Algorithm for VerticalCoordinator {
    fn name(&self) -> &'static str {
        "Vertical"
    }

    fn objective(&self) -> Objective {
        // The power likelihood is a geometric mean of likelihoods, which bounds no evidence of the labels.
        if self.has_two_exchanges() { Objective::Generalised } else { Objective::Elbo }
    }

    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let (step, seed) = (self.step, self.settings.seed);
        if let Some(first) = &self.first {
            return Ok(self.factor_requests(&first.sums, Draws::of_step(step, self.settings.particles)));
        }
        let (rows_in_all, rows) = (self.labels.rows() as u64, self.rows(step).map(Indices));
        Ok(self.requests(|gradient| StepRequest { step, seed, rows_in_all, rows: rows.clone(), gradient }.write()))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let (step, rows) = (self.step, self.rows(self.step));
        let draws = Draws::of_step(step, self.settings.particles);
        let sizes = self.sizes(draws.count, rows.as_ref().map_or(self.labels.rows(), Vec::len));
        // A step that fails begins again with its first exchange.
        if let Some(first) = self.first.take() {
            let factors = self.factors(outcomes, step, &sizes)?;
            let info = self.ascend(self.power_likelihood(&factors, draws)?)?;
            return Ok(StepInfo { clipped_steps: info.clipped_steps.max(first.clipped.into()), ..info });
        }
        let values = self.values(outcomes, step, &sizes)?;
        let clipped = self.clipped(&values)?;
        if self.has_two_exchanges() {
            self.first = Some(FirstExchange { sums: sum(values.iter().map(|own| &own.z.values)), clipped });
            return Ok(StepInfo::still(step, Tally::default()));
        }
        let info = self.ascend(self.augmented(values, draws, rows.as_deref())?)?;
        Ok(StepInfo { clipped_steps: info.clipped_steps.max(clipped.into()), ..info })
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        let (seed, rows_in_all, draws) = (self.settings.seed, self.labels.rows() as u64, draws as u64);
        self.requests(|gradient| EstimateRequest { step: offset, seed, rows_in_all, draws, gradient }.write())
    }

    fn elbo_follow_up(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboFollowUp> {
        if !self.has_two_exchanges() {
            return Ok(ElboFollowUp::Done(outcomes));
        }
        let values = self.values(outcomes, offset, &self.sizes_of_report(draws))?;
        let sums = sum(values.iter().map(|own| &own.z.values));
        Ok(ElboFollowUp::Ask(self.factor_requests(&sums, Draws::of_report(offset, draws))))
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        let (sizes, draws) = (self.sizes_of_report(draws), Draws::of_report(offset, draws));
        let Sampled { bounds, gradients, .. } = match self.has_two_exchanges() {
            true => self.power_likelihood(&self.factors(outcomes, offset, &sizes)?, draws)?,
            false => self.augmented(self.values(outcomes, offset, &sizes)?, draws, None)?,
        };
        finite(COORDINATOR, self.step, |_| "the bound".into(), &bounds)?;
        Ok(ElboSamples { elbos: bounds, gradients, ..ElboSamples::default() })
    }

    /// Report draws in one request, so that messages stay below some megabytes.
    fn draws_a_request(&self) -> usize {
        (NUMBERS_A_REQUEST / (self.labels.rows() * self.labels.outputs()).max(1)).clamp(1, DRAWS_A_REQUEST)
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &*self.trainer.family, parameters: self.trainer.parameters(), theta: &[] }
    }

    fn compute_in(&mut self, precision: Precision) -> Result<bool> {
        self.device = self.device.clone().with_precision(precision);
        Ok(true)
    }

    fn save(&self) -> Message {
        let mut state = Message::new(self.state_kind())
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .setting("globals", &signature(&self.table));
        let gradients = self.last.iter().flat_map(|last| &last.gradients).enumerate();
        let gradients = gradients.map(|(index, own)| (format!("gradient.{index}"), own.to_vec()));
        for (name, values) in self.trainer.save().into_iter().chain(gradients) {
            state = state.floats(&name, &values);
        }
        match &self.last {
            Some(last) => state.word("answered", last.step),
            None => state,
        }
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        same_run(state, self.state_kind(), &signature(&self.table), self.settings.seed)?;
        state.expect_floats("global", self.trainer.parameters().len())?;
        let step = state.get_count("step", LARGEST_COUNT)?;
        let last = match state.has("answered") {
            false => None,
            true => {
                let names = (0..).map(|index| format!("gradient.{index}")).take_while(|name| state.has(name));
                let gradients = names.map(|name| state.get_floats(&name).map(Arc::new)).collect::<Result<_>>()?;
                Some(Last { step: state.get_count("answered", LARGEST_COUNT)?, gradients })
            }
        };
        let is_ours = self.trainer.load(&state.named_floats());
        Error::well_formed(is_ours, &state.kind, "its optimiser state is of another optimiser")?;
        (self.step, self.last, self.first) = (step, last, None);
        Ok(())
    }
}

/// The sum of vectors of the same length, in their order.
pub(super) fn sum<'a, V: Into<Cow<'a, [f64]>>>(vectors: impl Iterator<Item = V>) -> Vec<f64> {
    let mut vectors = vectors.map(|own| -> Cow<'a, [f64]> { own.into() });
    let mut sum = vectors.next().map(Cow::into_owned).unwrap_or_default();
    vectors.for_each(|own| add(&mut sum, &own));
    sum
}
