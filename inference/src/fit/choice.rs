//! Chooses the algorithm of a fit that names none, and says why.

use partita_core::{AnyData, AnyModel, Device, Precision, SiteTable, theta};

use super::{AlgorithmChoice, FitOptions, settled};
use crate::engine::error::{Error, Result};
use crate::engine::integral::RowIntegral;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::settings::Settings;
use crate::methods::few_rounds::{self, FewRoundsOptions};

/// The options of a fit with an algorithm that is named.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) options: FitOptions,
    /// Why it is this one; `None` where the user named it.
    pub(super) reason: Option<String>,
}

/// The most steps of a run that finds its own end, and of one with minibatches or trained parameters, whose bound goes on
/// rising a little for very long.
const LIMIT: u64 = 30_000;
const LIMIT_OF_NOISY: u64 = 10_000;

/// The algorithm that options ask for, or that a model and its data call for where they ask for none.
///
/// # Errors
/// What the model refuses.
pub(super) fn choose(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    options: &FitOptions,
) -> Result<Choice> {
    if options.algorithm != AlgorithmChoice::Automatic {
        return Ok(Choice { options: options.clone(), reason: None });
    }
    let few = FitOptions { algorithm: AlgorithmChoice::FewRounds(FewRoundsOptions::default()), ..options.clone() };
    let named = named(options);
    let hindrance = if named.is_empty() {
        hindrance(model, silos, device, &few)?
    } else {
        Some(format!("the options name {}, which few rounds have no use for", named.join(", ")))
    };
    Ok(match hindrance {
        None => Choice { options: few, reason: Some("few rounds integrate all local latents of this model".into()) },
        Some(hindrance) => {
            let mut options = FitOptions { algorithm: AlgorithmChoice::Sfvi, ..few };
            if named.is_empty() {
                let is_noisy = !options.settings.minibatch.is_empty() || !theta(model)?.is_empty();
                options.settings.steps = if is_noisy { LIMIT_OF_NOISY } else { LIMIT };
            }
            Choice { options, reason: Some(hindrance) }
        }
    })
}

/// The options of stochastic steps that are not those by default.
fn named(options: &FitOptions) -> Vec<&'static str> {
    let (own, usual) = (&options.settings, Settings::default());
    let all = [
        ("steps", own.steps != usual.steps),
        ("estimator", own.estimator != usual.estimator),
        ("particles", own.particles != usual.particles),
        ("noise", own.noise != usual.noise),
        ("family", own.family != usual.family),
        ("start", own.start != usual.start),
        ("optimiser", own.optimiser != usual.optimiser),
        ("schedule", own.schedule != usual.schedule),
        ("clip", own.clip != usual.clip),
        ("starts", options.starts != 1),
        ("tolerance", options.tolerance.is_some()),
    ];
    all.into_iter().filter_map(|(name, is_named)| is_named.then_some(name)).collect()
}

/// Why few rounds do not serve a model and its data; `None` if they do.
fn hindrance(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    options: &FitOptions,
) -> Result<Option<String>> {
    if device.precision() == Precision::Single {
        return Ok(Some("few rounds compute in double precision, and this device has single".into()));
    }
    let settings = settled(options, silos.len());
    let theta = theta(model)?;
    let globals = caught(COORDINATOR, || Ok(SiteTable::globals(model, device)?))?;
    let usual = FewRoundsOptions::default();
    let refused = few_rounds::check(&settings, &globals, &theta).and_then(|()| usual.draws_for(globals.global_len()));
    if let Some(reason) = reason(refused)? {
        return Ok(Some(reason));
    }
    for (name, data) in silos {
        let table =
            caught(name, || SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0)))?;
        if let Some(reason) = reason(RowIntegral::check(&table))? {
            return Ok(Some(reason));
        }
        if let Some(latents) = RowIntegral::drawn(&table) {
            return Ok(Some(format!(
                "rows have {latents} latents, more than three, which few rounds integrate by draws where they are asked for by name"
            )));
        }
        if let Some(reason) = reason(RowIntegral::check_levels(&table))? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

/// The words of a refusal of settings; other errors stay errors.
fn reason<T>(found: Result<T>) -> Result<Option<String>> {
    match found {
        Ok(_) => Ok(None),
        Err(Error::Setting { found, expected, .. }) => {
            let expected = expected.split(';').next().unwrap_or(expected);
            Ok(Some(format!("{found} is refused, which expects {expected}")))
        }
        Err(other) => Err(other),
    }
}
