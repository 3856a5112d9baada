//! Coordinates a study: lets silos agree, fits the model that follows, answers questions, and tells every silo the report.

use std::path::PathBuf;
use std::time::Duration;

use partita_core::Device;
use partita_flower::{Error, Flower, Log, Result};
use partita_inference::{
    AnswerDraws, Arrival, Ending, Exchange, HtmlOptions, Manifest, Message, PrivateRoundsOptions, Report, Request,
    latest_checkpoint,
};

use super::StudyFile;
use super::agree::{self, Announced, agree, announce, average, declined, fields, public_fields};
use super::declared_rows::RowsSaid;
use crate::executables::draws_file::{DRAWS, draws_of};
use crate::executables::questions::{Answers, PRIOR_PREDICTIVE, Questions, RowsAsked, RowsToPredict, write as put};
use crate::executables::{
    CONTENT, CoordinatorFile, Desk, Fitting, PAGE, Planned, RESULT, connect, fit_options, fit_over, leave,
    prior_beside, write,
};
use crate::formula::predict::globals;
use crate::formula::shared_model::SharedModel;
use crate::formula::{Agreed, Contrast, Contrasted, Plan, PriorPredictive, SiloTable, StudyError, Whose};
use crate::private::clipping::Clipped;
use crate::private::secure::SecureSums;

/// What a coordinator asks of a study beyond what its file asks.
#[derive(Debug, Clone, Default)]
pub struct StudyQuestions {
    /// Contrasts beside those of the study's file; averaged ones stand there, since silos answer them.
    pub contrasts: Vec<Contrast>,
    /// Files of the coordinator's own whose rows are predicted, as rows of a silo never seen.
    pub predict: Vec<PathBuf>,
    /// Draws so many data sets from the prior for the rows of these files, and fits nothing.
    pub prior_predictive: Option<u32>,
    /// Whether draws are written for ArviZ, without a row of a silo.
    pub arviz: bool,
}

/// What a study has found.
#[derive(Debug)]
pub enum StudyResult {
    /// A fit.
    Fitted {
        /// What was found.
        report: Box<Report>,
        /// The model, with the scales on which people read its coefficients.
        plan: Box<Plan>,
        /// What the posterior says of the contrasts.
        contrasts: Vec<Contrasted>,
    },
    /// Outcomes from the prior, where these were asked for.
    Prior(PriorPredictive),
}

/// Fits a study over its silos; writes the report, tells it to every silo, and writes the answers to the questions.
///
/// # Errors
/// Those of the files, the formula, the silos and the engine; [`Error::Inference`] for what silos cannot agree on, and for
/// questions that are not of the study, before the fit.
pub fn run_study_coordinator(study: &StudyFile, desk: Desk<'_>, asked: &StudyQuestions) -> Result<StudyResult> {
    let (run, base) = (study.run_file()?, study.settings());
    let run = Planned { file: &run, base: &base };
    let own = study.study(desk.file.read.clone())?;
    let fit = fit_options(run, &desk)?;
    let (mut exchange, _) = connect(run, &desk)?;
    let Desk { file, start, progress, log, .. } = desk;
    let is_resumed = start.resume && latest_checkpoint(&file.state)?.is_some();
    let mut fitted = || -> Result<_> {
        // A run that is resumed asks its silos nothing before the exchange is at the checkpoint: under the name of a new run
        // they would begin that, and refuse the old one as of the past.
        let announced = if is_resumed { Some(Announced::read(&file.state)?) } else { None };
        let (agreed, rows) = match (announced, &study.privacy) {
            (Some(Announced { agreed, rows }), _) => (agreed, Some(rows)),
            (None, Some(privacy)) => (privacy.agreed(&own)?, None),
            (None, None) => (agree(&own, &mut exchange)?, None),
        };
        for (silo, rows) in &agreed.agreement.silos {
            let rows = rows.map_or_else(|| "rows of a number that it keeps".to_owned(), |rows| format!("{rows} rows"));
            log(&format!("{silo} has {rows}"));
        }
        own.notes_on(&agreed.agreement, &agreed.summary).iter().for_each(|line| log(line));
        own.notes_of_groups().iter().for_each(|line| log(line));
        let plan = own.plan(&agreed.summary).map_err(declined)?;
        plan.priors.iter().for_each(|line| log(&format!("prior: {line}")));
        let (shared, device) = (SharedModel { study: &own, plan: &plan, agreement: &agreed.agreement }, Device::flex());
        let questions = questions(study, &shared, asked, &device).map_err(declined)?;
        if let Some(count) = asked.prior_predictive {
            let drawn = from_prior(&shared, questions, count, study.seed).map_err(declined)?;
            put(&file.output, PRIOR_PREDICTIVE, &drawn.csv()).map_err(declined)?;
            return Ok(StudyResult::Prior(drawn));
        }
        if let Some(privacy) = &study.privacy {
            log(&privacy.promise(&privacy.protected(&own), study.promised_sums(privacy)?)?);
        }
        let rows = match rows {
            Some(rows) => rows,
            None => {
                let told = Announced { rows: announce(&agreed, &mut exchange)?, agreed: agreed.clone() };
                // Where a run goes on, a silo with other rows refuses, and the others wait for it.
                compare_rows(&exchange, &agreed, &told.rows, study.privacy.is_none().then(|| own.protected()))?;
                told.write(&file.state)?;
                told.rows
            }
        };
        let how = Fitting { run: run.file, fit: &fit, rows: &rows, file, log };
        let (mut fitted, mut algorithm) = match study.privacy.as_ref().is_some_and(|own| own.secure_sums) {
            true => fit_over(&plan.model, how, &mut SecureSums::new(&mut exchange), progress),
            false => fit_over(&plan.model, how, &mut exchange, progress),
        }?;
        // Silos hear of no answer that is not finished: they wait for the coordinator to go on.
        if fitted.report.ending == Ending::Interrupted {
            return Err(Error::Interrupted { what: "the end of the fit".into() });
        }
        if let Some(privacy) = &study.privacy {
            fitted.report.protects(&privacy.protected(&own));
            let declared = &privacy.columns;
            let clipped = Clipped { shared, declared, fit: &fit, rows: rows.iter().sum() };
            if clipped.is_judged() {
                log("the steps are done; what clipping moves is judged on rows drawn from the answer");
            }
            clipped.tell_rows(&mut fitted.report, &device)?;
            clipped.judge(&mut fitted.report, &mut *algorithm, &device)?;
        }
        let prior = prior_beside(&fitted, || fitted.prior(&plan.model, &device), log);
        fitted.report.tell_priors(&plan.priors, &prior);
        fitted.manifest.fields.extend(match study.privacy {
            Some(_) => public_fields(),
            None => fields(),
        });
        let (title, effects) = (study.formula.clone(), plan.effects.clone());
        let mut page = HtmlOptions { title, effects, prior, ..HtmlOptions::default() };
        write(&fitted, &page, file)?;
        let draws = fitted.answer_draws(&plan.model, &*algorithm, &device)?;
        let answered = answer(&shared, questions, &draws, study.seed, &mut exchange);
        // The report was there before silos were asked.
        page.contrasts = answered.iter().flat_map(|own| own.contrasts.iter().map(Contrasted::shown)).collect();
        if !page.contrasts.is_empty() {
            write(&fitted, &page, file)?;
        }
        if let Err(error) = tell(file, &draws, &mut exchange, log) {
            log(&format!("the report was not told to every silo: {error}"));
        }
        // The draws are kept even if a silo does not answer a question.
        let (answers, unanswered) = match answered {
            Ok(answers) => (answers, None),
            Err(error) => (Answers::default(), Some(error)),
        };
        let mut written = answers.write(&draws, &file.output).map_err(declined)?;
        if asked.arviz {
            let path = file.output.join(DRAWS);
            fitted.write_arviz(&path, &plan.model, &*algorithm, &device, &draws_of(&[])).map_err(declined)?;
            written.push(DRAWS);
        }
        if let Some(error) = unanswered {
            return Err(declined(error).into());
        }
        log(&format!("{PAGE}, {RESULT}, {} are in {}", written.join(", "), file.output.display()));
        let (report, contrasts) = (Box::new(fitted.report), answers.contrasts);
        Ok(StudyResult::Fitted { report, plan: Box::new(plan), contrasts })
    };
    let found = fitted();
    leave(exchange, found, file, log)
}

/// Refuses silos that have another number of rows in the model than they said in their hellos. `unit` is what the model counts,
/// where a hello counts rows; the hello of a private study counts what its model does.
fn compare_rows(exchange: &Flower, agreed: &Agreed, seated: &[usize], unit: Option<String>) -> Result<()> {
    let counts_groups = unit.as_ref().is_some_and(|unit| unit != PrivateRoundsOptions::UNIT);
    for (place, ((silo, hello), seated)) in exchange.silos().iter().zip(exchange.rows()).zip(seated).enumerate() {
        let profile = agreed.agreement.silos.get(place).filter(|_| unit.is_some()).and_then(|(_, rows)| *rows);
        RowsSaid { silo, hello: *hello, profile, seated: *seated as u64 }.check(counts_groups)?;
    }
    Ok(())
}

/// All questions, those of the study's file first.
fn questions(
    study: &StudyFile,
    shared: &SharedModel<'_>,
    asked: &StudyQuestions,
    device: &Device,
) -> std::result::Result<Questions, StudyError> {
    if let Some(own) = asked.contrasts.iter().find(|own| own.is_averaged && !study.contrasts.contains(own)) {
        return Err(StudyError::Unfit {
            operation: "contrast",
            found: format!("`{}`, which silos average over their rows", own.text),
            expected: "it in study.toml, which all parties have".into(),
            remedy: format!("Write `contrasts = [\"{}\"]` there.", own.text),
        });
    }
    let others = asked.contrasts.iter().filter(|own| !study.contrasts.contains(own));
    let contrasts: Vec<Contrast> = study.contrasts.iter().chain(others).cloned().collect();
    let rows = |path: &PathBuf| RowsAsked {
        text: path.display().to_string(),
        table: SiloTable { name: "new".into(), path: path.clone() },
        whose: Whose::New,
    };
    if asked.prior_predictive.is_some() && asked.predict.is_empty() {
        return Err(StudyError::Unfit {
            operation: "draws from the prior",
            found: "no rows".into(),
            expected: "a file with the covariates of some rows: those of silos stay with them".into(),
            remedy: "Name it with `--predict`.".into(),
        });
    }
    Questions::of(shared, &contrasts, asked.predict.iter().map(rows).collect(), device)
}

/// Outcomes from the prior for the rows of the coordinator's files.
fn from_prior(
    shared: &SharedModel<'_>,
    questions: Questions,
    count: u32,
    seed: u64,
) -> std::result::Result<PriorPredictive, StudyError> {
    let rows = questions.predict.into_iter().map(|own| Ok((own.text, own.rows.into_rows()?)));
    let rows: Vec<_> = rows.collect::<std::result::Result<_, StudyError>>()?;
    shared.prior_predictive(&rows, count, seed, &Device::flex())
}

/// What the posterior says; silos are asked for averages.
fn answer(
    shared: &SharedModel<'_>,
    questions: Questions,
    draws: &AnswerDraws,
    seed: u64,
    exchange: &mut Flower,
) -> std::result::Result<Answers, StudyError> {
    let Questions { contrasts, predict } = questions;
    let (at, device) = (globals(draws), Device::flex());
    let mut silos = |contrast: &Contrast, globals: &[Vec<f64>]| {
        average(contrast, globals, shared.compared(), exchange).map_err(StudyError::Inference)
    };
    let contrasts = contrasts.into_iter().map(|own| shared.contrasted(own, draws, &device, &mut silos));
    let contrasts = contrasts.collect::<std::result::Result<Vec<Vec<Contrasted>>, _>>()?.concat();
    let predicted = predict
        .into_iter()
        .map(|RowsToPredict { text, rows, .. }| Ok((text, shared.predicted(&rows, None, &at, seed, &device)?)));
    Ok(Answers { contrasts, predicted: predicted.collect::<std::result::Result<_, StudyError>>()? })
}

/// How long a silo may take to say that it has the report.
const TOLD: Duration = Duration::from_secs(60);

/// Tells every silo what was found, with draws for what it may want to know of its own rows.
fn tell(file: &CoordinatorFile, draws: &AnswerDraws, exchange: &mut Flower, log: &Log) -> Result<()> {
    let text = |name: &str| {
        let path = file.output.join(name);
        std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))
    };
    let message = Message::new(agree::REPORT).setting("result", &text(RESULT)?).setting("content", &text(CONTENT)?);
    let message = message.floats("draws", &globals(draws).concat());
    let open = exchange.seal(agree::REPORT).join(", ");
    if !open.is_empty() {
        log(&format!(
            "the report is not sealed to {open}, which told no key: the engine's operator can read it. Name the coordinator in each silo's file"
        ));
    }
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
