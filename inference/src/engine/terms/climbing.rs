//! Lets parties climb to the mode of the globals before their stochastic steps, by exact gradients.

use partita_core::{
    AnyData, AnyModel, Device, Latents, LogDensity, Part, Precision, Result as Read, Site, SiteTable, ValueAndGradient,
};

use super::coordinator::Coordinator;
use super::messages::{Slope, SlopeRequest};
use super::silo::Silo;
use crate::engine::algorithm::{StepInfo, Tally, each_reply};
use crate::engine::climb::{Climb, Footing, Summit};
use crate::engine::error::{Error, Result, is_outside};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::Family;
use crate::engine::settings::{Settings, StartFrom};
use crate::engine::trainer::Trainer;
use crate::engine::trainer::adaptive::is_many;
use crate::engine::wire::message::Message;

/// A log density with its gradient by the globals, where the model has one.
type Found = Option<(f64, Vec<f64>)>;

/// The way of a coordinator to where its run starts.
#[derive(Debug)]
pub(super) struct Ascent {
    climb: Climb,
    steps: Steps,
}

/// Who takes the steps after a start at a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// The party that starts there: in coordinates of the covariance, where the family has any.
    Own,
    /// Silos, each in coordinates of its own.
    OfSilos,
}

/// Whether the settings ask for climbs, and they can be made: in 64 bits, over globals that are no parameters of a
/// module.
fn is_wanted(settings: &Settings, device: &Device, table: &SiteTable, family: &dyn Family) -> bool {
    // Point masses alone are no posterior: a climb would be all of their fit, and not its start. A network starts at
    // its module's values: at one of its many modes a normal posterior is wider than where noise would lead.
    let can_be_made = !table.has_modules() && family.noise_len() > 0;
    settings.start == StartFrom::Mode && device.precision() == Precision::Double && can_be_made
}

/// A climb from these parameters, if it is wanted.
pub(crate) fn climb(
    settings: &Settings,
    device: &Device,
    table: &SiteTable,
    (family, parameters): (&dyn Family, &[f64]),
) -> Option<Climb> {
    if !is_wanted(settings, device, table, family) {
        return None;
    }
    let scales = family.deviations(parameters);
    let scales = scales.into_iter().map(|scale| if scale > 0.0 { scale } else { settings.family.scale() }).collect();
    Climb::new(family.mean(parameters), scales)
}

/// A climb from where a trainer stands, if it is wanted, and leads to where steps are better begun.
///
/// θ stays as it is on the way, and steps move it later. Where non-centred globals are multiplied by a scale in it, all of them have to
/// move back as it grows: many have a longer way from the mode at another scale than from where the model says, which is in units of their
/// prior.
pub(crate) fn climb_of(trainer: &Trainer, settings: &Settings, device: &Device, table: &SiteTable) -> Option<Climb> {
    let globals = table.latents(Part::Global);
    let non_centred: usize = globals.filter(|site| site.non_centred).map(Site::width).sum();
    // Each has a mean and a standard deviation.
    let is_far = is_many(2 * non_centred) && !trainer.theta().is_empty();
    if is_far { None } else { climb(settings, device, table, (&*trainer.family, trainer.parameters())) }
}

/// Starts what is trained at a mode.
pub(crate) fn begin_at(summit: &Summit, trainer: &mut Trainer, steps: Steps) {
    if let Some(footing) = summit.footing(&*trainer.family) {
        let factor = footing.factor.filter(|_| steps == Steps::Own);
        trainer.begin_at(&Footing { factor, ..footing });
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

/// Where a climb leads, by what `read` finds at each of its points.
///
/// # Errors
/// What `read` refuses more than the place for.
pub(crate) fn summit(
    mut climb: Climb,
    mut read: impl FnMut(&[f64]) -> Read<ValueAndGradient>,
) -> Result<Option<Summit>> {
    while let Some(point) = climb.ask() {
        climb.take(found(read(&point))?);
    }
    Ok(climb.summit())
}

impl Coordinator {
    /// Lets the run begin with a climb, if its settings ask for one and it can be made.
    pub(crate) fn begin_climb(&mut self, steps: Steps) {
        let climb = climb_of(&self.trainer, &self.settings, &self.device, &self.table);
        self.ascent = climb.map(|climb| Ascent { climb, steps });
        if self.ascent.is_some() {
            // A silo's answers to a climb.
            let fields = Slope::fields(&self.sizes(1));
            self.manifest.fields.extend(fields);
        }
    }

    /// Leaves the climb out.
    pub(super) fn end_climb(&mut self) {
        self.ascent = None;
    }

    /// Leaves the climb out of a run that has begun.
    pub(super) fn end_climb_of_past(&mut self) {
        if self.step > 0 || self.trainer.has_begun() {
            self.end_climb();
        }
    }

    /// Whether the climb is not over.
    pub(crate) fn is_climbing(&self) -> bool {
        self.ascent.is_some()
    }

    /// Asks every silo for its log likelihood and the gradient at the next point of the climb; `None` where it is over.
    pub(crate) fn ask_slope(&self) -> Option<Vec<Request>> {
        let point = self.ascent.as_ref()?.climb.ask()?;
        let theta = self.trainer.theta().to_vec();
        let message = SlopeRequest { seed: self.settings.seed, point, theta }.write();
        Some(Request::to_all(self.silos.len(), &message))
    }

    /// Takes the answers, and starts at the mode once the climb is over.
    pub(crate) fn take_slope(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        let point = self.ascent.as_ref().and_then(|own| own.climb.ask());
        let found = match point {
            Some(point) => self.slope(&point, outcomes)?,
            None => None,
        };
        if let Some(Ascent { mut climb, steps }) = self.ascent.take() {
            climb.take(found);
            if climb.ask().is_some() {
                self.ascent = Some(Ascent { climb, steps });
            } else if let Some(summit) = climb.summit() {
                begin_at(&summit, &mut self.trainer, steps);
            }
        }
        Ok(StepInfo::still(self.step, Tally::default()))
    }

    /// The log joint density at a point, and its gradient; `None` where a silo says that there is none.
    fn slope(&self, point: &[f64], outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<Found> {
        let sizes = self.sizes(1);
        let prior = LogDensity::new(&self.model, &self.device, &self.table).global(point);
        let located = |error| Error::Model(error).in_silo("the coordinator", self.step);
        let mut sum = found(prior).map_err(located)?;
        each_reply(outcomes, &self.silos, self.step, |_, reply| {
            let Slope { log_likelihood, slope } = Slope::read(&reply, &sizes)?;
            sum = match (sum.take(), log_likelihood, slope) {
                (Some((value, mut gradient)), Some(own), Some(slope)) => {
                    gradient.iter_mut().zip(&slope).for_each(|(sum, own)| *sum += own);
                    Some((value + own, gradient))
                }
                _ => None,
            };
            Ok(())
        })?;
        Ok(sum)
    }
}

impl Silo {
    /// Answers with the log likelihood at a point of the globals and its gradient, or without them: where the model has
    /// local latents, and where it has no density. Changes nothing but what is known of θ.
    pub(crate) fn slope(&mut self, request: &SlopeRequest) -> Result<Message> {
        self.set_theta(&request.theta)?;
        let at = || self.at(&request.point, |density, latents, data| density.local(latents, data));
        let found = (!self.table.has_local_latents()).then(at).map(found).transpose()?.flatten();
        let finite = |(value, slope): &(f64, Vec<f64>)| value.is_finite() && slope.iter().all(|g| g.is_finite());
        let (log_likelihood, slope) = found.filter(finite).unzip();
        Ok(Slope { log_likelihood, slope }.write())
    }

    /// The mode of a log density of all rows by the globals, if `climb` finds it and no local latents are to be known.
    pub(crate) fn summit(
        &self,
        climb: Climb,
        read: impl Fn(LogDensity<'_, AnyModel>, Latents<'_>, &AnyData) -> Read<ValueAndGradient>,
    ) -> Result<Option<Summit>> {
        if self.table.has_local_latents() {
            return Ok(None);
        }
        summit(climb, |point| self.at(point, &read))
    }

    /// Whether the silo may make a climb by itself that the settings ask for: of a private one nothing is read without
    /// noise.
    pub(crate) fn can_climb(&self) -> bool {
        let Self { settings, device, table, family, .. } = self;
        is_wanted(settings, device, table, &**family) && self.noised.is_none() && !table.has_local_latents()
    }

    /// What is read of all rows at a point of the globals.
    fn at(
        &self,
        globals: &[f64],
        read: impl FnOnce(LogDensity<'_, AnyModel>, Latents<'_>, &AnyData) -> Read<ValueAndGradient>,
    ) -> Read<ValueAndGradient> {
        let (worker, locals) = (&self.workers[0], vec![Vec::new(); self.table.blocks().len()]);
        let density = LogDensity::new(&worker.model, &self.device, &self.table).loss(self.settings.loss);
        read(density, Latents { globals, locals: &locals }, &worker.data)
    }
}
