//! Keeps what one party knows of its local latents: families, parameters, optimisers, and the rows of each step.

mod choice;
mod encodings;
mod private;

pub(crate) use choice::{Choices, Chosen, ChosenRows};
pub(crate) use encodings::Encodings;

use std::borrow::Cow;
use std::collections::BTreeSet;

use partita_core::{AnyData, AnyModel, Device, Encoded, Key, Minibatch, Moments, Noise, Parent, Role, SiteTable};

use self::private::PrivateTheta;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{BlockDraw, ElboTerm, LayerMoments, LayerNumber, OuterRows};
use crate::engine::family::{CovarianceMatrix, MarginalOver, OuterMarginals, RowGaussian, RowMarginals};
use crate::engine::optimiser::{Schedule, UpdateRule};
use crate::engine::settings::Settings;
use crate::engine::trainer::units::{enter, leave};

/// The rows of a silo that its data are of: those of the outermost plates in which something is observed, patients and not
/// their visits; of all outermost plates where the data come in by factors alone.
pub(crate) fn outermost_rows(table: &SiteTable) -> usize {
    let observed = table.sites().iter().filter(|site| site.role == Role::Observed);
    let in_plates = observed.filter(|site| site.plate.is_some());
    let with_data: BTreeSet<usize> = in_plates.map(|site| table.outermost(site.block())).collect();
    let blocks = table.blocks().iter().enumerate();
    let outermost = blocks.filter(|(index, block)| block.plate.is_some() && table.outermost(*index) == *index);
    let (counted, others): (Vec<_>, Vec<_>) = outermost.partition(|(index, _)| with_data.contains(index));
    let chosen = if counted.is_empty() { others } else { counted };
    chosen.into_iter().map(|(_, block)| block.rows).sum()
}

/// The block of the one outermost plate of a table, a row of which is what a private silo protects.
///
/// # Errors
/// [`Error::Setting`] for several or none.
pub(crate) fn one_outermost(table: &SiteTable) -> Result<usize> {
    let blocks = table.blocks().iter().enumerate();
    let outermost = blocks.filter(|(index, block)| block.plate.is_some() && table.outermost(*index) == *index);
    match outermost.map(|(index, _)| index).collect::<Vec<_>>()[..] {
        [only] => Ok(only),
        ref found => Err(Error::Setting {
            setting: "privacy",
            found: format!("{} outermost plates", found.len()),
            expected: "one outermost plate, a row of which is what is protected",
        }),
    }
}

/// The local blocks of one party, and the part of θ that it shares with no other.
pub(crate) struct Locals {
    choices: Choices,
    blocks: Vec<Block>,
    private: PrivateTheta,
    silo: u32,
    /// Whether the rate is an adaptive one: in units.
    adapts: bool,
    /// Of minibatches and local latents; its seed is private to the party.
    noise: Noise,
}

struct Block {
    plate: Option<String>,
    /// The rows that these rows belong to, where their family depends on them.
    outer: Option<Parent>,
    family: RowGaussian,
    /// Whether the model's encoder gives the parameters of rows; `parameters` is empty then.
    is_encoded: bool,
    parameters: Vec<f64>,
    /// Where the means of rows start.
    start: Vec<f64>,
    rule: Box<dyn UpdateRule>,
}

/// The rows evaluated together, with their parameters.
#[derive(Debug)]
pub(crate) struct StepRows {
    pub(crate) minibatch: Vec<Minibatch>,
    chosen: Chosen,
    /// Those of the rows of each block, gathered or encoded; `None` for the block's own.
    parameters: Vec<Option<Vec<f64>>>,
    /// The noise of the rows of each block, where it is a part of what all rows have.
    noise: Option<Vec<Vec<f64>>>,
}

impl StepRows {
    /// The share of all rows that these are, where a bound over all rows is evaluated in parts.
    pub(crate) fn share(&self) -> f64 {
        self.chosen.share
    }
}

/// The rows of one plate, each repeated for its inner draws.
#[derive(Debug)]
pub(crate) struct RepeatedRows {
    pub(crate) place: usize,
    pub(crate) minibatch: [Minibatch; 1],
    pub(crate) parameters: Vec<f64>,
}

impl Locals {
    pub(crate) fn new(
        model: &AnyModel,
        data: &AnyData,
        table: &SiteTable,
        settings: &Settings,
        device: &Device,
        silo: u32,
    ) -> Result<Self> {
        let choices = Choices::new(model, data, table, settings)?;
        let mut blocks = Vec::new();
        for (index, block) in table.blocks().iter().enumerate() {
            let (family, is_encoded) = (choices.family(index, table, settings)?, choices.is_encoded(index));
            let [means, scales] = table.local_start(index, settings.family.scale());
            let parameters = if is_encoded { Vec::new() } else { family.initial_at([&means, &scales]) };
            let rule = settings.optimiser.start(device);
            let outer = block.parent.clone().filter(|_| family.depends_on_outer());
            let plate = block.plate.clone();
            blocks.push(Block { plate, outer, family, is_encoded, parameters, start: means, rule });
        }
        let private = PrivateTheta::of(model, settings, device)?;
        let is_served = !settings.estimator.weighs_draws() || !blocks.iter().any(|block| block.is_encoded);
        let found = "ImportanceWeighted with a model that has an encoder";
        let expected = "LocallyEnhanced, which gives every encoded row an importance-weighted average of its own";
        Error::unless(is_served, "estimator", found, expected)?;
        let adapts = matches!(settings.schedule, Schedule::Adaptive { .. });
        Ok(Self { choices, blocks, private, silo, adapts, noise: Noise::new(settings.seed).kind(settings.noise) })
    }

    /// Lets parameters move as they are, whatever the schedule: for methods whose rate is a function of the step.
    pub(crate) fn move_as_they_are(&mut self) {
        self.adapts = false;
    }

    /// The rows of the minibatch of `step`.
    pub(crate) fn rows(&self, step: u64) -> StepRows {
        self.select(self.choices.at(step, &self.noise, self.silo))
    }

    /// All rows, in the parts that [`Choices::all`] makes.
    pub(crate) fn all_rows(&self) -> Vec<StepRows> {
        self.choices.all().into_iter().map(|chosen| self.select(chosen)).collect()
    }

    /// These rows with their parameters, where they are known without an encoder.
    fn select(&self, chosen: Chosen) -> StepRows {
        let own = |(block, rows): (&Block, &Option<ChosenRows>)| {
            let rows = rows.as_ref().filter(|_| !block.is_encoded)?;
            Some(block.family.gather(&block.parameters, &rows.rows))
        };
        let parameters = self.blocks.iter().zip(&chosen.blocks).map(own).collect();
        StepRows { minibatch: self.choices.minibatch(&chosen), chosen, parameters, noise: None }
    }

    /// All rows at once.
    pub(crate) fn whole(&self) -> StepRows {
        self.select(self.choices.whole())
    }

    /// Some rows of an outermost block with what stands in them, and their own part of the `noise` of all rows, of
    /// which each has so many repeats.
    pub(crate) fn some(&self, block: usize, rows: &[usize], noise: &[Vec<f64>], repeats: usize) -> StepRows {
        let mut rows = self.select(self.choices.some(block, rows));
        let own = |(index, all): (usize, &Vec<f64>)| {
            let width = self.blocks[index].family.width() * repeats;
            let of = |row: &usize| all[row * width..(row + 1) * width].iter().copied();
            rows.chosen.rows(index).map_or_else(|| all.clone(), |chosen| chosen.iter().flat_map(of).collect())
        };
        rows.noise = Some(noise.iter().enumerate().map(own).collect());
        rows
    }

    /// Writes the gradients of some rows, less what they weigh as a part of all, at their places among those of all
    /// rows.
    pub(crate) fn put(&self, rows: &StepRows, gradients: Vec<Vec<f64>>, all: &mut [Vec<f64>]) {
        for (index, (mut own, all)) in gradients.into_iter().zip(all).enumerate() {
            if let Some(chosen) = rows.chosen.rows(index) {
                own.iter_mut().for_each(|slope| *slope *= rows.share());
                self.blocks[index].family.places(chosen).put(&own, all);
            }
        }
    }

    /// The noise of all rows, one vector a block, with so many repeats of each row where there are any.
    pub(crate) fn whole_noise(&self, repeats: Option<usize>, key: Key) -> Result<Vec<Vec<f64>>> {
        let whole = self.whole();
        let Some(inner) = repeats else { return Ok(self.noise(&whole, key)) };
        let repeated = self.repeated(&whole, inner)?;
        let mut noise = vec![Vec::new(); self.blocks.len()];
        noise[repeated.place] = self.repeated_noise(&whole, &repeated, key);
        Ok(noise)
    }

    /// What linear layers read under local reparameterisation, with the noise of one particle's pre-activations.
    pub(crate) fn layer_moments<'a, T: LayerNumber>(&self, layers: &'a LayerMoments<'_>, key: Key) -> Moments<'a, T> {
        layers.with_noise(self.noise, key.silo(self.silo))
    }

    /// Encodes the rows evaluated, where the model has an encoder for them.
    pub(crate) fn encode(
        &self,
        model: &AnyModel,
        data: &AnyData,
        table: &SiteTable,
        rows: &mut StepRows,
    ) -> Result<Encodings> {
        let StepRows { chosen, parameters, .. } = rows;
        let mut encodings = Vec::with_capacity(self.blocks.len());
        for (index, (block, own)) in self.blocks.iter().zip(parameters).enumerate() {
            if !block.is_encoded {
                encodings.push(None);
                continue;
            }
            let encoded = block.known(Encoded::of(model, table, index, data, chosen.rows(index))?)?;
            *own = Some(encoded.parameters().to_vec());
            encodings.push(Some(encoded));
        }
        Ok(Encodings::new(encodings))
    }

    /// The noise of one particle, one vector a block.
    pub(crate) fn noise(&self, rows: &StepRows, key: Key) -> Vec<Vec<f64>> {
        if let Some(own) = &rows.noise {
            return own.clone();
        }
        self.choices.noise(&rows.chosen, &self.noise, key.silo(self.silo))
    }

    /// The blocks as an estimator wants them.
    pub(crate) fn draws<'a>(&'a self, rows: &'a StepRows, noise: &'a [Vec<f64>]) -> Vec<BlockDraw<'a>> {
        let blocks = self.blocks.iter().zip(noise).enumerate();
        blocks
            .map(|(index, (block, noise))| BlockDraw {
                family: &block.family,
                parameters: self.parameters_of(rows, index),
                noise,
                weight: rows.chosen.weight(index),
                outer: block.outer.as_ref().map(|outer| OuterRows {
                    block: outer.block,
                    rows: rows.chosen.outer(index).unwrap_or(&outer.rows),
                }),
            })
            .collect()
    }

    /// The one plate whose latents a bound with inner draws repeats: its place, its name, and the rows of this step.
    ///
    /// # Errors
    /// [`Error::Setting`] if local latents stand outside that plate.
    pub(crate) fn repeated(&self, rows: &StepRows, inner: usize) -> Result<RepeatedRows> {
        let mut with_latents = self.blocks.iter().enumerate().filter(|(_, block)| block.family.width() > 0);
        let (Some((place, block)), None) = (with_latents.next(), with_latents.next()) else {
            return Err(Self::no_single_plate());
        };
        let Some(plate) = block.plate.as_ref().filter(|_| self.choices.is_outermost(place)) else {
            return Err(Self::no_single_plate());
        };
        let indices = rows.chosen.rows(place).map_or_else(|| (0..block.family.rows()).collect(), <[usize]>::to_vec);
        let repeats: Vec<usize> = (0..indices.len()).flat_map(|row| std::iter::repeat_n(row, inner)).collect();
        let minibatch = [Minibatch::repeated(plate, &indices, inner)];
        let parameters = block.family.gather(self.parameters_of(rows, place), &repeats);
        Ok(RepeatedRows { place, minibatch, parameters })
    }

    fn no_single_plate() -> Error {
        Error::Setting {
            setting: "estimator",
            found: "LocallyEnhanced".into(),
            expected: "a model whose local latents all stand in one plate, which stands in no other; use StickingTheLanding for this one",
        }
    }

    /// The noise of repeats of these rows in one particle.
    pub(crate) fn repeated_noise(&self, rows: &StepRows, repeated: &RepeatedRows, key: Key) -> Vec<f64> {
        if let Some(own) = &rows.noise {
            return own[repeated.place].clone();
        }
        let key = self.choices.key(key.silo(self.silo), repeated.place, &rows.chosen);
        let mut values = vec![0.0; repeated.minibatch[0].rows().len() * self.blocks[repeated.place].family.width()];
        // The inner draws of a row are averaged inside a logarithm, particle by particle: they stay independent.
        self.noise.stream(key).normal(&mut values);
        values
    }

    /// The family of a block, for a share over repeated rows.
    pub(crate) fn family(&self, place: usize) -> &RowGaussian {
        &self.blocks[place].family
    }

    /// Zeros of the shape of the parameters of the rows evaluated.
    pub(crate) fn zeros(&self, rows: &StepRows) -> Vec<Vec<f64>> {
        (0..self.blocks.len()).map(|index| vec![0.0; self.parameters_of(rows, index).len()]).collect()
    }

    /// Moves the parameters of the rows evaluated, and private θ, down the gradients of the negative bound; the other
    /// rows wait.
    pub(crate) fn descend(&mut self, rows: &StepRows, gradient: Vec<Vec<f64>>, private: &[f64], rate: f64) {
        self.descend_rows(rows, gradient, rate);
        self.private.descend(private, rate);
    }

    /// Moves the parameters of the rows evaluated alone.
    pub(crate) fn descend_rows(&mut self, rows: &StepRows, gradient: Vec<Vec<f64>>, rate: f64) {
        let blocks = self.blocks.iter_mut().zip(&rows.chosen.blocks).zip(gradient);
        for ((block, own), gradient) in blocks.filter(|((block, _), _)| !block.is_encoded) {
            block.descend(own.as_ref(), gradient, rate, self.adapts);
        }
    }

    /// All of θ from the part that parties share.
    pub(crate) fn with_private(&self, shared: &[f64]) -> Vec<f64> {
        [shared, self.private.values()].concat()
    }

    /// The part of θ that stays here.
    pub(crate) fn private_theta(&self) -> &[f64] {
        self.private.values()
    }

    /// Takes the gradients by private θ out of the ELBO terms of particles: what is left may leave the party.
    pub(crate) fn take_private(&self, shares: &mut [ElboTerm]) -> Vec<Vec<f64>> {
        self.private.take(shares)
    }

    /// The seed of minibatches and local noise.
    pub(crate) fn seed(&self) -> u64 {
        self.noise.seed()
    }

    /// Draws minibatches and local noise from another seed, which no other party knows.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.noise = self.noise.reseeded(seed);
    }

    /// Whether any draw depends on the globals.
    pub(crate) fn depend_on_globals(&self) -> bool {
        self.blocks.iter().any(|block| block.family.depends_on_globals())
    }

    /// Whether any latent is a point mass.
    pub(crate) fn have_points(&self) -> bool {
        self.blocks.iter().any(|block| block.family.options().delta.contains(&true))
    }

    /// Marginal means and standard deviations of each block's latents, `[rows, width]`, over globals of this covariance;
    /// without it, at the globals' mean.
    pub(crate) fn moments(
        &self,
        model: &AnyModel,
        data: &AnyData,
        table: &SiteTable,
        globals: Option<&CovarianceMatrix>,
    ) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let mut all: Vec<RowMarginals> = Vec::with_capacity(self.blocks.len());
        for (index, block) in self.blocks.iter().enumerate() {
            let outer =
                block.outer.as_ref().map(|outer| OuterMarginals { marginals: &all[outer.block], rows: &outer.rows });
            if !block.is_encoded {
                let found = block.family.marginals(&block.parameters, MarginalOver { globals, outer });
                all.push(found);
                continue;
            }
            // What an encoder gives depends on neither globals nor outer rows.
            let mut found = RowMarginals::default();
            for part in self.choices.parts(index) {
                let encoded = block.known(Encoded::of(model, table, index, data, Some(&part))?)?;
                found.append(block.family.marginals(encoded.parameters(), MarginalOver::default()));
            }
            all.push(found);
        }
        Ok(all.into_iter().map(|found| (found.means, found.deviations)).collect())
    }

    /// The parameters of the rows evaluated.
    fn parameters_of<'a>(&'a self, rows: &'a StepRows, block: usize) -> &'a [f64] {
        rows.parameters[block].as_ref().unwrap_or(&self.blocks[block].parameters)
    }

    /// Whether an encoder gives the parameters of any row.
    pub(crate) fn are_encoded(&self) -> bool {
        self.blocks.iter().any(|block| block.is_encoded)
    }

    /// The plates with latents whose rows have parameters of their own, which only training gives.
    pub(crate) fn without_encoder(&self) -> Option<&str> {
        let own = self.blocks.iter().find(|block| !block.is_encoded && block.family.width() > 0)?;
        Some(own.plate.as_deref().unwrap_or("no plate"))
    }

    /// The variational parameters of each block.
    pub(crate) fn parameters(&self) -> Vec<Vec<f64>> {
        self.blocks.iter().map(|block| block.parameters.clone()).collect()
    }

    /// Replaces the variational parameters; false if a length differs.
    pub(crate) fn set_parameters(&mut self, parameters: Vec<Vec<f64>>) -> bool {
        let fits = parameters.len() == self.blocks.len()
            && parameters.iter().zip(&self.blocks).all(|(own, block)| own.len() == block.parameters.len());
        if fits {
            self.blocks.iter_mut().zip(parameters).for_each(|(block, own)| block.parameters = own);
        }
        fits
    }

    /// Lets all rules forget what they have seen: after an explosion they would hardly move.
    pub(crate) fn forget(&mut self, settings: &Settings, device: &Device) {
        self.blocks.iter_mut().for_each(|block| block.rule = settings.optimiser.start(device));
        self.private.forget(settings, device);
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> Vec<(String, Vec<f64>)> {
        let mut state = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            state.push((format!("local.{index}.parameters"), block.parameters.clone()));
            state.extend(
                block.rule.save().into_iter().map(|(name, values)| (format!("local.{index}.rule.{name}"), values)),
            );
        }
        state.extend(self.private.save());
        state
    }

    /// Restores what [`Locals::save`] gave; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let mut parameters = Vec::new();
        for index in 0..self.blocks.len() {
            let name = format!("local.{index}.parameters");
            parameters.extend(state.iter().find(|(known, _)| *known == name).map(|(_, values)| values.clone()));
            let prefix = format!("local.{index}.rule.");
            let rule = state
                .iter()
                .filter_map(|(known, values)| Some((known.strip_prefix(&prefix)?.to_owned(), values.clone())));
            if !self.blocks[index].rule.load(rule.collect()) {
                return false;
            }
        }
        self.set_parameters(parameters) && self.private.load(state)
    }
}

impl Block {
    /// Moves the parameters of these rows, of all without them; in units of their own, where the rate is one in such.
    fn descend(&mut self, rows: Option<&ChosenRows>, mut gradient: Vec<f64>, rate: f64, in_units: bool) {
        let Self { family, parameters, start, rule, .. } = self;
        let places = rows.map(|rows| family.places(&rows.rows));
        // Where the other rows wait, a step costs what these rows cost. Asked about no rows, a rule says so and copies nothing.
        if in_units && let Some(places) = places.as_ref().filter(|_| rule.save_rows(&family.places(&[])).is_some()) {
            let (mut own, width) = (places.gather(parameters), family.width());
            let start: Vec<f64> = places.rows.iter().flat_map(|row| &start[row * width..][..width]).copied().collect();
            let units = family.units(&own, &start);
            enter(&units, &mut own, &mut gradient);
            places.put(&own, parameters);
            rule.step_rows(rate, parameters, &gradient, places);
            own = places.gather(parameters);
            leave(&units, &mut own);
            return places.put(&own, parameters);
        }
        let mut step = |parameters: &mut [f64], gradient: &[f64]| match &places {
            Some(places) => rule.step_rows(rate, parameters, gradient, places),
            None => rule.step(rate, parameters, gradient),
        };
        if !in_units {
            return step(parameters, &gradient);
        }
        let units = family.units(parameters, start);
        let own = places.as_ref().map_or_else(|| Cow::Borrowed(&units), |places| Cow::Owned(places.gather(&units)));
        gradient.iter_mut().zip(own.iter()).for_each(|(slope, unit)| *slope *= unit);
        parameters.iter_mut().zip(&units).for_each(|(value, unit)| *value /= unit);
        step(parameters, &gradient);
        leave(&units, parameters);
    }

    /// What its encoder gave, which it has to give at every step.
    fn known(&self, encoded: Option<Encoded>) -> Result<Encoded> {
        encoded.ok_or_else(|| {
            Error::Model(partita_core::Error::ChangingStructure {
                found: format!("no encoder of plate `{}`", self.plate.as_deref().unwrap_or_default()),
                expected: "an encoder".into(),
            })
        })
    }
}

#[cfg(test)]
mod tests;
