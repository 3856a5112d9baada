//! Averages members one by one where their average is a weighted mean of numbers, so that none is kept.

use super::Averaging;
use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceMatrix, Family};

/// The numbers of a member whose weighted means are those of an average, and the way back.
///
/// With $`t`$ for [`Means::of`] and $`t^{-1}`$ for [`Means::back`] the average of members $`q_j`$ with weights $`w_j`$ is
/// ```math
/// q^* = t^{-1}\left(\sum_j w_j\,t(q_j)\right)
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Means {
    /// The numbers of a member.
    pub of: fn(&dyn Family, &[f64]) -> Result<Vec<f64>>,
    /// The member that has these numbers.
    pub back: fn(&dyn Family, &[f64]) -> Result<Vec<f64>>,
}

impl Means {
    /// The average of members that are all there.
    pub(crate) fn average(self, family: &dyn Family, members: &[Vec<f64>], weights: &[f64]) -> Result<Vec<f64>> {
        let mut mean = WeightedMean::default();
        for (member, weight) in members.iter().zip(weights) {
            mean.add(&(self.of)(family, member)?, *weight);
        }
        (self.back)(family, &mean.sum)
    }
}

/// A weighted sum of vectors that come one by one.
#[derive(Debug, Default)]
pub(crate) struct WeightedMean {
    pub(crate) sum: Vec<f64>,
}

impl WeightedMean {
    pub(crate) fn add(&mut self, vector: &[f64], weight: f64) {
        self.sum.resize(vector.len(), 0.0);
        self.sum.iter_mut().zip(vector).for_each(|(slot, value)| *slot += weight * value);
    }
}

/// Members that come one by one: what their average needs of them.
pub(crate) struct Members<'a> {
    averaging: &'a dyn Averaging,
    family: &'a dyn Family,
    means: Option<Means>,
    mean: WeightedMean,
    /// All of them, where their average is no mean.
    all: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

impl<'a> Members<'a> {
    pub(crate) fn new(averaging: &'a dyn Averaging, family: &'a dyn Family) -> Self {
        let (means, mean, all, weights) = (None, WeightedMean::default(), Vec::new(), Vec::new());
        Self { averaging, family, means, mean, all, weights }
    }

    pub(crate) fn add(&mut self, member: Vec<f64>, weight: f64) -> Result<()> {
        if self.weights.is_empty() {
            self.means = self.averaging.means(self.family, &member);
        }
        self.weights.push(weight);
        match self.means {
            Some(means) => self.mean.add(&(means.of)(self.family, &member)?, weight),
            None => self.all.push(member),
        }
        Ok(())
    }

    pub(crate) fn average(self) -> Result<Vec<f64>> {
        match self.means {
            Some(means) => (means.back)(self.family, &self.mean.sum),
            None => self.averaging.average(self.family, &self.all, &self.weights),
        }
    }
}

/// The mean of a member and its standard deviations, where its components are independent.
pub(crate) fn independent(family: &dyn Family, member: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
    match family.covariance_matrix(member) {
        CovarianceMatrix::Diagonal(sds) => Ok((family.mean(member), sds)),
        CovarianceMatrix::Full(_) => Err(Error::Average {
            operation: "mean of standard deviations",
            problem: "one member has independent components, another has not".into(),
        }),
    }
}
