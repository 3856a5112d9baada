//! Holds private releases to their laws: exact sensitivity, exact noise, accounting, a ledger that only grows, masks.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "a failure ends the test, and equal numbers have equal bits")]

mod accounting;
mod audit;
mod grid;
mod ledger;
mod masks;
mod sampler;

use partita_privacy::{Entropy, Result};
use sha2::{Digest, Sha256};

/// Bits that a literal seed repeats: SHA-256 of the seed and a counter.
struct Seeded {
    seed: u64,
    at: u64,
}

impl Seeded {
    fn new(seed: u64) -> Self {
        Self { seed, at: 0 }
    }
}

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        for part in bytes.chunks_mut(32) {
            let hash = Sha256::digest([self.seed.to_le_bytes(), self.at.to_le_bytes()].concat());
            part.copy_from_slice(&hash[..part.len()]);
            self.at += 1;
        }
        Ok(())
    }
}

/// The value that a chi-square statistic with so many degrees of freedom exceeds with probability below 10⁻⁹, by the
/// bound of Laurent and Massart (2000): k + 2√(kx) + 2x for the probability exp(−x).
fn largest_chi_square(degrees: usize) -> f64 {
    let (degrees, x) = (degrees as f64, 1e9_f64.ln());
    degrees + 2.0 * (degrees * x).sqrt() + 2.0 * x
}

/// The golden numbers, read from the file that `golden/accounting.py` writes.
fn golden() -> serde_json::Value {
    serde_json::from_str(include_str!("../golden/accounting.json")).unwrap()
}
