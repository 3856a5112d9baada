//! Fits parties that exist already, behind any exchange, in rounds or as they answer.

use partita_core::{Device, Model, SiteTable};

use super::{FitOptions, LocalLatents, bound_of, bounds_of, described, families, one_start, pool, settled};
use crate::engine::algorithm::{Algorithm, Posterior};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, SiloProgram};
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::summary::{NaturalDraws, natural_draws, summarise};
use crate::engine::report::{Found, Report, Warning};
use crate::engine::run::{Progress, RunOptions, RunRecord, Silent, run, run_asynchronous};
use crate::engine::settings::Settings;
use crate::engine::trust::evaluate::EvaluatingSilo;

/// What [`fit_parties`] gives: the report, how the run went, and draws of every global number on its natural scale.
pub type Fitted = (Report, RunRecord, Vec<(String, String, Vec<f64>)>);

/// The run, the bound and the summary of [`super::fit()`] with parties that exist already: a [`super::coordinator`], and
/// silos behind any exchange.
///
/// `options` are those that the parties were made of, and the report has their settings. Where `algorithm` is a method
/// of a user's own it has the name of that ([`Algorithm::name`]) in place of options, and the family of its posterior.
///
/// # Errors
/// As for [`super::fit()`].
pub fn fit_parties<M: Model + 'static>(
    model: &M,
    device: &Device,
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    progress: Option<&mut dyn Progress>,
) -> Result<Fitted> {
    let asked = Asked { run, options, device };
    asked.of_model(model, algorithm, exchange, progress)
}

/// [`fit_parties`] with silos that are asked again as soon as they have answered, by [`run_asynchronous`]; for the bound
/// all are asked at once.
///
/// # Errors
/// As for [`fit_parties`] and [`run_asynchronous`].
pub fn fit_asynchronous<M: Model + 'static>(
    model: &M,
    device: &Device,
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    progress: Option<&mut dyn Progress>,
) -> Result<Fitted> {
    let asked = Asked { run: run_asynchronous, options, device };
    asked.of_model(model, algorithm, exchange, progress)
}

/// [`run`] or [`run_asynchronous`].
type Loop = fn(&mut dyn Algorithm, &mut dyn Exchange, &RunOptions, &mut dyn Progress) -> Result<RunRecord>;

/// Draws of the globals on their natural scale, so many of a posterior.
type NaturalScale<'a> = &'a dyn Fn(Posterior<'_>, u32) -> Result<NaturalDraws>;

/// What is asked of parties that exist already.
pub(super) struct Asked<'a> {
    pub(super) run: Loop,
    pub(super) options: &'a FitOptions,
    pub(super) device: &'a Device,
}

/// What a report says of the globals beside their posterior.
pub(super) struct Globals<'a> {
    pub(super) settings: &'a Settings,
    pub(super) table: &'a SiteTable,
    pub(super) natural: NaturalScale<'a>,
}

impl Asked<'_> {
    fn of_model<M: Model + 'static>(
        &self,
        model: &M,
        algorithm: &mut dyn Algorithm,
        exchange: &mut dyn Exchange,
        progress: Option<&mut dyn Progress>,
    ) -> Result<Fitted> {
        let settings = &settled(self.options, exchange.silos().len());
        let table = &caught(COORDINATOR, || Ok(SiteTable::globals(model, self.device)?))?;
        let natural =
            &|posterior: Posterior<'_>, count| natural_draws(model, self.device, posterior, settings.seed, count);
        self.fit(Globals { settings, table, natural }, algorithm, exchange, progress)
    }

    /// The run, the bound and the summary.
    pub(super) fn fit(
        &self,
        globals: Globals<'_>,
        algorithm: &mut dyn Algorithm,
        exchange: &mut dyn Exchange,
        progress: Option<&mut dyn Progress>,
    ) -> Result<Fitted> {
        let (options, Globals { settings, table, natural }) = (self.options, globals);
        let mut silent = Silent;
        let progress: &mut dyn Progress = match progress {
            Some(progress) => progress,
            None => &mut silent,
        };
        bounds_of(options)?;
        one_start(options)?;
        let run_options = options.run_options(settings.steps);
        let work = || {
            let mut record = (self.run)(algorithm, exchange, &run_options, progress)?;
            let bound = bound_of(options, algorithm, exchange, &mut record.counters)?;
            Ok::<_, Error>((record, bound))
        };
        let (record, bound) = pool(options.threads)?.install(work)?;
        let (posterior, silos) = (algorithm.posterior(), exchange.silos().to_vec());
        let draws = match options.summary_draws {
            0 => Vec::new(),
            count => caught(COORDINATOR, || natural(posterior, count.max(2)))?,
        };
        let mut warnings = Warning::of(&options.algorithm, LocalLatents::Unknown, silos.len());
        warnings.extend(Warning::of_limit(&options.algorithm, settings, record.ending));
        let report = Report::new(Found {
            sites: summarise(&draws),
            families: families(settings, table, posterior.family)?,
            warnings,
            bound,
            record: &record,
            counts: algorithm.counts(),
            algorithm: described(options, algorithm)?,
            settings,
            device: format!("{:?}", self.device.burn()),
            silos,
            theta: posterior.theta.to_vec(),
        });
        Ok((report, record, draws))
    }
}

/// A silo of a fit, made by [`super::silo_program`] as the `index`-th, that can also judge a posterior by rows of its
/// own.
///
/// # Errors
/// As for [`EvaluatingSilo::new`].
pub fn evaluating_silo<M: Model>(
    program: Box<dyn SiloProgram>,
    index: u32,
    model: &M,
    rows: &M::Data,
    device: &Device,
    options: &FitOptions,
) -> Result<EvaluatingSilo<M>> {
    EvaluatingSilo::new(program, index, model, rows, device, &settled(options, 1))
}
