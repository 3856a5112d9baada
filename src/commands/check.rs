//! Checks before a fit what a formula, or a model, makes of the files of silos: designs, priors, gradients, the split.

use std::error::Error;

use clap::Args;

use super::asked::{Asked, Subject};
use super::fit::say_prepared;
use super::models::Models;
use super::say::{say, text};
use crate::executables::StudyFile;
use crate::formula::{Design, Study};
use crate::inference::{CheckReport, check_pooled};
use crate::{Device, check};

/// What is checked.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    asked: Asked,
}

pub(super) fn run(options: &Options, models: &Models) -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    let report = match options.asked.subject(models)? {
        Subject::Formula(study, file) => formula(options, &study, file.as_deref(), &device)?,
        Subject::Model(model) => model.check(&options.asked.tables(None)?, &device)?,
        Subject::List => {
            return Ok(text(models)?);
        }
    };
    say(format_args!("\n{report}"))?;
    match report.passed() {
        true => {
            let count = report.checks.len();
            Ok(say(format_args!("all {count} checks passed: the model can be fitted to these files"))?)
        }
        false => Err("a check failed: do not believe a fit of this model".into()),
    }
}

fn formula(
    options: &Options,
    study: &Study,
    file: Option<&StudyFile>,
    device: &Device,
) -> Result<CheckReport, Box<dyn Error>> {
    let prepared = study.prepare(&options.asked.tables(file)?, device)?;
    say_prepared(&prepared)?;
    say("")?;
    prepared.designs()?.iter().try_for_each(|own| say(in_words(own)))?;
    let (model, silos) = (&prepared.plan.model, &prepared.silos);
    // Here the rows of all silos are at hand, which no party of a federated run has.
    Ok(match prepared.pooled(device)? {
        Some(pooled) => check_pooled(model, silos, &pooled, device)?,
        None => check(model, silos, device)?,
    })
}

/// The design of a silo in a line.
fn in_words(design: &Design) -> String {
    let mut groupings: Vec<(&str, usize)> = Vec::new();
    for term in &design.random {
        if !groupings.iter().any(|(name, _)| *name == term.grouping) {
            groupings.push((&term.grouping, term.levels.len()));
        }
    }
    let groups = groupings.iter().map(|(name, groups)| format!(", {groups} groups of `{name}`")).collect::<String>();
    format!("{}: {} rows, columns {}{groups}", design.silo, design.rows, design.fixed.names.join(", "))
}
