//! Answers for a silo of a study: what its rows are like, then, once the model is known, the requests of the fit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use partita_core::{Device, SiteTable};
use partita_inference::{
    Error, FitOptions, LocalReport, Manifest, Message, OwnChecks, PageContent, Report, Result, SiloProgram, caught,
    evaluating_silo, silo_program, write_atomically,
};
use partita_models::regression::RegressionRows;

use super::agree::{self, declined, get, put, said};
use super::privacy::PrivateSeat;
use super::saved_rows::SavedRows;
use crate::executables::owners_limits::check_draws;
use crate::executables::{CONTENT, PAGE, RESULT, SiloFile, is_json, removed, write_local};
use crate::formula::contrast::AveragedRows;
use crate::formula::predict::KnownSilo;
use crate::formula::prepare::RowPlaces;
use crate::formula::shared_model::SharedModel;
use crate::formula::{
    Agreed, Agreement, Columns, Contrast, DesignSummary, Plan, Prediction, Profile, Study, StudyError,
};

/// Who a silo of a study is, and what it has.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) study: Study,
    pub(super) fit: FitOptions,
    /// All silos of the study.
    pub(super) silos: Vec<String>,
    pub(super) index: u32,
    pub(super) columns: Columns,
    /// Rows never seen in training.
    pub(super) held_out: Option<Columns>,
    /// What it says of its rows, less what its owner refuses.
    pub(super) profile: Profile,
    /// The folder of the report that it is told.
    pub(super) output: PathBuf,
    /// The owner's file.
    pub(super) file: SiloFile,
    /// The contrasts of the study.
    pub(super) contrasts: Vec<Contrast>,
    /// Is set once the report is written.
    pub(super) reported: Arc<AtomicBool>,
    /// Why files of the owner's own were not written at the last report.
    pub(super) unwritten: Arc<Mutex<Option<Error>>>,
    /// Is set with it, where the silo ends by itself.
    pub(super) then_stops: Option<Arc<AtomicBool>>,
    /// What is promised and allowed about single rows.
    pub(super) private: Option<PrivateSeat>,
}

/// A silo of a study.
pub(super) struct StudySilo {
    seat: Seat,
    device: Device,
    /// Once the model is known.
    seated: Option<Seated>,
}

/// A silo whose model is known.
struct Seated {
    agreed: Agreed,
    plan: Plan,
    rows: RegressionRows,
    places: RowPlaces,
    count: usize,
    /// What its state is of.
    saved: SavedRows,
    program: Box<dyn SiloProgram>,
}

impl StudySilo {
    pub(super) fn new(seat: Seat) -> Self {
        Self { seat, device: Device::flex(), seated: None }
    }

    /// Refuses what would say something of single rows, where these are private.
    fn is_open(&self) -> Result<()> {
        match &self.seat.private {
            None => Ok(()),
            Some(_) => Err(Error::Declined {
                problem: "this study is private: all that the model needs of the columns stands in study.toml, and silos answer with noised sums alone"
                    .into(),
            }),
        }
    }

    fn design(&self, request: &Message) -> Result<Message> {
        self.is_open()?;
        let agreement: Agreement = said(request, "agreement")?;
        let design = self.seat.study.design(&self.seat.columns, &agreement).map_err(declined)?;
        put(Message::new("formula.designed"), "design", &DesignSummary::of(&design).less(&self.seat.profile.refused))
    }

    fn model(&mut self, request: &Message) -> Result<Message> {
        // What the coordinator says of it decides on nothing where the study has it all.
        let agreed = match &self.seat.private {
            Some(private) => private.agreed.clone(),
            None => said(request, "agreed")?,
        };
        let count = match &self.seated {
            Some(own) if own.agreed == agreed => own.count,
            _ => {
                let own = self.seat(agreed)?;
                self.seated.insert(own).count
            }
        };
        Ok(Message::new("formula.seated").word("rows", count as u64))
    }

    /// The silo of the model that was agreed on.
    fn seat(&self, agreed: Agreed) -> Result<Seated> {
        let Seat { study, fit, silos, index, columns, held_out, private, .. } = &self.seat;
        let plan = study.plan(&agreed.summary).map_err(declined)?;
        let rows_of = |columns: &Columns| -> std::result::Result<_, StudyError> {
            let design = match private {
                Some(_) => study.declared_design(columns, &agreed.agreement)?,
                None => study.design(columns, &agreed.agreement)?,
            };
            let rows = study.rows(&design, &plan, &self.device)?;
            Ok((rows, RowPlaces::of(design)))
        };
        let (rows, places) = rows_of(columns).map_err(declined)?;
        let held_out = held_out.as_ref().map(rows_of).transpose().map_err(declined)?;
        let model = plan.model.clone();
        let (program, count) = match private {
            Some(private) => private.silo((self.name(), *index), &model, &rows, &self.device, fit)?,
            None => silo_program(&model, silos, *index, &rows, &self.device, fit)?,
        };
        let program: Box<dyn SiloProgram> = match &held_out {
            Some((held_out, _)) => Box::new(evaluating_silo(program, *index, &model, held_out, &self.device, fit)?),
            None => program,
        };
        let saved = SavedRows::of(columns);
        Ok(Seated { agreed, plan, rows, places, count, saved, program })
    }

    /// The draws of the globals that a message tells.
    fn draws(own: &Seated, request: &Message, device: &Device) -> Result<Vec<Vec<f64>>> {
        let (width, all) = (SiteTable::globals(&own.plan.model, device)?.global_len(), request.get_floats("draws")?);
        if width == 0 || all.is_empty() || all.len() % width != 0 {
            let problem = format!("`draws` has {} numbers, expected some of {width} each", all.len());
            return Err(Error::Message { kind: request.kind.clone(), problem });
        }
        Ok(all.chunks(width).map(<[f64]>::to_vec).collect())
    }

    /// What an averaged contrast of the study is over the rows.
    fn average(&self, request: &Message) -> Result<Message> {
        self.is_open()?;
        let Some(own) = &self.seated else { return Err(early(request)) };
        let text = request.get_setting("contrast")?;
        let Some(contrast) = self.seat.contrasts.iter().find(|own| own.is_averaged && own.text == text) else {
            let problem = format!("`{text}` is no averaged contrast of study.toml. Write it into `contrasts` there");
            return Err(Error::Declined { problem });
        };
        let of = AveragedRows { columns: &self.seat.columns, place: self.seat.index.into() };
        let draws = Self::draws(own, request, &self.device)?;
        check_draws(self.seat.file.most_draws, &request.kind, draws.len() as u64)?;
        let found = self.shared(own).averaged(contrast, of, &draws, &self.device).map_err(declined)?;
        let sums = found.sums.concat();
        Ok(Message::new("average.contrasted").floats("differences", &sums).floats("weight", &[found.weight]))
    }

    fn shared<'a>(&'a self, own: &'a Seated) -> SharedModel<'a> {
        SharedModel { study: &self.seat.study, plan: &own.plan, agreement: &own.agreed.agreement }
    }

    /// Writes what is expected of the silo's own rows, at the draws of the report.
    fn write_fitted(&self, own: &Seated, request: &Message, path: &Path) -> Result<()> {
        let draws = Self::draws(own, request, &self.device)?;
        let moments = own.program.local_moments()?;
        let silo = KnownSilo { rows: &own.rows, places: &own.places, moments, place: self.seat.index as usize };
        let seed = self.seat.fit.settings.seed;
        let found = self.shared(own).fitted(silo, &draws, seed, &self.device).map_err(declined)?;
        write_atomically(path, Prediction::csv(&[(self.name().to_owned(), found)]).as_bytes())
    }

    /// Writes what was found, for the owner.
    fn report(&self, request: &Message) -> Result<Message> {
        let Some(own) = &self.seated else { return Err(early(request)) };
        for (setting, file) in [("result", RESULT), ("content", CONTENT)] {
            write_atomically(&self.seat.output.join(file), request.get_setting(setting)?.as_bytes())?;
        }
        // What follows is the owner's alone: whatever becomes of it, the silo has the report.
        self.seat.reported.store(true, Ordering::Relaxed);
        if let Some(stop) = &self.seat.then_stops {
            stop.store(true, Ordering::Relaxed);
        }
        // A report that contradicts itself must neither keep the owner's own files from being written, nor hide that one is not.
        let page = caught(self.name(), || self.write_page(request)).map_err(of_page);
        let error = self.write_own(own, request).err().or(page.err());
        let answer = match &error {
            None => Ok(Message::new("formula.reported")),
            Some(error) => Err(Error::Declined { problem: error.to_string() }),
        };
        *self.seat.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = error;
        answer
    }

    /// Makes the page of what was found. It is made here, so that no markup of another party is on it: all that others say is text.
    fn write_page(&self, request: &Message) -> Result<()> {
        let path = self.seat.output.join(PAGE);
        removed(&path, std::fs::remove_file(&path))?;
        let (report, content): (Report, PageContent) = (get(request, "result")?, get(request, "content")?);
        content.write_html(&report, &path)
    }

    /// Writes what is for the owner alone.
    fn write_own(&self, own: &Seated, request: &Message) -> Result<()> {
        let Seat { private, output, file: SiloFile { own_rows, own_checks, fitted, .. }, .. } = &self.seat;
        if let Some(private) = private {
            private.write_spent(output)?;
        }
        if let Some(path) = own_rows {
            write_local(&LocalReport::of(&*own.program, &own.plan.model, &own.rows, &self.device)?, path)?;
        }
        if let (Some(path), Some(checks)) = (own_checks, own.program.own_checks()) {
            if is_json(path) { checks.write_json(path) } else { checks.write_html(path) }?;
        }
        if let Some(path) = fitted {
            self.write_fitted(own, request, path)?;
        }
        Ok(())
    }

    fn save(&mut self, request: &Message) -> Result<Message> {
        match &mut self.seated {
            Some(own) => {
                let saved = own.program.answer(request)?;
                let folder = request.get_setting("folder")?;
                own.agreed.write(folder.as_ref())?;
                own.saved.write(folder.as_ref())?;
                if let Some(private) = &self.seat.private {
                    private.mark()?;
                }
                Ok(saved)
            }
            // Before the model is known there is nothing to keep.
            None => Ok(Message::new("silo.saved")),
        }
    }

    fn restore(&mut self, request: &Message) -> Result<Message> {
        self.seated = None;
        let folder = request.get_setting("folder")?;
        let Some(agreed) = Agreed::read(folder.as_ref())? else {
            return Ok(Message::new("silo.restored"));
        };
        let mut own = self.seat(agreed)?;
        own.saved.check(folder.as_ref())?;
        let restored = own.program.answer(request)?;
        self.seated = Some(own);
        Ok(restored)
    }
}

/// What kept a page from being made.
fn of_page(error: Error) -> Error {
    match error {
        Error::Panicked { reason, .. } => Error::Declined {
            problem: format!(
                "the report that the coordinator has told contradicts itself ({reason}): it has no page. Ask the coordinator's owner for it"
            ),
        },
        other => other,
    }
}

fn early(request: &Message) -> Error {
    let problem = "it came before the silo knew the model of the study".into();
    Error::Message { kind: request.kind.clone(), problem }
}

impl SiloProgram for StudySilo {
    fn name(&self) -> &str {
        &self.seat.silos[self.seat.index as usize]
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.seated.as_ref().map_or_else(|| Ok(Vec::new()), |own| own.program.local_moments())
    }

    fn own_checks(&self) -> Option<OwnChecks> {
        self.seated.as_ref().and_then(|own| own.program.own_checks())
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let answer = match request.kind.as_str() {
            agree::PROFILE => {
                self.is_open()?;
                put(Message::new("formula.profiled"), "profile", &self.seat.profile)
            }
            agree::DESIGN => self.design(request),
            agree::MODEL => self.model(request),
            agree::AVERAGE => self.average(request),
            agree::REPORT => self.report(request),
            "silo.save" => return self.save(request),
            "silo.restore" => return self.restore(request),
            // What the program answers, it has held to its own manifest.
            _ => match &mut self.seated {
                Some(own) => return own.program.answer(request),
                None => return Err(early(request)),
            },
        }?;
        let fields = match &self.seat.private {
            Some(_) => agree::public_fields(),
            None => agree::fields(),
        };
        Manifest { fields }.check(self.name(), &answer)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
