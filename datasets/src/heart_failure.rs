//! Reads the heart-failure data, a public table whose columns two parties share in an experiment on vertical data.

use std::path::Path;

use partita_core::Table;

use crate::dataset::{DatasetError, dataset};
use crate::labelled_table::{LabelledTable, labelled};

const NUMERIC: [&str; 5] = ["Age", "RestingBP", "Cholesterol", "MaxHR", "Oldpeak"];

/// The columns in the order of the published file, by which parties share them.
const COLUMNS: [&str; 12] = [
    "Age",
    "Sex",
    "ChestPainType",
    "RestingBP",
    "Cholesterol",
    "FastingBS",
    "RestingECG",
    "MaxHR",
    "ExerciseAngina",
    "Oldpeak",
    "ST_Slope",
    "HeartDisease",
];

/// How many of the eleven columns each of two parties holds in the paper on vertical data.
///
/// The first has age, sex, type of chest pain, blood pressure at rest and cholesterol. The second has fasting blood
/// sugar, the electrocardiogram at rest, the largest heart rate, angina by exercise, and two numbers of the
/// electrocardiogram in exercise.
pub const HEART_FAILURE_PARTIES: [usize; 2] = [5, 6];

/// Whether a patient has a heart disease: 918 rows, 11 columns (`heart.csv`), from the registry of data sets.
///
/// The label is positive for 508 rows. Five columns are numbers; the others, including the 0 and 1 of `FastingBS`, are
/// categories. No cell is marked missing, but `Cholesterol` is 0 in 172 rows and `RestingBP` in one, which is
/// impossible: as in the paper they stay numbers. Kaggle publishes the file. If its address asks for an account,
/// download it by hand and call [`heart_failure_from`], or put it in place as the error says.
///
/// # Errors
/// As [`Dataset::read`](crate::Dataset::read); [`DatasetError::Data`] and [`DatasetError::Format`] for a file of
/// another form.
///
/// # References
/// fedesoriano (2021), Heart Failure Prediction Dataset, Kaggle; made of five tables of Janosi, Steinbrunn, Pfisterer
/// and Detrano (1989), Heart Disease, UCI Machine Learning Repository.
pub fn heart_failure() -> Result<LabelledTable, DatasetError> {
    heart_failure_table(&Table::from_reader("heart.csv", &dataset("heart_failure")?.read()?[..])?)
}

/// As [`heart_failure`], from the file at `path`, without a check of its checksum.
///
/// # Errors
/// [`DatasetError::Data`] and [`DatasetError::Format`] for a file that is absent or of another form.
pub fn heart_failure_from(path: impl AsRef<Path>) -> Result<LabelledTable, DatasetError> {
    heart_failure_table(&Table::from_path(path)?)
}

fn heart_failure_table(table: &Table) -> Result<LabelledTable, DatasetError> {
    if table.names() != COLUMNS {
        return Err(DatasetError::format(
            "columns of the heart-failure data",
            table.names().join(", "),
            format!("{}, in this order", COLUMNS.join(", ")),
        ));
    }
    labelled("heart failure", table, &NUMERIC, "HeartDisease", [&["0"], &["1"]])
}
