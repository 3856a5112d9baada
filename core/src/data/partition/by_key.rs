//! Gives each key, or each row, a silo of its own, and keeps the rows of one group together.

use super::{at_least_one, rows_by_key, sort};
use crate::data::error::DataError;

/// Gives each distinct key a silo of its own, in ascending order of the keys: one silo for each hospital, say.
///
/// # Laws
/// Every row is in exactly one silo; no silo is empty.
///
/// # Errors
/// [`DataError::Argument`] if there are no rows.
///
/// # Example
/// ```
/// let silos = partita_core::partition_by_key(&["Bern", "Basel", "Bern"])?;
/// assert_eq!(silos, [vec![1], vec![0, 2]]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn partition_by_key<K: Ord>(keys: &[K]) -> Result<Vec<Vec<usize>>, DataError> {
    at_least_one("splitting rows by key", "number of rows", keys.len())?;
    Ok(rows_by_key(keys))
}

/// Gives each row a silo of its own: the finest partition.
///
/// # Laws
/// Every row is in exactly one silo, which has the row's number.
///
/// # Errors
/// [`DataError::Argument`] if there are no rows.
///
/// # Example
/// ```
/// assert_eq!(partita_core::partition_each_row(3)?, [vec![0], vec![1], vec![2]]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn partition_each_row(rows: usize) -> Result<Vec<Vec<usize>>, DataError> {
    at_least_one("giving each row a silo", "number of rows", rows)?;
    Ok((0..rows).map(|row| vec![row]).collect())
}

/// Assigns whole groups, so that all rows of a patient or a school stay in one silo.
///
/// `assign` gets the number of groups, numbered in ascending order of their keys, and splits those, for example with
/// [`partition_equally`](crate::partition_equally); the result holds their rows.
///
/// # Laws
/// Every row is in exactly one silo, to which its group was assigned.
///
/// # Errors
/// Those of `assign`; [`DataError::Argument`] if it names a group that is not there, twice or never.
///
/// # Example
/// ```
/// use partita_core::{Noise, partition_equally, partition_groups};
/// let patients = [7, 7, 8, 9, 9, 9];
/// let silos = partition_groups(&patients, |groups| partition_equally(groups, 3, &Noise::new(1)))?;
/// assert!(silos.contains(&vec![3, 4, 5]));
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn partition_groups<K: Ord>(
    keys: &[K],
    assign: impl FnOnce(usize) -> Result<Vec<Vec<usize>>, DataError>,
) -> Result<Vec<Vec<usize>>, DataError> {
    let groups = rows_by_key(keys);
    let assigned = assign(groups.len())?;
    let mut seen: Vec<usize> = assigned.concat();
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..groups.len()) {
        let found = format!("{} assignments of {} groups", seen.len(), groups.len());
        let expected = "each group exactly once";
        return Err(DataError::Argument { operation: "splitting groups", argument: "the assignment", found, expected });
    }
    let mut silos: Vec<Vec<usize>> =
        assigned.iter().map(|mine| mine.iter().flat_map(|group| groups[*group].iter().copied()).collect()).collect();
    sort(&mut silos);
    Ok(silos)
}
