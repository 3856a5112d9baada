//! Assigns rows at random to silos of equal or of given sizes: every silo sees the same distribution.

use super::{at_least_one, cut, equal_sizes, sort};
use crate::data::error::DataError;
use crate::noise::{Key, Noise, Purpose};

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
    at_least_one(OPERATION, "number of silos", silos)?;
    if rows < silos {
        let remedy = "Ask for fewer silos.";
        return Err(DataError::EmptySilo { operation: OPERATION, silo: rows, silos, rows, remedy });
    }
    let sizes: Vec<usize> = equal_sizes(rows, silos).collect();
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
    at_least_one(OPERATION, "number of silos", sizes.len())?;
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
    let mut silos = cut(&order, sizes.iter().copied());
    sort(&mut silos);
    Ok(silos)
}
