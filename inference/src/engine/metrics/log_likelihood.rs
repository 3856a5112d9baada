//! Measures how probable the observed classes were, in nats a row.

use super::{Predictions, real};

/// The mean over rows of the log probability of the class that was observed, in nats.
///
/// ```math
/// \frac{1}{N} \sum_{n=1}^{N} \ln p(y_n)
/// ```
/// with $`p`$ the predictive probabilities and $`y_n`$ the label of row $`n`$. It is minus infinity if a class was
/// observed that had probability zero: nothing is clipped.
///
/// # Example
/// ```
/// use partita_inference::metrics::{Predictions, test_log_likelihood};
/// let predictions = Predictions::new(&[0.25, 0.75, 0.5, 0.5], 2, &[0_usize, 1])?;
/// assert!((test_log_likelihood(&predictions) - 0.125_f64.ln() / 2.0).abs() < 1e-15);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
#[must_use]
pub fn test_log_likelihood(predictions: &Predictions<'_>) -> f64 {
    let sum: f64 = predictions.iter().map(|prediction| prediction.probabilities[prediction.label].ln()).sum();
    sum / real(predictions.rows())
}
