//! Runs a party from its configuration file, for the models of the executables and for your own.

mod desk;
pub(crate) mod draws_file;
mod files;
mod lost_silo;
mod masks;
mod owners_limits;
pub(crate) mod questions;
pub(crate) mod spoken;
mod study;
mod vertical;

pub use desk::{Desk, Planned, Start, UnfinishedRun, Watch};
pub use files::{CoordinatorFile, NoiseOf, SiloFile, SiloSecure};
use masks::{behind, masking};
use owners_limits::limited;
use spoken::Spoken;
use study::write_privacy;
pub(crate) use study::{MOST_STEPS, problem};
pub use study::{
    ProtectedUnit, SiloPrivacy, Stay, StudyFile, StudyPrivacy, StudyQuestions, StudyResult, run_study_coordinator,
    run_study_silo,
};
pub use vertical::{run_label_holder, run_party};

use std::path::Path;
use std::sync::Arc;

use partita_core::{Device, Model};
use partita_flower::{
    CoordinatorOptions, Error, Flower, Keeper, Length, Limits, Log, PartyKey, PartyPublicKey, Program, Result, RunFile,
    SiloOptions, serve,
};
use partita_inference::{
    Algorithm, Counters, Exchange, FitOptions, Fitted, HtmlOptions, LocalLatents, LocalReport, PageContent, Progress,
    Report, SiloProgram, Warning, coordinator, evaluate, evaluating_silo, fit_asynchronous, fit_parties,
    latest_checkpoint, silo_program,
};
use serde::Serialize;

use crate::private::secure::{Departures, SecureSums};

/// Serves as a silo until it is stopped; `load` reads the silo's data.
///
/// # Errors
/// Those of the files, the data, the model and the engine.
pub fn run_silo<M: Model>(
    model: &M,
    run: Planned<'_>,
    file: &SiloFile,
    load: impl Fn(&Path, &Device) -> Result<M::Data>,
    watch: Watch<'_>,
) -> Result<()>
where
    M::Data: Clone + Send + 'static,
{
    let device = Device::flex();
    let fit = file.fit_options(run)?;
    let index = place(run.file, &file.name)?;
    file.check_for_rows()?;
    if let Some(path) = file.held_out.as_ref().filter(|_| run.file.secure_sums) {
        return Err(Error::Unwelcome {
            what: "rows never seen in training",
            found: format!("`held_out = \"{}\"` with `secure_sums`", path.display()),
            expected: "none: how probable a silo's rows are is its own number, and no sum behind masks".into(),
            remedy: "Take `held_out` out of the silo's file.",
        });
    }
    let masking = masking(&run.file.silos, file, run.file.secure_sums, Departures::Refused)?;
    file.check_outputs()?;
    run.file.check_allowed(&file.allow)?;
    let data = load(&file.data, &device)?;
    let held_out = file.held_out.as_ref().map(|path| load(path, &device)).transpose()?;
    let (program, rows) = silo_program(model, &run.file.silos, index, &data, &device, &fit)?;
    let locals = LocalLatents::of(&[program])?;
    for warning in Warning::of(&fit.algorithm, locals, run.file.silos.len()) {
        (watch.log)(&warning.to_string());
    }
    let own = (model.clone(), data.clone());
    let (model, names) = (model.clone(), run.file.silos.clone());
    let make = move || {
        let program = silo_program(&model, &names, index, &data, &device, &fit)?.0;
        let program: Box<dyn SiloProgram> = match &held_out {
            Some(rows) => Box::new(evaluating_silo(program, index, &model, rows, &device, &fit)?),
            None => program,
        };
        // Nothing answers outside of the masks.
        Ok(behind(program, masking.as_ref()))
    };
    let Watch { log, .. } = watch;
    let mut keeper = sit_down(run, file, rows, Box::new(make), watch)?;
    if let Some(path) = &file.own_rows {
        report_own_rows(&mut keeper, &own.0, &own.1, path, log)?;
    }
    match &file.own_checks {
        Some(path) => write_own_checks(keeper.silo()?, path, log),
        None => Ok(()),
    }
}

const NO_CHECKS: &str = "no predictive check was asked for: there is none to show of the silo's own rows";

/// Writes what predictive checks found in the silo, for its owner alone: JSON for a name that ends in `.json`, else HTML.
fn write_own_checks(silo: Option<&dyn SiloProgram>, path: &Path, log: &Log) -> Result<()> {
    let Some(own) = silo.and_then(SiloProgram::own_checks) else {
        log(NO_CHECKS);
        return Ok(());
    };
    if is_json(path) { own.write_json(path) } else { own.write_html(path) }?;
    log(&format!("predictive checks of the silo's own rows are in {}", path.display()));
    Ok(())
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Writes what the silo knows of its own rows, for its owner alone.
fn report_own_rows<M: Model>(keeper: &mut Keeper, model: &M, data: &M::Data, path: &Path, log: &Log) -> Result<()> {
    let Some(silo) = keeper.silo()? else {
        log("no request was answered: there is nothing to report of the silo's own rows");
        return Ok(());
    };
    write_local(&LocalReport::of(silo, model, data, &Device::flex())?, path)?;
    log(&format!("the report of the silo's own rows is in {}", path.display()));
    Ok(())
}

/// Writes a report of a silo's own rows: JSON for a name that ends in `.json`, else CSV.
fn write_local(report: &LocalReport, path: &Path) -> partita_inference::Result<()> {
    if is_json(path) { report.write_json(path) } else { report.write_csv(path) }
}

/// The index of a silo in the run.
fn place(run: &RunFile, name: &str) -> Result<u32> {
    match (0..).zip(&run.silos).find(|(_, known)| *known == name) {
        Some((index, _)) => Ok(index),
        None => Err(Error::Unwelcome {
            what: "this silo's name",
            found: format!("`{name}`"),
            expected: format!("one of {}, the silos of the run", run.silos.join(", ")),
            remedy: "Correct the name in the silo's file, or the silos in the run's.",
        }),
    }
}

/// Serves the program of `make` until it is stopped; its state then.
fn sit_down(run: Planned<'_>, file: &SiloFile, rows: usize, make: Program, watch: Watch<'_>) -> Result<Keeper> {
    let identity = run.file.identity(run.base)?;
    let make = limited(file.most_draws, file.least_held_out_rows, make);
    let mut keeper = Keeper::open(&file.state, make)?.at_most(file.requests_a_day);
    let SiloFile { name, engine, allow, .. } = file.clone();
    let (short, model) = (&identity[..12], &run.file.model);
    (watch.log)(&format!("silo `{name}` of a run of {model} `{short}` with {rows} rows"));
    let (rows, largest_request) = (rows as u64, file.largest_request.unwrap_or(Limits::default().bytes));
    let coordinator = file.coordinator.as_deref().map(PartyPublicKey::read).transpose()?;
    let signs = file.signs.as_deref().map(PartyKey::read).transpose()?;
    let entries = run.file.entries(run.base)?;
    let asks = run.file.listed().map(<[String]>::to_vec);
    let options =
        SiloOptions { name, engine, allow, asks, largest_request, identity, entries, rows, signs, coordinator };
    serve(&options, &mut keeper, watch.stop, watch.log)?;
    Ok(keeper)
}

/// Fits a model over the silos of a run; writes the report and returns it.
///
/// # Errors
/// Those of the files, the model, the silos and the engine; [`Error::Unwelcome`] for a run of days without
/// [`Start::long`].
pub fn run_coordinator<M: Model>(model: &M, run: Planned<'_>, desk: Desk<'_>) -> Result<Report> {
    let fit = fit_options(run, &desk)?;
    for warning in Warning::of(&fit.algorithm, LocalLatents::Unknown, run.file.silos.len()) {
        (desk.log)(&warning.to_string());
    }
    let (mut exchange, rows) = connect(run, &desk)?;
    let Desk { file, progress, log, .. } = desk;
    let how = Fitting { run: run.file, fit: &fit, rows: &rows, file, log };
    let found = match run.file.secure_sums {
        true => fit_over(model, how, &mut SecureSums::new(&mut exchange), progress),
        false => fit_over(model, how, &mut exchange, progress),
    };
    let found = found.and_then(|(fitted, _)| {
        let prior = prior_beside(&fitted, || fitted.prior(model, &Device::flex()), log);
        write(&fitted, &HtmlOptions { prior, ..HtmlOptions::default() }, file)?;
        Ok(fitted.report)
    });
    leave(exchange, found, file, log)
}

/// What a coordinator fits with.
#[derive(Clone, Copy)]
struct Fitting<'a> {
    run: &'a RunFile,
    fit: &'a FitOptions,
    /// Of each silo.
    rows: &'a [usize],
    file: &'a CoordinatorFile,
    log: &'a Log,
}

/// Fits a model over silos that are there, and evaluates it where the run asks for it; the coordinator too, which has the
/// posterior.
fn fit_over<M: Model>(
    model: &M,
    how: Fitting<'_>,
    exchange: &mut dyn Exchange,
    progress: &mut dyn Progress,
) -> Result<(Fitted, Box<dyn Algorithm>)> {
    let (device, Fitting { run, fit, rows, file, log }) = (Device::flex(), how);
    let mut algorithm = coordinator(model, &run.silos, rows, &device, fit)?;
    let mut spoken = Spoken::new(progress, log);
    let fitted = match run.is_asynchronous() {
        true => fit_asynchronous(model, &device, fit, &mut *algorithm, exchange, Some(&mut spoken)),
        false => fit_parties(model, &device, fit, &mut *algorithm, exchange, Some(&mut spoken)),
    }?;
    if run.held_out_draws > 0 {
        let (draws, seed) = (run.held_out_draws, fit.settings.seed);
        match evaluate(&*algorithm, exchange, draws, seed, fit.deadline, &mut Counters::default()) {
            Ok(evaluation) => {
                log(&format!("{:.4} nats a row never seen in training", evaluation.mean()));
                write_json(&file.output.join("evaluation.json"), &evaluation)?;
            }
            // The fit is kept even if its evaluation fails.
            Err(error) => log(&format!("rows never seen in training were not evaluated: {error}")),
        }
    }
    Ok((fitted, algorithm))
}

/// Draws of every number from its prior: site, label, draws.
type PriorDraws = Vec<(String, String, Vec<f64>)>;

/// What `prior` draws, for the page of a fit whose numbers were summarised.
fn prior_beside(
    fitted: &Fitted,
    prior: impl FnOnce() -> partita_inference::Result<PriorDraws>,
    log: &Log,
) -> PriorDraws {
    let prior = if fitted.draws.is_empty() { Ok(Vec::new()) } else { prior() };
    prior.unwrap_or_else(|error| {
        log(&format!("the page has no prior beside the posterior: {error}"));
        Vec::new()
    })
}

/// The options of the run file, with a checkpoint after every round.
fn fit_options(run: Planned<'_>, desk: &Desk<'_>) -> Result<FitOptions> {
    let fit = run.file.fit_options(run.base)?;
    let (checkpoint, algorithm) = (Some((desk.file.state.clone(), 1)), desk.file.algorithm(fit.algorithm)?);
    let (resume, interrupt) = (desk.start.resume, Some(Arc::clone(&desk.interrupt)));
    Ok(FitOptions { algorithm, checkpoint, resume, interrupt, ..fit })
}

/// The silos of the run, once all are present, and the number of rows that each reports.
fn connect(run: Planned<'_>, desk: &Desk<'_>) -> Result<(Flower, Vec<usize>)> {
    let Desk { file, start, log, .. } = desk;
    let length = Length { rounds: run.file.exchanges(), round_seconds: file.round_seconds };
    if let Some(warning) = length.check(start.long)? {
        log(&warning);
    }
    if start.resume {
        if let Some((folder, _)) = latest_checkpoint(&file.state)? {
            Flower::end_former_run(&file.engine, &folder)?;
        }
    } else if start.unfinished == UnfinishedRun::Kept {
        refuse_to_replace(&file.state)?;
    }
    let entries = run.file.entries(run.base)?;
    let asks = run.file.listed().map(<[String]>::to_vec);
    let options = CoordinatorOptions { entries, asks, ..file.options(&run.file.silos, &desk.interrupt)? };
    let exchange = Flower::connect_with(options, &run.file.identity(run.base)?, Arc::clone(log))?;
    let rows: Vec<usize> = exchange.rows().iter().map(|rows| usize::try_from(*rows).unwrap_or(usize::MAX)).collect();
    let described = exchange.silos().iter().zip(&rows).map(|(name, rows)| match rows {
        0 => format!("{name} (not yet, or without rows)"),
        rows => format!("{name} ({rows} rows)"),
    });
    log(&format!("the silos are there: {}", described.collect::<Vec<_>>().join(", ")));
    Ok((exchange, rows))
}

/// Refuses a folder with the checkpoint of a run that has not ended: the next checkpoint would replace it.
fn refuse_to_replace(state: &Path) -> Result<()> {
    match latest_checkpoint(state)? {
        Some((folder, _)) if !Flower::is_over(&folder)? => Err(Error::Unwelcome {
            what: "the state of this coordinator",
            found: format!("a run that has not ended in {}", folder.display()),
            expected: "an empty folder, or a run that has ended".into(),
            remedy: "Go on with that run by `--resume`, give it up by `--restart`, or name another folder as `state`.",
        }),
        _ => Ok(()),
    }
}

/// Writes the report and its page.
fn write(fitted: &Fitted, page: &HtmlOptions, file: &CoordinatorFile) -> Result<()> {
    write_report(&fitted.report, &fitted.page(page), &file.output)?;
    Ok(())
}

/// Writes a report, its page and what it promises into a folder; the names of the files that people look for.
pub(crate) fn write_report(
    report: &Report,
    page: &PageContent,
    folder: &Path,
) -> partita_inference::Result<Vec<&'static str>> {
    page.write_html(report, &folder.join(PAGE))?;
    report.write_json(&folder.join(RESULT))?;
    page.write_json(&folder.join(CONTENT))?;
    let promised = write_privacy(report, folder)?;
    Ok([PAGE, RESULT].into_iter().chain(promised).collect())
}

/// Whether what an earlier fit wrote is gone.
pub(crate) fn removed(path: &Path, done: std::io::Result<()>) -> partita_inference::Result<()> {
    match done {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(partita_inference::Error::File {
            operation: "removing a result of an earlier fit",
            path: path.to_owned(),
            reason: error.to_string(),
        }),
        _ => Ok(()),
    }
}

/// The files of a report.
pub(crate) const RESULT: &str = "result.json";
pub(crate) const PAGE: &str = "report.html";
/// What the page shows beside the report.
pub(crate) const CONTENT: &str = "page.json";

/// Ends a run on the engine, and writes the history.
fn leave<T>(exchange: Flower, found: Result<T>, file: &CoordinatorFile, log: &Log) -> Result<T> {
    let (history, [sent, received]) = (exchange.history().to_vec(), exchange.bytes());
    let ended = exchange.end(found.as_ref().err().map(|_| "the coordinator's log says more"));
    // The history is written after a failure too: it shows which silos were missing.
    let kept = write_json(&file.output.join("history.json"), &history);
    if let Err(error) = ended {
        log(&format!("the engine was not told that the run ended: {error}"));
    }
    let found = found?;
    kept?;
    log(&format!(
        "{sent} bytes of requests and {received} bytes of answers crossed the wire; {} events",
        history.len()
    ));
    Ok(found)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value).map_err(|error| Error::file(path, error))?;
    Ok(partita_inference::write_atomically(path, &bytes)?)
}
