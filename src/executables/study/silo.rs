//! Serves as a silo of a study: reads its file, says what it holds, and answers until it is stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use partita_flower::{Error, Result};
use partita_inference::SiloProgram;

use super::StudyFile;
use super::agree::{AVERAGE_VERB, declined};
use super::privacy::PrivateSeat;
use super::program::{Seat, StudySilo};
use crate::executables::{NO_CHECKS, Planned, SiloFile, Watch, place, sit_down};
use crate::formula::SiloTable;

/// When a silo of a study ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Never: it waits for the next study.
    UntilStopped,
    /// Once it has the report.
    UntilReported,
}

/// Serves as a silo of a study until it is stopped, or has the report. Requests that `allow` of its file does not name are refused; where
/// the file has no `allow`, the silo answers what the study asks for ([`StudyFile::asks()`]). Where the study lists what it asks, an `allow`
/// with another word is refused.
///
/// # Errors
/// Those of the files, the data, the model and the engine; [`Error::Unwelcome`] for one that was stopped before the report that it was
/// to have.
pub fn run_study_silo(study: &StudyFile, file: &SiloFile, stay: Stay, watch: Watch<'_>) -> Result<()> {
    let (run, base) = (study.run_file()?, study.settings());
    let run = Planned { file: &run, base: &base };
    let asks = study.asks()?;
    let mut file = file.clone();
    match file.allow.is_empty() {
        true => file.allow = asks.iter().map(|word| (*word).to_owned()).collect(),
        false => run.file.check_allowed(&file.allow)?,
    }
    file.check_outputs()?;
    kept_averages(study, &file.allow).iter().for_each(|line| (watch.log)(line));
    let own = study.study(file.read.clone())?;
    let columns = |path| own.columns(&SiloTable { name: file.name.clone(), path }).map_err(declined);
    let rows = columns(file.data.clone())?;
    let held_out = file.held_out.clone().map(columns).transpose()?;
    own.notes_of_file(&rows).iter().chain(&own.notes_of_groups()).for_each(|line| (watch.log)(line));
    held_out.iter().try_for_each(|held_out| own.profile(held_out).map(drop)).map_err(declined)?;
    let mut profile = own.profile(&rows).map_err(declined)?;
    for item in &file.refuse {
        if !profile.refuse(item) {
            return Err(Error::Unwelcome {
                what: "what a silo refuses to say of its rows",
                found: format!("`{item}`"),
                expected: profile.items.iter().map(|item| item.name()).collect::<Vec<_>>().join(", "),
                remedy: "Correct `refuse` in the silo's file.",
            });
        }
        own.does_without(item).map_err(declined)?;
    }
    let private = PrivateSeat::of(study, &file, &own, &rows)?;
    match &private {
        Some(private) => private.lines()?.iter().for_each(|line| (watch.log)(line)),
        None => profile.to_string().lines().for_each(|line| (watch.log)(line)),
    }
    let count = private.as_ref().map_or(rows.rows(), PrivateSeat::count);
    let (reported, unwritten) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
    let output = file.output.clone().unwrap_or_else(|| file.state.clone());
    let seat = Seat {
        study: own,
        fit: file.fit_options(run)?,
        silos: study.silos.clone(),
        index: place(run.file, &file.name)?,
        columns: rows,
        held_out,
        profile,
        output: output.clone(),
        file: file.clone(),
        contrasts: study.contrasts.clone(),
        reported: Arc::clone(&reported),
        unwritten: Arc::clone(&unwritten),
        then_stops: (stay == Stay::UntilReported).then(|| Arc::clone(watch.stop)),
        private,
    };
    let own = seat.private.clone();
    let make = move || Ok(Box::new(StudySilo::new(seat.clone())) as _);
    let Watch { log, .. } = watch;
    let mut keeper = sit_down(run, &file, count, Box::new(make), watch)?;
    if file.own_checks.is_some() && keeper.silo()?.and_then(SiloProgram::own_checks).is_none() {
        log(NO_CHECKS);
    }
    if let Some(line) = own.and_then(|own| own.clipped_line()) {
        log(&line);
    }
    match (reported.load(Ordering::Relaxed), stay) {
        (true, _) => log(&format!("the report of the study is in {}", output.display())),
        (false, Stay::UntilStopped) => {}
        (false, Stay::UntilReported) => {
            return Err(Error::Unwelcome {
                what: "a silo that ends once it has the report",
                found: "a stop before the report".into(),
                expected: "the report".into(),
                remedy: "Start it again: its state stays, and it goes on with the study.",
            });
        }
    }
    // Its owner does not take files for written that are not.
    unwritten.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), |error| Err(error.into()))
}

/// What an averaged contrast of the study has no answer for, where an owner's `allow` keeps it.
fn kept_averages(study: &StudyFile, allow: &[String]) -> Option<String> {
    let asked = study.contrasts.iter().find(|own| own.is_averaged)?;
    (!allow.iter().any(|word| word == AVERAGE_VERB)).then(|| {
        format!(
            "`allow` has no `{AVERAGE_VERB}`, which `{}` of study.toml asks: the fit goes on, and this contrast has no answer",
            asked.text
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_who_keeps_averages_hears_what_that_costs() {
        let study = |more: &str| {
            let text = format!("formula = \"y ~ x\"\nfamily = \"gaussian\"\nsilos = [\"north\"]\n{more}");
            StudyFile::parse(&text).unwrap()
        };
        let averaged = study("contrasts = [\"x: 1 - 0 averaged\"]\n");
        let of = |study: &StudyFile, allow: &[&str]| {
            kept_averages(study, &allow.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let found = of(&averaged, &["formula", "few", "trust"]).unwrap();
        assert!(found.contains("no `average`, which `x: 1 - 0 averaged` of study.toml asks"), "{found}");
        assert_eq!(of(&averaged, &["formula", "few", "trust", "average"]), None);
        assert_eq!(of(&study(""), &["formula", "few"]), None);
    }
}
