//! Makes sums over a silo's rows private by the grid, the noise and the ledger of the crate `partita-privacy`.

use partita_inference::{Mechanism, Result, RowSum};
use std::sync::{Arc, Mutex, PoisonError};

use partita_privacy::{Cost, Entropy, Error, Grid, GridSum, Ledger, poisson_sample};

use super::declined;
use super::shares::Shares;

/// The mechanism of a silo: rows are clipped and summed on a grid, noise is discrete Gaussian, and a ledger is charged
/// before it and the sample of rows are drawn.
pub struct NoisedSums {
    ledger: Option<Ledger>,
    /// How much of the noise is this silo's: all of it, unless masks hide its own sum.
    shares: Shares,
    bits: Box<dyn Entropy + Send>,
    /// The hash of what the sums are about.
    subject: [u8; 32],
    /// The hash of the study alone.
    study: [u8; 32],
    clipped: ClippedRows,
}

/// How many rows of the last sum were clipped, of how many: a number without noise, for the owner of the silo alone.
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "executables tell it to owners"))]
#[derive(Debug, Clone, Default)]
pub(crate) struct ClippedRows(Arc<Mutex<Option<[usize; 2]>>>);

#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "executables tell it to owners"))]
impl ClippedRows {
    /// The share of the rows; `None` before the first sum.
    pub(crate) fn share(&self) -> Option<f64> {
        let [clipped, rows] = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(clipped as f64 / rows.max(1) as f64)
    }

    fn put(&self, sum: &GridSum) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some([sum.clipped, sum.rows]);
    }
}

impl std::fmt::Debug for NoisedSums {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NoisedSums").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl NoisedSums {
    /// The mechanism of a silo with this ledger, or none for a simulation, and these random bits.
    #[must_use]
    pub fn new(ledger: Option<Ledger>, bits: Box<dyn Entropy + Send>) -> Self {
        let (shares, clipped) = (Shares::WHOLE, ClippedRows::default());
        Self { ledger, shares, bits, subject: [0; 32], study: [0; 32], clipped }
    }

    /// The same where masks hide the sum of this silo among those of others: it draws a share of the noise, and its ledger says
    /// against how many of them together that keeps the promise.
    pub(crate) fn shared(self, shares: Shares) -> Self {
        let ledger = self.ledger.map(|own| own.against(shares.colluders));
        Self { ledger, shares, ..self }
    }

    /// The same with the number of clipped rows told to the owner.
    #[cfg(feature = "cli")]
    pub(crate) fn telling(self, clipped: &ClippedRows) -> Self {
        Self { clipped: clipped.clone(), ..self }
    }

    /// The same for sums about the study, the model and the rows that have the first hash: a reply that the ledger stores is
    /// one to the same bytes about the same, and other rows or another study are answered anew, and charged. The second hash
    /// is of the study alone.
    #[must_use]
    pub(super) fn about(self, subject: [u8; 32], study: [u8; 32]) -> Self {
        Self { subject, study, ..self }
    }

    /// Refuses sums of which silos divide the noise over other rows than those of the study's first one.
    ///
    /// The others would repeat their sums to the same requests, noise and all, so that the difference to the sum of before
    /// has this silo's share of the noise alone. What the first was about is kept in the ledger, as the reply to a request
    /// that costs nothing.
    fn has_rows_of_study(&self, noise: f64, rate: f64) -> Result<()> {
        let Some(ledger) = self.ledger.as_ref().filter(|_| self.shares != Shares::WHOLE) else { return Ok(()) };
        let request = [b"the rows of a study whose silos divide the noise".as_slice(), &self.study[..]].concat();
        let nothing = Cost::sampled(noise, rate, 0).map_err(declined)?;
        let first = ledger.clone().against(None).answer(&request, nothing, || Ok(self.subject.to_vec()));
        if first.map_err(declined)?.bytes == self.subject {
            return Ok(());
        }
        let problem = "the rows, or the model, are not those with which this silo was first asked for a sum of this study. \
                       Its silos divide the noise, and the others would repeat their sums: what has changed here would \
                       have this silo's share of the noise alone. Nothing was charged. Make another study: another \
                       `seed` in its file, or another `PrivateOptions::study`, is one";
        Err(partita_inference::Error::Declined { problem: problem.into() })
    }
}

impl Mechanism for NoisedSums {
    fn release(&mut self, request: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        // A reply with less noise is none to a request for more.
        let share = if self.shares == Shares::WHOLE { Vec::new() } else { self.shares.count.to_le_bytes().to_vec() };
        let request = &[&self.subject[..], &share, request].concat();
        let RowSum { length, clip, noise, count, rate, sums, rows } = sum;
        // What is added up behind masks is whole numbers: rounding would tell of each silo's part.
        let grid = if self.shares == Shares::WHOLE { Grid::new(clip, Grid::STEPS) } else { Grid::dyadic(clip) };
        let grid = grid.map_err(declined)?;
        self.has_rows_of_study(noise, rate)?;
        let scale = grid.share(noise, self.shares.count).map_err(declined)?;
        let (bits, mut of_rows) = (&mut *self.bits, None);
        // Where all rows are taken they are summed before the ledger is asked: of what takes time nothing comes between the
        // charge and the answer. A row that is no number is in the sum as zero, so that none decides whether there is
        // one.
        let whole = match rate >= 1.0 {
            true => Some(grid.sum(length, rows(&(0..count).collect::<Vec<_>>())?).map_err(declined)?),
            false => None,
        };
        let clipped = self.clipped.clone();
        if let Some(whole) = &whole {
            clipped.put(whole);
        }
        let mut draw = || {
            let sum = match whole.clone() {
                Some(sum) => sum,
                None => {
                    // Which rows are in it is random: nothing is drawn before the ledger is charged.
                    let chosen = poisson_sample(count, rate, bits)?;
                    let rows = rows(&chosen).map_err(|error| {
                        of_rows = Some(error);
                        Error::Entropy { problem: "rows could not be summed".into() }
                    })?;
                    let sum = grid.sum(length, rows)?;
                    clipped.put(&sum);
                    sum
                }
            };
            let released = sum.release(scale, bits)?.to_floats();
            Ok(released.iter().flat_map(|number| number.to_le_bytes()).collect())
        };
        let found = match &self.ledger {
            Some(ledger) => Cost::sampled(noise, rate, sums)
                .and_then(|all| ledger.answer_of_study(&self.subject, all, request, &mut draw))
                .map(|own| own.bytes),
            None => draw(),
        };
        if let Some(error) = of_rows {
            return Err(error);
        }
        let bytes = found.map_err(declined)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|eight| f64::from_le_bytes(*eight)).collect())
    }
}
