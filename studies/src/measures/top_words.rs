//! Finds the words that say most about a topic.

use crate::harness::Result;

/// The `count` words of largest weight, the largest first; of equal ones the first.
///
/// # Shapes
/// `weights`: one a word, probabilities or their logarithms.
///
/// # Errors
/// If there are fewer than `count` words, or for a weight that is no number.
///
/// # Example
/// ```
/// assert_eq!(partita_studies::measures::top_words(&[0.1, 0.4, 0.2, 0.4], 3).unwrap(), [1, 3, 2]);
/// ```
pub fn top_words(weights: &[f64], count: usize) -> Result<Vec<usize>> {
    if count > weights.len() {
        let found = weights.len();
        return Err(format!("top words: found {found} words, expected at least the {count} that are asked for.").into());
    }
    if let Some(word) = weights.iter().position(|weight| weight.is_nan()) {
        return Err(format!("top words: found weight {} of word {word}, expected a number.", weights[word]).into());
    }
    let mut words: Vec<usize> = (0..weights.len()).collect();
    // Adding zero makes of a negative zero a positive one, which is equal to it.
    words.sort_by(|&a, &b| (weights[b] + 0.0).total_cmp(&(weights[a] + 0.0)));
    words.truncate(count);
    Ok(words)
}
