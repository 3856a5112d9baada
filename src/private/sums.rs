//! States how many noised sums a silo gives in a private fit, with how much noise, and what they cost it.

use partita_inference::{AlgorithmChoice, FedOptOptions, PrivateSfviOptions, PviOptions, Result, RoundOptions};
use partita_privacy::Cost;

use super::declined;

/// The noised sums of a silo in a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    /// The scale of the noise on each number, in units of the clip.
    pub(crate) noise: f64,
    /// The probability with which each row is in a sum.
    pub(crate) rate: f64,
}

impl Sums {
    /// Those of a run by this algorithm for a model with so many globals; `None` where silos answer without noise.
    pub(crate) fn of(algorithm: &AlgorithmChoice, globals: usize) -> Option<Self> {
        match algorithm {
            AlgorithmChoice::PrivateRounds(own) => Some(Self { count: own.rounds, noise: own.noise, rate: 1.0 }),
            AlgorithmChoice::PrivateSfvi(own) => {
                let count = PrivateSfviOptions::releases(own.rounds, globals);
                Some(Self { count, noise: own.noise, rate: own.rate })
            }
            AlgorithmChoice::SfviAvg(RoundOptions { private: Some(own), .. })
            | AlgorithmChoice::FedOpt(FedOptOptions { private: Some(own), .. })
            | AlgorithmChoice::Pvi(PviOptions { private: Some(own), .. }) => {
                Some(Self { count: own.sums, noise: own.noise, rate: own.rate })
            }
            _ => None,
        }
    }

    /// What they cost a silo together.
    pub(crate) fn cost(self) -> Result<Cost> {
        Cost::sampled(self.noise, self.rate, self.count).map_err(declined)
    }
}
