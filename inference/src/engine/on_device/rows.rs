//! Gives the local posterior of a fit on a device: independent rows whose mean and log-scale may be linear in the globals.

use std::f64::consts::LN_2;

use burn::tensor::{Int, Tensor, TensorData};
use partita_core::kernel::AdamUpdate;
use partita_core::{Device, Handle, Part, SiteTable, ordered_sum};

use super::{Moving, Places, Update, plus};
use crate::engine::checkpoint::named;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::explosion::{real, whole};
use crate::engine::family::{CovarianceMatrix, HALF_LOG_TWO_PI, MarginalOver, RowGaussian};
use crate::engine::rows::{Choices, ChosenRows};
use crate::engine::settings::Settings;

/// The local latents of one plate: parameters `[rows, width]`, and `[globals, rows, width]` where they are linear in
/// the globals.
#[derive(Debug, Clone)]
pub(crate) struct RowBlock {
    /// Its place among the table's blocks.
    pub(crate) index: usize,
    /// The same on the host.
    twin: RowGaussian,
    /// Start and width of each site in a row, in the order of declaration.
    sites: Vec<(usize, usize)>,
    pub(crate) points: Vec<bool>,
    /// Means and log-scales; `None` where the model's encoder gives them.
    own: Option<[Moving<2>; 2]>,
    /// Where means start.
    start: Tensor<2>,
    linear: Option<Moving<3>>,
    scale_linear: Option<Moving<3>>,
    /// Steps of all rows together, and of each row where minibatches move them apart from one another.
    time: u64,
    row_times: Vec<u64>,
    /// `[1, width]` of ones and zeros where not all columns are alike: no point mass, mean linear, log-scale linear.
    masks: [Option<Tensor<2>>; 3],
}

/// The rows of a step with their parameters.
#[derive(Debug)]
pub(crate) struct RowStep {
    chosen: Option<Tensor<1, Int>>,
    mean: Tensor<2>,
    log_scale: Tensor<2>,
    linear: Option<Tensor<2>>,
    scale_linear: Option<Tensor<2>>,
    /// What the entropy of these rows is multiplied by: N/B, and the weight of a local step.
    pub(crate) weight: f64,
}

/// A draw of the rows of a step.
#[derive(Debug)]
pub(crate) struct RowsDraw {
    pub(crate) latent: Tensor<2>,
    /// $\sum \rho + S\delta$ over the cells that are no point masses.
    pub(crate) log_scales: Tensor<1>,
    noise: Tensor<2>,
    scale: Tensor<2>,
    spread: Tensor<2>,
}

/// Gradients by the parameters of the rows of a step, summed over particles.
#[derive(Debug, Default)]
pub(crate) struct RowsGradient {
    mean: Option<Tensor<2>>,
    log_scale: Option<Tensor<2>>,
    linear: Option<Tensor<2>>,
    scale_linear: Option<Tensor<2>>,
}

/// What reaches the globals from the rows of a step.
#[derive(Debug)]
pub(crate) struct ThroughRows {
    /// At fixed local draws.
    pub(crate) direct: Option<Tensor<2>>,
    /// Through $\delta$.
    pub(crate) path: Option<Tensor<2>>,
}

impl RowsGradient {
    /// Takes out the gradients by means and log-scales, for an encoder to pull back.
    pub(crate) fn take_cells(&mut self) -> Option<[Tensor<2>; 2]> {
        Some([self.mean.take()?, self.log_scale.take()?])
    }
}

impl RowBlock {
    /// The posterior that the settings choose for block `index` of `table`, at its start.
    ///
    /// # Errors
    /// [`Error::Setting`] for rows whose columns are correlated, and for rows that depend on their outer rows.
    pub(crate) fn new(
        index: usize,
        choices: &Choices,
        table: &SiteTable,
        settings: &Settings,
        device: &Device,
    ) -> Result<Self> {
        let (block, is_encoded) = (&table.blocks()[index], choices.is_encoded(index));
        let family = choices.family(index, table, settings)?;
        let options = family.options();
        let plate = block.plate.as_deref().unwrap_or("-");
        if options.dense.iter().filter(|dense| **dense).count() > 1 {
            return Err(Error::Setting {
                setting: "family of local latents",
                found: format!("full_rank for rows of plate `{plate}`, with OnDevice"),
                expected: "diagonal, as in FamilyPlan::new().local(Gaussian::diagonal()); correlated columns of a row have no device form yet",
            });
        }
        if family.depends_on_outer() {
            return Err(Error::Setting {
                setting: "family of local latents",
                found: format!("rows of plate `{plate}` whose means depend on their outer rows, with OnDevice"),
                expected: "a family without `given_outer`, as in FamilyPlan::new().local(Gaussian::diagonal().given_globals().scale_given_globals()), which makes nested levels too narrow; Central has the dependence",
            });
        }
        let (rows, width, globals) = (block.rows, block.width, table.global_len());
        let some = |flags: &[bool]| flags.contains(&true) && globals > 0;
        let linear = |flags: &[bool]| {
            let zeros = || device.tensor(vec![0.0; globals * rows * width], [globals, rows, width]);
            some(flags).then(|| Moving::new(zeros()))
        };
        let mask = |flags: Vec<bool>| {
            let ones = flags.iter().map(|flag| f64::from(u8::from(*flag))).collect();
            (!flags.iter().all(|flag| *flag)).then(|| device.tensor(ones, [1, width]))
        };
        let [means, scales] = table.local_start(index, settings.family.scale());
        let log_scales = scales.into_iter().map(f64::ln).collect();
        let cells = |values: Vec<f64>| Moving::new(device.tensor(values, [rows, width]));
        let start = device.tensor(means.clone(), [rows, width]);
        let in_block = table.latents(Part::Local).filter(|site| site.block() == index);
        let twin = family.clone();
        Ok(Self {
            index,
            twin,
            sites: in_block.map(|site| (site.offset(), site.width())).collect(),
            points: options.delta.clone(),
            own: (!is_encoded).then(|| [means, log_scales].map(cells)),
            start,
            linear: linear(&options.given_globals),
            scale_linear: linear(&options.scale_given_globals),
            time: 0,
            row_times: vec![0; rows],
            masks: [
                mask(options.delta.iter().map(|point| !point).collect()),
                mask(options.given_globals.clone()),
                mask(options.scale_given_globals.clone()),
            ],
        })
    }

    /// Whether the model's encoder gives the parameters of rows.
    pub(crate) fn is_encoded(&self) -> bool {
        self.own.is_none()
    }

    /// The rows of a step with their parameters: their own, or those an encoder gave.
    pub(crate) fn step(&self, rows: Option<&ChosenRows>, encoded: Option<[Tensor<2>; 2]>, device: &Device) -> RowStep {
        let weight = rows.map_or(1.0, |rows| rows.weight);
        let chosen: Option<Tensor<1, Int>> = rows.map(|ChosenRows { rows, .. }| {
            let indices: Vec<i64> = rows.iter().filter_map(|row| i64::try_from(*row).ok()).collect();
            Tensor::from_data(TensorData::new(indices, [rows.len()]), device.burn())
        });
        let take = |cells: &Moving<2>| match &chosen {
            Some(indices) => cells.value().select(0, indices.clone()),
            None => cells.value(),
        };
        let [mean, log_scale] = match (&self.own, encoded) {
            (Some(own), _) => own.each_ref().map(take),
            (None, Some(encoded)) => encoded,
            (None, None) => unreachable!("invariant: rows without parameters of their own have an encoder"),
        };
        let flat = |matrix: &Moving<3>| {
            let matrix = match &chosen {
                Some(indices) => matrix.value().select(1, indices.clone()),
                None => matrix.value(),
            };
            let [globals, rows, width] = matrix.dims();
            matrix.reshape([globals, rows * width])
        };
        RowStep {
            mean,
            log_scale,
            linear: self.linear.as_ref().map(flat),
            scale_linear: self.scale_linear.as_ref().map(flat),
            chosen,
            weight,
        }
    }

    /// Draws the rows of a step at `deviation` = $\delta$.
    pub(crate) fn draw(&self, step: &RowStep, deviation: &Tensor<2>, noise: &[f64], device: &Device) -> RowsDraw {
        let shape = step.mean.dims();
        let noise: Tensor<2> = device.tensor(noise.to_vec(), shape);
        let shifted = |cells: &Tensor<2>, matrix: &Option<Tensor<2>>| match matrix {
            Some(matrix) => cells.clone() + deviation.clone().matmul(matrix.clone()).reshape(shape),
            None => cells.clone(),
        };
        let (mean, log_scale) = (shifted(&step.mean, &step.linear), shifted(&step.log_scale, &step.scale_linear));
        let scale = log_scale.clone().exp();
        let spread = scale.clone() * noise.clone();
        let log_scales = ordered_sum(masked(log_scale, &self.masks[0]));
        RowsDraw { latent: mean + spread.clone(), log_scales, noise, scale, spread }
    }

    /// The latents of each site, in the order of declaration.
    pub(crate) fn by_site(&self, draw: &RowsDraw) -> Vec<Tensor<2>> {
        let width = draw.latent.dims()[1];
        let slice = |(start, own): &(usize, usize)| {
            if *own == width { draw.latent.clone() } else { draw.latent.clone().narrow(1, *start, *own) }
        };
        self.sites.iter().map(slice).collect()
    }

    /// $\sum\rho$ of the rows of a step, and the rest of their expected entropy.
    pub(crate) fn entropy(&self, step: &RowStep) -> (Tensor<1>, f64) {
        let cells = step.mean.dims()[0] * self.points.iter().filter(|point| !**point).count();
        (ordered_sum(masked(step.log_scale.clone(), &self.masks[0])), cells as f64 * (0.5 + HALF_LOG_TWO_PI))
    }

    /// Pulls the gradients by the draw of each site back; adds to `into`, returns what reaches the globals.
    pub(crate) fn vjp(
        &self,
        step: &RowStep,
        draw: &RowsDraw,
        deviation: &Tensor<2>,
        gradients: Vec<Tensor<2>>,
        estimator: Estimator,
        into: &mut RowsGradient,
    ) -> ThroughRows {
        let mut gradient = if let [one] = gradients.as_slice() { one.clone() } else { Tensor::cat(gradients, 1) };
        let (mut direct, mut path) = (None, None);
        let flat = |cells: Tensor<2>| {
            let [rows, width] = cells.dims();
            cells.reshape([1, rows * width])
        };
        let through = |matrix: &Tensor<2>, cells: &Tensor<2>| cells.clone().matmul(matrix.clone().transpose());
        if estimator == Estimator::StickingTheLanding {
            let minus_score = draw.noise.clone() / draw.scale.clone();
            gradient = gradient + minus_score.clone() * step.weight;
            if let Some(linear) = &step.linear {
                plus(&mut direct, through(linear, &flat(minus_score)) * -step.weight);
            }
            if let Some(linear) = &step.scale_linear {
                let factors = masked(draw.noise.clone() * draw.noise.clone() - 1.0, &self.masks[0]);
                plus(&mut direct, through(linear, &flat(factors)) * -step.weight);
            }
        }
        let mut by_log_scale = gradient.clone() * draw.spread.clone();
        let mut by_shift = by_log_scale.clone();
        if estimator.adds_entropy_gradient() {
            let ones = masked(by_log_scale.ones_like() * step.weight, &self.masks[0]);
            by_log_scale = by_log_scale + ones.clone();
            if estimator == Estimator::Total {
                by_shift = by_shift + ones;
            }
        }
        if let Some(linear) = &step.linear {
            let own = flat(masked(gradient.clone(), &self.masks[1]));
            plus(&mut path, through(linear, &own));
            plus(&mut into.linear, deviation.clone().transpose().matmul(own));
        }
        if let Some(linear) = &step.scale_linear {
            let own = flat(masked(by_shift, &self.masks[2]));
            plus(&mut path, through(linear, &own));
            plus(&mut into.scale_linear, deviation.clone().transpose().matmul(own));
        }
        plus(&mut into.mean, gradient);
        plus(&mut into.log_scale, by_log_scale);
        ThroughRows { direct, path }
    }

    /// The units of means and of their slopes, as [`RowGaussian::units`] has them on the host: standard deviations, and of a
    /// mean the way from its start where that is longer.
    fn units(&self) -> Option<[Tensor<2>; 2]> {
        let [mean, log_scale] = self.own.as_ref()?;
        let power_of_two = |logarithm: Tensor<2>| ((logarithm / LN_2).round() * LN_2).exp();
        let sds = power_of_two(log_scale.value());
        let far = (mean.value() - self.start.clone()).abs();
        let is_near = far.clone().lower_equal(sds.clone());
        Some([power_of_two(far.log()).mask_where(is_near, sds.clone()), sds])
    }

    /// Moves the parameters of the rows of a step up their gradients, divided by `particles`, in units of their own where
    /// rates are `in_units`; other rows wait, and each row of a minibatch has an Adam of its own, as on the host.
    pub(crate) fn ascend(
        &mut self,
        (rows, step): (Option<&[usize]>, &RowStep),
        gradient: RowsGradient,
        particles: f64,
        (update, in_units): (impl Fn(u64) -> AdamUpdate, bool),
        device: &Device,
    ) {
        let factor = -1.0 / particles;
        let places = rows.zip(step.chosen.as_ref()).map(|(rows, indices)| self.places(rows, indices, &update, device));
        if places.is_none() {
            self.time += 1;
        }
        let all = Update::Adam(update(self.time));
        let chosen = |units: Tensor<2>| match &places {
            Some(places) => units.select(0, places.indices.clone()),
            None => units,
        };
        let [by_mean, by_slope] = match in_units.then(|| self.units()).flatten() {
            Some(units) => units.map(|units| Some(chosen(units))),
            None => [None, None],
        };
        let own = self.own.iter_mut().flatten().zip([(gradient.mean, by_mean), (gradient.log_scale, None)]);
        for (mover, (own, units)) in own {
            match (own, &places) {
                (Some(own), Some(places)) => mover.step_rows(own * factor, 0, (places, units.as_ref())),
                (Some(own), None) => mover.step(own * factor, &all, units.as_ref()),
                (None, _) => {}
            }
        }
        let linear = [
            (&mut self.linear, gradient.linear, by_slope.map(|units| units.unsqueeze::<3>())),
            (&mut self.scale_linear, gradient.scale_linear, None),
        ];
        for (mover, own, units) in linear {
            let (Some(mover), Some(own)) = (mover, own) else { continue };
            let [globals, _, width] = mover.value().dims();
            let evaluated = own.dims()[1] / width;
            let own = own.reshape([globals, evaluated, width]) * factor;
            match &places {
                Some(places) => mover.step_rows(own, 1, (&places.reshape([1, evaluated, 1]), units.as_ref())),
                None => mover.step(own, &all, units.as_ref()),
            }
        }
    }

    /// Counts a step of each of these rows, and gathers the constants of each.
    fn places(
        &mut self,
        rows: &[usize],
        indices: &Tensor<1, Int>,
        update: &impl Fn(u64) -> AdamUpdate,
        device: &Device,
    ) -> Places<2> {
        let own: Vec<AdamUpdate> = rows
            .iter()
            .map(|row| {
                self.row_times[*row] += 1;
                update(self.row_times[*row])
            })
            .collect();
        let column = |of: fn(&AdamUpdate) -> f64| device.tensor(own.iter().map(of).collect(), [rows.len(), 1]);
        Places {
            indices: indices.clone(),
            correction: column(|update| update.correction),
            epsilon: column(|update| update.epsilon),
            update: update(1),
        }
    }

    /// Lets the rule of each row forget what it has seen.
    pub(crate) fn restart(&mut self) {
        self.own.iter_mut().flatten().for_each(Moving::restart);
        [&mut self.linear, &mut self.scale_linear].into_iter().flatten().for_each(Moving::restart);
        self.time = 0;
        self.row_times.fill(0);
    }

    /// Whether draws depend on the globals.
    pub(crate) fn depends_on_globals(&self) -> bool {
        self.twin.depends_on_globals()
    }

    /// Marginal means and standard deviations, each `[rows, width]`, over globals of this covariance, read to the host.
    pub(crate) fn moments(
        &self,
        encoded: Option<[Tensor<2>; 2]>,
        globals: Option<&CovarianceMatrix>,
        device: &Device,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let parameters = self.parameters(encoded, device)?;
        let found = self.twin.marginals(&parameters, MarginalOver { globals, outer: None });
        Ok((found.means, found.deviations))
    }

    /// The parameters of all rows in the layout of the host's family, read to the host.
    pub(crate) fn parameters(&self, encoded: Option<[Tensor<2>; 2]>, device: &Device) -> Result<Vec<f64>> {
        let step = self.step(None, encoded, device);
        let mut parameters = Vec::with_capacity(self.twin.parameter_len());
        let slopes = [step.linear, step.scale_linear].into_iter().flatten();
        for cells in [step.mean, step.log_scale].into_iter().chain(slopes) {
            parameters.append(&mut Handle::from(cells).read()?.values);
        }
        Ok(parameters)
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> Result<Vec<(String, Vec<f64>)>> {
        let index = self.index;
        let mut state = Vec::new();
        for (mover, name) in self.own.iter().flatten().zip(["mean", "log_scale"]) {
            state.extend(mover.save(&format!("local.{index}.{name}"))?);
        }
        for (name, mover) in [("linear", &self.linear), ("scale_linear", &self.scale_linear)] {
            if let Some(mover) = mover {
                state.extend(mover.save(&format!("local.{index}.{name}"))?);
            }
        }
        let times = self.row_times.iter().chain([&self.time]).copied().map(real);
        state.push((format!("local.{index}.times"), times.collect()));
        Ok(state)
    }

    /// Restores what [`RowBlock::save`] gave; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)], device: &Device) -> bool {
        let index = self.index;
        let times = named(state, &format!("local.{index}.times"));
        let Some(([row_times @ .., time], true)) = times.map(|times| (times, times.len() == self.row_times.len() + 1))
        else {
            return false;
        };
        (self.row_times, self.time) = (row_times.iter().copied().map(whole).collect(), whole(*time));
        let linear = [("linear", &mut self.linear), ("scale_linear", &mut self.scale_linear)];
        let mut own = self.own.iter_mut().flatten().zip(["mean", "log_scale"]);
        own.all(|(mover, name)| mover.load(&format!("local.{index}.{name}"), state, device))
            && linear.into_iter().all(|(name, mover)| match mover {
                Some(mover) => mover.load(&format!("local.{index}.{name}"), state, device),
                None => true,
            })
    }
}

/// The cells of columns that the mask keeps, zero elsewhere.
fn masked(cells: Tensor<2>, mask: &Option<Tensor<2>>) -> Tensor<2> {
    match mask {
        Some(mask) => cells * mask.clone(),
        None => cells,
    }
}
