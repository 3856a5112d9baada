//! Makes one party of a vertical fit whose others are elsewhere, and fits parties behind any exchange.

use partita_core::vertical::{Augmentation, Labels, Party};
use partita_core::{Device, Key, Noise, Purpose};

use super::{aligned, other, same_outputs};
use crate::engine::algorithm::Algorithm;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::Exchange;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::{Report, summary};
use crate::engine::run::{Progress, RunRecord, Silent, run};
use crate::engine::trust::estimate::estimate_elbo_within;
use crate::fit::{AlgorithmChoice, FitOptions, pool};
use crate::methods::columns::{AugmentedVariable, PowerLikelihood, VerticalOptions, VerticalParty};

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
    let (how, settings) = (chosen(options)?, &options.settings);
    caught(COORDINATOR, || {
        Ok(match how.augmentation {
            Augmentation::PowerLikelihood { .. } => {
                Box::new(PowerLikelihood::new(labels, device, (settings, &how), names)?) as Box<dyn Algorithm>
            }
            _ => Box::new(AugmentedVariable::new(labels, device, (settings, &how), names)?),
        })
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
    (party, index): (&Party, u32),
    labels: Option<&Labels>,
    device: &Device,
    options: &FitOptions,
) -> Result<VerticalParty> {
    let how = chosen(options)?;
    let make = || {
        if let Some(labels) = labels {
            aligned(party, labels)?;
        }
        let made = VerticalParty::new(party, index, labels, device, (&options.settings, &how))?;
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
    (algorithm, exchange): (&mut dyn Algorithm, &mut dyn Exchange),
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
            let key = (Noise::new(settings.seed), Key::new(Purpose::Report, 0).block(1));
            let natural = |latent: &[f64]| labels.natural(device, &table, latent);
            summary::natural_draws_of(algorithm.posterior(), key, count.max(2), natural)?
        }
    };
    let report = Report::new(
        (summary::summarise(&draws), settings.family.named(&labels.table(device)?)),
        bound,
        (record.counters, record.seconds, record.ending),
        (&options.algorithm, settings),
        (format!("{:?}", device.burn()), names, Vec::new()),
    );
    Ok((report, record))
}
