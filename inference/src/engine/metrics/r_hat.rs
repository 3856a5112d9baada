//! Measures whether Markov chains agree with each other and with themselves: rank-normalised split R-hat.

use super::chains::Chains;
use super::{MetricError, real};
use crate::engine::moments::mean_and_variance;

/// Rank-normalised split $`\hat R`$ of one number over Markov chains.
///
/// ```math
/// \hat R = \sqrt{\frac{n - 1}{n} + \frac{B}{n W}}
/// ```
/// for halves of chains with $`n`$ draws each, $`W`$ the mean of their variances and $`B/n`$ the variance of their
/// means, once of the normal scores of the draws and once of the normal scores of their distances from the median; the
/// larger of the two. The first sees chains in different places, the second chains of different widths. One is
/// agreement; above 1.01 the chains should not be used.
///
/// # Shapes
/// `chains`: one list of draws a chain, all of one length.
///
/// # Errors
/// [`MetricError::Chains`] for no chain, chains shorter than four or of different lengths, and draws that are not
/// finite or all equal.
///
/// # Example
/// ```
/// use partita_inference::metrics::r_hat;
/// let here: Vec<f64> = (0..100).map(|draw| f64::from(draw * 37 % 100)).collect();
/// let there: Vec<f64> = here.iter().map(|draw| draw + 500.0).collect();
/// assert!(r_hat(&[&here, &here])? < 1.01);
/// assert!(r_hat(&[&here, &there])? > 1.5);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
///
/// # References
/// Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and localization: an improved
/// R-hat, Bayesian Analysis 16, 667-718.
pub fn r_hat(chains: &[&[f64]]) -> Result<f64, MetricError> {
    let halves = Chains::halves("R-hat", chains)?;
    // Halves have an even number of draws together: the median lies between the two in the middle.
    let mut draws = halves.values().to_vec();
    let middle = draws.len() / 2;
    let (lower, upper, _) = draws.select_nth_unstable_by(middle, f64::total_cmp);
    let median = 0.5 * (lower.iter().copied().fold(f64::NEG_INFINITY, f64::max) + *upper);
    let folded = halves.map(|draw| (draw - median).abs());
    Ok(ratio(&halves.normal_scores()).max(ratio(&folded.normal_scores())))
}

/// $`\hat R`$ of chains as they are.
fn ratio(chains: &Chains) -> f64 {
    let length = real(chains.length());
    let (mut within, mut count) = (0.0, 0_usize);
    for chain in chains.iter() {
        within += mean_and_variance(chain).1;
        count += 1;
    }
    let (_, between) = mean_and_variance(&chains.means());
    ((length - 1.0) / length + between / (within / real(count))).sqrt()
}
