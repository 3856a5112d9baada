//! Measures whether predictions made with some confidence come true as often as they say.

use super::{Predictions, real};

/// The bins of equal width that confidences are sorted into.
const BINS: usize = 15;

/// How often predictions came true, by the confidence they were made with.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Bins of equal width from 0 to 1, in ascending order, empty ones included.
    pub bins: Vec<CalibrationBin>,
    /// The expected calibration error.
    pub error: f64,
}

/// The rows whose most probable class has a probability above `lower` and not above `upper`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationBin {
    /// The lower end of the bin, not in it.
    pub lower: f64,
    /// The upper end, in it.
    pub upper: f64,
    /// How many rows there are.
    pub rows: usize,
    /// The mean probability of their most probable class; zero without rows.
    pub confidence: f64,
    /// The share of them whose most probable class was observed; zero without rows.
    pub accuracy: f64,
}

/// How often predictions came true, in 15 bins of equal width by the probability of the most probable class.
///
/// ```math
/// \mathrm{ECE} = \sum_{b=1}^{15} \frac{n_b}{N}\thinspace \bigl| \mathrm{accuracy}_b - \mathrm{confidence}_b \bigr|
/// ```
/// with $`n_b`$ = `rows` of bin $`b`$ and $`N`$ all rows. The estimate is biased upwards: for calibrated predictions it
/// is not zero but of the order $`\sqrt{15 / N}`$.
///
/// # Example
/// ```
/// use partita_inference::metrics::{Predictions, calibration};
/// let predictions = Predictions::new(&[0.75, 0.25, 0.75, 0.25], 2, &[0_u8, 1])?;
/// let calibration = calibration(&predictions);
/// assert_eq!((calibration.error, calibration.bins[11].rows, calibration.bins[11].accuracy), (0.25, 2, 0.5));
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
///
/// # References
/// Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated probabilities using Bayesian binning, AAAI,
/// 2901-2907; the bins are those of Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks,
/// ICML, arXiv:1706.04599, equation 3.
#[must_use]
pub fn calibration(predictions: &Predictions<'_>) -> Calibration {
    let mut sums = [(0_usize, 0.0, 0_usize); BINS];
    for prediction in predictions.iter() {
        let (_, confidence) = prediction.most_probable();
        let (rows, confidences, right) = &mut sums[bin(confidence)];
        *rows += 1;
        *confidences += confidence;
        *right += usize::from(prediction.is_right());
    }
    let mut error = 0.0;
    let bins = sums.iter().enumerate().map(|(index, &(rows, confidences, right))| {
        error += (real(right) - confidences).abs() / real(predictions.rows());
        let count = real(rows.max(1));
        CalibrationBin {
            lower: edge(index),
            upper: edge(index + 1),
            rows,
            confidence: confidences / count,
            accuracy: real(right) / count,
        }
    });
    Calibration { bins: bins.collect(), error }
}

/// The expected calibration error of [`calibration`]: the mean distance of accuracy and confidence over its bins.
#[must_use]
pub fn expected_calibration_error(predictions: &Predictions<'_>) -> f64 {
    calibration(predictions).error
}

/// The bin that holds a confidence, by the same edges that are reported.
fn bin(confidence: f64) -> usize {
    (0..BINS - 1).find(|&index| confidence <= edge(index + 1)).unwrap_or(BINS - 1)
}

fn edge(index: usize) -> f64 {
    real(index) / real(BINS)
}
