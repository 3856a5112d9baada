//! Holds what all parties of a study know of it: the formula, the model, and what silos agreed on.

use std::collections::BTreeMap;

use partita_core::Device;
use partita_formula::{Agreement, ColumnKind, Columns, Design};
use partita_models::regression::RegressionRows;

use super::family::Kind;
use super::prepare::RowPlaces;
use super::{Plan, Prepared, SiloTable, Study, StudyError};

/// What all parties of a study know. Who has the posterior of the globals too answers questions to it, in one process and
/// over an engine alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedModel<'a> {
    pub(crate) study: &'a Study,
    pub(crate) plan: &'a Plan,
    pub(crate) agreement: &'a Agreement,
}

/// Rows whose outcome is not asked for.
#[derive(Debug)]
pub(crate) struct OutcomeFree {
    pub(super) rows: RegressionRows,
    pub(super) places: RowPlaces,
}

impl OutcomeFree {
    pub(crate) fn into_rows(self) -> RegressionRows {
        self.rows
    }
}

impl Prepared {
    pub(crate) fn shared(&self) -> SharedModel<'_> {
        SharedModel { study: &self.study, plan: &self.plan, agreement: &self.agreement }
    }
}

impl SharedModel<'_> {
    /// The rows of a file that needs no outcome.
    ///
    /// # Errors
    /// [`StudyError`] for a file that lacks a column, or has levels that no silo had.
    pub(crate) fn rows_of(&self, file: &SiloTable, device: &Device) -> Result<OutcomeFree, StudyError> {
        let formula = self.study.formula.clone().without_outcome();
        // New rows need the columns of the formula alone.
        let without = Study { formula, units: BTreeMap::new(), ..self.study.clone() };
        self.without_outcome(&without.columns(file)?, device)
    }

    /// Rows as the model reads them, with an outcome that stands for any.
    pub(super) fn without_outcome(&self, columns: &Columns, device: &Device) -> Result<OutcomeFree, StudyError> {
        let Self { study, plan, agreement } = self;
        self.same_kinds(columns, columns.silo())?;
        let design = Design::of(&study.formula.clone().without_outcome(), columns, agreement)?;
        let design = study.with_columns_of_parameters(design, columns, agreement)?;
        let outcome = if study.family.kind == Kind::Beta { 0.5 } else { 1.0 };
        let rows = study.rows_with(vec![outcome; design.rows], &design, plan, device)?;
        Ok(OutcomeFree { rows, places: RowPlaces::of(design) })
    }

    /// Refuses columns that hold something else than those of the silos did.
    pub(super) fn same_kinds(&self, columns: &Columns, of: &str) -> Result<(), StudyError> {
        let other = |(name, agreed): (&String, &ColumnKind)| {
            let found = columns.kind(name).filter(|found| found != agreed)?;
            Some((name.clone(), found, *agreed))
        };
        match self.agreement.kinds.iter().find_map(other) {
            None => Ok(()),
            Some((name, found, agreed)) => Err(unfit(
                format!("`{name}` of {of} holds {found}"),
                &format!("{agreed}, as in the files of the fit"),
                "Write its values as those files do.",
            )),
        }
    }
}

impl Study {
    /// Refuses outcomes of levels, which have no mean.
    pub(crate) fn has_numbers(&self) -> Result<(), StudyError> {
        if !self.family.kind.has_levels() {
            return Ok(());
        }
        Err(unfit(
            format!("`{}`, an outcome of levels", self.outcome()),
            "an outcome of numbers, which has a mean",
            "Predict rows, whose levels have probabilities (of a command `--predict`), or fit whether a level is reached: bernoulli.",
        ))
    }
}

/// As many of `all` as there may be, spread over all: draws that were resampled stand in the order of what they were
/// resampled from.
pub(crate) fn spread<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = most.min(all.len());
    (0..count).map(move |place| &all[place * all.len() / count])
}

pub(super) fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "prediction", found, expected: expected.into(), remedy: remedy.into() }
}
