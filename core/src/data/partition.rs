//! Assigns every row to exactly one silo: by a key, at random with equal or given sizes, or with skewed labels.
//!
//! Each function returns, for each silo, its rows in ascending order. Random assignments depend on the seed only.

use std::collections::BTreeMap;

use super::error::DataError;
use crate::noise::{Key, Noise, Purpose};

/// How often a skewed assignment is drawn again before an empty silo is an error.
const ATTEMPTS: u64 = 100;

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
    if keys.is_empty() {
        return Err(argument("splitting rows by key", "number of rows", 0.0, "at least one"));
    }
    Ok(rows_by_key(keys))
}

/// Assigns rows at random to `silos` silos whose sizes differ by at most one.
///
/// # Laws
/// Every row is in exactly one silo; no silo is empty; equal seeds give equal assignments.
///
/// # Errors
/// [`DataError::Argument`] if `silos` is zero; [`DataError::EmptySilo`] if there are more silos than rows.
///
/// # Example
/// ```
/// use partita_core::{Noise, partition_equally};
/// let silos = partition_equally(7, 2, &Noise::new(1))?;
/// assert_eq!((silos[0].len(), silos[1].len()), (4, 3));
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn partition_equally(rows: usize, silos: usize, noise: &Noise) -> Result<Vec<Vec<usize>>, DataError> {
    const OPERATION: &str = "splitting rows equally";
    if silos == 0 {
        return Err(argument(OPERATION, "number of silos", 0.0, "at least one"));
    }
    if rows < silos {
        let remedy = "Ask for fewer silos.";
        return Err(DataError::EmptySilo { operation: OPERATION, silo: rows, silos, rows, remedy });
    }
    let sizes: Vec<usize> = (0..silos).map(|silo| rows / silos + usize::from(silo < rows % silos)).collect();
    partition_by_sizes(rows, &sizes, noise)
}

/// Assigns rows at random to silos of the given sizes.
///
/// # Laws
/// Every row is in exactly one silo; silo i has `sizes[i]` rows; equal seeds give equal assignments.
///
/// # Errors
/// [`DataError::Argument`] without sizes; [`DataError::EmptySilo`] at a size of zero; [`DataError::SizesDoNotAdd`] if
/// they do not add to `rows`.
///
/// # Example
/// ```
/// use partita_core::{Noise, partition_by_sizes};
/// let silos = partition_by_sizes(537, &[300, 237], &Noise::new(1))?;
/// assert_eq!((silos[0].len(), silos[1].len()), (300, 237));
/// # Ok::<(), partita_core::DataError>(())
/// ```
pub fn partition_by_sizes(rows: usize, sizes: &[usize], noise: &Noise) -> Result<Vec<Vec<usize>>, DataError> {
    const OPERATION: &str = "splitting rows by given sizes";
    if sizes.is_empty() {
        return Err(argument(OPERATION, "number of silos", 0.0, "at least one"));
    }
    if let Some(silo) = sizes.iter().position(|size| *size == 0) {
        let remedy = "Give every silo at least one row.";
        return Err(DataError::EmptySilo { operation: OPERATION, silo, silos: sizes.len(), rows, remedy });
    }
    let sum = sizes.iter().fold(0_usize, |sum, size| sum.saturating_add(*size));
    if sum != rows {
        return Err(DataError::SizesDoNotAdd { sizes: sizes.into(), sum, rows });
    }
    let mut order: Vec<usize> = (0..rows).collect();
    noise.stream(Key::new(Purpose::Partition, 0)).shuffle(&mut order);
    let mut rest = order.as_slice();
    let mut silos = Vec::with_capacity(sizes.len());
    for size in sizes {
        let (mine, others) = rest.split_at(*size);
        silos.push(mine.to_vec());
        rest = others;
    }
    sort(&mut silos);
    Ok(silos)
}

/// Assigns rows at random to `silos` silos with different mixes of labels.
///
/// For each label, the shares of the silos are drawn from a symmetric Dirichlet distribution with `concentration`: large
/// ones give every silo the same mix, small ones give each label to few silos. If a silo would get no row, all shares are
/// drawn again, up to 100 times.
///
/// # Laws
/// Every row is in exactly one silo; no silo is empty; equal seeds give equal assignments.
///
/// # Errors
/// [`DataError::Argument`] if `silos` is zero or `concentration` is not a finite number above zero;
/// [`DataError::EmptySilo`] if there are too few rows, or the concentration is too low to reach every silo.
///
/// # Example
/// ```
/// use partita_core::{Noise, partition_by_label_skew};
/// let labels: Vec<usize> = (0..100).map(|row| row % 2).collect();
/// let silos = partition_by_label_skew(&labels, 4, 0.5, &Noise::new(1))?;
/// assert_eq!(silos.iter().map(Vec::len).sum::<usize>(), 100);
/// # Ok::<(), partita_core::DataError>(())
/// ```
///
/// # References
/// Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual classification",
/// 2019, arXiv:1909.06335; redrawing as in Li, Diao, Chen and He, 2022, arXiv:2102.02079.
pub fn partition_by_label_skew<K: Ord>(
    labels: &[K],
    silos: usize,
    concentration: f64,
    noise: &Noise,
) -> Result<Vec<Vec<usize>>, DataError> {
    const OPERATION: &str = "splitting rows with skewed labels";
    if silos == 0 {
        return Err(argument(OPERATION, "number of silos", 0.0, "at least one"));
    }
    if !(concentration > 0.0 && concentration.is_finite()) {
        return Err(argument(OPERATION, "concentration", concentration, "a finite number > 0"));
    }
    let empty = |silo, remedy| DataError::EmptySilo { operation: OPERATION, silo, silos, rows: labels.len(), remedy };
    if labels.len() < silos {
        return Err(empty(labels.len(), "Ask for fewer silos."));
    }
    let by_label = rows_by_key(labels);
    let mut without = 0;
    for attempt in 0..ATTEMPTS {
        let mut result = draw_skewed(&by_label, silos, concentration, noise, attempt);
        match result.iter().position(Vec::is_empty) {
            Some(silo) => without = silo,
            None => {
                sort(&mut result);
                return Ok(result);
            }
        }
    }
    Err(empty(without, "Raise the concentration or ask for fewer silos; 100 draws left a silo empty."))
}

/// Assigns whole groups, so that all rows of a patient or a school stay in one silo.
///
/// `assign` gets the number of groups, numbered in ascending order of their keys, and splits those, for example with
/// [`partition_equally`]; the result holds their rows.
///
/// # Laws
/// Every row is in exactly one silo, the one its group was assigned to.
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

fn draw_skewed(
    by_label: &[Vec<usize>],
    silos: usize,
    concentration: f64,
    noise: &Noise,
    attempt: u64,
) -> Vec<Vec<usize>> {
    let mut stream = noise.stream(Key::new(Purpose::Partition, attempt));
    let mut result = vec![Vec::new(); silos];
    for rows in by_label {
        let mut rows = rows.clone();
        stream.shuffle(&mut rows);
        // Logarithms of Gamma(α) numbers as those of Gamma(α + 1) plus log U / α, since small α would underflow.
        let logs: Vec<f64> = (0..silos)
            .map(|_| stream.gamma(concentration + 1.0).ln() + stream.uniform().ln() / concentration)
            .collect();
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
        let (total, mut sum, mut start) = (shares.iter().sum::<f64>(), 0.0, 0);
        for (silo, share) in shares.iter().enumerate() {
            sum += share;
            let end = if silo + 1 == silos { rows.len() } else { portion(rows.len(), sum / total) };
            result[silo].extend_from_slice(&rows[start..end]);
            start = end;
        }
    }
    result
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of rows, far below 2^52, is at least zero and at most that number"
)]
fn portion(rows: usize, share: f64) -> usize {
    ((rows as f64 * share).round() as usize).min(rows)
}

fn rows_by_key<K: Ord>(keys: &[K]) -> Vec<Vec<usize>> {
    let mut rows: BTreeMap<&K, Vec<usize>> = BTreeMap::new();
    for (row, key) in keys.iter().enumerate() {
        rows.entry(key).or_default().push(row);
    }
    rows.into_values().collect()
}

fn sort(silos: &mut [Vec<usize>]) {
    silos.iter_mut().for_each(|rows| rows.sort_unstable());
}

fn argument(operation: &'static str, argument: &'static str, found: f64, expected: &'static str) -> DataError {
    DataError::Argument { operation, argument, found: found.to_string(), expected }
}
