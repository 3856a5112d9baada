//! Names the models of the executables, with their usual settings and the format of their data.

use std::path::Path;

use partita_core::vertical::{Labels, Party};
use partita_core::{Design, Device, Normal, Table};
use partita_flower::{Error, Result, RunFile};
use partita_inference::{FamilyPlan, Gaussian, Schedule, Settings};
use partita_models::vertical::{BernoulliHead, Linear, WithIntercept, binary_labels};
use partita_models::{BinaryRows, Child, RepeatedBinary, six_cities_silos};

/// A model of the executables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompiledIn {
    /// [`partita_models::MixedLogistic`] of the six-cities study; data is a table `smoke, age_7, age_8, age_9, age_10`
    /// of zeros and ones, a row a child, or `example:1` and `example:2` for the two halves that come with the program.
    SixCities,
    /// [`partita_models::LogisticRegression`]; data is a table with a column `label` of zeros and ones, the others
    /// covariates, which the model takes by their places: [`RunFile::columns`] holds silos to their names.
    LogisticRegression,
    /// A logistic regression with columns at different parties: [`Linear`] contributions and a [`BernoulliHead`]. A
    /// party's data is a table of covariates, the labels a table with a column `label` of zeros and ones, with the same
    /// rows at all parties.
    VerticalLogistic,
}

impl CompiledIn {
    /// The model of this name.
    ///
    /// # Errors
    /// [`Error::Unwelcome`], with the known names.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "six-cities" => Ok(Self::SixCities),
            "logistic-regression" => Ok(Self::LogisticRegression),
            "vertical-logistic" => Ok(Self::VerticalLogistic),
            other => Err(Error::Unwelcome {
                what: "the model of the run file",
                found: format!("`{other}`"),
                expected: "`six-cities`, `logistic-regression` or `vertical-logistic`".into(),
                remedy: "For a model of your own, write an executable with `partita::executables`.",
            }),
        }
    }

    /// Refuses names of columns in the run file of a model that has its own, or whose parties have others.
    ///
    /// # Errors
    /// [`Error::Unwelcome`].
    pub fn check_columns(self, run: &RunFile) -> Result<()> {
        match &run.columns {
            Some(names) if self != Self::LogisticRegression => Err(Error::Unwelcome {
                what: "an entry of the run file",
                found: format!("`columns` ({}) with the model `{}`", listed(names), run.model),
                expected: "it with `logistic-regression` alone".into(),
                remedy: "Take the entry out of the run file of every party.",
            }),
            _ => Ok(()),
        }
    }

    /// Its usual settings.
    #[must_use]
    pub fn settings(self) -> Settings {
        let schedule = Schedule::Cosine { initial: 0.02, last: 0.0 };
        match self {
            Self::SixCities => {
                let locals = Gaussian::diagonal().given_globals().scale_given_globals();
                let family = FamilyPlan::new().global(Gaussian::full_rank()).local(locals);
                Settings { family, schedule, ..Settings::default() }
            }
            Self::LogisticRegression => Settings {
                family: FamilyPlan::new().global(Gaussian::full_rank()).initial_scale(1.0),
                schedule,
                particles: 4,
                ..Settings::default()
            },
            Self::VerticalLogistic => Settings {
                family: FamilyPlan::new().global(Gaussian::diagonal()),
                schedule,
                particles: 4,
                ..Settings::default()
            },
        }
    }
}

/// The children of one silo of the six-cities study.
///
/// # Errors
/// [`Error::File`] for a table that cannot be read.
pub fn six_cities_data(path: &Path, device: &Device) -> Result<RepeatedBinary> {
    let children: Vec<Child> = match path.to_str() {
        Some("example:1") => six_cities_silos()[0].clone(),
        Some("example:2") => six_cities_silos()[1].clone(),
        _ => {
            let table = open(path)?;
            let names = ["smoke", "age_7", "age_8", "age_9", "age_10"];
            let columns = table.numbers(names).map_err(|error| Error::file(path, error))?;
            let child = |row: usize| {
                let mut answers = [false; 5];
                for ((answer, column), name) in answers.iter_mut().zip(&columns).zip(names) {
                    *answer = zero_or_one(column[row], name, row).map_err(|problem| Error::file(path, problem))?;
                }
                let [smoke, wheeze @ ..] = answers;
                Ok(Child { smoke, wheeze })
            };
            (0..table.rows()).map(child).collect::<Result<_>>()?
        }
    };
    RepeatedBinary::six_cities(&children, device).map_err(|error| Error::file(path, error))
}

/// The number of covariates of a table, and its rows.
///
/// # Errors
/// [`Error::File`] for a table that cannot be read, without a column `label`, or with labels that are neither 0 nor 1.
pub fn labelled_data(path: &Path, device: &Device) -> Result<(usize, BinaryRows)> {
    let table = open(path)?;
    let labels = labels_of(path, &table)?;
    let (columns, inputs) = covariates(path, &table)?;
    let rows = BinaryRows::new(&inputs, columns, &labels, device).map_err(|error| Error::file(path, error))?;
    Ok((columns, rows))
}

/// The names of the covariates of such a table, in the order of the file.
///
/// # Errors
/// [`Error::File`] for a table that cannot be read.
pub fn covariate_names(path: &Path) -> Result<Vec<String>> {
    Ok(covariate_columns(&open(path)?).cloned().collect())
}

/// Refuses such a table of a silo if its covariates have other names than `expected`, or another order: a coefficient is of a
/// column by its place. `whose` says where the expected ones stand.
///
/// # Errors
/// [`Error::Unwelcome`], with the silo; [`Error::File`] for a table that cannot be read.
pub fn check_covariates(silo: &str, path: &Path, expected: &[String], whose: &str) -> Result<()> {
    let found = covariate_names(path)?;
    if found == expected {
        return Ok(());
    }
    Err(Error::Unwelcome {
        what: "the columns of a silo",
        found: format!("{} in {silo}", listed(&found)),
        expected: format!("{} in this order, as in {whose}", listed(expected)),
        remedy: "This model takes columns by their places: name and order them alike in the files of all silos, or fit a formula, which finds columns by name.",
    })
}

/// Names as errors show them.
fn listed(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

/// The columns of a party of a vertical logistic regression: all of a table.
///
/// # Errors
/// [`Error::File`] for a table that cannot be read.
pub fn party_of(path: &Path, name: &str, _: &Device) -> Result<Party> {
    let table = open(path)?;
    let (columns, inputs) = covariates(path, &table)?;
    let rows = Design::new(inputs, [table.rows(), 1, columns]).map_err(|error| Error::file(path, error))?;
    Ok(Party::new(name, Linear::new(columns), rows))
}

/// The labels of a vertical logistic regression, with an intercept at their holder.
///
/// # Errors
/// [`Error::File`] for a table that cannot be read, without a column `label`, or with labels that are neither 0 nor 1.
pub fn binary_head(path: &Path, device: &Device) -> Result<Labels> {
    let labels = labels_of(path, &open(path)?)?;
    Ok(Labels::new(WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)), binary_labels(&labels, device)))
}

fn open(path: &Path) -> Result<Table> {
    Table::from_path(path).map_err(|error| Error::file(path, error))
}

/// The column `label` of a table.
fn labels_of(path: &Path, table: &Table) -> Result<Vec<bool>> {
    let [values] = table.numbers(["label"]).map_err(|error| Error::file(path, error))?;
    let labels = values.into_iter().enumerate();
    labels.map(|(row, label)| zero_or_one(label, "label", row).map_err(|problem| Error::file(path, problem))).collect()
}

/// The names of the columns of a table beside `label`.
fn covariate_columns(table: &Table) -> impl Iterator<Item = &String> {
    table.names().iter().filter(|name| *name != "label")
}

/// The number of columns of a table beside `label`, and their numbers, row by row.
fn covariates(path: &Path, table: &Table) -> Result<(usize, Vec<f64>)> {
    let column = |name: &String| -> Result<Vec<f64>> {
        let [values] = table.numbers([name.as_str()]).map_err(|error| Error::file(path, error))?;
        Ok(values)
    };
    let columns: Vec<Vec<f64>> = covariate_columns(table).map(column).collect::<Result<_>>()?;
    let inputs = (0..table.rows()).flat_map(|row| columns.iter().map(move |values| values[row])).collect();
    Ok((columns.len(), inputs))
}

/// Whether the value is 1; an error for a value other than 0 and 1.
fn zero_or_one(value: f64, name: &str, row: usize) -> std::result::Result<bool, String> {
    match value {
        0.0 => Ok(false),
        1.0 => Ok(true),
        other => Err(format!("`{name}` of row {} is {other}, expected 0 or 1", row + 1)),
    }
}
