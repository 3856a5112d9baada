//! Runs a party or the label holder of a vertical model from its configuration file.

use std::path::{Path, PathBuf};

use partita_core::Device;
use partita_core::vertical::{Labels, Party};
use partita_flower::{Error, Result, RunFile};
use partita_inference::vertical::{
    PredictedModel, Prediction, Predictive, coordinator, fit_parties, party_program, predict, prior,
};
use partita_inference::{
    AlgorithmChoice, Counters, Exchange, FitOptions, HtmlOptions, Message, Report, SiloProgram, VerticalOptions,
    VerticalParty, write_atomically,
};
use serde_json::json;

use super::masks::{behind, masking};
use super::{
    Desk, Planned, SiloFile, Watch, connect, fit_options, leave, place, prior_beside, sit_down, write, write_json,
};

use crate::private::secure::{Departures, SecureSums};

/// Draws for a party's summary.
const SUMMARY_DRAWS: u32 = 4_000;

/// The request of a report, at the end of a run.
const ESTIMATE_ELBO: &str = "vertical.estimate_elbo";

/// Serves as a party of a vertical model until it is stopped. `load` reads the columns of a file as a party of this
/// name, and `load_labels` the labels if the algorithm needs them at every party. When a run ends, the party's own
/// posterior is in `own.json` of its state folder: no message carries it.
///
/// # Errors
/// Those of the files, the columns and the engine; [`Error::File`] for labels that are needed and not named.
pub fn run_party(
    run: Planned<'_>,
    file: &SiloFile,
    load: impl Fn(&Path, &str, &Device) -> Result<Party>,
    load_labels: impl Fn(&Path, &Device) -> Result<Labels>,
    watch: Watch<'_>,
) -> Result<()> {
    let device = Device::flex();
    let fit = file.fit_options(run)?;
    let index = place(run.file, &file.name)?;
    file.check_for_rows()?;
    run.file.check_allowed(&file.allow)?;
    let masking = masking(&run.file.silos, file, run.file.secure_sums, Departures::Refused)?;
    let own_files = [("own_rows", &file.own_rows), ("own_checks", &file.own_checks)];
    if let Some((entry, path)) = own_files.into_iter().find_map(|(entry, path)| Some((entry, path.as_ref()?))) {
        return Err(Error::Unwelcome {
            what: "a report of own rows",
            found: format!("`{entry} = \"{}\"`", path.display()),
            expected: "none: it is written by silos that hold rows".into(),
            remedy: "Leave it out of the silo's file; its own results are in `own.json` of its state folder.",
        });
    }
    let party = load(&file.data, &file.name, &device)?;
    let labels = match (&file.labels, chosen(&fit)?.shares_labels()) {
        (Some(path), true) => Some(load_labels(path, &device)?),
        (None, true) => return Err(unnamed("the silo's file")),
        (_, false) => None,
    };
    let held_out = file.held_out.as_ref().map(|path| load(path, &file.name, &device)).transpose()?;
    let (rows, path) = (party.rows(), file.state.join("own.json"));
    let make = move || {
        let mut own = party_program(&party, index, labels.as_ref(), &device, &fit)?;
        if let Some(rows) = &held_out {
            own.hold_out(rows.clone());
        }
        Ok(behind(Box::new(Recording { own, path: path.clone() }), masking.as_ref()))
    };
    sit_down(run, file, rows, Box::new(make), watch).map(drop)
}

/// Fits a vertical model over the parties of a run; writes the report and returns it. `load` reads the labels, and
/// those of rows to predict if the coordinator's file names any: `prediction.json` then has their means and log
/// densities.
///
/// # Errors
/// Those of the files, the head, the parties and the engine; [`Error::Unwelcome`] for a run of days without
/// [`super::Start::long`].
pub fn run_label_holder(
    run: Planned<'_>,
    desk: Desk<'_>,
    load: impl Fn(&Path, &Device) -> Result<Labels>,
) -> Result<Report> {
    let device = Device::flex();
    let fit = fit_options(run, &desk)?;
    let how = chosen(&fit)?;
    let labels = match &desk.file.labels {
        Some(path) => load(path, &device)?,
        None => return Err(unnamed("the coordinator's file")),
    };
    let held_out = desk.file.held_out.as_ref().map(|path| load(path, &device)).transpose()?;
    let (mut exchange, rows) = connect(run, &desk)?;
    let (run, Desk { file, progress, log, .. }) = (run.file, desk);
    let mut fit_over = |exchange: &mut dyn Exchange| -> Result<_> {
        same_rows(run, &rows, &labels)?;
        let mut algorithm = coordinator(&labels, &run.silos, &device, &fit)?;
        let fitted = fit_parties(&labels, &device, &fit, &mut *algorithm, exchange, Some(progress))?;
        if let Some(labels) = held_out.as_ref().filter(|_| run.held_out_draws > 0) {
            let model = if how.augmentation.rho() > 0.0 { PredictedModel::Augmented } else { PredictedModel::Declared };
            let (draws, seed, deadline) = (run.held_out_draws, fit.settings.seed, fit.deadline);
            let ask = Predictive { draws, model, seed, deadline };
            match predict(labels, &device, &*algorithm, exchange, ask, &mut Counters::default()) {
                Ok(Prediction { mean, log_density }) => {
                    let found = json!({"mean": mean.values, "shape": mean.shape, "log_density": log_density});
                    write_json(&file.output.join("prediction.json"), &found)?;
                }
                // The fit is kept even if the prediction fails.
                Err(error) => log(&format!("the rows of `held_out` were not predicted: {error}")),
            }
        }
        Ok(fitted)
    };
    let found = match run.secure_sums {
        true => fit_over(&mut SecureSums::new(&mut exchange)),
        false => fit_over(&mut exchange),
    };
    let found = found.and_then(|fitted| {
        let prior = prior_beside(&fitted, || prior(&labels, &device, fitted.report.seed), log);
        write(&fitted, &HtmlOptions { prior, ..HtmlOptions::default() }, file)?;
        Ok(fitted.report)
    });
    leave(exchange, found, file, log)
}

fn chosen(fit: &FitOptions) -> Result<VerticalOptions> {
    match &fit.algorithm {
        AlgorithmChoice::Vertical(how) => Ok(*how),
        other => Err(Error::Unwelcome {
            what: "the algorithm of a model with columns at different parties",
            found: format!("{other:?}"),
            expected: "`vertical`".into(),
            remedy: "Correct `algorithm` in the run file.",
        }),
    }
}

fn same_rows(run: &RunFile, rows: &[usize], labels: &Labels) -> Result<()> {
    match run.silos.iter().zip(rows).find(|(_, rows)| **rows != labels.rows()) {
        None => Ok(()),
        Some((name, rows)) => Err(Error::Unwelcome {
            what: "the rows of the parties",
            found: format!("{rows} at `{name}`"),
            expected: format!("the {} of the labels", labels.rows()),
            remedy: "Align the tables by a shared key first.",
        }),
    }
}

fn unnamed(file: &str) -> Error {
    Error::Unwelcome {
        what: "the labels of a vertical model",
        found: format!("no entry `labels` in {file}"),
        expected: "a table with a column `label`".into(),
        remedy: "Name it: this algorithm needs the labels here.",
    }
}

/// A party that writes its own posterior for its owner whenever the bound is requested.
struct Recording {
    own: VerticalParty,
    path: PathBuf,
}

impl SiloProgram for Recording {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&self.own)
    }

    fn answer(&mut self, request: &Message) -> partita_inference::Result<Message> {
        let reply = self.own.answer(request)?;
        if request.kind == ESTIMATE_ELBO {
            let sites = self.own.summary(SUMMARY_DRAWS)?;
            let own = json!({"sites": sites, "theta": self.own.private_theta()});
            write_atomically(&self.path, format!("{own:#}").as_bytes())?;
        }
        Ok(reply)
    }
}
