//! Puts outcomes that were drawn in the place of those of the data, wherever a model observes them.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::Scope;
use crate::array::Array;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// Outcomes by the full name of their site, each with all rows of its plate.
#[derive(Debug, Clone)]
pub(crate) struct Outcomes(Arc<[(String, Handle)]>);

impl Outcomes {
    /// These outcomes as tensors.
    pub(crate) fn new(observed: &[(String, Array)], device: &Device) -> Self {
        let uploaded = |(name, array): &(String, Array)| {
            let flat = device.tensor(array.values.clone(), [array.values.len()]);
            (name.clone(), Handle::from(flat).reshaped(&array.shape))
        };
        Self(observed.iter().map(uploaded).collect())
    }
}

impl Scope<'_> {
    /// What `body` gives where every observation that it declares is of these outcomes.
    pub(crate) fn with_outcomes<T>(
        &mut self,
        outcomes: &Outcomes,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.outcomes.replace(outcomes.clone());
        let result = body(self);
        self.outcomes = before;
        result
    }

    /// The outcome of an observed site: `value`, or the rows now evaluated of what stands in for it.
    pub(super) fn outcome_of<const D: usize>(&self, name: &str, value: Tensor<D>) -> Result<Tensor<D>> {
        let Some(outcomes) = self.outcomes.as_ref().filter(|_| !self.is_empty_here()) else { return Ok(value) };
        let full = self.full(name);
        let Some((_, outcome)) = outcomes.0.iter().find(|(known, _)| *known == full) else {
            return Err(Error::Argument {
                operation: self.operation(name),
                argument: "outcomes",
                found: "none for this site".into(),
                expected: "one for every site that the model observes; a model observes the same sites at every evaluation",
            });
        };
        let outcome = outcome.tensor::<D>()?;
        match &self.place.plate {
            Some(plate) => plate.rows.take(&outcome),
            None => Ok(outcome),
        }
    }
}
