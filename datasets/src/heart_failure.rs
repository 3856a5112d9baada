//! Reads the heart-failure data, a public table whose columns two parties share in an experiment on vertical data.

use std::path::Path;

use partita_core::Table;

use crate::dataset::{DatasetError, dataset};
use crate::labelled_table::{LabelledTable, labelled};

const NUMERIC: [&str; 5] = ["Age", "RestingBP", "Cholesterol", "MaxHR", "Oldpeak"];

/// How many of the eleven columns each of two parties holds in the vertical paper: the first five, and the other six.
///
/// The first has age, sex, type of chest pain, blood pressure at rest and cholesterol; the second fasting blood sugar,
/// the electrocardiogram at rest, the largest heart rate, angina by exercise, and two numbers of the electrocardiogram
/// in exercise.
pub const HEART_FAILURE_PARTIES: [usize; 2] = [5, 6];

/// Whether a patient has a heart disease: 918 rows, 11 columns (`heart.csv`), from the registry of data sets.
///
/// The label is positive for 508 rows. Five columns are numbers; the others, the 0 and 1 of `FastingBS` among them, are
/// categories. Nothing is missing by name, but `Cholesterol` is 0 in 172 rows and `RestingBP` in one, which no living
/// patient has: as in the paper they stay numbers. Kaggle publishes the file; where its address asks for an account,
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

/// As [`heart_failure`], from the file at `path`, whose checksum is not looked at.
///
/// # Errors
/// [`DatasetError::Data`] and [`DatasetError::Format`] for a file that is not there or of another form.
pub fn heart_failure_from(path: impl AsRef<Path>) -> Result<LabelledTable, DatasetError> {
    heart_failure_table(&Table::from_path(path)?)
}

fn heart_failure_table(table: &Table) -> Result<LabelledTable, DatasetError> {
    labelled("heart failure", table, &NUMERIC, "HeartDisease", [&["0"], &["1"]])
}
