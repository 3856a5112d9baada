//! Puts outcomes that were drawn in the place of those of the data, wherever a model observes them.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};

use super::Scope;
use crate::array::Array;
use crate::device::Device;
use crate::distribution::{Known, Law, Parameter};
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
    ///
    /// An event that is censored in the data is censored at the same number again, unless what stands in for it would have been
    /// seen there; others have no limit. `law` gets their statuses.
    pub(super) fn outcome_of<const D: usize>(&self, name: &str, law: &mut Law, value: Tensor<D>) -> Result<Tensor<D>> {
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
        let outcome = match &self.place.plate {
            Some(plate) => plate.rows.take(&outcome)?,
            None => outcome,
        };
        match law.density.censoring() {
            None => Ok(outcome),
            Some(Known::Right { status }) => {
                let is_seen = outcome.clone().lower_equal(value.clone());
                censored(law, status, is_seen, value, outcome)
            }
            Some(Known::Left { status }) => {
                let is_seen = outcome.clone().greater(value.clone());
                censored(law, status, is_seen, value, outcome)
            }
            Some(Known::Interval) => Err(Error::Argument {
                operation: self.operation(name),
                argument: "outcomes",
                found: "drawn ones, where the data have intervals".into(),
                expected: "outcomes that are known, or censored on one side: in which interval another outcome would be is not known",
            }),
        }
    }
}

/// Drawn outcomes as they are seen: of those beyond the limit of an event that is censored in the data, that is all that is
/// known.
fn censored<const D: usize>(
    law: &mut Law,
    status: usize,
    is_seen: Tensor<D, Bool>,
    limits: Tensor<D>,
    drawn: Tensor<D>,
) -> Result<Tensor<D>> {
    let is_seen = match &law.parameters[status] {
        Parameter::Number(1.0) => return Ok(drawn),
        Parameter::Number(_) => is_seen,
        Parameter::Tensor(before) => is_seen.bool_or(before.tensor::<D>()?.greater_elem(0.5)),
    };
    law.parameters[status] = drawn.zeros_like().mask_fill(is_seen.clone(), 1.0).into();
    Ok(limits.mask_where(is_seen, drawn))
}
