//! Holds one party's data, posterior and optimiser as tensors on its device, and takes steps that read nothing.

use burn::tensor::Tensor;
use partita_core::kernel::AdamUpdate;
use partita_core::{
    AnyData, AnyModel, Device, DeviceEncoded, Handle, Key, Model, Noise, Part, Purpose, Role, SiteTable, device_theta,
    ordered_sum, theta, with_device_theta, with_theta,
};

use super::evaluate::{DeviceRows, Draws, Sums};
use super::{Cavity, GlobalUnits, Globals, Moving, RowBlock, Update, plus};
use crate::engine::algorithm::finite;
use crate::engine::checkpoint::{NamedVectors, named};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::explosion::{real, whole};
use crate::engine::family::CovarianceMatrix;
use crate::engine::natural::NormalFamily;
use crate::engine::optimiser::{Adam, Sgd};
use crate::engine::rows::Choices;
use crate::engine::settings::Settings;

/// The steps that the rule of globals and θ has seen.
const SEEN: &str = "seen";

/// A fit of one party's rows on its device.
///
/// The draws of a step are evaluated together where the latents are those of linear layers
/// ([`partita_core::Scope::linear`]) alone and a first evaluation of two draws together gives what each gives alone;
/// otherwise one after another. Its steps have the keyed noise of those on the host, which is made there and uploaded:
/// the two are equal to rounding.
pub(crate) struct DeviceFit {
    pub(super) name: String,
    pub(super) model: AnyModel,
    pub(super) data: AnyData,
    pub(super) device: Device,
    pub(super) settings: Settings,
    pub(super) table: SiteTable,
    pub(super) noise_len: usize,
    pub(super) owner: Owner,
    pub(super) globals: Globals,
    pub(super) choices: Choices,
    /// The blocks with latents.
    pub(super) rows: Vec<RowBlock>,
    /// For each block of the table which columns of its rows are point masses.
    pub(super) points: Vec<Vec<bool>>,
    /// Place of each latent site.
    pub(super) places: Vec<Place>,
    theta: Vec<Moving<1>>,
    theta_len: usize,
    /// The steps that the rule of globals and θ has seen.
    seen: u64,
    /// Whether the draws of a step are evaluated together.
    pub(super) has_draws_together: bool,
}

/// Whose noise a fit draws.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    /// Whose noise that of the globals is.
    pub(crate) globals: u32,
    /// The number of the silo, for minibatches and the latents of its rows.
    pub(crate) silo: u32,
    /// The seed of these.
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The number of a global site.
    Global(usize),
    /// The number of a block with latents, and that of the site there.
    Local { block: usize, site: usize },
}

/// Some steps between two reads.
pub(crate) struct Interval<'a> {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// How many of the last steps the bound that is read is a mean of.
    pub(crate) heard: u64,
    pub(crate) weights: Weights,
    /// A factor with its natural parameters, in place of the prior of the globals: θ rests then, and the bound is that of the
    /// party's own rows.
    pub(crate) cavity: Option<(&'a NormalFamily, &'a [f64])>,
    /// $\mu$ of a pull $\tfrac\mu2\lVert w - w_0\rVert^2$ of globals and θ to where they are at its beginning.
    pub(crate) proximal: f64,
    /// The learning rate of a step.
    pub(crate) rate: &'a dyn Fn(u64) -> f64,
    /// The units in which globals and θ move; `None` for their own.
    pub(crate) units: Option<&'a Units>,
}

/// What parts of a bound are multiplied by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    /// That of the local log density.
    pub(crate) density: f64,
    /// That of the entropy of the local posterior.
    pub(crate) entropy: f64,
    /// That of the log density of the globals.
    pub(crate) prior: f64,
}

/// Units of the parameters of the globals and of θ, as tensors of their shapes.
pub(crate) struct Units {
    globals: GlobalUnits,
    theta: Vec<Tensor<1>>,
}

/// What is read after an interval.
pub(crate) struct Read {
    pub(crate) bound: f64,
    pub(crate) gradient_norm: f64,
    /// The parameters of the global family.
    pub(crate) global: Vec<f64>,
    pub(crate) theta: Vec<f64>,
}

/// What moves in a fit, to go back to: tensors are shared, not copied.
pub(crate) struct Standing {
    globals: Globals,
    rows: Vec<RowBlock>,
    theta: Vec<Moving<1>>,
    seen: u64,
}

/// What the steps of an interval have in common.
struct Common<'a> {
    interval: &'a Interval<'a>,
    cavity: Option<Cavity>,
    /// Where the interval began, with how strongly globals and θ are drawn back there.
    pull: Option<(f64, Standing)>,
}

/// What one step leaves on the device.
struct OneStep {
    /// The bound, a mean over particles.
    bound: Tensor<1>,
    /// The squared norm of the gradient by globals and θ.
    norm: Option<Tensor<1>>,
}

impl std::fmt::Debug for DeviceFit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DeviceFit")
            .field("name", &self.name)
            .field("has_draws_together", &self.has_draws_together)
            .finish_non_exhaustive()
    }
}

impl DeviceFit {
    /// A fit of the party called `name`, at the start of the settings.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`] for what has no device form: estimators with inner draws,
    /// optimisers other than Adam (and Sgd, where rows have no latents), clipping, low-rank globals, rows with correlated
    /// columns, private θ.
    pub(crate) fn new(
        name: &str,
        owner: Owner,
        (model, data): (&AnyModel, &AnyData),
        device: &Device,
        settings: &Settings,
    ) -> Result<Self> {
        settings.check()?;
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0))?;
        refuse(settings, &table)?;
        settings.family.check(&table)?;
        let family = settings.family.global_family(&table)?;
        let choices = Choices::new(model, data, &table, settings)?;
        if model.private_len() > 0 {
            let expected = "a model whose θ all parties share, for a fit that stays on the device";
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
            owner,
            globals: Globals::new(&settings.family, &table, &settings.family.start(&*family, &table), device)?,
            theta: device_theta(&model).into_iter().map(Moving::new).collect(),
            theta_len: values.len(),
            seen: 0,
            places: places(&table, &rows),
            choices,
            rows,
            points,
            table,
            model,
            has_draws_together: false,
        };
        own.has_draws_together = own.agrees_together()?;
        Ok(own)
    }

    /// Whether a step evaluates its draws together.
    pub(crate) fn has_draws_together(&self) -> bool {
        self.has_draws_together
    }

    /// The noise of minibatches and of the latents of rows.
    pub(super) fn local_noise(&self) -> Noise {
        Noise::new(self.owner.seed).kind(self.settings.noise)
    }

    /// One step, of which nothing is read.
    fn one(&mut self, step: u64, common: &Common<'_>) -> Result<OneStep> {
        let chosen = self.choices.at(step, &self.local_noise(), self.owner.silo);
        let mut rows = self.device_rows(chosen, common.interval.weights, common.cavity.as_ref())?;
        let draws = Draws { purpose: Purpose::Fit, step, count: self.settings.particles, owner: self.owner.globals };
        let mut sums = self.sums(&rows, &self.noises(&rows, draws, self.together(&rows)))?;
        for (encoded, gradient) in std::mem::take(&mut rows.encodings).into_iter().zip(&mut sums.rows) {
            let Some(encoded) = encoded else { continue };
            let Some(cells) = gradient.take_cells() else { continue };
            let theta = encoded.vjp(&self.model, cells).unwrap_or_default();
            sums.theta.iter_mut().zip(theta).for_each(|(slot, own)| plus(slot, own));
        }
        Ok(self.ascend(step, &rows, sums, common))
    }

    /// Moves all parameters up the mean gradients of a step.
    fn ascend(&mut self, step: u64, rows: &DeviceRows, sums: Sums, common: &Common<'_>) -> OneStep {
        let particles = self.settings.particles as f64;
        let Common { interval, pull, .. } = common;
        let rate = (interval.rate)(step);
        self.seen += 1;
        let update = self.update(rate);
        let (estimator, units) = (self.settings.estimator, interval.units);
        let by_globals = (&update, units.map(|units| &units.globals));
        let to = pull.as_ref().map(|(strength, start)| (*strength, &start.globals));
        let mut norm = self.globals.ascend(sums.globals, particles, estimator, by_globals, to);
        let moving = self.theta.iter_mut().zip(sums.theta).filter(|_| interval.cavity.is_none());
        for (index, (theta, gradient)) in moving.enumerate() {
            let Some(gradient) = gradient else { continue };
            let mut gradient = gradient * (-1.0 / particles);
            if let Some((strength, start)) = pull {
                gradient = theta.pulled(gradient, *strength, &start.theta[index]);
            }
            plus(&mut norm, ordered_sum(gradient.clone() * gradient.clone()));
            theta.step(gradient, &update, units.map(|units| &units.theta[index]));
        }
        self.show_theta();
        for ((block, own), gradient) in self.rows.iter_mut().zip(&rows.steps).zip(sums.rows) {
            let Some(&Adam { decay, epsilon }) = self.settings.optimiser.get() else {
                unreachable!("invariant: other optimisers were refused for rows with latents")
            };
            let at = |time: u64| AdamUpdate::at(time, rate, decay, epsilon);
            let at = (at, units.is_some());
            block.ascend((rows.chosen.rows(block.index), own), gradient, particles, at, &self.device);
        }
        let Some(bound) = sums.bound else { unreachable!("invariant: there is at least one particle") };
        OneStep { bound: (bound + sums.constant) / particles, norm }
    }

    /// What the rule of globals and θ does at its present step.
    fn update(&self, rate: f64) -> Update {
        let optimiser = &self.settings.optimiser;
        match (optimiser.get::<Adam>(), optimiser.get::<Sgd>()) {
            (Some(&Adam { decay, epsilon }), _) => Update::Adam(AdamUpdate::at(self.seen, rate, decay, epsilon)),
            (_, Some(&Sgd { momentum })) => Update::Sgd { rate, momentum },
            _ => unreachable!("invariant: other optimisers were refused"),
        }
    }

    /// What moves, as it is now.
    pub(crate) fn standing(&self) -> Standing {
        let (globals, rows, theta) = (self.globals.clone(), self.rows.clone(), self.theta.clone());
        Standing { globals, rows, theta, seen: self.seen }
    }

    /// Goes back to where it stood.
    pub(crate) fn go_back(&mut self, Standing { globals, rows, theta, seen }: Standing) {
        (self.globals, self.rows, self.theta, self.seen) = (globals, rows, theta, seen);
        self.show_theta();
    }

    /// Puts θ into the model.
    fn show_theta(&mut self) {
        if !self.theta.is_empty() {
            self.model = with_device_theta(&self.model, self.theta.iter().map(Moving::value).collect());
        }
    }

    /// Replaces the parameters of the globals, as the host's family has them, and θ; their running means stay.
    pub(crate) fn set(&mut self, global: &[f64], theta: &[f64]) {
        self.globals.set(global, &self.device);
        let mut rest = theta.iter().copied();
        for own in &mut self.theta {
            let [len] = own.value().dims();
            own.set(self.device.tensor(rest.by_ref().take(len).collect(), [len]));
        }
        self.show_theta();
    }

    /// Lets the rule of globals and θ forget what it has seen.
    pub(crate) fn restart(&mut self) {
        self.globals.restart();
        self.theta.iter_mut().for_each(Moving::restart);
        self.seen = 0;
    }

    /// Lets the rules of rows forget what they have seen.
    pub(crate) fn restart_rows(&mut self) {
        self.rows.iter_mut().for_each(RowBlock::restart);
    }

    /// Units of the parameters of the host's family, then of θ, as tensors of their shapes.
    pub(crate) fn units(&self, units: &[f64]) -> Units {
        let mut rest = units.iter().copied();
        let globals = self.globals.units(&mut rest, &self.device);
        let shaped = |own: &Moving<1>| {
            let [len] = own.value().dims();
            self.device.tensor(rest.by_ref().take(len).collect(), [len])
        };
        Units { globals, theta: self.theta.iter().map(shaped).collect() }
    }

    /// Takes steps on the device, then reads once.
    ///
    /// # Errors
    /// What the model refuses; [`Error::NotFinite`] for a bound, a posterior, θ or a norm of the gradient that is not finite
    /// at the end.
    pub(crate) fn interval(&mut self, interval: &Interval<'_>) -> Result<Read> {
        let Interval { first, count, heard, .. } = *interval;
        let (mut bounds, mut norm, last) = (None, None, first + count);
        let common = Common {
            interval,
            cavity: interval.cavity.map(|(family, natural)| Cavity::new(family, natural, &self.device)),
            pull: (interval.proximal > 0.0).then(|| (interval.proximal, self.standing())),
        };
        for step in first..last {
            let stepped = self.one(step, &common)?;
            if step + heard >= last {
                plus(&mut bounds, stepped.bound);
            }
            norm = stepped.norm;
        }
        let Some(bounds) = bounds else { unreachable!("invariant: at least one step was taken") };
        let bounds = bounds / heard as f64;
        let norm = norm.unwrap_or_else(|| bounds.zeros_like()).sqrt();
        let mut all = vec![bounds, norm];
        all.extend(self.globals.flat());
        all.extend(self.theta.iter().map(Moving::value));
        let numbers = Handle::from(Tensor::cat(all, 0)).read()?.values;
        let mean = format!("the mean bound of steps {} to {last}", last + 1 - heard);
        finite(&self.name, last, |_| mean.clone(), &numbers[..1])?;
        finite(&self.name, last, |_| format!("the posterior or θ after steps {} to {last}", first + 1), &numbers[2..])?;
        finite(&self.name, last, |_| format!("the squared norm of the gradient of step {last}"), &numbers[1..2])?;
        let (bound, gradient_norm) = (numbers[0], numbers[1]);
        let mut rest = numbers.into_iter().skip(2);
        let global = self.globals.parameters(&mut rest);
        let theta: Vec<f64> = rest.take(self.theta_len).collect();
        Ok(Read { bound, gradient_norm, global, theta })
    }

    /// Bounds of so many report draws from `step` on, on all rows, in one read; changes nothing.
    pub(crate) fn bounds(&self, step: u64, count: usize) -> Result<Vec<f64>> {
        let mut sum = None;
        for chosen in self.choices.all() {
            let rows = self.device_rows(chosen, Weights::ONE, None)?;
            let draws = Draws { purpose: Purpose::Report, step, count, owner: Key::COORDINATOR };
            let bounds = self.bounds_of(&rows, &self.noises(&rows, draws, 1))?;
            plus(&mut sum, Tensor::cat(bounds, 0) * rows.chosen.share);
        }
        sum.map_or_else(
            || Ok(Vec::new()),
            |sum| Handle::from(sum).read().map(|array| array.values).map_err(Error::from),
        )
    }

    /// The covariance of the globals, read to the host, where rows depend on it.
    pub(crate) fn covariance(&self) -> Result<Option<CovarianceMatrix>> {
        if !self.rows.iter().any(RowBlock::depends_on_globals) {
            return Ok(None);
        }
        let numbers = match self.globals.flat() {
            flat if flat.is_empty() => Vec::new(),
            flat => Handle::from(Tensor::cat(flat, 0)).read()?.values,
        };
        let parameters = self.globals.parameters(&mut numbers.into_iter());
        Ok(Some(self.settings.family.global_family(&self.table)?.covariance_matrix(&parameters)))
    }

    /// Marginal means and standard deviations of the latents of rows, over globals of this covariance, a pair a block.
    pub(crate) fn moments(&self, globals: Option<&CovarianceMatrix>) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let mut all = vec![(Vec::new(), Vec::new()); self.points.len()];
        for block in &self.rows {
            let encoded = self.encode(block, None)?.as_ref().map(DeviceEncoded::parameters);
            all[block.index] = block.moments(encoded, globals, &self.device)?;
        }
        Ok(all)
    }

    /// Writes the parameters of rows into those of the host's families, one vector a block.
    pub(crate) fn read_rows(&self, into: &mut [Vec<f64>]) -> Result<()> {
        for block in self.rows.iter().filter(|block| !block.is_encoded()) {
            into[block.index] = block.parameters(None, &self.device)?;
        }
        Ok(())
    }

    /// Everything as named vectors.
    pub(crate) fn state(&self) -> Result<NamedVectors> {
        // Its tensors are shared with the copy.
        let mut state = self.globals.clone().save()?;
        for block in &self.rows {
            state.extend(block.save()?);
        }
        for (index, theta) in self.theta.iter().enumerate() {
            state.extend(theta.save(&format!("theta.{index}"))?);
        }
        state.push((SEEN.to_owned(), vec![real(self.seen)]));
        Ok(state)
    }

    /// Restores what [`DeviceFit::state`] gave; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let seen = named(state, SEEN).and_then(<[f64]>::first);
        let Self { globals, rows, theta, device, .. } = self;
        let fits = globals.load(state, device)
            && rows.iter_mut().all(|block| block.load(state, device))
            && theta.iter_mut().enumerate().all(|(index, own)| own.load(&format!("theta.{index}"), state, device));
        let Some(seen) = seen.filter(|_| fits) else { return false };
        self.seen = whole(*seen);
        self.show_theta();
        true
    }
}

impl Weights {
    /// Those of a bound as it is.
    pub(crate) const ONE: Self = Self { density: 1.0, entropy: 1.0, prior: 1.0 };
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
fn refuse(settings: &Settings, table: &SiteTable) -> Result<()> {
    let refused = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
    let ordinary = [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy];
    if !ordinary.contains(&settings.estimator) {
        let expected = "StickingTheLanding, Total or ClosedFormEntropy for a fit that stays on the device";
        return refused("estimator", format!("{:?} with OnDevice", settings.estimator), expected);
    }
    let moves_all = settings.optimiser.get::<Adam>().is_some();
    if !moves_all && (table.has_local_latents() || settings.optimiser.get::<Sgd>().is_none()) {
        let expected = "Adam for a fit that stays on the device, or Sgd for a model without latents of rows";
        return refused("optimiser", format!("{:?} with OnDevice", settings.optimiser), expected);
    }
    if !settings.loss.is_log() {
        let expected = "the negative log likelihood for a fit that stays on the device; Central takes every loss";
        return refused("loss", format!("{} with OnDevice", settings.loss), expected);
    }
    if settings.clip.is_some() {
        let expected =
            "none for a fit that stays on the device, where the host does not see whether a step was clipped";
        return refused("clip", "a limit with OnDevice".into(), expected);
    }
    Ok(())
}
