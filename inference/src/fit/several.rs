//! Begins a fit from several starts, and chooses the one whose bound is best after a tenth of the steps.

use partita_core::{AnyData, AnyModel, Device};

use super::choice::{Choice, choose};
use super::{FitOptions, bound_of, parties_any, pool};
use crate::engine::algorithm::Algorithm;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::InProcess;
use crate::engine::report::StartBound;
use crate::engine::run::{Counters, Silent, run};
use crate::engine::settings::Settings;
use crate::engine::trust::estimate::ElboEstimate;

/// The share of all steps after which starts are compared.
const SHARE: u64 = 10;

/// The parties of a fit, with what was done to choose where they start.
pub(super) struct Begun {
    pub(super) algorithm: Box<dyn Algorithm>,
    pub(super) exchange: InProcess,
    /// The options with the start that was chosen.
    pub(super) options: FitOptions,
    /// The bounds of all starts; empty for one.
    pub(super) bounds: Vec<StartBound>,
    /// What all short fits took.
    pub(super) spent: Counters,
    /// Why the algorithm is the one that it is, where none was named.
    pub(super) choice: Option<String>,
}

/// The parties of the best of as many starts as the options say.
pub(super) fn begin(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    options: &FitOptions,
) -> Result<Begun> {
    let Choice { options, reason: choice } = choose(model, silos, device, options)?;
    if options.starts == 1 {
        let (algorithm, exchange) = parties_any(model, silos, device, &options)?;
        let (bounds, spent) = (Vec::new(), Counters::default());
        return Ok(Begun { algorithm, exchange, options, bounds, spent, choice });
    }
    let (mut bounds, mut spent) = (Vec::<StartBound>::new(), Counters::default());
    let (mut best, mut refused) = (None::<Kept>, None);
    for number in 0..options.starts {
        let numbered = numbered(&options, number);
        match attempt(model, silos, device, &numbered, &mut spent) {
            Ok((parties, bound)) => {
                if best.as_ref().is_none_or(|best| above(bound.elbo, bounds[best.place].elbo)) {
                    best = Some(Kept { place: bounds.len(), settings: numbered.settings, parties });
                }
                bounds.push(StartBound { elbo: bound.elbo, elbo_se: bound.standard_error, is_kept: false });
            }
            Err(error) => {
                bounds.push(StartBound { elbo: f64::NAN, elbo_se: f64::NAN, is_kept: false });
                refused = refused.or(Some(error));
            }
        }
    }
    let none = || Error::Setting { setting: "starts", found: "0".into(), expected: "at least 1" };
    let Some(Kept { place, settings, parties }) = best else { return Err(refused.unwrap_or_else(none)) };
    bounds[place].is_kept = true;
    let ((algorithm, exchange), options) = (parties, FitOptions { settings, ..options });
    Ok(Begun { algorithm, exchange, options, bounds, spent, choice })
}

type Parties = (Box<dyn Algorithm>, InProcess);

/// Whether a bound is above another one; one that is no number is below all.
fn above(bound: f64, other: f64) -> bool {
    bound > other || (other.is_nan() && !bound.is_nan())
}

/// The best start so far.
struct Kept {
    place: usize,
    settings: Settings,
    parties: Parties,
}

/// The options of one of several starts.
fn numbered(options: &FitOptions, number: u32) -> FitOptions {
    let (settings, seed) = (options.settings.clone(), options.settings.seed);
    let family = settings.family.clone().numbered(number, seed);
    FitOptions { starts: 1, settings: Settings { family, ..settings }, ..options.clone() }
}

/// The parties of a start after a tenth of the steps, and their bound with its error.
fn attempt(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    options: &FitOptions,
    spent: &mut Counters,
) -> Result<(Parties, ElboEstimate)> {
    let (mut algorithm, mut exchange) = parties_any(model, silos, device, options)?;
    let alone = FitOptions { checkpoint: None, resume: false, tolerance: None, ..options.clone() };
    let bound = pool(options.threads)?.install(|| {
        let short = alone.run_options(options.settings.steps / SHARE);
        let record = run(&mut *algorithm, &mut exchange, &short, &mut Silent);
        let mut counters = Counters::default();
        let bound = record.and_then(|record| {
            counters += record.counters;
            Ok(bound_of(&alone, &mut *algorithm, &mut exchange, &mut counters)?.bound)
        });
        *spent += counters;
        bound
    })?;
    Ok(((algorithm, exchange), bound))
}
