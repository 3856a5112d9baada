//! Fits one machine's pooled data: the plain structured variational inference that SFVI must equal.
//!
//! The one party holds data and posterior and evaluates the joint density of globals, locals and data in a single pass of
//! the tape, apart from the split into shares; the coordinator only keeps a copy of the posterior.

use partita_core::kernel::{add_scaled, dot};
use partita_core::{
    Assessment, Device, Key, Latents, LogDensity, Minibatch, Model, Purpose, SiteTable, shared_theta, theta, with_theta,
};
use rayon::prelude::*;

use super::sfvi_silo::{describe_global, global_key, global_noise, global_signature, noise_into};
use super::{Algorithm, Assessed, Posterior, StepInfo, Tally, finite, replies, same_run};
use crate::checkpoint;
use crate::error::{Error, Result};
use crate::estimator::{BlockDraw, Estimator, LayerMoments, add, check_layers, draw_blocks};
use crate::exchange::{Outcome, Request, SiloProgram};
use crate::family::{Family, FamilyDraw};
use crate::locals::{Locals, StepRows};
use crate::manifest::{Field, Manifest};
use crate::message::{Floats, Message};
use crate::optimiser::UpdateRule;
use crate::settings::Settings;

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
                field("elbo", "the sampled bounds", settings.particles.max(crate::assess::DRAWS_A_REQUEST)),
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

    /// Asks for `interval` steps at once, of a [`super::ResidentSilo`].
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
        let rate = self.settings.schedule.rate(self.step + due - 1, self.settings.steps);
        self.step += due;
        Ok(StepInfo { step: self.step, elbo, gradient_norm, clipped, rate, tally: Tally::steps(due, 1) })
    }

    fn assessing(&self, draws: usize, offset: u64) -> Vec<Request> {
        let all = draws * self.draws_a_bound();
        to_party(Message::new("central.assess").word("step", offset).word("draws", all as u64))
    }

    fn assessed(&self, outcomes: Vec<Outcome>, draws: usize, _: u64) -> Result<Assessed> {
        let replies = replies(outcomes, &self.names, self.step)?;
        let reply = replies.first().ok_or(Error::NoSilos)?;
        let size = self.draws_a_bound();
        let elbos = reply.expect_floats("elbo", draws * size)?;
        let bounds = elbos.chunks_exact(size).map(|elbos| self.settings.estimator.weigh(elbos).bound);
        Ok(Assessed { elbos: bounds.collect(), gradients: Vec::new() })
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
        self.step = state.get_word("step")?;
        Ok(())
    }
}

/// One draw: its bound, and what reaches the global parameters, θ and the local parameters.
struct Evaluated {
    elbo: f64,
    noise: Vec<f64>,
    location: Vec<f64>,
    /// What reaches $`Z_G - \mu_G`$, where it differs from `location`.
    deviation: Option<Vec<f64>>,
    /// The gradient by the variances of linear layers under local reparameterisation.
    variance: Vec<f64>,
    by_theta: Vec<f64>,
    by_local: Vec<Vec<f64>>,
}

/// Whose noise it is: purpose, step and particle.
type NoiseKey = (Purpose, u64, u32);

/// Numbers of a draw from which on its noise is made ahead.
const AHEAD: usize = 16_384;

/// The one party of a pooled fit: all data, and the whole posterior.
pub struct CentralSilo<M: Model> {
    name: String,
    model: M,
    data: M::Data,
    device: Device,
    settings: Settings,
    table: SiteTable,
    family: Box<dyn Family>,
    parameters: Vec<f64>,
    theta: Vec<f64>,
    rule: Box<dyn UpdateRule>,
    locals: Locals,
    step: u64,
    /// Noise made ahead of its draw. It depends on its key alone, so that a run is the same with it and without.
    ahead: Option<(NoiseKey, Vec<f64>)>,
    memory: Memory,
}

/// Memory that each step uses again; nothing in it is read before it is written.
#[derive(Default)]
struct Memory {
    noise: Vec<f64>,
    draw: FamilyDraw,
    gradient: Vec<f64>,
}

impl<M: Model> std::fmt::Debug for CentralSilo<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CentralSilo")
            .field("name", &self.name)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl<M: Model> CentralSilo<M> {
    /// The party called `name` with all the data.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`], [`Error::UnknownSite`].
    pub fn new(name: &str, model: &M, data: &M::Data, device: &Device, settings: &Settings) -> Result<Self> {
        settings.check()?;
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0))?;
        settings.family.check(&table)?;
        settings.check_observations(&table)?;
        let family = settings.family.global_family(&table)?;
        let parameters = settings.family.start(&*family, &table);
        let model = with_theta(model, &theta(model)?, device)?;
        let locals = Locals::new((&model, data), &table, settings, device, 0)?;
        check_layers(settings.estimator, &table, (&*family, &parameters), locals.depend_on_globals())?;
        Ok(Self {
            name: name.to_owned(),
            data: data.clone(),
            device: device.clone(),
            settings: settings.clone(),
            locals,
            theta: shared_theta(&model)?,
            model,
            table,
            parameters,
            family,
            rule: settings.optimiser.start(device),
            step: 0,
            ahead: None,
            memory: Memory::default(),
        })
    }

    /// The bound of one draw from `noise`, and its gradients.
    fn evaluate(
        &self,
        rows: &StepRows,
        (purpose, step, particle): NoiseKey,
        noise: Vec<f64>,
        global: &mut FamilyDraw,
    ) -> Result<Evaluated> {
        let estimator = self.settings.estimator;
        self.family.draw_into(&self.parameters, &noise, global);
        let local_noise = self.locals.noise(rows, purpose, step, particle);
        let blocks = self.locals.draws(rows, &local_noise);
        if estimator == Estimator::LocalReparameterisation && purpose == Purpose::Fit {
            return self.reparameterised((global, noise), (&rows.minibatch, &blocks), (step, particle));
        }
        let draws = draw_blocks(&blocks, &global.deviation);
        let locals: Vec<Vec<f64>> = draws.iter().map(|draw| draw.latent.clone()).collect();
        let density =
            LogDensity::new(&self.model, &self.device, &self.table).minibatch(&rows.minibatch).loss(self.settings.loss);
        let mut joint: Assessment = density.joint(Latents { globals: &global.latent, locals: &locals }, &self.data)?;
        let by_locals = std::mem::take(&mut joint.locals);
        let mut by_local = self.locals.zeros(rows);
        let (elbo, mut location, by_theta) = estimator.global_terms(joint, &*self.family, &self.parameters, global);
        let through = estimator.through_locals(&global.deviation, (&blocks, &draws), by_locals, &mut by_local);
        let elbo = elbo + through.elbo;
        let deviation = (!through.path.is_empty()).then(|| {
            add(&mut location, &through.direct);
            let mut deviation = location.clone();
            add(&mut deviation, &through.path);
            deviation
        });
        Ok(Evaluated { elbo, noise, location, deviation, variance: Vec::new(), by_theta, by_local })
    }

    /// One draw under local reparameterisation: layers have no one draw to evaluate the joint density at.
    fn reparameterised(
        &self,
        (global, noise): (&FamilyDraw, Vec<f64>),
        (minibatch, blocks): (&[Minibatch], &[BlockDraw<'_>]),
        (step, particle): (u64, u32),
    ) -> Result<Evaluated> {
        let estimator = self.settings.estimator;
        let layers = LayerMoments::new(&*self.family, &self.parameters);
        let moments = layers.with_noise(self.locals.layer_noise(Purpose::Fit, step, particle));
        let density = LogDensity::new(&self.model, &self.device, &self.table)
            .minibatch(minibatch)
            .moments(moments)
            .loss(self.settings.loss);
        let prior = density.global(&global.latent)?;
        let mut by_local: Vec<Vec<f64>> = blocks.iter().map(|block| vec![0.0; block.parameters.len()]).collect();
        let mut share = estimator.global_share(prior, &*self.family, &self.parameters, global);
        let local = estimator.local_share(&density, &self.data, global, blocks, &mut by_local)?;
        add(&mut share.location, &local.location);
        add(&mut share.deviation, &local.deviation);
        add(&mut share.theta, &local.theta);
        let (elbo, variance) = (share.elbo + local.elbo, local.variance);
        let (location, deviation) = (share.location, Some(share.deviation));
        Ok(Evaluated { elbo, noise, location, deviation, variance, by_theta: share.theta, by_local })
    }

    /// Adds `factor` times the gradient of a draw by the global parameters to `out`.
    fn add_gradient(&self, draw: &Evaluated, factor: f64, out: &mut [f64]) -> Result<()> {
        let reaching = [&draw.location, draw.deviation.as_ref().unwrap_or(&draw.location)].map(Vec::as_slice);
        let how = (factor, self.settings.estimator.adds_entropy_gradient());
        self.family.add_gradient(&self.parameters, &draw.noise, reaching, how, out);
        if draw.variance.is_empty() {
            return Ok(());
        }
        let variance: Vec<f64> = draw.variance.iter().map(|gradient| factor * gradient).collect();
        self.family.pull_back_variance(&self.parameters, &variance, out)
    }

    /// Evaluates a draw while another thread, if there is one, makes the noise of the draw after it: a tape is evaluated
    /// by one thread.
    fn evaluate_ahead(&mut self, rows: &StepRows, key: NoiseKey, next: NoiseKey) -> Result<Evaluated> {
        let noise = match self.ahead.take() {
            Some((known, noise)) if known == key => noise,
            _ => self.global_noise(key),
        };
        let mut draw = std::mem::take(&mut self.memory.draw);
        if noise.len() < AHEAD {
            let result = self.evaluate(rows, key, noise, &mut draw);
            self.memory.draw = draw;
            return result;
        }
        let mut ahead = std::mem::take(&mut self.memory.noise);
        let (family, settings) = (&*self.family, &self.settings);
        let later = global_key(next.0, next.1, Key::COORDINATOR).particle(next.2);
        let result = rayon::in_place_scope(|scope| {
            scope.spawn(|_| noise_into(family, settings, later, &mut ahead));
            self.evaluate(rows, key, noise, &mut draw)
        });
        self.ahead = Some((next, ahead));
        self.memory.draw = draw;
        result
    }

    fn global_noise(&self, (purpose, step, particle): NoiseKey) -> Vec<f64> {
        global_noise(&*self.family, &self.settings, purpose, step, particle)
    }

    /// Puts θ into the model.
    fn set_theta(&mut self) -> Result<()> {
        let theta = self.locals.with_private(&self.theta);
        if !theta.is_empty() {
            self.model = with_theta(&self.model, &theta, &self.device)?;
        }
        Ok(())
    }

    fn step(&mut self, step: u64) -> Result<Message> {
        let mut rows = self.locals.rows(step);
        let encodings = self.locals.encode((&self.model, &self.data), &self.table, &mut rows)?;
        let mut draws = Vec::with_capacity(self.settings.particles);
        for (particle, index) in (0..).zip(0..self.settings.particles) {
            let last = index + 1 == self.settings.particles;
            let next = (Purpose::Fit, step + u64::from(last), if last { 0 } else { particle + 1 });
            draws.push(self.evaluate_ahead(&rows, (Purpose::Fit, step, particle), next)?);
        }
        let particles = draws.iter_mut().map(|draw| draw.by_local.as_mut_slice()).collect();
        let through_encoder = encodings.pull_back(&self.model, &self.device, particles)?;
        let elbos: Vec<f64> = draws.iter().map(|draw| draw.elbo).collect();
        finite(&self.name, step, |_| "the bound".into(), &elbos)?;
        let weights = self.settings.estimator.weigh(&elbos);
        let mut by_theta = vec![0.0; self.theta.len() + self.locals.private_theta().len()];
        draws.iter().zip(&weights.theta).for_each(|(draw, factor)| add_scaled(&mut by_theta, *factor, &draw.by_theta));
        let mut gradient = std::mem::take(&mut self.memory.gradient);
        gradient.clear();
        gradient.resize(self.parameters.len(), 0.0);
        for (draw, factor) in draws.iter().zip(&weights.family) {
            self.add_gradient(draw, -weights.share * factor, &mut gradient)?;
        }
        if let Some(theta) = through_encoder {
            add(&mut by_theta, &theta);
        }
        finite(&self.name, step, |index| format!("the gradient by θ[{index}]"), &by_theta)?;
        let by_local = weights.descent(draws.iter_mut().map(|draw| std::mem::take(&mut draw.by_local)).collect());
        let private = by_theta.split_off(self.theta.len()).into_iter().map(|g| -weights.share * g).collect::<Vec<_>>();
        gradient.extend(by_theta.into_iter().map(|g| -weights.share * g));
        let squares: Vec<f64> = gradient.par_chunks(AHEAD).map(|part| dot(part, part)).collect();
        let norm = squares.iter().sum::<f64>().sqrt();
        if !norm.is_finite() {
            finite(
                &self.name,
                step,
                |index| describe_global(&self.table, index % self.family.len().max(1)),
                &gradient,
            )?;
        }
        let clipped = self.settings.clip.is_some_and(|clip| clip.apply(&mut gradient));
        let rate = self.settings.schedule.rate(step, self.settings.steps);
        let count = self.parameters.len();
        self.parameters.append(&mut self.theta);
        self.rule.step(rate, &mut self.parameters, &gradient);
        self.theta = self.parameters.split_off(count);
        self.locals.descend(&rows, by_local, &private, rate);
        self.set_theta()?;
        self.step = step + 1;
        self.memory.gradient = gradient;
        self.memory.noise = draws.pop().map(|draw| draw.noise).unwrap_or_default();
        Ok(Message::new("central.stepped")
            .floats("elbo", &elbos)
            .floats("global", &self.parameters)
            .floats("theta", &self.theta)
            .number("gradient_norm", norm)
            .number("clipped", f64::from(u8::from(clipped))))
    }

    fn assess(&self, request: &Message) -> Result<Message> {
        let (offset, draws) = (request.get_word("step")?, request.get_word("draws")?);
        let mut elbos = vec![0.0; usize::try_from(draws).unwrap_or_default()];
        let mut draw = FamilyDraw::default();
        for mut rows in self.locals.all_rows() {
            self.locals.encode((&self.model, &self.data), &self.table, &mut rows)?;
            for (particle, elbo) in (0_u32..).zip(&mut elbos) {
                let key = (Purpose::Report, offset, particle);
                *elbo += rows.share * self.evaluate(&rows, key, self.global_noise(key), &mut draw)?.elbo;
            }
        }
        Ok(Message::new("central.assessment").floats("elbo", &elbos))
    }
}

impl<M: Model> SiloProgram for CentralSilo<M> {
    fn name(&self) -> &str {
        &self.name
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.locals.moments((&self.model, &self.data), &self.table)
    }

    fn private_theta(&self) -> Vec<f64> {
        self.locals.private_theta().to_vec()
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            "central.step" => self.step(request.get_word("step")?),
            "central.assess" => self.assess(request),
            "silo.save" => {
                let mut state = self.locals.save();
                state.push(("global".into(), self.parameters.clone()));
                state.push(("theta".into(), self.theta.clone()));
                state.extend(self.rule.save().into_iter().map(|(name, values)| (format!("rule.{name}"), values)));
                checkpoint::save_silo(request.get_setting("folder")?.as_ref(), &self.name, self.step, state)?;
                Ok(Message::new("silo.saved"))
            }
            "silo.restore" => {
                let folder = request.get_setting("folder")?;
                let (step, state) = checkpoint::load_silo(folder.as_ref(), &self.name)?;
                let find = |name: &str| state.iter().find(|(known, _)| known == name).map(|(_, values)| values.clone());
                let strip = |(name, values): &(String, Vec<f64>)| {
                    Some((name.strip_prefix("rule.")?.to_owned(), values.clone()))
                };
                let rule = state.iter().filter_map(strip).collect();
                match (find("global"), find("theta")) {
                    (Some(global), Some(theta))
                        if global.len() == self.parameters.len()
                            && theta.len() == self.theta.len()
                            && self.locals.load(&state)
                            && self.rule.load(rule) =>
                    {
                        (self.parameters, self.theta, self.step) = (global, theta, step);
                        self.set_theta()?;
                        Ok(Message::new("silo.restored"))
                    }
                    _ => Err(checkpoint::other_model(folder.as_ref(), &self.name)),
                }
            }
            other => Err(Error::Message { kind: other.to_owned(), problem: "a pooled party does not know it".into() }),
        }
    }
}
