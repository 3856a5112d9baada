//! Holds the questions of a user to a posterior, which are found to be answerable before the fit, and writes the answers.

use std::path::Path;

use partita_core::Device;
use partita_inference::{AnswerDraws, write_atomically};

use super::draws_file::DRAWS;
use super::removed;
use crate::formula::contrast::Comparison;
use crate::formula::csv::{cells, quoted};
use crate::formula::shared_model::{OutcomeFree, SharedModel};
use crate::formula::{Contrast, Contrasted, Prediction, SiloTable, StudyError, Whose};

/// Rows to predict.
#[derive(Debug, Clone)]
pub(crate) struct RowsAsked {
    /// As the user named them.
    pub(crate) text: String,
    pub(crate) table: SiloTable,
    pub(crate) whose: Whose,
}

/// Questions that the study can answer.
#[derive(Debug)]
pub(crate) struct Questions {
    pub(crate) contrasts: Vec<Comparison>,
    pub(crate) predict: Vec<RowsToPredict>,
}

/// Rows as the model reads them.
#[derive(Debug)]
pub(crate) struct RowsToPredict {
    pub(crate) text: String,
    pub(crate) rows: OutcomeFree,
    pub(crate) whose: Whose,
}

impl Questions {
    /// Finds what the questions are of, so that a mistake in one ends nothing but the question.
    pub(crate) fn of(
        shared: &SharedModel<'_>,
        contrasts: &[Contrast],
        predict: Vec<RowsAsked>,
        device: &Device,
    ) -> Result<Self, StudyError> {
        let rows =
            |RowsAsked { text, table, whose }| Ok(RowsToPredict { rows: shared.rows_of(&table, device)?, text, whose });
        Ok(Self {
            contrasts: contrasts.iter().map(|own| shared.comparison(own, device)).collect::<Result<_, _>>()?,
            predict: predict.into_iter().map(rows).collect::<Result<_, StudyError>>()?,
        })
    }
}

/// What is answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    pub(crate) contrasts: Vec<Contrasted>,
    pub(crate) predicted: Vec<(String, Prediction)>,
}

/// The files of answers.
pub(crate) const FITTED: &str = "fitted.csv";
pub(crate) const PRIOR_PREDICTIVE: &str = "prior_predictive.csv";
const POSTERIOR: &str = "posterior.csv";
const CONTRASTS: &str = "contrasts.csv";
const PREDICTED: &str = "predicted.csv";

impl Answers {
    /// Writes them beside the draws that they were made of, and takes the answers of an earlier fit out of the folder; the names
    /// of the files.
    pub(crate) fn write(&self, draws: &AnswerDraws, folder: &Path) -> Result<Vec<&'static str>, StudyError> {
        let mut all = vec![(POSTERIOR, posterior(draws))];
        if !self.contrasts.is_empty() {
            all.push((CONTRASTS, Contrasted::csv(&self.contrasts)));
        }
        if !self.predicted.is_empty() {
            all.push((PREDICTED, Prediction::csv(&self.predicted)));
        }
        let earlier = [CONTRASTS, PREDICTED, FITTED].into_iter();
        earlier.filter(|name| all.iter().all(|(own, _)| own != name)).try_for_each(|name| {
            let path = folder.join(name);
            removed(&path, std::fs::remove_file(&path)).map_err(StudyError::Inference)
        })?;
        let path = folder.join(DRAWS);
        removed(&path, std::fs::remove_dir_all(&path)).map_err(StudyError::Inference)?;
        all.into_iter().map(|(name, text)| write(folder, name, &text).map(|()| name)).collect()
    }
}

/// Writes a text into a folder.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> Result<(), StudyError> {
    write_atomically(&folder.join(name), text.as_bytes()).map_err(StudyError::Inference)
}

/// Draws of the answer, one a line.
fn posterior(draws: &AnswerDraws) -> String {
    let all = &draws.natural;
    let header: Vec<String> = all.iter().map(|(_, label, _)| quoted(label)).collect();
    let line = |draw: usize| cells(all.iter().map(|(_, _, own)| own[draw]));
    [header.join(",")].into_iter().chain((0..draws.latents.len()).map(line)).collect::<Vec<_>>().join("\n") + "\n"
}
