//! Fits PVI over silos that need not wait for each other, whatever carries their messages.

use partita_core::{Device, Model};

use super::{AlgorithmChoice, FitOptions, Fitted, bounds_of, finished, party, pool, settled};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{AsynchronousExchange, Exchange};
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::run::{Asynchronous, Progress, Silent, run_asynchronous};

/// The coordinator of a fit whose silos are elsewhere and answer whenever they are ready: PVI with
/// [`crate::SiloSchedule::Asynchronous`]. `silos` as for [`super::coordinator`].
///
/// # Errors
/// [`Error::Setting`] for another algorithm; otherwise as for [`super::coordinator`].
pub fn coordinator_asynchronous<M: Model + 'static>(
    model: &M,
    silos: (&[String], &[usize]),
    device: &Device,
    options: &FitOptions,
) -> Result<Box<dyn Asynchronous>> {
    let AlgorithmChoice::Pvi(how) = &options.algorithm else {
        return Err(Error::Setting {
            setting: "algorithm",
            found: format!("{:?}", options.algorithm),
            expected: "AlgorithmChoice::Pvi, the one whose silos need not wait for each other",
        });
    };
    let settings = settled(options, silos.0.len());
    let made = || party::pvi(model, silos.0, silos.1, device, how, &settings);
    Ok(Box::new(caught(COORDINATOR, made)?))
}

/// The run, the bound and the summary of [`super::fit_parties`] with silos that are asked again as soon as they have
/// answered; for the bound all are asked at once.
///
/// # Errors
/// As for [`super::fit_parties`] and [`run_asynchronous`].
pub fn fit_asynchronous<M: Model + 'static, E: Exchange + AsynchronousExchange>(
    model: &M,
    device: &Device,
    options: &FitOptions,
    (algorithm, exchange): (&mut dyn Asynchronous, &mut E),
    progress: Option<&mut dyn Progress>,
) -> Result<Fitted> {
    let run_options = options.run_options(options.settings.steps);
    let mut silent = Silent;
    let progress: &mut dyn Progress = match progress {
        Some(progress) => progress,
        None => &mut silent,
    };
    bounds_of(options)?;
    let record = pool(options.threads)?.install(|| run_asynchronous(algorithm, exchange, &run_options, progress))?;
    finished(model, device, options, (algorithm, exchange), record)
}
