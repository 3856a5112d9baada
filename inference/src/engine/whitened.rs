//! Makes the draws of all rounds: scrambled Sobol points with their twins, of mean zero and unit covariance exactly.

use faer::Mat;
use partita_core::{Key, Noise, NoiseKind, Purpose};

use crate::engine::error::{Error, Result};
use crate::engine::normal::Normal;

/// Draws $\varepsilon_k$ of a standard normal, the same for all parties and rounds.
///
/// # Laws
/// Their mean is zero and their covariance the identity, to rounding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draws {
    rows: Vec<Vec<f64>>,
}

impl Draws {
    /// `count` draws of `len` numbers: half of them, and these with the other sign.
    ///
    /// # Errors
    /// [`Error::Setting`] if they have no covariance of full rank.
    pub(crate) fn new(seed: u64, len: usize, count: usize) -> Result<Self> {
        let noise = Noise::new(seed).kind(NoiseKind::Sobol);
        let half: Vec<Vec<f64>> = (0..u32::try_from(count / 2).unwrap_or(u32::MAX))
            .map(|particle| {
                let mut numbers = vec![0.0; len];
                noise.normal(Key::new(Purpose::Fit, 0).particle(particle), &mut numbers);
                numbers
            })
            .collect();
        let size = half.len() as f64;
        // Twice the sum of squares over twice as many draws.
        let covariance = Mat::from_fn(len, len, |i, j| half.iter().map(|own| own[i] * own[j]).sum::<f64>() / size);
        let decomposed = covariance.llt(faer::Side::Lower).map_err(|_| Error::Setting {
            setting: "draws",
            found: format!("{count} of {len} numbers"),
            expected: "more draws, whose covariance has full rank",
        })?;
        let spread = Normal { mean: vec![0.0; len], factor: decomposed.L().to_owned() };
        let mut rows: Vec<Vec<f64>> = half.iter().map(|own| spread.whiten(own)).collect();
        let twins: Vec<Vec<f64>> = rows.iter().map(|own| own.iter().map(|value| -value).collect()).collect();
        rows.extend(twins);
        Ok(Self { rows })
    }

    /// As many draws of `len` numbers as are enough for a covariance of full rank: a power of two, 16 or more.
    ///
    /// # Errors
    /// As for [`Draws::new`].
    pub(crate) fn enough(seed: u64, len: usize) -> Result<Self> {
        Self::new(seed, len, Self::usual(len))
    }

    /// As many as are enough for `len` numbers.
    pub(crate) fn usual(len: usize) -> usize {
        Self::least(len).next_power_of_two().max(16)
    }

    /// The fewest draws of `len` numbers.
    pub(crate) fn least(len: usize) -> usize {
        2 * (len + 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many draws have a twin after all of them: half.
    pub(crate) fn pairs(&self) -> usize {
        self.rows.len() / 2
    }

    pub(crate) fn get(&self, index: usize) -> &[f64] {
        &self.rows[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_covariance_are_exact() {
        for (len, count) in [(1, 16), (5, 16), (7, 16), (26, 64)] {
            let draws = Draws::new(3, len, count).unwrap();
            let mean = |of: &dyn Fn(&[f64]) -> f64| draws.rows.iter().map(|own| of(own)).sum::<f64>() / count as f64;
            for i in 0..len {
                assert!(mean(&|own| own[i]).abs() < 1e-14);
                for j in 0..len {
                    let expected = f64::from(u8::from(i == j));
                    assert!((mean(&|own| own[i] * own[j]) - expected).abs() < 1e-12, "{len} {i} {j}");
                }
            }
        }
        assert!(Draws::new(3, 16, 16).is_err());
    }
}
