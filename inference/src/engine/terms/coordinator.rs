//! Keeps what the coordinator of a method over silos knows: the model's globals, their posterior, and who the silos are.

use partita_core::{
    AnyModel, Device, Part, Precision, Purpose, Site, SiteTable, device_theta, shared_theta, theta, with_shared_theta,
    with_theta,
};

use super::climbing::Ascent;
use super::messages::{EstimateRequest, Sizes, StepRequest, Terms, manifest};
use super::pending::LastWeights;
use super::reweighted::reweighted;
use super::silo::{describe_global, global_signature};
use super::total::{Asked, Total, add_terms, weighted};
use crate::engine::algorithm::{ElboSamples, Posterior, StepInfo, Tally, each_reply, finite, movable, same_run};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::{Estimator, check_points};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::family::Family;
use crate::engine::settings::Settings;
use crate::engine::trainer::{Descent, Trainer};
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// The globals of a run, as its coordinator has them, and how they move by the terms of silos.
pub(crate) struct Coordinator {
    pub(crate) model: AnyModel,
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    pub(crate) table: SiteTable,
    pub(crate) trainer: Trainer,
    pub(crate) silos: Vec<String>,
    pub(crate) step: u64,
    pub(crate) manifest: Manifest,
    /// The way to where the run starts, where it is not over.
    pub(super) ascent: Option<Ascent>,
    /// What the silos have yet to hear of the last step.
    last: LastWeights,
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Coordinator")
            .field("silos", &self.silos)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl Coordinator {
    /// The coordinator of a run over the silos of these names.
    pub(crate) fn new(model: &AnyModel, device: &Device, settings: &Settings, silos: &[String]) -> Result<Self> {
        settings.check()?;
        if silos.is_empty() {
            return Err(Error::NoSilos);
        }
        let table = SiteTable::globals(model, device)?;
        let family = settings.family.global_family(&table)?;
        check_points(settings.estimator, &*family, false)?;
        let values = shared_theta(model)?;
        let manifest = manifest(&Sizes::largest(&*family, values.len(), settings));
        let start = settings.family.start(&*family, &table);
        Ok(Self {
            model: with_theta(model, &theta(model)?, device)?,
            device: device.clone(),
            settings: settings.clone(),
            trainer: Trainer::new(family, start, &values, Descent::new(settings, device)),
            table,
            silos: silos.to_vec(),
            step: 0,
            manifest,
            ascent: None,
            last: LastWeights::default(),
        })
    }

    /// Lets the rate follow from the run, where the schedule is such a one.
    pub(crate) fn adapt(&mut self) {
        self.trainer.adapt(&tensors(&self.model));
    }

    /// Refuses numbers of observations that are not one positive number a silo.
    pub(crate) fn check_sizes(&self, sizes: &[usize]) -> Result<()> {
        let count = self.silos.len();
        let found = format_args!("{sizes:?} for {count} silos");
        let expected = "one number of observations >= 1 a silo";
        Error::unless(sizes.len() == count && !sizes.contains(&0), "sizes", found, expected)
    }

    /// The family of the globals.
    pub(crate) fn family(&self) -> &dyn Family {
        &*self.trainer.family
    }

    /// What the lengths of answers with so many draws follow from.
    pub(super) fn sizes(&self, draws: usize) -> Sizes {
        Sizes::new(self.family(), self.trainer.theta().len(), draws, &self.settings)
    }

    /// Replaces the parameters of the global posterior: the run starts there.
    pub(crate) fn set_parameters(&mut self, parameters: &[f64]) -> Result<()> {
        let (found, expected) = (parameters.len(), self.trainer.parameters().len());
        let problem = format_args!("{found} parameters given, the family has {expected}");
        Error::well_formed(found == expected, "global parameters", problem)?;
        self.end_climb();
        self.trainer.set_parameters(parameters);
        Ok(())
    }

    /// Replaces θ, in the model too.
    pub(crate) fn set_theta(&mut self, theta: &[f64]) -> Result<()> {
        self.trainer.set_theta(theta);
        self.show_theta()
    }

    /// Computes in this precision from here on, whatever that of its device.
    pub(crate) fn recast(&mut self, precision: Precision) -> Result<()> {
        self.device = self.device.clone().with_precision(precision);
        self.model = with_theta(&self.model, &theta(&self.model)?, &self.device)?;
        self.show_theta()
    }

    /// Lets the model see θ.
    pub(crate) fn show_theta(&mut self) -> Result<()> {
        if !self.trainer.theta().is_empty() {
            self.model = with_shared_theta(&self.model, self.trainer.theta(), &self.device)?;
        }
        Ok(())
    }

    /// The name of what component `index` of a vector of global parameters, or of θ, belongs to.
    pub(crate) fn describe(&self, index: usize) -> String {
        describe_global(&self.table, index % self.family().len().max(1))
    }

    /// Asks every silo for its terms of this step.
    pub(crate) fn ask_step(&mut self) -> Vec<Request> {
        let rate = self.trainer.rates(1).map(|[rate, _]| rate);
        let message = StepRequest {
            step: self.step,
            seed: self.settings.seed,
            global: self.trainer.parameters().to_vec(),
            weighted_step: self.last.of_step(),
            weights: self.last.each(),
            theta: self.trainer.theta().to_vec(),
            rate,
            undone: self.trainer.is_undone().then_some(1),
        };
        Request::to_all(self.silos.len(), &message.write())
    }

    /// Moves the globals by the terms of this step.
    ///
    /// Where they are not finite, an adaptive rate that began higher than the model bears undoes what it did.
    pub(crate) fn take_step(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        match self.move_by(outcomes) {
            Err(error) if error.is_outside() && !self.settings.estimator.weighs_draws() && self.trainer.undo() => {
                self.show_theta()?;
                self.step += 1;
                Ok(StepInfo::still(self.step, Tally::steps(1, self.silos.len())))
            }
            found => found,
        }
    }

    /// Moves the globals by the terms of this step, where they are finite.
    fn move_by(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        let step = self.step;
        let total = self.of_step(outcomes)?;
        if let Some(have_latents) = total.rows_have_latents {
            self.trainer.know_rows(have_latents);
        }
        let weights = self.settings.estimator.weigh(&total.elbos);
        let elbo = weights.bound;
        let mut gradient = total.gradient(&weights, self.trainer.theta().len());
        // The optimisers descend; the bound is to ascend.
        gradient.iter_mut().for_each(|g| *g = -*g);
        let who = "the coordinator";
        finite(who, step, |_| "the bound".into(), &[elbo])?;
        let norm = movable(who, step, self.settings.clip, |index| self.describe(index), &gradient)?;
        let moved = self.trainer.step(step, elbo, &mut gradient, norm);
        self.show_theta()?;
        if self.settings.estimator.weighs_draws() {
            self.last = LastWeights { step, weights: weights.family };
        }
        self.step += 1;
        Ok(StepInfo::moved(self.step, elbo, moved, Tally::steps(1, self.silos.len())))
    }

    /// The bound and its gradient by θ that the silos' terms of one step give; moves nothing.
    pub(crate) fn theta_gradient(&self, outcomes: Vec<Outcome>) -> Result<(f64, Vec<f64>)> {
        let total = self.of_step(&mut outcomes.into_iter().map(Ok))?;
        let weights = self.settings.estimator.weigh(&total.elbos);
        let gradient = total.gradient(&weights, self.trainer.theta().len()).split_off(self.trainer.parameters().len());
        Ok((weights.bound, gradient))
    }

    /// What all parties say of this step.
    fn of_step(&self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<Total> {
        let (step, draws) = (self.step, self.settings.particles);
        let sizes = self.sizes(draws);
        let mut sum = self.own_terms(Asked { purpose: Purpose::Fit, first: step, draws });
        each_reply(outcomes, &self.silos, step, |silo, reply| {
            // Before the rest is read: an answer to another step may have other lengths.
            let answered = reply.get_count("step", LARGEST_COUNT)?;
            let problem = format_args!("silo `{silo}` answered step {answered}, asked was step {step}");
            Error::well_formed(answered == step, &reply.kind, problem)?;
            add_terms(&mut sum, &Terms::read(&reply, &sizes)?)
        })?;
        Ok(self.total(sum?))
    }

    /// Asks every silo for the terms of so many sampled bounds.
    pub(crate) fn ask_bounds(&self, draws: usize, offset: u64) -> Vec<Request> {
        let message = EstimateRequest {
            step: offset,
            seed: self.settings.seed,
            global: self.trainer.parameters().to_vec(),
            weighted_step: self.last.of_step(),
            weights: self.last.each(),
            theta: self.trainer.theta().to_vec(),
            draws: (draws * self.draws_a_bound()) as u64,
        };
        Request::to_all(self.silos.len(), &message.write())
    }

    /// The draws of all latents behind one sampled bound.
    pub(crate) fn draws_a_bound(&self) -> usize {
        self.settings.estimator.draws_a_bound(self.settings.particles)
    }

    /// The sampled bounds over silos of these names alone.
    pub(crate) fn bounds_of(&self, names: &[String], outcomes: Vec<Outcome>, bounds: Bounds) -> Result<ElboSamples> {
        let size = self.draws_a_bound();
        let draws = bounds.count * size;
        let sizes = self.sizes(draws);
        // A report needs no gradient by θ: none is sent.
        let sizes = Sizes { theta: 0, ..sizes };
        let mut sum = self.own_terms(Asked { purpose: Purpose::Report, first: bounds.offset, draws });
        each_reply(&mut outcomes.into_iter().map(Ok), names, self.step, |_, reply| {
            add_terms(&mut sum, &Terms::read(&reply, &sizes)?)
        })?;
        let total = self.total(sum?);
        finite("the coordinator", self.step, |_| "the bound".into(), &total.elbos)?;
        // Without the path through variances a gradient under local reparameterisation would not be its own.
        let ordinary = self.settings.estimator != Estimator::LocalReparameterisation;
        let weights: Vec<_> = total.elbos.chunks_exact(size).map(|own| self.settings.estimator.weigh(own)).collect();
        let gradients = total.gradients.chunks_exact(size).zip(&weights);
        let gradients = gradients.map(|(own, weights)| weighted(own.iter().zip(&weights.family)));
        Ok(ElboSamples {
            elbos: weights.iter().map(|own| own.bound).collect(),
            gradients: if ordinary { gradients.collect() } else { Vec::new() },
            reweighted: reweighted(self.posterior(), &self.settings, bounds.offset, &weights),
        })
    }

    pub(crate) fn posterior(&self) -> Posterior<'_> {
        Posterior { family: self.family(), parameters: self.trainer.parameters(), theta: self.trainer.theta() }
    }

    /// The whole state, as the saved state of a method of this kind.
    pub(crate) fn save(&self, kind: &str) -> Message {
        let state = Message::new(kind).word("step", self.step).word("seed", self.settings.seed);
        let state = self.trainer.save().iter().fold(state, |state, (name, values)| state.floats(name, values));
        self.last.put(state.setting("globals", &global_signature(&self.table)))
    }

    /// Restores what [`Coordinator::save`] gave, beside the method's own records.
    pub(crate) fn load(&mut self, state: &Message, kind: &str) -> Result<()> {
        same_run(state, kind, &global_signature(&self.table), self.settings.seed)?;
        let (step, last) = (state.get_count("step", LARGEST_COUNT)?, LastWeights::get(state)?);
        state.expect_floats("global", self.trainer.parameters().len())?;
        state.expect_floats("theta", self.trainer.theta().len())?;
        let is_ours = self.trainer.load(&state.named_floats());
        Error::well_formed(is_ours, &state.kind, "its optimiser state is of another optimiser")?;
        (self.step, self.last) = (step, last);
        self.end_climb_of_past();
        self.show_theta()
    }
}

/// The global site that component `index` of a global vector belongs to.
pub(crate) fn global_site(table: &SiteTable, index: usize) -> Option<&Site> {
    table.latents(Part::Global).find(|site| (site.offset()..site.offset() + site.width()).contains(&index))
}

/// The lengths of the tensors of θ.
pub(crate) fn tensors(model: &AnyModel) -> Vec<usize> {
    device_theta(model).iter().map(|tensor| tensor.dims()[0]).collect()
}

/// Which sampled bounds are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) count: usize,
    /// The first draw.
    pub(crate) offset: u64,
}
