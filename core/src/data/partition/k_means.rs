//! Assigns rows by similarity: each silo is one cluster of k-means on the inputs.
//!
//! Not `linfa-clustering`: it brings `ndarray`, and draws from a generator of its own instead of a keyed stream.

use super::{argument, at_least_one};
use crate::data::error::DataError;
use crate::noise::{Key, Noise, NoiseStream, Purpose};

/// The largest number of sweeps; rows may still move after it, and the assignment reached is returned.
const SWEEPS: usize = 1000;

const OPERATION: &str = "splitting rows by k-means";

/// The scale on which distances between rows are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// The columns as they are given.
    AsGiven,
    /// Each column minus its mean, over its standard deviation; a constant column has no effect.
    Standardised,
}

/// Assigns rows to `silos` clusters of nearby rows.
///
/// Lloyd's iteration on squared Euclidean distances: every row goes to its nearest centre (the first, at equal
/// distances) and every centre to the mean of its rows, until no row moves or after 1,000 sweeps. The first centres are
/// drawn by k-means++: one uniformly, each further one with probability proportional to the squared distance to the
/// nearest centre so far. A cluster that loses all rows is given the row farthest from its own centre.
///
/// # Shapes
/// `inputs`: `[rows, columns]`, row by row.
///
/// # Laws
/// Every row is in exactly one silo; no silo is empty; equal seeds give equal assignments.
///
/// # Errors
/// [`DataError::Argument`] if `silos` or `columns` is zero, if `inputs` is not a whole number of rows, or for an input
/// that is not finite; [`DataError::Shortage`] if fewer rows than silos are distinct.
///
/// # Example
/// ```
/// use partita_core::{Noise, Scaling, partition_by_k_means};
/// let inputs = [0.0, 10.0, 0.2, 10.4, 0.1];
/// let mut silos = partition_by_k_means(&inputs, 1, 2, Scaling::AsGiven, &Noise::new(1))?;
/// silos.sort();
/// assert_eq!(silos, [vec![0, 2, 4], vec![1, 3]]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
///
/// # References
/// Lloyd (1982), Least squares quantization in PCM; Arthur and Vassilvitskii (2007), k-means++: the advantages of
/// careful seeding.
pub fn partition_by_k_means(
    inputs: &[f64],
    columns: usize,
    silos: usize,
    scaling: Scaling,
    noise: &Noise,
) -> Result<Vec<Vec<usize>>, DataError> {
    at_least_one(OPERATION, "number of silos", silos)?;
    at_least_one(OPERATION, "number of columns", columns)?;
    if !inputs.len().is_multiple_of(columns) {
        let (operation, found, expected) = (OPERATION, inputs.len().to_string(), "a multiple of the columns");
        return Err(DataError::Argument { operation, argument: "number of inputs", found, expected });
    }
    if let Some(value) = inputs.iter().find(|value| !value.is_finite()) {
        return Err(argument(OPERATION, "an input", *value, "a finite number"));
    }
    let scaled = match scaling {
        Scaling::AsGiven => inputs.to_vec(),
        Scaling::Standardised => standardised(inputs, columns),
    };
    let rows: Vec<&[f64]> = scaled.chunks_exact(columns).collect();
    let mut centres = plus_plus(&rows, silos, &mut noise.stream(Key::new(Purpose::Partition, 0)))?;
    let mut own = Vec::new();
    for _ in 0..SWEEPS {
        let assigned = assign(&rows, &centres);
        if assigned == own {
            break;
        }
        own = assigned;
        centres = means(&rows, &own, silos);
    }
    let mut result = vec![Vec::new(); silos];
    own.iter().enumerate().for_each(|(row, silo)| result[*silo].push(row));
    Ok(result)
}

fn standardised(inputs: &[f64], columns: usize) -> Vec<f64> {
    let count = (inputs.len() / columns) as f64;
    let mut scaled = inputs.to_vec();
    for column in 0..columns {
        let values = || inputs.iter().skip(column).step_by(columns);
        let mean = values().sum::<f64>() / count;
        let deviation = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        for value in scaled.iter_mut().skip(column).step_by(columns) {
            *value = if deviation > 0.0 { (*value - mean) / deviation } else { 0.0 };
        }
    }
    scaled
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Draws the first centres by k-means++.
fn plus_plus(rows: &[&[f64]], silos: usize, stream: &mut NoiseStream) -> Result<Vec<Vec<f64>>, DataError> {
    let mut centres: Vec<Vec<f64>> = Vec::with_capacity(silos);
    let mut nearest = vec![f64::INFINITY; rows.len()];
    for number in 0..silos {
        let total: f64 = nearest.iter().sum();
        if rows.is_empty() || total == 0.0 {
            let remedy = "Ask for fewer silos.";
            let what = "rows that differ in their inputs";
            return Err(DataError::Shortage { operation: OPERATION, what, found: number, expected: silos, remedy });
        }
        let chosen = if number == 0 { stream.index(rows.len()) } else { weighted(&nearest, total * stream.uniform()) };
        let centre = rows[chosen].to_vec();
        nearest.iter_mut().zip(rows).for_each(|(near, row)| *near = near.min(distance(row, &centre)));
        centres.push(centre);
    }
    Ok(centres)
}

/// The first row at which the running sum of `weights` exceeds `target`, never one of weight zero.
fn weighted(weights: &[f64], target: f64) -> usize {
    let (mut sum, mut last) = (0.0, 0);
    for (row, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        (sum, last) = (sum + weight, row);
        if sum > target {
            break;
        }
    }
    last
}

/// The nearest centre of each row, with at least one row for every centre.
fn assign(rows: &[&[f64]], centres: &[Vec<f64>]) -> Vec<usize> {
    let mut own = vec![0; rows.len()];
    let mut nearest = vec![f64::INFINITY; rows.len()];
    for ((row, own), nearest) in rows.iter().zip(&mut own).zip(&mut nearest) {
        for (number, centre) in centres.iter().enumerate() {
            let far = distance(row, centre);
            if far < *nearest {
                (*own, *nearest) = (number, far);
            }
        }
    }
    let mut counts = vec![0_usize; centres.len()];
    own.iter().for_each(|silo| counts[*silo] += 1);
    for lonely in 0..centres.len() {
        if counts[lonely] > 0 {
            continue;
        }
        let shared = (0..rows.len()).filter(|row| counts[own[*row]] > 1);
        if let Some(far) = shared.max_by(|a, b| nearest[*a].total_cmp(&nearest[*b])) {
            counts[own[far]] -= 1;
            (own[far], nearest[far], counts[lonely]) = (lonely, 0.0, 1);
        }
    }
    own
}

fn means(rows: &[&[f64]], own: &[usize], silos: usize) -> Vec<Vec<f64>> {
    let columns = rows.first().map_or(0, |row| row.len());
    let (mut sums, mut counts) = (vec![vec![0.0; columns]; silos], vec![0.0; silos]);
    for (row, silo) in rows.iter().zip(own) {
        counts[*silo] += 1.0;
        sums[*silo].iter_mut().zip(*row).for_each(|(sum, value)| *sum += value);
    }
    for (sum, count) in sums.iter_mut().zip(&counts) {
        sum.iter_mut().for_each(|value| *value /= count);
    }
    sums
}
