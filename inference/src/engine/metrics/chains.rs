//! Holds the draws of several Markov chains split in halves, with their means, variances and normal scores.

use partita_core::special::normal_quantile;

use super::{MetricError, real};

/// The fewest draws of a chain whose halves have a variance.
const FEWEST: usize = 4;

/// Chains of one length, one after another.
#[derive(Debug, Clone)]
pub(super) struct Chains {
    values: Vec<f64>,
    length: usize,
}

impl Chains {
    /// The first and the last half of each chain as chains of their own; the draw in the middle of an odd number is
    /// left out.
    ///
    /// # Errors
    /// [`MetricError::Chains`] for no chain, chains shorter than four or of different lengths, and draws that are not
    /// finite or all equal.
    pub(super) fn halves(operation: &'static str, chains: &[&[f64]]) -> Result<Self, MetricError> {
        let refused = |found: String, expected: &'static str| MetricError::Chains { operation, found, expected };
        let draws = chains.first().map_or(0, |chain| chain.len());
        if draws < FEWEST {
            let found = format!("{} chains of {draws} draws", chains.len());
            return Err(refused(found, "at least one chain of at least four draws"));
        }
        if let Some(other) = chains.iter().find(|chain| chain.len() != draws) {
            let found = format!("chains of {draws} and of {} draws", other.len());
            return Err(refused(found, "chains of one length. Cut the longer ones"));
        }
        let first = chains[0][0];
        for (number, chain) in chains.iter().enumerate() {
            if let Some(place) = chain.iter().position(|draw| !draw.is_finite()) {
                let found = format!("{} as draw {place} of chain {number}", chain[place]);
                return Err(refused(found, "finite numbers. Look for the draw at which the sampler failed"));
            }
        }
        if chains.iter().all(|chain| chain.iter().all(|draw| draw.to_bits() == first.to_bits())) {
            let found = format!("{first} in every draw");
            return Err(refused(found, "draws that differ. A chain that never moves has not sampled"));
        }
        Ok(Self::split(chains))
    }

    /// The halves of chains of one length.
    pub(super) fn split(chains: &[&[f64]]) -> Self {
        let length = chains.first().map_or(0, |chain| chain.len() / 2);
        let mut values = Vec::with_capacity(2 * length * chains.len());
        for chain in chains {
            values.extend_from_slice(&chain[..length]);
            values.extend_from_slice(&chain[chain.len() - length..]);
        }
        Self { values, length }
    }

    /// The same chains with every draw mapped.
    pub(super) fn map(&self, function: impl Fn(f64) -> f64) -> Self {
        Self { values: self.values.iter().map(|value| function(*value)).collect(), length: self.length }
    }

    /// Draws of each chain.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Draws of all chains.
    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The chains.
    pub(super) fn iter(&self) -> std::slice::ChunksExact<'_, f64> {
        self.values.chunks_exact(self.length)
    }

    /// The chains with every draw replaced by the standard normal quantile of its rank among all draws,
    /// $`\Phi^{-1}((r - 3/8)/(S + 1/4))`$; equal draws share the mean of their ranks.
    pub(super) fn normal_scores(&self) -> Self {
        let size = real(self.values.len());
        let mut order: Vec<(f64, usize)> = self.values.iter().copied().zip(0..).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut values = vec![0.0; self.values.len()];
        let mut below = 0;
        for equal in order.chunk_by(|a, b| a.0 <= b.0 && b.0 <= a.0) {
            let rank = real(2 * below + equal.len() + 1) / 2.0;
            let score = normal_quantile((rank - 0.375) / (size + 0.25));
            equal.iter().for_each(|(_, place)| values[*place] = score);
            below += equal.len();
        }
        Self { values, length: self.length }
    }

    /// The means of the chains.
    pub(super) fn means(&self) -> Vec<f64> {
        self.iter().map(|chain| chain.iter().sum::<f64>() / real(self.length)).collect()
    }
}
