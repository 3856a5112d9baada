//! Holds what all parties of a study know of it: the formula, the model, and what silos agreed on.

use std::collections::BTreeMap;

use partita_core::Device;
use partita_formula::{Agreement, ColumnKind, Columns, Design, FrameError, FrameProblem, GroupScope};
use partita_models::regression::RegressionRows;

use super::family::Kind;
use super::new_groups::NewGroups;
use super::prepare::{RowGroups, RowPlaces};
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
    pub(super) new: Option<NewGroups>,
}

impl OutcomeFree {
    /// The rows, if silos have their groups.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for a new group of a grouping whose groups all silos know.
    pub(crate) fn into_rows(self) -> Result<RegressionRows, StudyError> {
        match self.new {
            None => Ok(self.rows),
            Some(_) => Err(unfit(
                "a new group of a grouping whose groups all silos know".into(),
                "groups that a silo has, where outcomes are drawn from the prior",
                "Write groups of the study into the file.",
            )),
        }
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
        let columns = without.columns_as(file, &self.agreement.kinds).map_err(|error| match error {
            StudyError::Frame(FrameError::File { file, problem: FrameProblem::UnknownColumn { column, .. } })
                if without.formula.is_grouping(&column) =>
            {
                unfit(
                    format!("no column `{column}` in {file}"),
                    "the column of the groups, for rows of new groups too",
                    "Write it into the file: a name that no silo has stands for a new group.",
                )
            }
            other => other,
        })?;
        let found = self.without_outcome(&columns, device)?;
        let named = |own: &RowGroups| {
            let silo = own.levels.first().filter(|_| own.scope == GroupScope::Silo && own.levels.len() == 1)?;
            self.agreement.silos.iter().any(|(name, _)| name == silo && *name != file.name).then(|| silo.clone())
        };
        match found.places.groups.iter().find_map(named) {
            None => Ok(found),
            Some(silo) => Err(unfit(
                format!("the silo `{silo}` in the column `silo` of {}", file.path.display()),
                "rows of a silo never seen, or the name of the silo before the file",
                &format!("Write `{silo}={}` (of a command `--predict {silo}=FILE`).", file.path.display()),
            )),
        }
    }

    /// Rows as the model reads them, with an outcome that stands for any.
    pub(super) fn without_outcome(&self, columns: &Columns, device: &Device) -> Result<OutcomeFree, StudyError> {
        let Self { study, plan, agreement } = self;
        self.same_kinds(columns, columns.silo())?;
        let design = Design::of(&study.formula.clone().without_outcome(), columns, agreement)?;
        let design = study.with_columns_of_parameters(design, columns, agreement)?;
        let outcome = if study.family.kind == Kind::Beta { 0.5 } else { 1.0 };
        let rows = study.rows_with(vec![outcome; design.rows], &design, plan, device)?;
        let new = NewGroups::of(&design, &plan.chain);
        Ok(OutcomeFree { rows, places: RowPlaces::of(design), new })
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
