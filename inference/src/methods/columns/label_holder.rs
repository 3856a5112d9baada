//! Holds what the coordinator of a vertical fit knows: labels, the posterior of the head, and the rows of every step.

use partita_core::data::Minibatches;
use partita_core::vertical::Labels;
use partita_core::{Device, Key, Noise, Purpose, SiteTable};

use crate::engine::algorithm::{Posterior, StepInfo, Tally, finite, same_run};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::Request;
use crate::engine::family::{Family, FamilyDraw};
use crate::engine::settings::Settings;
use crate::engine::terms::silo::global_signature as signature;
use crate::engine::trainer::{Descent, with_prefix};
use crate::engine::trust::estimate::DRAWS_A_REQUEST;
use crate::engine::wire::manifest::Field;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::methods::columns::{PLATE, VerticalOptions, as_numbers};

/// Numbers of auxiliary variables that a party sends at once for a report: 8 MiB.
const NUMBERS_A_REQUEST: usize = 1 << 20;

/// The coordinator's data and posterior, whichever model the auxiliary variables make.
pub(super) struct LabelHolder {
    pub(super) labels: Labels,
    pub(super) device: Device,
    pub(super) settings: Settings,
    pub(super) table: SiteTable,
    family: Box<dyn Family>,
    pub(super) parameters: Vec<f64>,
    descent: Descent,
    pub(super) parties: Vec<String>,
    pub(super) step: u64,
    minibatches: Option<Minibatches>,
    /// The gradients that parties have yet to hear of: of a step, one vector for all or one a party.
    pub(super) last: Option<(u64, Vec<Vec<f64>>)>,
}

/// One draw of the unknowns of the head.
#[derive(Debug)]
pub(super) struct HeadDraw {
    noise: Vec<f64>,
    pub(super) draw: FamilyDraw,
}

impl LabelHolder {
    pub(super) fn new(
        labels: &Labels,
        device: &Device,
        (settings, options): (&Settings, &VerticalOptions),
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
        Ok(Self {
            parameters: settings.family.start(&*family, &table),
            descent: Descent::new(settings, device),
            labels: labels.clone(),
            device: device.clone(),
            settings: settings.clone(),
            table,
            family,
            parties: parties.to_vec(),
            step: 0,
            minibatches,
            last: None,
        })
    }

    /// The rows of a step; `None` for all.
    pub(super) fn rows(&self, step: u64) -> Option<Vec<usize>> {
        let noise = Noise::new(self.settings.seed);
        self.minibatches.as_ref().map(|batches| batches.rows_at(step, &noise, Key::COORDINATOR))
    }

    /// The most rows of a step.
    pub(super) fn most_rows(&self) -> usize {
        self.minibatches.as_ref().map_or(self.labels.rows(), Minibatches::batch_size)
    }

    /// Numbers of auxiliary variables of one party in a message of this many draws on all rows.
    pub(super) fn numbers(&self, draws: usize) -> usize {
        draws * self.labels.rows() * self.labels.outputs()
    }

    /// Report draws in one request, so that messages stay below some megabytes.
    pub(super) fn draws_a_request(&self) -> usize {
        (NUMBERS_A_REQUEST / self.numbers(1).max(1)).clamp(1, DRAWS_A_REQUEST)
    }

    /// The requests of one kind at a step, one a party, with the gradients they have yet to hear of.
    pub(super) fn requests(&self, kind: &str, step: u64, complete: impl Fn(Message) -> Message) -> Vec<Request> {
        let message = Message::new(kind)
            .word("step", step)
            .word("seed", self.settings.seed)
            .word("rows_in_all", self.labels.rows() as u64);
        let message = complete(message);
        let with =
            |gradient: &[f64], answered: u64| message.clone().word("answered", answered).floats("gradient", gradient);
        let messages: Vec<Message> = match &self.last {
            None => vec![message; self.parties.len()],
            // One gradient for all is written once.
            Some((answered, gradients)) if gradients.len() == 1 => {
                vec![with(&gradients[0], *answered); self.parties.len()]
            }
            Some((answered, gradients)) => gradients.iter().map(|own| with(own, *answered)).collect(),
        };
        messages.into_iter().enumerate().map(|(silo, message)| Request { silo, message }).collect()
    }

    /// Announces the rows of a step.
    pub(super) fn announce(&self, message: Message, step: u64) -> Message {
        match self.rows(step) {
            Some(rows) => message.floats("rows", &as_numbers(&rows)),
            None => message,
        }
    }

    /// Reads one record of every reply, checked for its length and for numbers that are not finite.
    pub(super) fn read(&self, replies: &[Message], name: &str, length: usize) -> Result<Vec<Vec<f64>>> {
        let one = |(reply, party): (&Message, &String)| {
            let values = reply.expect_floats(name, length).map_err(|error| error.in_silo(party, self.step))?;
            finite(party, self.step, |index| format!("number {index} of `{name}` in its reply"), &values)?;
            Ok(values)
        };
        replies.iter().zip(&self.parties).map(one).collect()
    }

    /// The field that says how often parties clipped, where they do.
    pub(super) fn clipped_field(&self) -> Option<Field> {
        let meaning =
            "how often the party clipped the gradient of its posterior in the step before, local steps included";
        self.settings.clip.map(|_| Field { name: "clipped", meaning, limit: 1, depends_on_data: true })
    }

    /// Whether a party clipped its gradient in the step before.
    pub(super) fn clipped(&self, replies: &[Message]) -> Result<bool> {
        let mut clipped = false;
        for (reply, party) in replies.iter().zip(&self.parties).filter(|_| self.settings.clip.is_some()) {
            clipped |= reply.get_word("clipped").map_err(|error| error.in_silo(party, self.step))? > 0;
        }
        Ok(clipped)
    }

    /// Makes sure that replies are to the step asked for.
    pub(super) fn same_step(&self, replies: &[Message], step: u64) -> Result<()> {
        for (reply, party) in replies.iter().zip(&self.parties) {
            let found = reply.get_count("step", LARGEST_COUNT).map_err(|error| error.in_silo(party, self.step))?;
            if found != step {
                let problem = format!("party `{party}` answered step {found}, asked was step {step}");
                return Err(Error::Message { kind: reply.kind.clone(), problem });
            }
        }
        Ok(())
    }

    /// A draw of the unknowns of the head.
    pub(super) fn draw(&self, purpose: Purpose, step: u64, particle: u32) -> HeadDraw {
        let mut noise = vec![0.0; self.family.noise_len()];
        Noise::new(self.settings.seed)
            .kind(self.settings.noise)
            .normal(Key::new(purpose, step).particle(particle), &mut noise);
        HeadDraw { draw: self.family.draw(&self.parameters, &noise), noise }
    }

    /// What the unknowns of the head add to the bound at a draw, and the gradient by their posterior's parameters, with
    /// `by_latents` that of the likelihood.
    pub(super) fn share(&self, head: &HeadDraw, by_latents: &[f64]) -> Result<(f64, Vec<f64>)> {
        let located = |error| Error::Model(error).in_silo("the coordinator", self.step);
        let mut prior = self.labels.prior(&self.device, &self.table, &head.draw.latent).map_err(located)?;
        crate::engine::estimator::add(&mut prior.globals, by_latents);
        let estimator = self.settings.estimator;
        let (elbo, location, _) = estimator.global_terms(prior, &*self.family, &self.parameters, &head.draw);
        let mut gradient = vec![0.0; self.parameters.len()];
        self.family.vjp(&self.parameters, &head.noise, &location, &location, &mut gradient);
        if estimator.adds_entropy_gradient() {
            self.family.add_entropy_gradient(&self.parameters, &mut gradient);
        }
        Ok((elbo, gradient))
    }

    /// Moves the posterior of the head up the mean of these gradients and ends the step; `last` is what parties are to
    /// hear of it.
    pub(super) fn ascend(&mut self, bounds: &[f64], gradients: &[Vec<f64>], last: Vec<Vec<f64>>) -> Result<StepInfo> {
        let (who, step) = ("the coordinator", self.step);
        #[expect(clippy::cast_precision_loss, reason = "particle counts are far below 2^52")]
        let share = 1.0 / bounds.len() as f64;
        let elbo = bounds.iter().sum::<f64>() * share;
        let mut gradient = vec![0.0; self.parameters.len()];
        gradients.iter().for_each(|own| partita_core::kernel::add_scaled(&mut gradient, -share, own));
        finite(who, step, |_| "the bound".into(), &[elbo])?;
        finite(who, step, |index| format!("the gradient by parameter {index} of the head's posterior"), &gradient)?;
        for gradient in &last {
            finite(who, step, |index| format!("the gradient by auxiliary variable {index}"), gradient)?;
        }
        let moved = self.descent.step(step, &mut self.parameters, &mut gradient);
        self.last = Some((step, last));
        self.step += 1;
        Ok(StepInfo::moved(self.step, elbo, moved, Tally::steps(1, self.parties.len())))
    }

    pub(super) fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &*self.family, parameters: &self.parameters, theta: &[] }
    }

    pub(super) fn save(&self, kind: &str) -> Message {
        let mut message = Message::new(kind)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .floats("head", &self.parameters)
            .setting("globals", &signature(&self.table));
        for (name, values) in self.descent.save() {
            message = message.floats(&format!("rule.{name}"), &values);
        }
        if let Some((answered, gradients)) = &self.last {
            message = message.word("answered", *answered);
            for (index, gradient) in gradients.iter().enumerate() {
                message = message.floats(&format!("gradient.{index}"), gradient);
            }
        }
        message
    }

    pub(super) fn load(&mut self, state: &Message, kind: &str) -> Result<()> {
        same_run(state, kind, &signature(&self.table), self.settings.seed)?;
        let parameters = state.expect_floats("head", self.parameters.len())?;
        if !self.descent.load(with_prefix(&state.named_floats(), "rule.")) {
            let problem = "its optimiser state is of another optimiser".to_owned();
            return Err(Error::Message { kind: state.kind.clone(), problem });
        }
        self.last = None;
        if state.has("answered") {
            let names = (0..).map(|index| format!("gradient.{index}")).take_while(|name| state.has(name));
            let gradients = names.map(|name| state.get_floats(&name)).collect::<Result<_>>()?;
            self.last = Some((state.get_count("answered", LARGEST_COUNT)?, gradients));
        }
        (self.parameters, self.step) = (parameters, state.get_count("step", LARGEST_COUNT)?);
        Ok(())
    }
}

/// The sum of vectors of the same length, in their order.
pub(super) fn sum(vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors.first().map_or(0, Vec::len)];
    vectors.iter().for_each(|own| crate::engine::estimator::add(&mut sum, own));
    sum
}
