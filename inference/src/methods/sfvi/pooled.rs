//! Fits one machine's pooled data: the plain structured variational inference that SFVI must equal.
//!
//! The one party holds data and posterior and evaluates the joint density of globals, locals and data in a single pass
//! of the tape, apart from the split into shares; the coordinator only keeps a copy of the posterior.

mod silo;

pub use silo::CentralSilo;

use partita_core::{Device, Model, SiteTable, shared_theta};

use crate::engine::algorithm::{Algorithm, ElboSamples, Posterior, StepInfo, Tally, replies, same_run};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::Family;
use crate::engine::settings::Settings;
use crate::engine::terms::silo::global_signature;
use crate::engine::trainer::Moved;
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::{Floats, LARGEST_COUNT, Message};

/// The kind of a saved coordinator.
const STATE: &str = "central.coordinator";

/// The coordinator of a pooled fit: asks for steps and keeps a copy of the posterior.
#[derive(Debug)]
pub struct Central {
    family: Box<dyn Family>,
    parameters: Floats,
    theta: Vec<f64>,
    settings: Settings,
    names: Vec<String>,
    signature: String,
    step: u64,
    manifest: Manifest,
    /// Steps between reports of a party that stays on its device; `None` for one that reports every step.
    interval: Option<u64>,
}

impl Central {
    /// The coordinator of a pooled fit.
    ///
    /// # Errors
    /// [`Error::Setting`], or what the model's global function refuses.
    pub fn new<M: Model>(model: &M, device: &Device, settings: &Settings, name: &str) -> Result<Self> {
        settings.check()?;
        if let Estimator::LocallyEnhanced { .. } = settings.estimator {
            return Err(Error::Setting {
                setting: "estimator",
                found: "LocallyEnhanced with Central".into(),
                expected: "Sfvi with one silo, which gives the same fit of pooled data",
            });
        }
        let table = SiteTable::globals(model, device)?;
        let family = settings.family.global_family(&table)?;
        let theta = shared_theta(model)?;
        let field = |name, meaning, limit| Field { name, meaning, limit, depends_on_data: true };
        let manifest = Manifest {
            fields: vec![
                field("elbo", "the sampled bounds", crate::engine::trust::estimate::most_draws(settings)),
                field("global", "the global posterior's parameters", family.parameter_len()),
                field("theta", "the model's trained parameters", theta.len()),
                field("gradient_norm", "the norm of the gradient", 1),
                field("clipped", "whether it was clipped", 1),
            ],
        };
        Ok(Self {
            parameters: settings.family.start(&*family, &table).into(),
            family,
            theta,
            settings: settings.clone(),
            names: vec![name.to_owned()],
            signature: global_signature(&table),
            step: 0,
            manifest,
            interval: None,
        })
    }

    /// Asks for `interval` steps at once, of a [`super::OnDeviceSilo`].
    ///
    /// # Errors
    /// [`Error::Setting`] for an interval of no steps.
    pub fn every(self, interval: u64) -> Result<Self> {
        if interval == 0 {
            return Err(Error::Setting { setting: "interval", found: "0".into(), expected: "at least 1 step" });
        }
        Ok(Self { interval: Some(interval), ..self })
    }

    /// The steps asked for next.
    fn due(&self) -> u64 {
        self.interval.map_or(1, |interval| interval.min(self.settings.steps.saturating_sub(self.step)).max(1))
    }
}

fn to_party(message: Message) -> Vec<Request> {
    vec![Request { silo: 0, message }]
}

impl Algorithm for Central {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let message = Message::new(if self.interval.is_some() { "central.steps" } else { "central.step" });
        let message = message.word("step", self.step);
        Ok(to_party(if self.interval.is_some() { message.word("count", self.due()) } else { message }))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let replies = replies(outcomes, &self.names, self.step)?;
        let mut reply = replies.into_iter().next().ok_or(Error::NoSilos)?;
        let (gradient_norm, clipped) = (reply.get_number("gradient_norm")?, reply.get_number("clipped")? > 0.5);
        let elbos = reply.expect_floats("elbo", if self.interval.is_some() { 1 } else { self.settings.particles })?;
        let theta = reply.expect_floats("theta", self.theta.len())?;
        self.parameters = reply.take_floats("global", self.family.parameter_len())?;
        self.theta = theta;
        let elbo = match self.interval {
            Some(_) => elbos[0],
            None => self.settings.estimator.weigh(&elbos).bound,
        };
        let due = self.due();
        let rate = self.settings.rate(self.step + due - 1);
        self.step += due;
        let moved = Moved { gradient_norm, is_clipped: clipped, rate };
        Ok(StepInfo::moved(self.step, elbo, moved, Tally::steps(due, 1)))
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        let all = draws * self.draws_a_bound();
        to_party(Message::new("central.estimate_elbo").word("step", offset).word("draws", all as u64))
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, _: u64) -> Result<ElboSamples> {
        let replies = replies(outcomes, &self.names, self.step)?;
        let reply = replies.first().ok_or(Error::NoSilos)?;
        let size = self.draws_a_bound();
        let elbos = reply.expect_floats("elbo", draws * size)?;
        let bounds = elbos.chunks_exact(size).map(|elbos| self.settings.estimator.weigh(elbos).bound);
        Ok(ElboSamples { elbos: bounds.collect(), gradients: Vec::new() })
    }

    fn draws_a_bound(&self) -> usize {
        self.settings.estimator.draws_a_bound(self.settings.particles)
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &*self.family, parameters: self.parameters.get(), theta: &self.theta }
    }

    fn save(&self) -> Message {
        Message::new(STATE)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .floats("global", self.parameters.get())
            .floats("theta", &self.theta)
            .setting("globals", &self.signature)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        same_run(state, STATE, &self.signature, self.settings.seed)?;
        self.parameters = state.expect_floats("global", self.family.parameter_len())?.into();
        self.theta = state.expect_floats("theta", self.theta.len())?;
        self.step = state.get_count("step", LARGEST_COUNT)?;
        Ok(())
    }
}
