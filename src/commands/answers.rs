//! Writes what a fit has to say: report, draws, and the answers to questions.

use std::error::Error;
use std::path::{Path, PathBuf};

use super::asked::named;
use super::fit::Options;
use super::found::{Found, PriorDraws};
use super::say::say;
use crate::Device;
use crate::executables::draws_file::DRAWS;
use crate::executables::questions::{Answers, FITTED, Questions, RowsAsked, RowsToPredict, write};
use crate::executables::write_report;
use crate::formula::predict::globals;
use crate::formula::{Contrasted, Prediction, Prepared, SiloTable, Whose};
use crate::inference::HtmlOptions;
use crate::models::regression::RegressionRows;

/// A fit of a formula with all that its questions need.
pub(super) struct Fitted<'a> {
    pub(super) options: &'a Options,
    pub(super) title: String,
    pub(super) prepared: &'a Prepared,
    pub(super) questions: Questions,
    /// Draws of every number from its prior.
    pub(super) prior: PriorDraws,
    pub(super) found: Found,
    pub(super) device: &'a Device,
}

impl Fitted<'_> {
    pub(super) fn write(self) -> Result<(), Box<dyn Error>> {
        let Self { options, title, prepared, questions: Questions { contrasts, predict }, prior, mut found, device } =
            self;
        let draws = found.answer_draws(&prepared.plan.model, device)?;
        let contrasts = contrasts.into_iter().map(|own| prepared.contrasted(own, &draws, device));
        let contrasts = contrasts.collect::<Result<Vec<Vec<Contrasted>>, _>>()?.concat();
        say_contrasts(&contrasts)?;
        let Some(folder) = &options.output else { return Ok(()) };
        let (effects, shown) = (prepared.plan.effects.clone(), contrasts.iter().map(Contrasted::shown).collect());
        let page = found.page(&HtmlOptions { title, effects, contrasts: shown, prior });
        let mut written = write_report(found.report(), &page, folder)?;
        let (shared, at, seed) = (prepared.shared(), globals(&draws), found.report().seed);
        let mut known = |place| found.local_moments(place).map(|moments| prepared.known_with(place, moments));
        let predicted = predict.into_iter().map(|RowsToPredict { text, rows, whose }| {
            let silo = match whose {
                Whose::Silo(place) => Some(known(place)?),
                Whose::New => None,
            };
            Ok((text, shared.predicted(&rows, silo, &at, seed, device)?))
        });
        let predicted = predicted.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        let fitted = prepared.silos.iter().enumerate().take(if options.fitted { usize::MAX } else { 0 });
        let fitted = fitted
            .map(|(place, (name, _))| Ok((name.clone(), shared.fitted(known(place)?, &at, seed, device)?)))
            .collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        written.extend(Answers { contrasts, predicted }.write(&draws, folder)?);
        if options.fitted {
            write(folder, FITTED, &Prediction::csv(&fitted))?;
            written.push(FITTED);
        }
        if options.arviz {
            let silos = opened(prepared, &options.arviz_rows)?;
            found.write_arviz(&prepared.plan.model, &silos, device, &folder.join(DRAWS))?;
            written.push(DRAWS);
        }
        say_written(&written, folder)
    }
}

/// Makes the folder of the results, and finds before a fit whether files can be written there.
pub(super) fn made(folder: Option<&PathBuf>) -> Result<(), String> {
    let Some(folder) = folder else { return Ok(()) };
    let probe = folder.join(".partita");
    let done = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe));
    done.map_err(|error| format!("--output {}: {error}. Name a folder in which files can be written", folder.display()))
}

/// Says what was found of contrasts, after an empty line.
pub(super) fn say_contrasts(contrasts: &[Contrasted]) -> std::io::Result<()> {
    if contrasts.is_empty() {
        return Ok(());
    }
    say("")?;
    contrasts.iter().try_for_each(say)
}

/// Says which files are where.
pub(super) fn say_written(written: &[&str], folder: &Path) -> Result<(), Box<dyn Error>> {
    let (last, others) = written.split_last().ok_or("no file was written")?;
    Ok(say(format_args!("\n{} and {last} are in {}", others.join(", "), folder.display()))?)
}

/// The silos of these names, with their rows.
pub(super) fn opened(prepared: &Prepared, names: &[String]) -> Result<Vec<(String, RegressionRows)>, String> {
    let one = |name: &String| match prepared.silos.iter().find(|(own, _)| own == name) {
        Some(silo) => Ok(silo.clone()),
        None => {
            let all: Vec<&str> = prepared.silos.iter().map(|(own, _)| own.as_str()).collect();
            Err(format!("--arviz-rows: no silo is called `{name}`, expected some of {}", all.join(", ")))
        }
    };
    names.iter().map(one).collect()
}

/// The rows of `FILE`, or of `NAME=FILE` as those of a silo.
pub(super) fn rows_asked(text: &str, prepared: &Prepared) -> Result<RowsAsked, String> {
    let (name, path) = named(text);
    let silos = &prepared.silos;
    let whose = match &name {
        Some(name) => {
            let place = silos.iter().position(|(own, _)| own == name).ok_or_else(|| {
                let all: Vec<&str> = silos.iter().map(|(own, _)| own.as_str()).collect();
                format!(
                    "prediction: no silo is called `{name}`, expected one of {}. Leave `{name}=` out for rows of a silo \
                     never seen",
                    all.join(", ")
                )
            })?;
            Whose::Silo(place)
        }
        None if silos.len() == 1 => Whose::Silo(0),
        None => Whose::New,
    };
    let table = SiloTable { name: name.unwrap_or_else(|| "new".into()), path };
    Ok(RowsAsked { text: text.to_owned(), table, whose })
}
