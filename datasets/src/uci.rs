//! Reads three tables of the UCI repository with a yes-or-no label: census income, bank marketing, credit approval.

use partita_core::Table;

use crate::dataset::{DatasetError, dataset};
use crate::labelled_table::{LabelledTable, labelled};

const ADULT: [&str; 15] = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
];
const ADULT_NUMERIC: [&str; 6] = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"];

const BANK_NUMERIC: [&str; 7] = ["age", "balance", "day", "duration", "campaign", "pdays", "previous"];

const CREDIT: [&str; 16] =
    ["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "A14", "A15", "A16"];
const CREDIT_NUMERIC: [&str; 6] = ["A2", "A3", "A8", "A11", "A14", "A15"];

/// Whether a person earns more than 50,000 dollars a year: 48,842 rows of the census of 1994, 14 columns.
///
/// The files `adult.data` (32,561 rows) and `adult.test` (16,281), one after the other. The label is positive for
/// `>50K` (11,687 rows). A question mark, a missing answer in 3,620 rows, is a category of its own, as the number of
/// rows of the PVI paper implies.
///
/// # Errors
/// As [`Dataset::read`](crate::Dataset::read); [`DatasetError::Data`] and [`DatasetError::Format`] for files of another
/// form.
///
/// # References
/// Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20.
pub fn adult() -> Result<LabelledTable, DatasetError> {
    let train = dataset("adult_train")?.read()?;
    let test = dataset("adult_test")?.read()?;
    // The first line of the test file is a comment, and its labels end in a dot.
    let remark = test.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let rows = [&train[..], &test[remark..]].concat();
    let table = Table::delimited("adult.data and adult.test", &rows[..], b',', Some(&ADULT))?;
    labelled("adult", &table, &ADULT_NUMERIC, "income", [&["<=50K", "<=50K."], &[">50K", ">50K."]])
}

/// Whether a customer takes the deposit that a bank offers by telephone: 45,211 rows, 16 columns (`bank-full.csv`).
///
/// The label is positive for `yes` (5,289 rows). `unknown` is a category of its own.
///
/// # Errors
/// As [`adult`].
///
/// # References
/// Moro, Cortez and Rita (2014), A data-driven approach to predict the success of bank telemarketing, Decision Support
/// Systems 62, 22-31.
pub fn bank() -> Result<LabelledTable, DatasetError> {
    let table = Table::delimited("bank-full.csv", &dataset("bank")?.read()?[..], b';', None)?;
    labelled("bank", &table, &BANK_NUMERIC, "y", [&["no"], &["yes"]])
}

/// Whether an application for a credit card was refused: 653 rows, 15 anonymous columns (`crx.data`).
///
/// Of the 690 rows of the file, the 37 with a missing cell (`?`) are omitted, as in the PVI paper. The label is
/// positive for `-` (357 rows), as the paper's shares of positive labels imply.
///
/// # Errors
/// As [`adult`].
///
/// # References
/// Quinlan (1987), Credit Approval, UCI Machine Learning Repository.
pub fn credit() -> Result<LabelledTable, DatasetError> {
    let text = dataset("credit")?.read()?;
    let complete = text.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.contains(&b'?'));
    let rows: Vec<u8> = complete.flatten().copied().collect();
    let table = Table::delimited("crx.data", &rows[..], b',', Some(&CREDIT))?;
    labelled("credit", &table, &CREDIT_NUMERIC, "A16", [&["+"], &["-"]])
}
