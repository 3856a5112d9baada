//! Chooses the rows of each minibatch from the step alone, so that a resumed run repeats the same batches.

use std::sync::{Arc, Mutex, PoisonError};

use super::error::DataError;
use super::partition::at_least_one;
use crate::noise::{Key, Noise, Purpose};

/// Minibatches without replacement, reshuffled every epoch.
///
/// The order of an epoch comes from the seed, the silo and the number of the epoch; nothing needs saving for a resume.
/// The last batch of an epoch is shorter if the batch size does not divide the rows. A sum over a batch of B out of N
/// rows is scaled by N/B with its *own* B, as [`Minibatches::scale_at`] does: each batch is by itself a uniform subset
/// of its size, so the scaled sum is unbiased at every step.
///
/// # Laws
/// The batches of one epoch hold every row exactly once; equal (step, seed, silo) give equal rows; a batch of all rows
/// is all rows in ascending order.
///
/// # Numerics
/// The order of the latest epoch is kept, so that a step costs its batch only; clones share it. Give each silo its own.
///
/// # Example
/// ```
/// use partita_core::{Minibatches, Noise};
/// let batches = Minibatches::new(5, 2)?;
/// let noise = Noise::new(7);
/// let mut epoch: Vec<usize> = (0..3).flat_map(|step| batches.rows_at(step, &noise, 0)).collect();
/// epoch.sort();
/// assert_eq!(epoch, [0, 1, 2, 3, 4]);
/// assert_eq!(batches.scale_at(2), 5.0); // the last batch has one row
/// # Ok::<(), partita_core::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Minibatches {
    rows: usize,
    batch_size: usize,
    latest: Arc<Mutex<Option<Epoch>>>,
}

#[derive(Debug)]
struct Epoch {
    noise: Noise,
    key: Key,
    order: Vec<usize>,
}

impl Minibatches {
    /// Minibatches of `batch_size` out of `rows`; a size above `rows` means all of them.
    ///
    /// # Errors
    /// [`DataError::Argument`] if either is zero.
    pub fn new(rows: usize, batch_size: usize) -> Result<Self, DataError> {
        at_least_one("splitting rows into minibatches", "number of rows", rows)?;
        at_least_one("splitting rows into minibatches", "batch size", batch_size)?;
        Ok(Self { rows, batch_size: batch_size.min(rows), latest: Arc::default() })
    }

    /// The number of rows in every batch except possibly the last.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// The number of batches in an epoch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.rows.div_ceil(self.batch_size)
    }

    /// The rows of the batch at `step` (from 0, counted through all epochs) of `silo`, ascending.
    #[must_use]
    pub fn rows_at(&self, step: u64, noise: &Noise, silo: u32) -> Vec<usize> {
        if self.batch_size == self.rows {
            return (0..self.rows).collect();
        }
        let (epoch, start) = self.place(step);
        let end = (start + self.batch_size).min(self.rows);
        let key = Key::new(Purpose::Minibatch, epoch).silo(silo);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let current = match latest.take() {
            Some(current) if current.noise == *noise && current.key == key => current,
            _ => {
                let mut order: Vec<usize> = (0..self.rows).collect();
                noise.stream(key).shuffle(&mut order);
                Epoch { noise: *noise, key, order }
            }
        };
        let mut rows = latest.insert(current).order[start..end].to_vec();
        drop(latest);
        rows.sort_unstable();
        rows
    }

    /// N/B with the size B of the batch at `step`: the factor on its sum of log densities.
    #[must_use]
    pub fn scale_at(&self, step: u64) -> f64 {
        let (_, start) = self.place(step);
        self.rows as f64 / self.batch_size.min(self.rows - start) as f64
    }

    /// The epoch of `step`, and where in its order the batch starts.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below the number of batches, a usize")]
    fn place(&self, step: u64) -> (u64, usize) {
        let batches = self.batches() as u64;
        (step / batches, (step % batches) as usize * self.batch_size)
    }
}
