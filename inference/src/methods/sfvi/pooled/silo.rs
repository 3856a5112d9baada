//! Gives the one party of a pooled fit: evaluates the joint density at its draws and moves all parameters.

use partita_core::kernel::add_scaled;
use partita_core::{
    Device, Key, Latents, LogDensity, Minibatch, Model, Purpose, SiteTable, ValueAndGradient, shared_theta, theta,
    with_theta,
};

use crate::engine::algorithm::finite;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{
    BlockDraw, ElboTerm, Estimator, LayerMoments, add, check_layers, draw_blocks, particles_join, tapes,
};
use crate::engine::family::{DrawGradient, FamilyDraw};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::rows::{Locals, StepRows};
use crate::engine::settings::Settings;
use crate::engine::terms::silo::{describe_global, global_key, global_noise, noise_into};
use crate::engine::trainer::{Descent, Moved, Trainer};
use crate::engine::trust::estimate::most_draws;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// One draw: its bound, and what reaches the global parameters, θ and the local parameters.
struct Evaluated {
    elbo: f64,
    noise: Vec<f64>,
    grad_mean: Vec<f64>,
    /// What reaches $`Z_G - \mu_G`$, where it differs from `grad_mean`.
    grad_offset: Option<Vec<f64>>,
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
    trainer: Trainer,
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
            trainer: Trainer::new(family, parameters, &shared_theta(&model)?, Descent::new(settings, device)),
            model,
            table,
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
        self.trainer.family.draw_into(self.trainer.parameters(), &noise, global);
        let local_noise = self.locals.noise(rows, purpose, step, particle);
        let blocks = self.locals.draws(rows, &local_noise);
        if estimator == Estimator::LocalReparameterisation && purpose == Purpose::Fit {
            return self.reparameterised((global, noise), (&rows.minibatch, &blocks), (step, particle));
        }
        let draws = draw_blocks(&blocks, &global.deviation);
        let locals: Vec<Vec<f64>> = draws.iter().map(|draw| draw.latent.clone()).collect();
        let density =
            LogDensity::new(&self.model, &self.device, &self.table).minibatch(&rows.minibatch).loss(self.settings.loss);
        let mut joint: ValueAndGradient =
            density.joint(Latents { globals: &global.latent, locals: &locals }, &self.data)?;
        let by_locals = std::mem::take(&mut joint.locals);
        let mut by_local = self.locals.zeros(rows);
        let (elbo, mut grad_mean, by_theta) =
            estimator.global_terms(joint, &*self.trainer.family, self.trainer.parameters(), global);
        let through = estimator.through_locals(&global.deviation, (&blocks, &draws), by_locals, &mut by_local);
        let elbo = elbo + through.elbo;
        let grad_offset = (!through.path.is_empty()).then(|| {
            add(&mut grad_mean, &through.direct);
            let mut grad_offset = grad_mean.clone();
            add(&mut grad_offset, &through.path);
            grad_offset
        });
        Ok(Evaluated { elbo, noise, grad_mean, grad_offset, variance: Vec::new(), by_theta, by_local })
    }

    /// Whether the particles of a step share tapes of the likelihood, apart from their draws of the prior.
    fn particles_join(&self) -> bool {
        self.settings.estimator == Estimator::LocalReparameterisation
            && self.settings.particles > 1
            && particles_join(&self.table)
    }

    /// The mean share of the likelihood over particles that join.
    fn joined(&self, rows: &StepRows, step: u64) -> Result<ElboTerm> {
        let layers = LayerMoments::new(&*self.trainer.family, self.trainer.parameters());
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 particles")]
        let weight = 1.0 / self.settings.particles as f64;
        let noise = self.locals.layer_noise(Purpose::Fit, step, 0);
        let tapes = tapes(self.settings.particles).into_iter().map(|particles| {
            let density = LogDensity::new(&self.model, &self.device, &self.table)
                .minibatch(&rows.minibatch)
                .weight(weight)
                .loss(self.settings.loss);
            layers.joined(density, &self.data, noise, &particles)
        });
        let parts = tapes.collect::<Result<Vec<_>>>()?;
        Ok(parts.into_iter().reduce(ElboTerm::plus).unwrap_or_default())
    }

    /// One draw under local reparameterisation: layers have no one draw to evaluate the joint density at.
    fn reparameterised(
        &self,
        (global, noise): (&FamilyDraw, Vec<f64>),
        (minibatch, blocks): (&[Minibatch], &[BlockDraw<'_>]),
        (step, particle): (u64, u32),
    ) -> Result<Evaluated> {
        let estimator = self.settings.estimator;
        let layers = LayerMoments::new(&*self.trainer.family, self.trainer.parameters());
        let moments = layers.with_noise(self.locals.layer_noise(Purpose::Fit, step, particle));
        let density = LogDensity::new(&self.model, &self.device, &self.table)
            .minibatch(minibatch)
            .moments(moments)
            .loss(self.settings.loss);
        let prior = density.global(&global.latent)?;
        let mut by_local: Vec<Vec<f64>> = blocks.iter().map(|block| vec![0.0; block.parameters.len()]).collect();
        let mut share = estimator.global_share(prior, &*self.trainer.family, self.trainer.parameters(), global);
        if self.particles_join() {
            let (elbo, grad_mean, by_theta) = (share.elbo, share.grad_mean, share.theta);
            return Ok(Evaluated {
                elbo,
                noise,
                grad_mean,
                grad_offset: None,
                variance: Vec::new(),
                by_theta,
                by_local,
            });
        }
        let local = estimator.local_share(&density, &self.data, global, blocks, &mut by_local)?;
        add(&mut share.grad_mean, &local.grad_mean);
        add(&mut share.grad_offset, &local.grad_offset);
        add(&mut share.theta, &local.theta);
        let (elbo, variance) = (share.elbo + local.elbo, local.variance);
        let (grad_mean, grad_offset) = (share.grad_mean, Some(share.grad_offset));
        Ok(Evaluated { elbo, noise, grad_mean, grad_offset, variance, by_theta: share.theta, by_local })
    }

    /// Adds `factor` times the gradient of a draw by the global parameters to `out`.
    fn add_gradient(&self, draw: &Evaluated, factor: f64, out: &mut [f64]) -> Result<()> {
        let gradient = DrawGradient {
            grad_mean: &draw.grad_mean,
            grad_offset: draw.grad_offset.as_ref().unwrap_or(&draw.grad_mean),
            factor,
            with_entropy: self.settings.estimator.adds_entropy_gradient(),
        };
        self.trainer.family.add_gradient(self.trainer.parameters(), &draw.noise, gradient, out);
        if draw.variance.is_empty() {
            return Ok(());
        }
        let variance: Vec<f64> = draw.variance.iter().map(|gradient| factor * gradient).collect();
        self.trainer.family.vjp_variance(self.trainer.parameters(), &variance, out)
    }

    /// Evaluates a draw while another thread, if there is one, makes the noise of the draw after it: a tape is
    /// evaluated by one thread.
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
        let (family, settings) = (&*self.trainer.family, &self.settings);
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
        global_noise(&*self.trainer.family, &self.settings, purpose, step, particle)
    }

    /// Puts θ into the model.
    fn set_theta(&mut self) -> Result<()> {
        let theta = self.locals.with_private(self.trainer.theta());
        if !theta.is_empty() {
            self.model = with_theta(&self.model, &theta, &self.device)?;
        }
        Ok(())
    }

    /// The draws of a step, each while the noise of the next is made.
    fn particles(&mut self, rows: &StepRows, step: u64) -> Result<Vec<Evaluated>> {
        let mut draws = Vec::with_capacity(self.settings.particles);
        for (particle, index) in (0..).zip(0..self.settings.particles) {
            let last = index + 1 == self.settings.particles;
            let next = (Purpose::Fit, step + u64::from(last), if last { 0 } else { particle + 1 });
            draws.push(self.evaluate_ahead(rows, (Purpose::Fit, step, particle), next)?);
        }
        Ok(draws)
    }

    fn step(&mut self, step: u64) -> Result<Message> {
        let mut rows = self.locals.rows(step);
        let encodings = self.locals.encode((&self.model, &self.data), &self.table, &mut rows)?;
        let mut draws = self.particles(&rows, step)?;
        let likelihood = self.particles_join().then(|| self.joined(&rows, step)).transpose()?;
        if let Some(likelihood) = &likelihood {
            for draw in &mut draws {
                draw.elbo += likelihood.elbo;
                add(&mut draw.by_theta, &likelihood.theta);
            }
        }
        let particles = draws.iter_mut().map(|draw| draw.by_local.as_mut_slice()).collect();
        let through_encoder = encodings.vjp(&self.model, &self.device, particles)?;
        let elbos: Vec<f64> = draws.iter().map(|draw| draw.elbo).collect();
        finite(&self.name, step, |_| "the bound".into(), &elbos)?;
        let weights = self.settings.estimator.weigh(&elbos);
        let mut by_theta = vec![0.0; self.trainer.theta().len() + self.locals.private_theta().len()];
        draws.iter().zip(&weights.theta).for_each(|(draw, factor)| add_scaled(&mut by_theta, *factor, &draw.by_theta));
        let mut gradient = std::mem::take(&mut self.memory.gradient);
        gradient.clear();
        gradient.resize(self.trainer.parameters().len(), 0.0);
        for (draw, factor) in draws.iter().zip(&weights.family) {
            self.add_gradient(draw, -weights.share * factor, &mut gradient)?;
        }
        if let Some(likelihood) = likelihood {
            let (mut own, noise) = (vec![0.0; gradient.len()], vec![0.0; self.trainer.family.noise_len()]);
            likelihood.vjp(&*self.trainer.family, self.trainer.parameters(), &noise, &mut own)?;
            add_scaled(&mut gradient, -1.0, &own);
        }
        if let Some(theta) = through_encoder {
            add(&mut by_theta, &theta);
        }
        finite(&self.name, step, |index| format!("the gradient by θ[{index}]"), &by_theta)?;
        let by_local = weights.descent(draws.iter_mut().map(|draw| std::mem::take(&mut draw.by_local)).collect());
        let private =
            by_theta.split_off(self.trainer.theta().len()).into_iter().map(|g| -weights.share * g).collect::<Vec<_>>();
        gradient.extend(by_theta.into_iter().map(|g| -weights.share * g));
        let globals = self.trainer.family.len().max(1);
        finite(&self.name, step, |index| describe_global(&self.table, index % globals), &gradient)?;
        let Moved { gradient_norm: norm, is_clipped: clipped, rate } = self.trainer.step(step, &mut gradient);
        self.locals.descend(&rows, by_local, &private, rate);
        self.set_theta()?;
        self.step = step + 1;
        self.memory.gradient = gradient;
        self.memory.noise = draws.pop().map(|draw| draw.noise).unwrap_or_default();
        Ok(Message::new("central.stepped")
            .floats("elbo", &elbos)
            .floats("global", self.trainer.parameters())
            .floats("theta", self.trainer.theta())
            .number("gradient_norm", norm)
            .number("clipped", f64::from(u8::from(clipped))))
    }

    fn estimate_elbo(&self, request: &Message) -> Result<Message> {
        let (offset, draws) =
            (request.get_count("step", LARGEST_COUNT)?, request.get_count("draws", most_draws(&self.settings) as u64)?);
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

impl<M: Model> Program for CentralSilo<M> {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            "central.step" => self.step(request.get_count("step", LARGEST_COUNT)?),
            "central.estimate_elbo" => self.estimate_elbo(request),
            other => Err(Error::Message { kind: other.to_owned(), problem: "a pooled party does not know it".into() }),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        let mut state = self.locals.save();
        state.extend(self.trainer.save());
        Ok(state)
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        if !(self.trainer.load(state) && self.locals.load(state)) {
            return Ok(false);
        }
        self.step = step;
        self.set_theta()?;
        Ok(true)
    }

    fn commit(&self, _: &Message) -> Commit {
        Commit::AtItsEnd
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.locals.moments((&self.model, &self.data), &self.table)
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.locals.private_theta().to_vec()
    }
}
