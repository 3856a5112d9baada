//! Assigns rows at random so that each silo has its own mix of labels, drawn from a Dirichlet distribution.

use super::{argument, at_least_one, rows_by_key, sort};
use crate::data::error::DataError;
use crate::noise::{Key, Noise, Purpose};

/// How often a skewed assignment is drawn again before an empty silo is an error.
const ATTEMPTS: u64 = 100;

/// Assigns rows at random to `silos` silos with different mixes of labels.
///
/// For each label, the shares of the silos are drawn from a symmetric Dirichlet distribution with `concentration`:
/// large ones give every silo the same mix, small ones give each label to few silos. If a silo would get no row, all
/// shares are drawn again, up to 100 times.
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
    at_least_one(OPERATION, "number of silos", silos)?;
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
        // Logarithms of Gamma(α) draws as those of Gamma(α + 1) plus log U / α, since small α would underflow.
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
