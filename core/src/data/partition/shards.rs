//! Assigns shards of rows sorted by label, so that each silo holds few labels, and counts how many it holds.

use super::{at_least_one, cut, equal_sizes, sort};
use crate::data::error::DataError;
use crate::noise::{Key, Noise, Purpose};

/// Sorts the rows by label, cuts them into `silos` times `shards` shards and deals `shards` at random to each silo.
///
/// Rows of one label stay in their order, and shards differ by at most one row. McMahan et al. cut the 60,000 rows of
/// MNIST into 200 shards of 300 and deal two to each of 100 silos. A shard that lies across a border holds two labels,
/// so that a silo may end with more than `shards` labels: [`distinct_labels`] counts them.
///
/// # Laws
/// Every row is in exactly one silo; no silo is empty; equal seeds give equal assignments.
///
/// # Errors
/// [`DataError::Argument`] if `silos` or `shards` is zero; [`DataError::EmptySilo`] if there are fewer rows than
/// shards.
///
/// # Example
/// ```
/// use partita_core::{Noise, distinct_labels, partition_by_shards};
/// let digits: Vec<usize> = (0..600).map(|row| row % 10).collect();
/// let silos = partition_by_shards(&digits, 10, 2, &Noise::new(1))?;
/// assert!(silos.iter().all(|rows| rows.len() == 60));
/// assert!(distinct_labels(&silos, &digits).iter().all(|labels| *labels <= 2));
/// # Ok::<(), partita_core::DataError>(())
/// ```
///
/// # References
/// McMahan, Moore, Ramage, Hampson and Agüera y Arcas (2017), Communication-efficient learning of deep networks from
/// decentralized data, AISTATS, section 3.
pub fn partition_by_shards<K: Ord>(
    labels: &[K],
    silos: usize,
    shards: usize,
    noise: &Noise,
) -> Result<Vec<Vec<usize>>, DataError> {
    const OPERATION: &str = "splitting rows into shards";
    at_least_one(OPERATION, "number of silos", silos)?;
    at_least_one(OPERATION, "number of shards a silo", shards)?;
    let count = silos.saturating_mul(shards);
    if labels.len() < count {
        let remedy = "There are fewer rows than shards: ask for fewer silos or fewer shards a silo.";
        let silo = labels.len() / shards;
        return Err(DataError::EmptySilo { operation: OPERATION, silo, silos, rows: labels.len(), remedy });
    }
    let mut rows: Vec<usize> = (0..labels.len()).collect();
    rows.sort_by_key(|row| &labels[*row]);
    let mut dealt = cut(&rows, equal_sizes(labels.len(), count));
    noise.stream(Key::new(Purpose::Partition, 0)).shuffle(&mut dealt);
    let mut result: Vec<Vec<usize>> = dealt.chunks(shards).map(<[Vec<usize>]>::concat).collect();
    sort(&mut result);
    Ok(result)
}

/// How many distinct labels each silo holds; rows beyond the end of `labels` are not counted.
///
/// # Example
/// ```
/// assert_eq!(partita_core::distinct_labels(&[vec![0, 2], vec![1]], &["a", "b", "c"]), [2, 1]);
/// ```
#[must_use]
pub fn distinct_labels<K: Ord>(silos: &[Vec<usize>], labels: &[K]) -> Vec<usize> {
    let count = |rows: &Vec<usize>| {
        let mut held: Vec<&K> = rows.iter().filter_map(|row| labels.get(*row)).collect();
        held.sort_unstable();
        held.dedup();
        held.len()
    };
    silos.iter().map(count).collect()
}
