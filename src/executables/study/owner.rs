//! Says to the owner of a private silo what its file and its ledger are like, and where the ledger is.

use std::path::{Path, PathBuf};

use super::privacy::SiloPrivacy;
use super::promise::StudyPrivacy;
use crate::executables::SiloFile;
use crate::formula::{Columns, DeclaredColumn};

/// What the file holds outside of what the study declares, column by column: it is fitted as it is, and clipped.
#[expect(clippy::cast_precision_loss, reason = "declared ranges are far below 2^52")]
pub(super) fn outside(promise: &StudyPrivacy, rows: &Columns) -> Vec<String> {
    let range = |declared: &DeclaredColumn| match *declared {
        DeclaredColumn::Whole([low, high]) => Some((low as f64, high as f64)),
        DeclaredColumn::Real([low, high]) => Some((low, high)),
        DeclaredColumn::Levels(_) => None,
    };
    let found = promise.columns.iter().filter_map(|(name, declared)| {
        let (low, high) = range(declared)?;
        let cells = rows.cells(name);
        let numbers = cells.iter().filter_map(|cell| cell.parse::<f64>().ok());
        let count = numbers.filter(|cell| !(low..=high).contains(cell)).count();
        let all = cells.len();
        (count > 0).then(|| {
            format!(
                "privacy: {count} of {all} cells of `{name}` are outside of [{low}, {high}], which the study declares. This number stays here; \
                 the priors and the start of the fit are for numbers inside"
            )
        })
    });
    found.collect()
}

/// That a ledger is a new one, with the others that are beside it.
pub(super) fn begins(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let others = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ledger = |own: &PathBuf| own.extension().is_some_and(|ending| ending == "ledger");
    let others: Vec<String> = others.filter(is_ledger).map(|own| own.display().to_string()).collect();
    let beside = match others.is_empty() {
        true => String::new(),
        false => {
            format!(
                ". There is {} already: if that is this silo's, name it by `ledger` under `[privacy]`",
                others.join(", ")
            )
        }
    };
    let path = path.display();
    format!("privacy: a new ledger begins, {path}: nothing of earlier studies counts against the budget{beside}")
}

impl SiloFile {
    /// The same with its ledger where this file of it is, from whichever folder the silo is started: a budget does not begin
    /// anew in another one.
    #[must_use]
    pub(crate) fn with_ledger_beside(mut self, own: &Path) -> Self {
        let Some(allowed) = self.privacy.take() else { return self };
        let ledger = own.parent().unwrap_or(Path::new("")).join(ledger_path(&self, &allowed));
        self.privacy = Some(SiloPrivacy { ledger: Some(ledger), ..allowed });
        self
    }
}

/// The file of what is spent.
pub(super) fn ledger_path(file: &SiloFile, allowed: &SiloPrivacy) -> PathBuf {
    let beside = || {
        let mut name = file.state.file_name().unwrap_or_default().to_owned();
        name.push(".ledger");
        file.state.with_file_name(name)
    };
    allowed.ledger.clone().unwrap_or_else(beside)
}
