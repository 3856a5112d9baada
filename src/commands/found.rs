//! Holds what a method or a sampler has found of a model, which is asked the same of either.

use std::path::Path;

use partita_core::burn::module::ModuleDisplay;
use partita_core::{Device, Model};

use super::course::Course;
use super::say::note;
use crate::executables::draws_file::draws_of;
use crate::inference::{AnswerDraws, ChainStep, HtmlOptions, NutsFit, PageContent, PriorLine, Report, Result};
use crate::{Fit, FitOptions, Nuts, fit};

/// Draws after which a chain says where it is.
const SAID: usize = 500;

/// How a model is fitted: with a sampler, its predictive checks and its seed are those of the options.
pub(super) struct How {
    pub(super) options: FitOptions,
    pub(super) sampler: Option<Nuts>,
}

/// A fit of a method, or the draws of a sampler with their report.
pub(super) enum Found {
    Fit(Box<Fit>),
    Draws(Box<(NutsFit, Report)>),
}

/// Draws of every number from its prior.
pub(super) type PriorDraws = Vec<(String, String, Vec<f64>)>;

impl Found {
    pub(super) fn of<M: Model + ModuleDisplay>(
        model: &M,
        silos: &[(String, M::Data)],
        device: &Device,
        how: &How,
    ) -> Result<Self> {
        let Some(sampler) = &how.sampler else {
            let found = fit(model, silos, device, &how.options, Some(&mut Course::new()))?;
            return Ok(Self::Fit(Box::new(found)));
        };
        let all = sampler.warmup + sampler.draws;
        let watch = |step: &ChainStep| {
            let done = step.draw + 1;
            if done.is_multiple_of(SAID) {
                note(format_args!("chain {}: {done} of {all} draws", step.chain + 1));
            }
        };
        let drawn = sampler.sample_watched(model, silos, device, &watch)?;
        let report = drawn.report(model, silos, device, &how.options.checks)?;
        Ok(Self::Draws(Box::new((drawn, report))))
    }

    pub(super) fn report(&self) -> &Report {
        match self {
            Self::Fit(fit) => &fit.report,
            Self::Draws(own) => &own.1,
        }
    }

    /// Lets the report tell the priors; draws of them.
    pub(super) fn tell_priors<M: Model>(
        &mut self,
        model: &M,
        priors: &[PriorLine],
        device: &Device,
    ) -> Result<PriorDraws> {
        let (draws, report) = match self {
            Self::Fit(fit) => (fit.prior(model, device)?, &mut fit.report),
            Self::Draws(own) => (own.0.prior(model, device)?, &mut own.1),
        };
        report.tell_priors(priors, &draws);
        Ok(draws)
    }

    pub(super) fn answer_draws<M: Model>(&self, model: &M, device: &Device) -> Result<AnswerDraws> {
        match self {
            Self::Fit(fit) => fit.answer_draws(model, device),
            Self::Draws(own) => Ok(own.0.answer_draws()),
        }
    }

    pub(super) fn page(&self, options: &HtmlOptions) -> PageContent {
        match self {
            Self::Fit(fit) => fit.page(options),
            Self::Draws(own) => own.0.page(options),
        }
    }

    /// Posterior means and standard deviations of the latents of the silo of this place, block by block.
    pub(super) fn local_moments(&mut self, place: usize) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        match self {
            Self::Fit(fit) => fit.exchange.programs()[place].local_moments(),
            Self::Draws(own) => Ok(own.0.local_moments(place)),
        }
    }

    /// Writes draws for ArviZ, with the rows of these silos.
    pub(super) fn write_arviz<M: Model>(
        &self,
        model: &M,
        silos: &[(String, M::Data)],
        device: &Device,
        path: &Path,
    ) -> Result<()> {
        let options = draws_of(silos);
        match self {
            Self::Fit(fit) => fit.write_arviz(path, model, device, &options),
            Self::Draws(own) => own.0.write_arviz(path, model, device, &options, own.1.verdict),
        }
    }
}
