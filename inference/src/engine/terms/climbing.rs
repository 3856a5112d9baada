//! Lets parties climb to the mode of the globals before their stochastic steps, by exact gradients.

use partita_core::{
    AnyData, AnyModel, Device, Latents, LogDensity, Precision, Result as Read, SiteTable, ValueAndGradient,
};

use super::coordinator::Coordinator;
use super::messages::{Slope, SlopeRequest};
use super::silo::Silo;
use crate::engine::algorithm::replies;
use crate::engine::climb::{Climb, MOST, Summit};
use crate::engine::error::{Error, Result, is_outside};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::settings::{Settings, StartFrom};
use crate::engine::trainer::Trainer;
use crate::engine::wire::message::Message;

/// A log density with its gradient by the globals, where the model has one.
type Found = Option<(f64, Vec<f64>)>;

/// A climb from where a fit starts, if its settings ask for one and it can be made: in 64 bits, over few globals.
pub(crate) fn climb(settings: &Settings, device: &Device, table: &SiteTable, trainer: &Trainer) -> Option<Climb> {
    let wanted = settings.start == StartFrom::Mode && device.precision() == Precision::Double;
    let (family, parameters) = (&*trainer.family, trainer.parameters());
    // Point masses alone are no posterior: a climb would be all of their fit, and not its start. A network starts at its
    // module's values: at one of its many modes a normal posterior is wider than where noise would lead.
    if !wanted || table.has_modules() || !(1..=MOST).contains(&table.global_len()) || family.noise_len() == 0 {
        return None;
    }
    let scales = family.deviations(parameters).into_iter();
    let scales: Vec<f64> = scales.map(|scale| if scale > 0.0 { scale } else { settings.family.scale() }).collect();
    Some(Climb::new(family.mean(parameters), &scales))
}

/// Starts what is trained at a mode.
pub(crate) fn begin_at(summit: &Summit, settings: &Settings, table: &SiteTable, trainer: &mut Trainer) {
    if let Some(footing) = summit.footing(&*trainer.family, settings.family.is_full_rank(table)) {
        trainer.begin_at(&footing);
    }
}

/// What was read, or that the model has no density there; an error where it refuses more than the place.
fn found(read: Read<ValueAndGradient>) -> Read<Found> {
    match read {
        Ok(found) => Ok(Some((found.value, found.globals))),
        Err(error) if is_outside(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Coordinator {
    /// Asks every silo for its log likelihood and the gradient at a point of the globals.
    pub(crate) fn ask_slope(&self, point: Vec<f64>) -> Vec<Request> {
        let theta = self.trainer.theta().to_vec();
        let message = SlopeRequest { seed: self.settings.seed, point, theta }.write();
        Request::to_all(self.silos.len(), &message)
    }

    /// The log joint density at that point, and its gradient; `None` where a silo says that there is none.
    pub(crate) fn slope(&self, point: &[f64], outcomes: Vec<Outcome>) -> Result<Found> {
        let replies = replies(outcomes, &self.silos, self.step)?;
        let sizes = self.sizes(1);
        let prior = LogDensity::new(&self.model, &self.device, &self.table).global(point);
        let located = |error| Error::Model(error).in_silo("the coordinator", self.step);
        let Some((mut value, mut gradient)) = found(prior).map_err(located)? else { return Ok(None) };
        for reply in &replies {
            let Slope { log_likelihood, slope } = Slope::read(reply, &sizes)?;
            let (Some(own), Some(slope)) = (log_likelihood, slope) else { return Ok(None) };
            value += own;
            gradient.iter_mut().zip(&slope).for_each(|(sum, own)| *sum += own);
        }
        Ok(Some((value, gradient)))
    }

    /// The fields of a silo's answers to a climb.
    pub(crate) fn allow_slopes(&mut self) {
        let fields = Slope::fields(&self.sizes(1));
        self.manifest.fields.extend(fields);
    }
}

impl Silo {
    /// Answers with the log likelihood at a point of the globals and its gradient, or without them: where the model has
    /// local latents, and where it has no density. Changes nothing but what is known of θ.
    pub(crate) fn slope(&mut self, request: &SlopeRequest) -> Result<Message> {
        self.set_theta(&request.theta)?;
        let found = self.without_locals(|density, latents, data| density.local(latents, data), &request.point)?;
        let finite = |(value, slope): &(f64, Vec<f64>)| value.is_finite() && slope.iter().all(|g| g.is_finite());
        let (log_likelihood, slope) = found.filter(finite).unzip();
        Ok(Slope { log_likelihood, slope }.write())
    }

    /// The mode of the log joint density of all data, if `climb` finds it.
    pub(crate) fn summit(&self, mut climb: Climb) -> Result<Option<Summit>> {
        while let Some(point) = climb.ask() {
            climb.take(self.without_locals(|density, latents, data| density.joint(latents, data), &point)?);
        }
        Ok(climb.summit())
    }

    /// What is read of all rows at a point of the globals, if no local latents are to be known for it.
    fn without_locals(
        &self,
        read: impl FnOnce(LogDensity<'_, AnyModel>, Latents<'_>, &AnyData) -> Read<ValueAndGradient>,
        globals: &[f64],
    ) -> Result<Found> {
        let blocks = self.table.blocks();
        if blocks.iter().any(|block| block.width > 0) {
            return Ok(None);
        }
        let (worker, locals) = (&self.workers[0], vec![Vec::new(); blocks.len()]);
        let density = LogDensity::new(&worker.model, &self.device, &self.table).loss(self.settings.loss);
        Ok(found(read(density, Latents { globals, locals: &locals }, &worker.data))?)
    }
}
