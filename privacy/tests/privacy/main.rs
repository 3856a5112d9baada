//! Holds private releases to their laws: exact sensitivity, exact noise, accounting, a ledger that only grows, masks.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "a failure ends the test, and equal numbers have equal bits")]

mod accounting;
mod audit;
mod grid;
mod ledger;
mod masks;
mod sample;
mod sampler;

use partita_privacy::SeededBits as Seeded;

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
