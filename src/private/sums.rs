//! States how many noised sums a silo gives in a private fit, with how much noise, and what they cost it.

use partita_inference::{AlgorithmChoice, FedOptOptions, PrivateSfviOptions, PviOptions, Result, RoundOptions};
use partita_privacy::Cost;

use super::declined;
use super::shares::Shares;

/// The noised sums of a silo in a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    /// The scale of the noise on each number, in units of the clip.
    pub(crate) noise: f64,
    /// The probability with which each row is in a sum.
    pub(crate) rate: f64,
    /// Which part of the noise is the silo's own.
    pub(crate) shares: Shares,
}

impl Sums {
    /// Those of a run by this algorithm for a model with so many globals; `None` where silos answer without noise.
    pub(crate) fn of(algorithm: &AlgorithmChoice, globals: usize, shares: Shares) -> Option<Self> {
        let (count, noise, rate) = match algorithm {
            AlgorithmChoice::PrivateRounds(own) => (own.rounds, own.noise, 1.0),
            AlgorithmChoice::PrivateSfvi(own) => {
                (PrivateSfviOptions::releases(own.rounds, globals), own.noise, own.rate)
            }
            AlgorithmChoice::SfviAvg(RoundOptions { private: Some(own), .. })
            | AlgorithmChoice::FedOpt(FedOptOptions { private: Some(own), .. })
            | AlgorithmChoice::Pvi(PviOptions { private: Some(own), .. }) => (own.sums, own.noise, own.rate),
            _ => return None,
        };
        Some(Self { count, noise, rate, shares })
    }

    /// What they cost a silo together: as much as with all of the noise, of which colluders leave no less in a sum.
    pub(crate) fn cost(self) -> Result<Cost> {
        Cost::sampled(self.noise, self.rate, self.count).map_err(declined)
    }
}
