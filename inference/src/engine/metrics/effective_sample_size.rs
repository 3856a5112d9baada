//! Measures how many independent draws the draws of Markov chains are worth, in the bulk and in the tails.

use super::chains::Chains;
use super::{MetricError, real};
use crate::engine::moments::mean_and_variance;

/// The probability below the lower quantile of the tails, and above the upper one.
const TAIL: f64 = 0.05;

/// The effective sample size of one number in the bulk of its distribution: the number of independent draws that would
/// estimate the mean of its normal scores as well.
///
/// ```math
/// S_{\text{eff}} = \frac{S}{-1 + 2\sum_{t \ge 0} \hat\rho_t}
/// ```
/// with $`S`$ draws in all and $`\hat\rho_t`$ the autocorrelation at lag $`t`$ estimated over halves of all chains,
/// whose sum ends where pairs $`\hat\rho_{2k} + \hat\rho_{2k+1}`$ are no longer positive and is made monotone before.
/// Draws that alternate are worth more than independent ones, at most $`S \log_{10} S`$. The standard error of a
/// posterior mean is about the standard deviation over $`\sqrt{S_{\text{eff}}}`$.
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
/// use partita_inference::metrics::bulk_effective_sample_size;
/// // A chain that stays at each value for ten draws.
/// let slow: Vec<f64> = (0..1000).map(|draw| f64::from(draw / 10 * 37 % 100)).collect();
/// assert!(bulk_effective_sample_size(&[&slow])? < 250.0);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
///
/// # References
/// Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718; Geyer (1992), Practical
/// Markov chain Monte Carlo, Statistical Science 7, 473-483.
pub fn bulk_effective_sample_size(chains: &[&[f64]]) -> Result<f64, MetricError> {
    Ok(effective(&Chains::halves("effective sample size", chains)?.normal_scores()))
}

/// The effective sample size of one number in the tails of its distribution: the smaller of those of the events that a
/// draw is not above the 5 % and the 95 % quantile of all draws.
///
/// # Shapes
/// `chains`: one list of draws a chain, all of one length.
///
/// # Errors
/// As for [`bulk_effective_sample_size`].
///
/// # Example
/// ```
/// use partita_inference::metrics::tail_effective_sample_size;
/// let draws: Vec<f64> = (0..1000).map(|draw| f64::from(draw * 377 % 1000)).collect();
/// assert!(tail_effective_sample_size(&[&draws])? > 500.0);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
///
/// # References
/// Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), section 4.3.
pub fn tail_effective_sample_size(chains: &[&[f64]]) -> Result<f64, MetricError> {
    Chains::halves("effective sample size", chains)?;
    let mut sorted = chains.concat();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |probability: f64| {
        let limit = crate::engine::report::summary::quantile(&sorted, probability);
        let below: Vec<Vec<f64>> =
            chains.iter().map(|chain| chain.iter().map(|draw| f64::from(u8::from(*draw <= limit))).collect()).collect();
        let below: Vec<&[f64]> = below.iter().map(Vec::as_slice).collect();
        effective(&Chains::split(&below))
    };
    Ok(at(TAIL).min(at(1.0 - TAIL)))
}

/// The effective sample size of chains as they are.
fn effective(chains: &Chains) -> f64 {
    let (size, length) = (real(chains.values().len()), chains.length());
    let means = chains.means();
    let count = real(means.len());
    // The mean over chains of the autocovariance at a lag, with the number of draws as its divisor.
    let covariance = |lag: usize| {
        let one = |(chain, mean): (&[f64], &f64)| {
            let pairs = chain.iter().zip(&chain[lag..]);
            pairs.map(|(now, later)| (now - mean) * (later - mean)).sum::<f64>() / real(length)
        };
        chains.iter().zip(&means).map(one).sum::<f64>() / count
    };
    let biased = covariance(0);
    let within = biased * real(length) / (real(length) - 1.0);
    let between = if means.len() > 1 { mean_and_variance(&means).1 } else { 0.0 };
    let total = biased + between;
    if total <= 0.0 {
        // An event that always happens: its share is known exactly.
        return size;
    }
    let correlation = |lag: usize| 1.0 - (within - covariance(lag)) / total;
    let mut pairs = vec![(1.0, correlation(1))];
    let mut lag = 2;
    while lag + 2 < length && pairs.last().is_some_and(|(even, odd)| even + odd > 0.0) {
        pairs.push((correlation(lag), correlation(lag + 1)));
        lag += 2;
    }
    // Of the pair at which the sum ends the even term alone is kept, and counted once.
    let last = pairs.pop().map_or(0.0, |(even, _): (f64, f64)| even.max(0.0));
    let (mut sum, mut least) = (0.0, f64::INFINITY);
    for (even, odd) in pairs {
        least = least.min(even + odd);
        sum += least;
    }
    size / (2.0 * sum - 1.0 + last).max(1.0 / size.log10())
}
