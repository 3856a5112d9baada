//! Checks predictive class probabilities against their labels once, so that every measure can rely on them.

use super::MetricError;

/// How far from one the probabilities of a row may add: what single precision leaves of a softmax over many classes.
const SUM_TOLERANCE: f64 = 1e-5;

/// The probability of each class in each row, with the class that was observed.
///
/// The probabilities of a posterior predictive distribution are the mean over draws of each draw's probabilities.
///
/// # Example
/// ```
/// use partita_inference::metrics::{Predictions, accuracy};
/// let predictions = Predictions::new(&[0.9, 0.1, 0.4, 0.6], 2, &[0_u8, 0])?;
/// assert_eq!(accuracy(&predictions), 0.5);
/// # Ok::<(), partita_inference::metrics::MetricError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions<'a> {
    probabilities: &'a [f64],
    classes: usize,
    labels: Vec<usize>,
}

/// One row: the probability of each class, and the class that was observed.
pub(super) struct Prediction<'a> {
    pub(super) probabilities: &'a [f64],
    pub(super) label: usize,
}

impl<'a> Predictions<'a> {
    /// Predictions for the rows that have these labels.
    ///
    /// # Shapes
    /// `probabilities`: `[rows, classes]`, row by row. `labels`: `[rows]`.
    ///
    /// # Errors
    /// [`MetricError::Empty`] without a row or a class, [`MetricError::Length`], [`MetricError::Probability`] for what
    /// is not from 0 to 1, [`MetricError::Sum`] for a row that does not add to one, [`MetricError::Label`].
    pub fn new<L: Copy + Into<usize>>(
        probabilities: &'a [f64],
        classes: usize,
        labels: &[L],
    ) -> Result<Self, MetricError> {
        let labels: Vec<usize> = labels.iter().map(|&label| label.into()).collect();
        if labels.is_empty() || classes == 0 {
            let found = format!("{} rows and {classes} classes", labels.len());
            return Err(MetricError::Empty { operation: "predictions", found, expected: "at least one of each" });
        }
        if labels.len().checked_mul(classes) != Some(probabilities.len()) {
            return Err(MetricError::Length { found: probabilities.len(), labels: labels.len(), classes });
        }
        for (row, (own, &label)) in probabilities.chunks_exact(classes).zip(&labels).enumerate() {
            // A probability that is no number is in no range.
            if let Some(class) = own.iter().position(|probability| !(0.0..=1.0 + SUM_TOLERANCE).contains(probability)) {
                return Err(MetricError::Probability { row, class, found: own[class] });
            }
            let sum: f64 = own.iter().sum();
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(MetricError::Sum { row, found: sum, tolerance: SUM_TOLERANCE });
            }
            if label >= classes {
                return Err(MetricError::Label { row, found: label, classes });
            }
        }
        Ok(Self { probabilities, classes, labels })
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Prediction<'_>> {
        let rows = self.probabilities.chunks_exact(self.classes).zip(&self.labels);
        rows.map(|(probabilities, &label)| Prediction { probabilities, label })
    }
}

impl Prediction<'_> {
    /// The most probable class and its probability; the first of several that are equally probable.
    pub(super) fn most_probable(&self) -> (usize, f64) {
        let mut best = (0, self.probabilities[0]);
        for (class, &probability) in self.probabilities.iter().enumerate() {
            if probability > best.1 {
                best = (class, probability);
            }
        }
        best
    }

    /// Whether the most probable class was observed.
    pub(super) fn is_right(&self) -> bool {
        self.most_probable().0 == self.label
    }
}
