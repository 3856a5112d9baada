//! Makes the ten silos of the thesis' experiment A, equal to the last bit, from the generator that it used.

use super::legacy_normal::LegacyNormal;

/// The ten silos of the thesis' experiment A: 1,000 numbers of mean 5 and standard deviation 1 each.
///
/// Silo $`c`$ of 1 to 10 holds what NumPy's `RandomState(c).normal(5, 1, 1000)` gives, to the last bit. These are data
/// of a published experiment, not randomness of a run: nothing else draws from this generator.
///
/// # Example
/// ```
/// let silos = partita_studies::gaussian_mean_silos();
/// assert!((silos[0].iter().sum::<f64>() - 5038.812476160).abs() < 1e-9);
/// ```
#[must_use]
pub fn gaussian_mean_silos() -> Vec<Vec<f64>> {
    let silo = |seed| {
        let mut numbers = LegacyNormal::new(seed);
        (0..1000).map(|_| 5.0 + numbers.draw()).collect()
    };
    (1..=10).map(silo).collect()
}
