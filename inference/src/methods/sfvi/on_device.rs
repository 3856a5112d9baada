//! Fits pooled data without leaving the device: many steps between two reads, each equal to one of the pooled fit.

mod evaluate;

use burn::tensor::Tensor;
use partita_core::kernel::AdamUpdate;
use partita_core::{
    AnyData, AnyModel, Device, DeviceEncoded, Handle, Model, Noise, Part, Purpose, Role, SiteTable, device_theta,
    ordered_sum, theta, with_device_theta, with_theta,
};

use self::evaluate::{DeviceRows, Draws, Sums};
use super::messages::{Bounds, BoundsRequest, Sizes, Stepped, StepsRequest};
use crate::engine::algorithm::finite;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::family::CovarianceMatrix;
use crate::engine::on_device::{Globals, Moving, RowBlock, plus};
use crate::engine::optimiser::Adam;
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::rows::Choices;
use crate::engine::settings::Settings;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::length;

/// The one party of a fit that stays on its device: data, posterior and optimiser are tensors there.
///
/// The draws of a step are evaluated together where the latents are those of linear layers
/// ([`partita_core::Scope::linear`]) alone and a first evaluation of two draws together gives what each gives alone;
/// otherwise one after another.
///
/// Its steps are those of [`crate::CentralSilo`] with the same keyed noise, which is made on the host and uploaded: the
/// two runs are equal to rounding. Bound, gradient norm, global posterior and θ are read together, once for every
/// request of some steps. A bound that is not finite is therefore found at the end of an interval, not at its step.
pub struct OnDeviceSilo {
    name: String,
    model: AnyModel,
    data: AnyData,
    device: Device,
    settings: Settings,
    table: SiteTable,
    noise_len: usize,
    globals: Globals,
    choices: Choices,
    /// The blocks with latents.
    rows: Vec<RowBlock>,
    /// For each block of the table which columns of its rows are point masses.
    points: Vec<Vec<bool>>,
    /// Place of each latent site.
    places: Vec<Place>,
    theta: Vec<Moving<1>>,
    theta_len: usize,
    /// Whether the draws of a step are evaluated together.
    has_draws_together: bool,
    step: u64,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// The number of a global site.
    Global(usize),
    /// The number of a block with latents, and that of the site there.
    Local { block: usize, site: usize },
}

/// What one step leaves on the device.
struct OneStep {
    /// The bound, a mean over particles.
    bound: Tensor<1>,
    /// The squared norm of the gradient by globals and θ.
    norm: Option<Tensor<1>>,
}

impl std::fmt::Debug for OnDeviceSilo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OnDeviceSilo")
            .field("name", &self.name)
            .field("step", &self.step)
            .field("has_draws_together", &self.has_draws_together)
            .finish_non_exhaustive()
    }
}

impl OnDeviceSilo {
    /// The party called `name` with all the data.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`] for what has no device form: estimators with inner draws,
    /// optimisers other than Adam, clipping, low-rank globals, rows with correlated columns.
    pub fn new<M: Model>(name: &str, model: &M, data: &M::Data, device: &Device, settings: &Settings) -> Result<Self> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        settings.check()?;
        refuse(settings)?;
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0))?;
        settings.family.check(&table)?;
        let family = settings.family.global_family(&table)?;
        let choices = Choices::new(model, data, &table, settings)?;
        if model.private_len() > 0 {
            let expected =
                "a model whose θ all parties share, for a fit that stays on the device; there is but one party";
            return Err(Error::Setting { setting: "model", found: "private θ with OnDevice".into(), expected });
        }
        let values = theta(model)?;
        let model = with_theta(model, &values, device)?;
        let latent = (0..table.blocks().len()).filter(|index| table.blocks()[*index].width > 0);
        let rows: Vec<RowBlock> =
            latent.map(|index| RowBlock::new(index, &choices, &table, settings, device)).collect::<Result<_>>()?;
        let mut points = vec![Vec::new(); table.blocks().len()];
        rows.iter().for_each(|block| points[block.index].clone_from(&block.points));
        let mut own = Self {
            name: name.to_owned(),
            data: data.clone(),
            device: device.clone(),
            settings: settings.clone(),
            noise_len: family.noise_len(),
            globals: Globals::new(&settings.family, &table, &settings.family.start(&*family, &table), device)?,
            theta: device_theta(&model).into_iter().map(Moving::new).collect(),
            theta_len: values.len(),
            places: places(&table, &rows),
            choices,
            rows,
            points,
            table,
            model,
            has_draws_together: false,
            step: 0,
        };
        own.has_draws_together = own.agrees_together()?;
        Ok(own)
    }

    /// One step, of which nothing is read.
    fn one(&mut self, step: u64) -> Result<OneStep> {
        let chosen = self.choices.at(step, &Noise::new(self.settings.seed), 0);
        let mut rows = self.device_rows(chosen)?;
        let draws = Draws { purpose: Purpose::Fit, step, count: self.settings.particles };
        let mut sums = self.sums(&rows, &self.noises(&rows, draws, self.together(&rows)))?;
        for (encoded, gradient) in std::mem::take(&mut rows.encodings).into_iter().zip(&mut sums.rows) {
            let Some(encoded) = encoded else { continue };
            let Some(cells) = gradient.take_cells() else { continue };
            let theta = encoded.vjp(&self.model, cells).unwrap_or_default();
            sums.theta.iter_mut().zip(theta).for_each(|(slot, own)| plus(slot, own));
        }
        Ok(self.ascend(step, &rows, sums))
    }

    /// Moves all parameters up the mean gradients of a step.
    fn ascend(&mut self, step: u64, rows: &DeviceRows, sums: Sums) -> OneStep {
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 particles")]
        let particles = self.settings.particles as f64;
        let rate = self.settings.rate(step);
        let Some(&Adam { decay, epsilon }) = self.settings.optimiser.get() else {
            unreachable!("invariant: other optimisers were refused")
        };
        let update = AdamUpdate::at(step + 1, rate, decay, epsilon);
        let mut norm = self.globals.ascend(sums.globals, particles, self.settings.estimator, &update);
        for (theta, gradient) in self.theta.iter_mut().zip(sums.theta) {
            let Some(gradient) = gradient else { continue };
            let gradient = gradient * (-1.0 / particles);
            plus(&mut norm, ordered_sum(gradient.clone() * gradient.clone()));
            theta.step(gradient, &update);
        }
        self.set_theta();
        let at = |time: u64| AdamUpdate::at(time, rate, decay, epsilon);
        for ((block, own), gradient) in self.rows.iter_mut().zip(&rows.steps).zip(sums.rows) {
            block.ascend(rows.chosen.rows(block.index), own, gradient, particles, at, &self.device);
        }
        let Some(bound) = sums.bound else { unreachable!("invariant: there is at least one particle") };
        self.step = step + 1;
        OneStep { bound: (bound + sums.constant) / particles, norm }
    }

    /// Takes some steps; where it fails, the party stands where it stood before. Tensors are shared, not copied.
    fn steps(&mut self, request: &StepsRequest) -> Result<Message> {
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
    fn interval(&mut self, request: &StepsRequest) -> Result<Message> {
        let StepsRequest { step: first, count, .. } = *request;
        let count = count.max(1);
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
        let (bound, gradient_norm) = (numbers[0], numbers[1]);
        let mut rest = numbers.into_iter().skip(2);
        let global = self.globals.parameters(&mut rest);
        let theta: Vec<f64> = rest.take(self.theta_len).collect();
        Ok(Stepped { bound, gradient_norm, clipped: false, global, theta, rate: None, converged: false }.write())
    }

    /// Bounds of report draws on all rows, in one read; changes nothing.
    fn bounds(&self, request: &BoundsRequest) -> Result<Message> {
        let count = length(request.draws);
        let mut sum = None;
        for chosen in self.choices.all() {
            let rows = self.device_rows(chosen)?;
            let draws = Draws { purpose: Purpose::Report, step: request.step, count };
            let bounds = self.bounds_of(&rows, &self.noises(&rows, draws, 1))?;
            plus(&mut sum, Tensor::cat(bounds, 0) * rows.chosen.share);
        }
        let elbo = sum.map_or_else(|| Ok(Vec::new()), |sum| Handle::from(sum).read().map(|array| array.values))?;
        Ok(Bounds { elbo }.write())
    }

    /// The covariance of the globals, read to the host.
    fn covariance(&self) -> Result<CovarianceMatrix> {
        let numbers = match self.globals.flat() {
            flat if flat.is_empty() => Vec::new(),
            flat => Handle::from(Tensor::cat(flat, 0)).read()?.values,
        };
        let parameters = self.globals.parameters(&mut numbers.into_iter());
        Ok(self.settings.family.global_family(&self.table)?.covariance_matrix(&parameters))
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

/// The place of each latent site in the order of the table.
fn places(table: &SiteTable, rows: &[RowBlock]) -> Vec<Place> {
    let next = |count: &mut usize| {
        *count += 1;
        *count - 1
    };
    let (mut globals, mut locals) = (0, vec![0; rows.len()]);
    let place = |site: &partita_core::Site| match site.part {
        Part::Global => Place::Global(next(&mut globals)),
        Part::Local => {
            let block = rows.iter().position(|block| block.index == site.block()).unwrap_or(0);
            Place::Local { block, site: next(&mut locals[block]) }
        }
    };
    // A site of a plate without rows has no numbers, and no place.
    let has_rows = |site: &&partita_core::Site| site.part == Part::Global || table.blocks()[site.block()].rows > 0;
    table.sites().iter().filter(|site| site.role == Role::Latent).filter(has_rows).map(place).collect()
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

impl Program for OnDeviceSilo {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        let sizes = Sizes { parameters: 0, theta: 0, steps: LARGEST_COUNT, draws: self.settings.most_draws() as u64 };
        match request.kind.as_str() {
            StepsRequest::KIND => self.steps(&StepsRequest::read(request, &sizes)?),
            BoundsRequest::KIND => self.bounds(&BoundsRequest::read(request, &sizes)?),
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
        let globals = self.rows.iter().any(RowBlock::depends_on_globals).then(|| self.covariance()).transpose()?;
        let mut all = vec![(Vec::new(), Vec::new()); self.points.len()];
        for block in &self.rows {
            let encoded = self.encode(block, None)?.as_ref().map(DeviceEncoded::parameters);
            all[block.index] = block.moments(encoded, globals.as_ref(), &self.device)?;
        }
        Ok(all)
    }
}
