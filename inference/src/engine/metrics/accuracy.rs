//! Measures how often the most probable class is the one observed.

use super::{Predictions, real};

/// The share of rows whose most probable class was observed.
///
/// Of several classes that are equally probable the first is taken.
#[must_use]
pub fn accuracy(predictions: &Predictions<'_>) -> f64 {
    real(predictions.iter().filter(super::predictions::Prediction::is_right).count()) / real(predictions.rows())
}
