//! Draws which rows are in a sum: each with the same probability, independently of the others.

use crate::entropy::Entropy;
use crate::error::{Error, Result};

/// A Poisson sample of `count` rows, in ascending order: each is in it with probability `rate`, rounded down to a multiple
/// of 2⁻⁶⁴, whatever the others are.
///
/// # Errors
/// [`Error::Setting`] for a rate outside (0, 1]; [`Error::Entropy`] where there are no random bits.
///
/// # Example
/// ```
/// use partita_privacy::{SeededBits, poisson_sample};
/// let sample = poisson_sample(10_000, 0.1, &mut SeededBits::new(7))?;
/// assert!((sample.len() as f64 - 1000.0).abs() < 6.0 * 30.0); // six standard deviations
/// assert_eq!(poisson_sample(3, 1.0, &mut SeededBits::new(7))?, [0, 1, 2]);
/// # Ok::<(), partita_privacy::Error>(())
/// ```
pub fn poisson_sample(count: usize, rate: f64, entropy: &mut dyn Entropy) -> Result<Vec<usize>> {
    if !(rate > 0.0 && rate <= 1.0) {
        return Err(Error::Setting {
            operation: "a sample of rows",
            what: "the rate of sampling",
            found: rate.to_string(),
            expected: "a number above 0 and at most 1",
            remedy: "Give the rows expected in a sample over all; 1 for all of them.",
        });
    }
    if rate >= 1.0 {
        return Ok((0..count).collect());
    }
    // Below 2⁶⁴ as the rate is below 1: exact, since a product with a power of two rounds nothing.
    let bound = (rate * 2.0_f64.powi(64)) as u64;
    let mut sample = Vec::new();
    for row in 0..count {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes)?;
        if u64::from_le_bytes(bytes) < bound {
            sample.push(row);
        }
    }
    Ok(sample)
}
