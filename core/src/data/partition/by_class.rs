//! Assigns whole classes to silos, or whole silos to classes: the most extreme label skew.

use super::{at_least_one, equal_sizes, rows_by_key, sort};
use crate::data::error::DataError;
use crate::noise::{Key, Noise, Purpose};

/// Assigns rows so that each silo holds as few classes as possible: one class a silo if there are enough silos.
///
/// With $`S`$ = `silos` and $`C`$ distinct values of `labels`, in ascending order, pair $`i`$ of $`\max(S, C)`$ joins
/// silo $`i \bmod S`$ with class $`i \bmod C`$. With fewer silos than classes a silo holds several whole classes; with
/// more, a class is split at random into parts whose sizes differ by at most one, and a silo holds one class.
///
/// # Laws
/// Every row is in exactly one silo; no silo is empty; equal seeds give equal assignments.
///
/// # Errors
/// [`DataError::Argument`] if `silos` or the number of rows is zero; [`DataError::EmptySilo`] if a class has fewer rows
/// than silos that share it.
///
/// # Example
/// ```
/// use partita_core::{Noise, partition_by_class};
/// let silos = partition_by_class(&["b", "a", "b", "a"], 2, &Noise::new(1))?;
/// assert_eq!(silos, [vec![1, 3], vec![0, 2]]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn partition_by_class<K: Ord>(labels: &[K], silos: usize, noise: &Noise) -> Result<Vec<Vec<usize>>, DataError> {
    const OPERATION: &str = "splitting rows by class";
    at_least_one(OPERATION, "number of silos", silos)?;
    at_least_one(OPERATION, "number of rows", labels.len())?;
    let classes = rows_by_key(labels);
    let mut result = vec![Vec::new(); silos];
    let mut stream = noise.stream(Key::new(Purpose::Partition, 0));
    for (class, mut rows) in classes.iter().cloned().enumerate() {
        let sharing: Vec<usize> = (class..silos.max(classes.len())).step_by(classes.len()).collect();
        if rows.len() < sharing.len() {
            let silo = sharing[rows.len()];
            let remedy = "A class has fewer rows than silos that share it: ask for fewer silos.";
            return Err(DataError::EmptySilo { operation: OPERATION, silo, silos, rows: labels.len(), remedy });
        }
        stream.shuffle(&mut rows);
        for (pair, size) in sharing.iter().zip(equal_sizes(rows.len(), sharing.len())) {
            result[pair % silos].extend(rows.drain(..size));
        }
    }
    sort(&mut result);
    Ok(result)
}
