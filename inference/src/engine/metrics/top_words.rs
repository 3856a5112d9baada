//! Finds the words that say most about a topic.

use super::MetricError;

/// The `count` words of largest weight, the largest first; of equal ones the first.
///
/// # Shapes
/// `weights`: one a word, probabilities or their logarithms.
///
/// # Errors
/// [`MetricError::Empty`] if there are fewer than `count` words, [`MetricError::Weight`] for a weight that is no
/// number.
///
/// # Example
/// ```
/// assert_eq!(partita_inference::metrics::top_words(&[0.1, 0.4, 0.2, 0.4], 3)?, [1, 3, 2]);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
pub fn top_words(weights: &[f64], count: usize) -> Result<Vec<usize>, MetricError> {
    if count > weights.len() {
        let found = format!("{} words where {count} are asked for", weights.len());
        return Err(MetricError::Empty { operation: "top words", found, expected: "at least as many words" });
    }
    if let Some(word) = weights.iter().position(|weight| weight.is_nan()) {
        return Err(MetricError::Weight { word, found: weights[word] });
    }
    let mut words: Vec<usize> = (0..weights.len()).collect();
    // Adding zero makes of a negative zero a positive one, which is equal to it.
    words.sort_by(|&a, &b| (weights[b] + 0.0).total_cmp(&(weights[a] + 0.0)));
    words.truncate(count);
    Ok(words)
}
