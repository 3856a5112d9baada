//! Fits parties that exist already, behind any exchange, in rounds or as they answer.

use partita_core::{Device, Model};

use super::{FitOptions, bounds_of, finished, pool, settled};
use crate::engine::algorithm::Algorithm;
use crate::engine::error::Result;
use crate::engine::exchange::{Exchange, SiloProgram};
use crate::engine::report::Report;
use crate::engine::run::{Progress, RunOptions, RunRecord, Silent, run, run_asynchronous};
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
    fit_by(run, model, device, options, algorithm, exchange, progress)
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
    fit_by(run_asynchronous, model, device, options, algorithm, exchange, progress)
}

/// [`run`] or [`run_asynchronous`].
type Loop = fn(&mut dyn Algorithm, &mut dyn Exchange, &RunOptions, &mut dyn Progress) -> Result<RunRecord>;

fn fit_by<M: Model + 'static>(
    run: Loop,
    model: &M,
    device: &Device,
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    progress: Option<&mut dyn Progress>,
) -> Result<Fitted> {
    let run_options = options.run_options(settled(options, exchange.silos().len()).steps);
    let mut silent = Silent;
    let progress: &mut dyn Progress = match progress {
        Some(progress) => progress,
        None => &mut silent,
    };
    bounds_of(options)?;
    let record = pool(options.threads)?.install(|| run(algorithm, exchange, &run_options, progress))?;
    finished(model, device, options, algorithm, exchange, record)
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
