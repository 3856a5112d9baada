//! Averages variational parameters number by number.

use super::{Averaging, Means, weighted};
use crate::engine::error::Result;
use crate::engine::family::Family;

/// The mean of the variational parameters themselves, as FedAvg averages weights.
///
/// It depends on the parametrisation: standard deviations are averaged geometrically. Kept as the plain baseline; the
/// [`super::Barycentre`] depends on the distributions only.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParameterMean;

impl Averaging for ParameterMean {
    fn average(&self, _: &dyn Family, members: &[Vec<f64>], weights: &[f64]) -> Result<Vec<f64>> {
        Ok(weighted(members.iter().map(Vec::as_slice), weights))
    }

    fn means(&self, _: &dyn Family, _: &[f64]) -> Option<Means> {
        let same = |_: &dyn Family, numbers: &[f64]| Ok(numbers.to_vec());
        Some(Means { of: same, back: same })
    }
}
