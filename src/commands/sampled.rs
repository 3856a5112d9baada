//! Samples the posterior of a formula with the rows of all silos in this process, and writes what was drawn.

use std::error::Error;

use super::answers::{say_contrasts, say_written};
use super::fit::Options;
use super::say::{note, text};
use crate::Device;
use crate::executables::questions::{Answers, FITTED, Questions, RowsToPredict, SAMPLED, take_out, write};
use crate::executables::{CONTENT, PAGE, RESULT};
use crate::formula::predict::globals;
use crate::formula::{Prediction, Prepared, Whose};
use crate::inference::{ChainStep, Nuts};

/// Draws after which a chain says where it is.
const SAID: usize = 500;

/// A formula that is sampled.
pub(super) struct Sampling<'a> {
    pub(super) options: &'a Options,
    pub(super) prepared: &'a Prepared,
    pub(super) questions: Questions,
    pub(super) how: Nuts,
    pub(super) device: &'a Device,
}

/// Refuses what only the report of a fit has.
pub(super) fn answerable(options: &Options) -> Result<(), String> {
    let asked = [("--check-rows", !options.checks.is_empty()), ("--arviz", options.arviz)];
    match asked.iter().find(|(_, is_asked)| *is_asked) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "{name} with --method nuts: a sampler has no such answer here. Leave it out, or take another method; in Rust \
             `NutsFit::write_arviz` writes the draws"
        )),
    }
}

impl Sampling<'_> {
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let Self { options, prepared, questions, how, device } = self;
        let all = how.warmup + how.draws;
        let watch = |step: &ChainStep| {
            let done = step.draw + 1;
            if done.is_multiple_of(SAID) {
                note(format_args!("chain {}: {done} of {all} draws", step.chain + 1));
            }
        };
        let fit = how.sample_watched(&prepared.plan.model, &prepared.silos, device, &watch)?;
        let report = format!("{fit}{}", prepared.plan.readings(&fit.sites.iter().collect::<Vec<_>>()));
        text(format_args!("\n{report}"))?;
        let draws = fit.answer_draws();
        let Questions { contrasts, predict } = questions;
        let contrasts = contrasts.into_iter().map(|own| prepared.contrasted(own, &draws, device));
        let contrasts = contrasts.collect::<Result<Vec<_>, _>>()?;
        say_contrasts(&contrasts)?;
        let Some(folder) = &options.output else { return Ok(()) };
        let (shared, at) = (prepared.shared(), globals(&draws));
        let known = |place: usize| prepared.known_with(place, fit.local_moments(place));
        let predicted = predict.into_iter().map(|RowsToPredict { text, rows, whose }| {
            let silo = match whose {
                Whose::Silo(place) => Some(known(place)),
                Whose::New => None,
            };
            Ok((text, shared.predicted(&rows, silo, &at, how.seed, device)?))
        });
        let predicted = predicted.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        [CONTENT, PAGE, RESULT].into_iter().try_for_each(|name| take_out(folder, name))?;
        let mut written = Answers { contrasts, predicted }.write(&draws, folder)?;
        write(folder, SAMPLED, &report)?;
        written.push(SAMPLED);
        if options.fitted {
            let silos = prepared.silos.iter().enumerate();
            let all =
                silos.map(|(place, (name, _))| Ok((name.clone(), shared.fitted(known(place), &at, how.seed, device)?)));
            write(folder, FITTED, &Prediction::csv(&all.collect::<Result<Vec<_>, Box<dyn Error>>>()?))?;
            written.push(FITTED);
        }
        say_written(&written, folder)
    }
}
