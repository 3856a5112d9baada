//! Fits pooled data without leaving the device: many steps between two reads, each equal to one of the pooled fit.

use burn::tensor::Tensor;
use partita_core::kernel::AdamUpdate;
use partita_core::{
    Device, DeviceEncoded, Encoded, Handle, LogDensity, Minibatch, Model, Noise, Part, Purpose, Role, SiteTable,
    device_theta, theta, with_device_theta, with_theta,
};

use crate::engine::algorithm::finite;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::on_device::{
    Chosen, Globals, GlobalsGradient, Moving, NoisePlan, ParticleNoise, RowBlock, RowChoice, RowStep, RowsGradient,
    plus,
};
use crate::engine::optimiser::Adam;
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::rows::Locals;
use crate::engine::settings::Settings;
use crate::engine::trust::estimate::most_draws;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// The one party of a fit that stays on its device: data, posterior and optimiser are tensors there.
///
/// Its steps are those of [`crate::CentralSilo`] with the same keyed noise, which is made on the host and uploaded: the
/// two runs are equal to rounding. Bound, gradient norm, global posterior and θ are read together, once for every
/// request of some steps. A bound that is not finite is therefore found at the end of an interval, not at its step.
pub struct OnDeviceSilo<M: Model> {
    name: String,
    model: M,
    data: M::Data,
    device: Device,
    settings: Settings,
    table: SiteTable,
    noise_len: usize,
    globals: Globals,
    choices: Vec<RowChoice>,
    rows: Vec<RowBlock>,
    /// Place of each latent site: global by its number, local by its block and its number in the block.
    places: Vec<Place>,
    theta: Vec<Moving<1>>,
    theta_len: usize,
    step: u64,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Global(usize),
    Local(usize, usize),
}

/// What one step leaves on the device.
struct Stepped {
    /// The bound, a mean over particles.
    bound: Tensor<1>,
    /// The squared norm of the gradient by globals and θ.
    norm: Option<Tensor<1>>,
}

/// What the particles of a step sum up.
#[derive(Default)]
struct Sums {
    bound: Option<Tensor<1>>,
    constant: f64,
    globals: GlobalsGradient,
    rows: Vec<RowsGradient>,
    theta: Vec<Option<Tensor<1>>>,
}

impl<M: Model> std::fmt::Debug for OnDeviceSilo<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OnDeviceSilo")
            .field("name", &self.name)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl<M: Model> OnDeviceSilo<M> {
    /// The party called `name` with all the data.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`] for what has no device form: estimators with inner draws,
    /// optimisers other than Adam, clipping, low-rank globals, rows with correlated columns.
    pub fn new(name: &str, model: &M, data: &M::Data, device: &Device, settings: &Settings) -> Result<Self> {
        settings.check()?;
        refuse(settings)?;
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0))?;
        settings.family.check(&table)?;
        let family = settings.family.global_family(&table)?;
        // Refuses plates that are not there, as every other party does.
        Locals::new((model, data), &table, settings, device, 0)?;
        if model.private_len() > 0 {
            let expected =
                "a model whose θ all parties share, for a fit that stays on the device; there is but one party";
            return Err(Error::Setting { setting: "model", found: "private θ with OnDevice".into(), expected });
        }
        let values = theta(model)?;
        let model = with_theta(model, &values, device)?;
        let blocks: Vec<_> = table.blocks().iter().enumerate().collect();
        let choices = blocks.iter().map(|(_, block)| RowChoice::new(block, settings)).collect::<Result<_>>()?;
        let mut rows = Vec::new();
        for (index, block) in blocks.iter().filter(|(_, block)| block.width > 0) {
            let is_encoded = Encoded::of(&model, &table, *index, data, Some(&[0]))?.is_some();
            rows.push(RowBlock::new(&table, (*index, block, is_encoded), settings, device)?);
        }
        let (mut globals, mut locals) = (0, vec![0; blocks.len()]);
        let next = |count: &mut usize| {
            *count += 1;
            *count - 1
        };
        let latent = table.sites().iter().filter(|site| site.role == Role::Latent);
        let places = latent
            .map(|site| match site.part {
                Part::Global => Place::Global(next(&mut globals)),
                Part::Local => Place::Local(site.block(), next(&mut locals[site.block()])),
            })
            .collect();
        Ok(Self {
            name: name.to_owned(),
            data: data.clone(),
            device: device.clone(),
            settings: settings.clone(),
            noise_len: family.noise_len(),
            globals: Globals::new(&settings.family, &table, &settings.family.start(&*family, &table), device)?,
            theta: device_theta(&model).into_iter().map(Moving::new).collect(),
            theta_len: values.len(),
            choices,
            rows,
            places,
            table,
            model,
            step: 0,
        })
    }

    fn noises(&self, (chosen, part): (&[Chosen], u32), key: (Purpose, u64), count: usize) -> Vec<ParticleNoise> {
        let points = |index: usize| self.rows.iter().find(|block| block.index == index);
        let blocks = self.choices.iter().zip(chosen).enumerate().map(|(index, (choice, chosen))| {
            (choice.count(chosen), points(index).map_or_else(Vec::new, |block| block.points.clone()))
        });
        let noise = Noise::new(self.settings.seed).kind(self.settings.noise);
        let plan = NoisePlan { noise, part, globals: self.noise_len, blocks: blocks.collect() };
        plan.particles(key, count, self.settings.silo_threads() > 1)
    }

    /// The parameters of the rows that are evaluated.
    fn row_steps(&self, chosen: &[Chosen]) -> Result<(Vec<RowStep>, Vec<Option<DeviceEncoded>>)> {
        let (mut steps, mut encodings) = (Vec::new(), Vec::new());
        for block in &self.rows {
            let encoded = self.encode(block, &chosen[block.index])?;
            let parameters = encoded.as_ref().map(DeviceEncoded::parameters);
            steps.push(block.step(&chosen[block.index], parameters, &self.device));
            encodings.push(encoded);
        }
        Ok((steps, encodings))
    }

    fn encode(&self, block: &RowBlock, chosen: &Chosen) -> Result<Option<DeviceEncoded>> {
        if !block.is_encoded() {
            return Ok(None);
        }
        let rows = chosen.as_ref().map(|(rows, _)| rows.as_slice());
        Ok(DeviceEncoded::of(&self.model, &self.table, block.index, &self.data, rows)?)
    }

    /// All rows, in parts of the size of a minibatch where an encoder serves them, as on the host; with the share of
    /// each.
    #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
    fn all_rows(&self) -> Vec<(Vec<Chosen>, f64)> {
        let all = || self.choices.iter().map(|_| None).collect();
        let encoded = self.rows.iter().find(|block| block.is_encoded()).map(|block| block.index);
        let Some(index) = encoded else { return vec![(all(), 1.0)] };
        let parts = self.choices[index].parts();
        if parts.len() < 2 {
            return vec![(all(), 1.0)];
        }
        let total = parts.iter().map(Vec::len).sum::<usize>() as f64;
        let part = |rows: Vec<usize>| {
            let (mut chosen, share): (Vec<Chosen>, f64) = (all(), rows.len() as f64 / total);
            chosen[index] = Some((rows, 1.0 / share));
            (chosen, share)
        };
        parts.into_iter().map(part).collect()
    }

    /// Sums the bounds of some particles, and their gradients if `into` is given; a bound a particle where not.
    fn evaluate(
        &self,
        (chosen, steps, noises): (&[Chosen], &[RowStep], &[ParticleNoise]),
        mut into: Option<&mut Sums>,
    ) -> Result<Vec<Tensor<1>>> {
        let estimator = self.settings.estimator;
        let minibatch: Vec<Minibatch> =
            self.choices.iter().zip(chosen).filter_map(|(choice, chosen)| choice.minibatch(chosen)).collect();
        let density = LogDensity::new(&self.model, &self.device, &self.table).minibatch(&minibatch);
        let ready = self.globals.ready();
        let closed = estimator == Estimator::ClosedFormEntropy;
        let mut bounds = Vec::new();
        for noise in noises {
            let global = self.globals.draw(&ready, &noise.globals, &self.device);
            let mut constant = if closed { self.globals.entropy_constant() } else { noise.energy };
            let mut entropy = self.globals.log_scales();
            let mut draws = Vec::with_capacity(steps.len());
            for (block, step) in self.rows.iter().zip(steps) {
                let draw = block.draw(step, &global.deviation, &noise.blocks[block.index], &self.device);
                let (moving, fixed) = if closed {
                    block.entropy(step)
                } else {
                    (draw.log_scales.clone(), noise.block_energies[block.index])
                };
                constant += step.weight * fixed;
                let moving = if chosen[block.index].is_some() { moving * step.weight } else { moving };
                entropy = Some(match entropy {
                    Some(sum) => sum + moving,
                    None => moving,
                });
                draws.push(draw);
            }
            let sites: Vec<Vec<Tensor<2>>> =
                self.rows.iter().zip(&draws).map(|(block, draw)| block.by_site(draw)).collect();
            let block_of = |index: usize| self.rows.iter().position(|block| block.index == index).unwrap_or(0);
            let latents: Vec<Tensor<2>> = self
                .places
                .iter()
                .map(|place| match place {
                    Place::Global(site) => global.sites[*site].clone(),
                    Place::Local(block, site) => sites[block_of(*block)][*site].clone(),
                })
                .collect();
            let with_entropy = |value: Tensor<1>| match entropy.clone() {
                Some(entropy) => value + entropy,
                None => value,
            };
            let Some(sums) = into.as_deref_mut() else {
                bounds.push(with_entropy(density.value_on_device(&latents, &self.data)?) + constant);
                continue;
            };
            let assessment = density.on_device(&latents, &self.data)?;
            plus(&mut sums.bound, with_entropy(assessment.value));
            sums.constant += constant;
            let mut by_global = Vec::new();
            let mut by_local: Vec<Vec<Tensor<2>>> = self.rows.iter().map(|_| Vec::new()).collect();
            for (place, gradient) in self.places.iter().zip(assessment.latents) {
                match place {
                    Place::Global(_) => by_global.push(gradient),
                    Place::Local(block, _) => by_local[block_of(*block)].push(gradient),
                }
            }
            let mut location = match by_global.len() {
                0 => global.deviation.zeros_like(),
                1 => by_global.remove(0),
                _ => Tensor::cat(by_global, 1),
            };
            let mut path = None;
            sums.rows.resize_with(self.rows.len(), Default::default);
            let parts = self.rows.iter().zip(steps).zip(&draws).zip(by_local).zip(&mut sums.rows);
            for ((((block, step), draw), gradients), into) in parts {
                let at = (step, draw, &global.deviation);
                let (direct, through) = block.vjp(at, gradients, estimator, into);
                if let Some(direct) = direct {
                    location = location + direct;
                }
                if let Some(through) = through {
                    plus(&mut path, through);
                }
            }
            let deviation = match path {
                Some(path) => location.clone() + path,
                None => location.clone(),
            };
            let subtract_score = estimator == Estimator::StickingTheLanding;
            self.globals.vjp((&ready, &global), (&location, &deviation), subtract_score, &mut sums.globals);
            sums.theta.resize_with(assessment.theta.len(), || None);
            sums.theta.iter_mut().zip(assessment.theta).for_each(|(slot, own)| plus(slot, own));
        }
        Ok(bounds)
    }

    /// One step, of which nothing is read.
    fn one(&mut self, step: u64) -> Result<Stepped> {
        let seed = self.settings.seed;
        let chosen: Vec<Chosen> = self.choices.iter().map(|choice| choice.at(Some(step), seed)).collect();
        let noises = self.noises((&chosen, 0), (Purpose::Fit, step), self.settings.particles);
        let ((steps, encodings), mut sums) = (self.row_steps(&chosen)?, Sums::default());
        self.evaluate((&chosen, &steps, &noises), Some(&mut sums))?;
        for (encoded, gradient) in encodings.into_iter().zip(&mut sums.rows) {
            let Some(encoded) = encoded else { continue };
            let Some(cells) = gradient.take_cells() else { continue };
            let theta = encoded.vjp(&self.model, cells).unwrap_or_default();
            sums.theta.iter_mut().zip(theta).for_each(|(slot, own)| plus(slot, own));
        }
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 particles")]
        let particles = self.settings.particles as f64;
        let rate = self.settings.rate(step);
        let Some(&Adam { decay, epsilon }) = self.settings.optimiser.get() else {
            unreachable!("invariant: other optimisers were refused")
        };
        let update = AdamUpdate::at(step + 1, rate, decay, epsilon);
        let entropy = self.settings.estimator.adds_entropy_gradient();
        let mut norm = self.globals.ascend(sums.globals, (particles, entropy), &update);
        for (theta, gradient) in self.theta.iter_mut().zip(sums.theta) {
            let Some(gradient) = gradient else { continue };
            let gradient = gradient * (-1.0 / particles);
            plus(&mut norm, (gradient.clone() * gradient.clone()).sum());
            theta.step(gradient, &update);
        }
        self.set_theta();
        let at = |time: u64| AdamUpdate::at(time, rate, decay, epsilon);
        for ((block, own), gradient) in self.rows.iter_mut().zip(&steps).zip(sums.rows) {
            block.ascend((&chosen[block.index], own), gradient, particles, (at, &self.device));
        }
        let Some(bound) = sums.bound else { unreachable!("invariant: there is at least one particle") };
        self.step = step + 1;
        Ok(Stepped { bound: (bound + sums.constant) / particles, norm })
    }

    /// Answers `central.steps`; where it fails, the party stands where it stood before. Tensors are shared, not copied.
    fn steps(&mut self, request: &Message) -> Result<Message> {
        let before = (self.globals.clone(), self.rows.clone(), self.theta.clone(), self.step);
        let answer = self.interval(request);
        if answer.is_err() {
            (self.globals, self.rows, self.theta, self.step) = before;
            self.set_theta();
        }
        answer
    }

    /// Puts θ into the model.
    fn set_theta(&mut self) {
        if !self.theta.is_empty() {
            self.model = with_device_theta(&self.model, self.theta.iter().map(Moving::value).collect());
        }
    }

    /// Some steps on the device, then one read of what the coordinator wants to know.
    fn interval(&mut self, request: &Message) -> Result<Message> {
        let (first, count) =
            (request.get_count("step", LARGEST_COUNT)?, request.get_count("count", LARGEST_COUNT)?.max(1));
        let (mut bounds, mut norm) = (None, None);
        for step in first..first + count {
            let stepped = self.one(step)?;
            plus(&mut bounds, stepped.bound);
            norm = stepped.norm;
        }
        let Some(bounds) = bounds else { unreachable!("invariant: at least one step was taken") };
        #[expect(clippy::cast_precision_loss, reason = "an interval has far fewer than 2^52 steps")]
        let bounds = bounds / count as f64;
        let norm = norm.unwrap_or_else(|| bounds.zeros_like()).sqrt();
        let mut all = vec![bounds, norm];
        all.extend(self.globals.flat());
        all.extend(self.theta.iter().map(Moving::value));
        let numbers = Handle::from(Tensor::cat(all, 0)).read()?.values;
        let last = first + count;
        let interval = format!("the mean bound of steps {} to {last}", first + 1);
        finite(&self.name, last, |_| interval.clone(), &numbers[..1])?;
        finite(&self.name, last, |_| format!("the posterior or θ after steps {} to {last}", first + 1), &numbers[1..])?;
        let (elbo, norm) = (numbers[0], numbers[1]);
        let mut rest = numbers.into_iter().skip(2);
        let global = self.globals.parameters(&mut rest);
        let theta: Vec<f64> = rest.take(self.theta_len).collect();
        Ok(Message::new("central.stepped")
            .floats("elbo", &[elbo])
            .floats("global", &global)
            .floats("theta", &theta)
            .number("gradient_norm", norm)
            .number("clipped", 0.0))
    }

    /// Answers `central.estimate_elbo`: bounds of report draws on all rows, in one read; changes nothing.
    fn estimate_elbo(&self, request: &Message) -> Result<Message> {
        let offset = request.get_count("step", LARGEST_COUNT)?;
        let draws =
            usize::try_from(request.get_count("draws", most_draws(&self.settings) as u64)?).unwrap_or(usize::MAX);
        let mut sum = None;
        for ((chosen, share), part) in self.all_rows().into_iter().zip(0_u32..) {
            let noises = self.noises((&chosen, part), (Purpose::Report, offset), draws);
            let (steps, _) = self.row_steps(&chosen)?;
            let bounds = self.evaluate((&chosen, &steps, &noises), None)?;
            plus(&mut sum, Tensor::cat(bounds, 0) * share);
        }
        let elbos = sum.map_or_else(|| Ok(Vec::new()), |sum| Handle::from(sum).read().map(|array| array.values))?;
        Ok(Message::new("central.assessment").floats("elbo", &elbos))
    }

    /// Everything as named vectors.
    fn state(&self) -> Result<NamedVectors> {
        // Its tensors are shared with the copy.
        let mut state = self.globals.clone().save()?;
        for block in &self.rows {
            state.extend(block.save()?);
        }
        for (index, theta) in self.theta.iter().enumerate() {
            state.extend(theta.save(&format!("theta.{index}"))?);
        }
        Ok(state)
    }
}

/// Refuses settings that have no device form.
fn refuse(settings: &Settings) -> Result<()> {
    let refused = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
    let ordinary = [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy];
    if !ordinary.contains(&settings.estimator) {
        let expected = "StickingTheLanding, Total or ClosedFormEntropy for a fit that stays on the device";
        return refused("estimator", format!("{:?} with OnDevice", settings.estimator), expected);
    }
    if settings.optimiser.get::<Adam>().is_none() {
        let expected = "Adam for a fit that stays on the device";
        return refused("optimiser", format!("{:?} with OnDevice", settings.optimiser), expected);
    }
    if !settings.loss.is_log() {
        let expected = "the negative log likelihood for a fit that stays on the device; Central takes every loss";
        return refused("loss", format!("{} with OnDevice", settings.loss), expected);
    }
    if settings.clip.is_some() {
        let expected = "none for a fit that stays on the device, where nobody sees whether a step was clipped";
        return refused("clip", "a limit with OnDevice".into(), expected);
    }
    Ok(())
}

impl<M: Model> Program for OnDeviceSilo<M> {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            "central.steps" => self.steps(request),
            "central.estimate_elbo" => self.estimate_elbo(request),
            other => {
                let problem = "a party that stays on its device does not know it".into();
                Err(Error::Message { kind: other.to_owned(), problem })
            }
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        self.state()
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let Self { globals, rows, theta, device, .. } = self;
        let fits = globals.load(state, device)
            && rows.iter_mut().all(|block| block.load(state, device))
            && theta.iter_mut().enumerate().all(|(index, own)| own.load(&format!("theta.{index}"), state, device));
        if fits {
            self.step = step;
            self.set_theta();
        }
        Ok(fits)
    }

    /// Tensors that did not move are shared: what a failed interval changed is taken back without a read.
    fn commit(&self, _: &Message) -> Commit {
        Commit::AtItsEnd
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let mut all = vec![(Vec::new(), Vec::new()); self.choices.len()];
        for block in &self.rows {
            let encoded = self.encode(block, &None)?.map(|encoded| encoded.parameters());
            all[block.index] = block.moments(encoded, &self.device)?;
        }
        Ok(all)
    }
}
