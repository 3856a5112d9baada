//! Splits rows into folds for cross-validation: every row is a test row exactly once.

use super::{argument, partition_equally, rows_by_key};
use crate::data::error::DataError;
use crate::noise::{Key, Noise, Purpose};

/// One fold of a cross-validation: the rows to fit and the rows to test on, each in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// The rows that a model may see. Selection, standardisation and scaling must use these alone.
    pub training: Vec<usize>,
    /// The rows held out of the fit.
    pub test: Vec<usize>,
}

/// Splits rows at random into `count` folds whose test parts differ in size by at most one, ignoring labels.
///
/// # Laws
/// Every row is in the test part of exactly one fold, and in the training parts of all others; equal seeds give equal
/// folds.
///
/// # Errors
/// [`DataError::Argument`] for fewer than two folds; [`DataError::EmptySilo`] for more folds than rows.
///
/// # Example
/// ```
/// use partita_core::{Noise, data::folds};
/// let folds = folds(918, 10, &Noise::new(1))?;
/// assert_eq!((folds[0].training.len(), folds[0].test.len(), folds[9].test.len()), (826, 92, 91));
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn folds(rows: usize, count: usize, noise: &Noise) -> Result<Vec<Fold>, DataError> {
    check(count)?;
    Ok(complete(rows, partition_equally(rows, count, noise)?))
}

/// Splits rows at random into `count` folds whose numbers of rows of each label differ by at most one.
///
/// The rows of one label after the other are shuffled and dealt to the folds in turn, so that test parts differ in size
/// by at most one as well.
///
/// # Laws
/// As [`folds`].
///
/// # Errors
/// As [`folds`].
///
/// # Example
/// ```
/// use partita_core::{Noise, data::stratified_folds};
/// let labels: Vec<bool> = (0..90).map(|row| row % 3 == 0).collect();
/// let folds = stratified_folds(&labels, 5, &Noise::new(1))?;
/// assert!(folds.iter().all(|fold| fold.test.iter().filter(|row| labels[**row]).count() == 6));
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn stratified_folds<K: Ord>(labels: &[K], count: usize, noise: &Noise) -> Result<Vec<Fold>, DataError> {
    check(count)?;
    if labels.len() < count {
        let (operation, remedy) = (OPERATION, "Ask for fewer folds.");
        return Err(DataError::EmptySilo { operation, silo: labels.len(), silos: count, rows: labels.len(), remedy });
    }
    let mut stream = noise.stream(Key::new(Purpose::Partition, 0));
    let mut dealt = Vec::with_capacity(labels.len());
    for mut rows in rows_by_key(labels) {
        stream.shuffle(&mut rows);
        dealt.extend(rows);
    }
    let mut tests = vec![Vec::new(); count];
    for (place, row) in dealt.into_iter().enumerate() {
        tests[place % count].push(row);
    }
    super::sort(&mut tests);
    Ok(complete(labels.len(), tests))
}

const OPERATION: &str = "splitting rows into folds";

fn check(count: usize) -> Result<(), DataError> {
    if count >= 2 {
        return Ok(());
    }
    Err(argument(OPERATION, "number of folds", f64::from(u8::from(count == 1)), "two at least"))
}

/// Each test part with all other rows as its training part.
fn complete(rows: usize, tests: Vec<Vec<usize>>) -> Vec<Fold> {
    let fold = |test: Vec<usize>| {
        let training = (0..rows).filter(|row| test.binary_search(row).is_err()).collect();
        Fold { training, test }
    };
    tests.into_iter().map(fold).collect()
}
