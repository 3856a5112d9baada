//! Makes one party of a vertical fit whose others are elsewhere, and fits parties behind any exchange.

use partita_core::vertical::{Labels, Party};
use partita_core::{Device, Key, Noise, Purpose};

use super::{aligned, other, same_outputs};
use crate::engine::algorithm::Algorithm;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::Exchange;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::{Found, Report, summary};
use crate::engine::run::{Progress, RunRecord, Silent, run};
use crate::engine::trust::estimate::estimate_elbo_within;
use crate::fit::{AlgorithmChoice, FitOptions, described, pool};
use crate::methods::columns::{VerticalCoordinator, VerticalOptions, VerticalParty};

/// The options of a vertical fit; an error for another algorithm.
pub(super) fn chosen(options: &FitOptions) -> Result<VerticalOptions> {
    match &options.algorithm {
        AlgorithmChoice::Vertical(how) => Ok(*how),
        found => Err(other(found)),
    }
}

/// The label holder of a fit whose parties, called `names`, are elsewhere: the one that [`super::fit`] would make.
///
/// # Errors
/// As for [`super::fit`].
pub fn coordinator(
    labels: &Labels,
    names: &[String],
    device: &Device,
    options: &FitOptions,
) -> Result<Box<dyn Algorithm>> {
    let how = chosen(options)?;
    caught(COORDINATOR, || {
        Ok(Box::new(VerticalCoordinator::new(labels, device, &options.settings, &how, names)?) as Box<dyn Algorithm>)
    })
}

/// The `index`-th party of a fit whose others are elsewhere: the one that [`super::fit`] would make.
///
/// `labels` where [`VerticalOptions::shares_labels`]; other algorithms leave them with their holder. For predictions
/// give it rows with [`VerticalParty::hold_out`].
///
/// # Errors
/// As for [`super::fit`].
pub fn party_program(
    party: &Party,
    index: u32,
    labels: Option<&Labels>,
    device: &Device,
    options: &FitOptions,
) -> Result<VerticalParty> {
    let how = chosen(options)?;
    let make = || {
        if let Some(labels) = labels {
            aligned(party, labels)?;
        }
        let made = VerticalParty::new(party, index, labels, device, &options.settings, &how)?;
        if let Some(labels) = labels {
            same_outputs(&made, labels)?;
        }
        Ok(made)
    };
    caught(party.name(), make).map_err(|error| error.in_silo(party.name(), 0))
}

/// The run, the bound and the summary of [`super::fit`] with parties that exist already: a [`coordinator`], and parties
/// behind any exchange.
///
/// # Errors
/// As for [`super::fit`].
pub fn fit_parties(
    labels: &Labels,
    device: &Device,
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    progress: Option<&mut dyn Progress>,
) -> Result<(Report, RunRecord)> {
    if options.elbo_draws == 0 {
        return Err(Error::Setting { setting: "elbo_draws", found: "0".into(), expected: "at least 1" });
    }
    chosen(options)?;
    let (names, settings) = (exchange.silos().to_vec(), &options.settings);
    let run_options = options.run_options(settings.steps);
    let mut silent = Silent;
    let progress: &mut dyn Progress = match progress {
        Some(progress) => progress,
        None => &mut silent,
    };
    let work = || {
        let mut record = run(algorithm, exchange, &run_options, progress)?;
        let counters = &mut record.counters;
        let bound = caught(COORDINATOR, || {
            estimate_elbo_within(algorithm, exchange, options.elbo_draws, options.deadline, counters)
        })?;
        Ok::<_, Error>((record, bound))
    };
    let (record, bound) = pool(options.threads)?.install(work)?;
    let draws = match options.summary_draws {
        0 => Vec::new(),
        count => {
            let table = labels.table(device)?;
            let key = Key::new(Purpose::Report, 0).block(1);
            let natural = |latent: &[f64]| labels.natural(device, &table, latent);
            summary::natural_draws_of(algorithm.posterior(), Noise::new(settings.seed), key, count.max(2), natural)?
        }
    };
    let report = Report::new(Found {
        sites: summary::summarise(&draws),
        families: settings.family.named(&labels.table(device)?),
        warnings: Vec::new(),
        bound,
        record: &record,
        counts: algorithm.counts(),
        algorithm: described(options, algorithm)?,
        settings,
        device: format!("{:?}", device.burn()),
        silos: names,
        theta: Vec::new(),
    });
    Ok((report, record))
}
