//! Coordinates a study: lets silos agree, fits the model that follows, and tells every silo what was found.

use std::time::Duration;

use partita_flower::{Error, Flower, Log, Result};
use partita_inference::{Arrival, Exchange, HtmlOptions, Manifest, Message, Report, Request, latest_checkpoint};

use super::StudyFile;
use super::agree::{self, Agreed, agree, announce, declined, fields};
use crate::executables::{
    CoordinatorFile, Desk, Fitting, PAGE, Planned, RESULT, beside_prior, connect, fit_options, fit_over, leave, write,
};
use crate::formula::{Plan, ReadOptions};

/// What a study has found.
#[derive(Debug)]
pub struct StudyResult {
    /// What was found.
    pub report: Report,
    /// The model, with the scales on which people read its coefficients.
    pub plan: Plan,
}

/// Fits a study over its silos; writes the report and tells it to every silo.
///
/// # Errors
/// Those of the files, the formula, the silos and the engine; [`Error::Inference`] for what silos cannot agree on.
pub fn run_study_coordinator(study: &StudyFile, desk: Desk<'_>) -> Result<StudyResult> {
    let (run, base) = (study.run_file()?, study.settings());
    let run = Planned { file: &run, base: &base };
    let own = study.study(ReadOptions::default())?;
    let fit = fit_options(run, &desk)?;
    let (mut exchange, _) = connect(run, &desk)?;
    let Desk { file, start, progress, log, .. } = desk;
    let is_resumed = start.resume && latest_checkpoint(&file.state)?.is_some();
    let agreed = if is_resumed { Agreed::read(&file.state)? } else { None };
    let fitted = || -> Result<_> {
        let agreed = match agreed {
            Some(agreed) => agreed,
            None => {
                let agreed = agree(&own, &mut exchange)?;
                agreed.write(&file.state)?;
                agreed
            }
        };
        for (silo, rows) in &agreed.agreement.silos {
            let rows = rows.map_or_else(|| "rows of a number that it keeps".to_owned(), |rows| format!("{rows} rows"));
            log(&format!("{silo} has {rows}"));
        }
        let plan = own.plan(&agreed.summary).map_err(|error| declined(&error))?;
        plan.priors.iter().for_each(|line| log(&format!("prior: {line}")));
        let rows = announce(&agreed, &mut exchange)?;
        let how = Fitting { run: run.file, fit: &fit, rows: &rows, file, log };
        let mut fitted = fit_over(&plan.model, how, &mut exchange, progress)?;
        fitted.manifest.fields.extend(fields());
        let (title, effects) = (study.formula.clone(), plan.effects.clone());
        let page = HtmlOptions { title, effects, ..HtmlOptions::default() };
        write(&fitted, &beside_prior(&fitted, &plan.model, page, log), file)?;
        if let Err(error) = tell(file, &mut exchange, log) {
            log(&format!("the report was not told to every silo: {error}"));
        }
        Ok(StudyResult { report: fitted.report, plan })
    };
    let found = fitted();
    leave(exchange, found, file, log)
}

/// How long a silo may take to say that it has the report.
const TOLD: Duration = Duration::from_secs(60);

/// Tells every silo what was found.
fn tell(file: &CoordinatorFile, exchange: &mut Flower, log: &Log) -> Result<()> {
    let text = |name: &str| {
        let path = file.output.join(name);
        std::fs::read_to_string(&path).map_err(|error| Error::File { path, problem: error.to_string() })
    };
    let message = Message::new(agree::REPORT).setting("page", &text(PAGE)?).setting("result", &text(RESULT)?);
    let (names, manifest) = (exchange.silos().to_vec(), Manifest { fields: fields() });
    exchange.send(Request::to_all(names.len(), &message), Some(TOLD))?;
    let mut missing: Vec<usize> = (0..names.len()).collect();
    for _ in 0..names.len() {
        // A silo that is gone does not hold up the end of the run.
        let Some(Arrival { silo, outcome }) = exchange.receive(&manifest, Some(TOLD))? else { break };
        if outcome.reply(&names[silo], 0).is_ok() {
            missing.retain(|own| *own != silo);
        }
    }
    for silo in missing {
        log(&format!("{} has not said that it has the report", names[silo]));
    }
    Ok(())
}
