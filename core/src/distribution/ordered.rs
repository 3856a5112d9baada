//! Restricts independent numbers to increasing order, for cutpoints and for components that must not swap.

use super::Support;
use super::batch::{Continuous, Distribution};
use super::evaluate::View;
use super::law::{Law, Parameter};
use crate::error::{Error, Result};

impl<const D: usize> Distribution<D, Continuous> {
    /// Restricts the numbers of the last dimension to increasing order.
    ///
    /// The density is that of the independent numbers on the increasing vectors: the density of their order statistics
    /// is $K!$ times it, a constant that is left out, so that the log density is the sum over the numbers. A draw is a
    /// sorted one. All numbers have the same parameters; their support is the real numbers or the numbers above zero.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Normal};
    /// let cutpoints = Normal::new(0.0, 2.0).iid([2]).ordered();
    /// let increasing = Array::new(vec![-1.0, 1.0], vec![2])?;
    /// let plain = Normal::new(0.0, 2.0).iid([2]).log_prob_of(&increasing)?;
    /// assert_eq!(cutpoints.log_prob_of(&increasing)?, plain);
    /// assert!(cutpoints.log_prob_of(&Array::new(vec![1.0, -1.0], vec![2])?).is_err());
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    #[must_use]
    pub fn ordered(mut self) -> Self {
        let many = |parameter: &Parameter| match parameter {
            Parameter::Number(_) => false,
            Parameter::Tensor(handle) => handle.shape().iter().product::<usize>() != 1,
        };
        if !self.law.event.is_empty() || self.law.parameters.iter().any(many) {
            let defect = Error::Shape {
                operation: format!("{}::ordered", self.law.density.name()),
                found: self.law.shape(),
                expected: vec![1],
                remedy: "Only numbers with the same parameters can be ordered: give numbers or tensors of one element, then `.iid([k]).ordered()`.".into(),
            };
            self.law.defect.get_or_insert(defect);
        }
        self.law.ordered = true;
        self
    }
}

impl Law {
    /// The numbers that one bijector maps together: an event, or the last dimension of an ordered law.
    pub(crate) fn mapped_len(&self) -> usize {
        match self.batch.last() {
            Some(last) if self.ordered => *last,
            _ => self.event_len(),
        }
    }

    /// The support of what one bijector maps.
    pub(crate) fn mapped_support(&self, view: &View<'_>) -> Result<Support> {
        match view.support() {
            Support::Real if self.ordered => Ok(Support::Ordered),
            Support::Positive if self.ordered => Ok(Support::PositiveOrdered),
            support if self.ordered => Err(Error::Argument {
                operation: format!("{}::ordered", self.density.name()),
                argument: "support",
                found: support.describe(),
                expected: "the real numbers or the numbers above zero; leave out `.ordered()`",
            }),
            support => Ok(support),
        }
    }

    /// Sorts the numbers of the last dimension of an ordered law.
    pub(super) fn put_in_order(&self, values: &mut [f64]) {
        if self.ordered {
            values.chunks_exact_mut(self.mapped_len().max(1)).for_each(|numbers| numbers.sort_by(f64::total_cmp));
        }
    }

    /// Refuses values of an ordered law that do not increase.
    pub(super) fn check_order(&self, operation: &str, view: &View<'_>, values: &[f64]) -> Result<()> {
        if !self.ordered {
            return Ok(());
        }
        let (support, length) = (self.mapped_support(view)?, self.mapped_len().max(1));
        for (vector, numbers) in values.chunks_exact(length).enumerate() {
            if let Some(place) = (1..=numbers.len()).find(|end| !support.contains(&numbers[..*end])) {
                return Err(Error::Support {
                    operation: operation.into(),
                    distribution: self.density.name(),
                    found: numbers[place - 1],
                    index: vector * length + place - 1,
                    support: support.describe(),
                });
            }
        }
        Ok(())
    }
}
