//! Gives the coordinator of a fit whose one party holds the posterior: it asks for steps, and keeps a copy.

use std::sync::OnceLock;

use partita_core::{AnyModel, Device, Model, Precision, SiteTable, shared_theta};

use super::messages::{Bounds, BoundsRequest, Sizes, Stepped, StepsRequest};
use crate::engine::algorithm::{Algorithm, ElboSamples, Ending, Posterior, StepInfo, Tally, replies, same_run};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::Family;
use crate::engine::settings::Settings;
use crate::engine::terms::reweighted::reweighted;
use crate::engine::terms::silo::global_signature;
use crate::engine::trainer::Moved;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::{Carried, Written};

/// The kind of a saved coordinator.
const STATE: &str = "central.coordinator";

/// The parameters of the posterior as the party has sent them, read where somebody asks for them.
#[derive(Debug)]
struct Parameters {
    written: Written,
    read: OnceLock<Vec<f64>>,
}

impl Parameters {
    fn new(written: Written) -> Self {
        Self { written, read: OnceLock::new() }
    }

    fn numbers(&self) -> &[f64] {
        self.read.get_or_init(|| self.written.read())
    }
}

/// The coordinator of a pooled fit: asks the one party, a [`super::CentralSilo`], for steps and keeps a copy of the
/// posterior.
#[derive(Debug)]
pub struct Central {
    family: Box<dyn Family>,
    parameters: Parameters,
    theta: Vec<f64>,
    settings: Settings,
    names: [String; 1],
    signature: String,
    step: u64,
    /// Whether the party says that the run is over.
    converged: bool,
    /// Steps between two reports of a party that stays on its device.
    interval: Option<u64>,
    sizes: Sizes,
    manifest: Manifest,
}

impl Central {
    /// The coordinator of a pooled fit.
    ///
    /// # Errors
    /// [`Error::Setting`], or what the model's global function refuses.
    pub fn new<M: Model>(model: &M, device: &Device, settings: &Settings, name: &str) -> Result<Self> {
        let model = &AnyModel::new(model);
        settings.check()?;
        let table = SiteTable::globals(model, device)?;
        let family = settings.family.global_family(&table)?;
        let theta = shared_theta(model)?;
        let sizes = Sizes::largest(&*family, theta.len(), 1, settings);
        let fields = [Stepped::fields(&sizes), Bounds::fields(&sizes)].concat();
        Ok(Self {
            parameters: Parameters::new(Written::of(&settings.family.start(&*family, &table))),
            family,
            theta,
            settings: settings.clone(),
            names: [name.to_owned()],
            signature: global_signature(&table),
            step: 0,
            converged: false,
            interval: None,
            sizes,
            manifest: Manifest { fields },
        })
    }

    /// Asks for `interval` steps at once, of a [`super::OnDeviceSilo`].
    ///
    /// # Errors
    /// [`Error::Setting`] for an interval of no steps.
    pub fn every(self, interval: u64) -> Result<Self> {
        Error::unless(interval > 0, "interval", interval, "at least 1 step")?;
        Ok(Self { interval: Some(interval), ..self })
    }

    /// The steps asked for next.
    fn due(&self) -> u64 {
        self.interval.unwrap_or(1).min(self.settings.steps.saturating_sub(self.step)).max(1)
    }

    /// The answer of the one party.
    fn answer(&self, outcomes: Vec<Outcome>) -> Result<Message> {
        replies(outcomes, &self.names, self.step)?.pop().ok_or(Error::NoSilos)
    }
}

impl Algorithm for Central {
    fn name(&self) -> &'static str {
        if self.interval.is_some() { "OnDevice" } else { "Central" }
    }

    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let message = StepsRequest { step: self.step, seed: self.settings.seed, count: self.due() }.write();
        Ok(vec![Request { silo: 0, message }])
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let Stepped { bound, gradient_norm, clipped: is_clipped, global, theta, rate, converged } =
            Stepped::read(&self.answer(outcomes)?, &self.sizes)?;
        (self.parameters, self.theta) = (Parameters::new(global), theta);
        let due = self.due();
        let rate = rate.unwrap_or_else(|| self.settings.rate(self.step + due - 1));
        self.step += due;
        self.converged = converged;
        Ok(StepInfo::moved(self.step, bound, Moved { gradient_norm, is_clipped, rate }, Tally::steps(due, 1)))
    }

    fn ended(&self) -> Option<Ending> {
        self.converged.then_some(Ending::Converged)
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        let draws = (draws * self.draws_a_bound()) as u64;
        let message = BoundsRequest { step: offset, seed: self.settings.seed, draws }.write();
        vec![Request { silo: 0, message }]
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        let size = self.draws_a_bound();
        let sizes = Sizes { draws: (draws * size) as u64, ..self.sizes };
        let Bounds { elbo } = Bounds::read(&self.answer(outcomes)?, &sizes)?;
        let weights: Vec<_> = elbo.chunks_exact(size).map(|own| self.settings.estimator.weigh(own)).collect();
        let reweighted = reweighted(self.posterior(), &self.settings, offset, &weights);
        Ok(ElboSamples { elbos: weights.iter().map(|own| own.bound).collect(), reweighted, ..ElboSamples::default() })
    }

    fn draws_a_bound(&self) -> usize {
        self.settings.estimator.draws_a_bound(self.settings.particles)
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        Posterior { family: &*self.family, parameters: self.parameters.numbers(), theta: &self.theta }
    }

    fn compute_in(&mut self, _: Precision) -> Result<bool> {
        // It computes nothing.
        Ok(true)
    }

    fn save(&self) -> Message {
        Message::new(STATE)
            .word("step", self.step)
            .word("seed", self.settings.seed)
            .word("converged", u64::from(self.converged))
            .floats("global", self.parameters.numbers())
            .floats("theta", &self.theta)
            .setting("globals", &self.signature)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        same_run(state, STATE, &self.signature, self.settings.seed)?;
        let parameters = Written::get(state, "global", self.family.parameter_len() as u64)?;
        let theta = state.expect_floats("theta", self.theta.len())?;
        self.step = state.get_count("step", LARGEST_COUNT)?;
        self.converged = state.get_count("converged", 1)? == 1;
        (self.parameters, self.theta) = (Parameters::new(parameters), theta);
        Ok(())
    }
}
