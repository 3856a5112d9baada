//! Hands a plate its rows: all of them, or those of a minibatch.

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::declare::gathered::Gathered;
use crate::declare::uploaded::indices;
use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// The rows of a plate that are being evaluated.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    pub(crate) total: usize,
    pub(crate) chosen: Option<&'a [usize]>,
    /// The cache of what other evaluations of the same rows took.
    pub(crate) gathered: Option<&'a Gathered>,
    /// Whether tensors taken of these rows stay on the device.
    pub(crate) on_device: bool,
}

impl<'a> Rows<'a> {
    /// These rows (all for `None`) of a plate of `total`, gathered on the host.
    pub(crate) fn on_host(total: usize, chosen: Option<&'a [usize]>) -> Self {
        Self { total, chosen, gathered: None, on_device: false }
    }

    /// The same rows, gathered on the device.
    pub(crate) fn on_device(total: usize, chosen: Option<&'a [usize]>) -> Self {
        Self { on_device: true, ..Self::on_host(total, chosen) }
    }

    /// The number of rows now evaluated.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chosen.map_or(self.total, <[usize]>::len)
    }

    /// Whether no row is evaluated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rows of the whole plate.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The indices now evaluated, or `None` for all rows in order.
    #[must_use]
    pub fn indices(&self) -> Option<&[usize]> {
        self.chosen
    }

    /// These rows of a tensor that has one entry a row in its first dimension.
    ///
    /// # Shapes
    /// `tensor`: `[total, ...]` → `[len, ...]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the first dimension is not the plate's number of rows.
    pub fn take<const D: usize>(&self, tensor: &Tensor<D>) -> Result<Tensor<D>> {
        let shape = tensor.dims();
        if shape[0] != self.total {
            let mut expected = shape.to_vec();
            expected[0] = self.total;
            return Err(Error::Shape {
                operation: "rows.take".into(),
                found: shape.to_vec(),
                expected,
                remedy: "Give the plate as many rows as the data has.".into(),
            });
        }
        let Some(chosen) = self.chosen else { return Ok(tensor.clone()) };
        let select = || tensor.clone().select(0, indices(chosen.iter().copied(), &tensor.device()));
        let Some(gathered) = self.gathered else { return Ok(select()) };
        let source = Handle::from(tensor.clone());
        Ok(gathered.tensor(chosen, &source, || Handle::from(select())).typed())
    }

    /// These rows of a constant stored in its own layout: `gather` is called with the indices, `None` for all rows.
    pub(crate) fn gather(
        &self,
        source: &Arc<Vec<f64>>,
        gather: impl FnOnce(&[usize]) -> Vec<f64>,
    ) -> Option<Arc<Vec<f64>>> {
        let chosen = self.chosen?;
        Some(match self.gathered {
            Some(gathered) => gathered.numbers(chosen, source, || gather(chosen)),
            None => Arc::new(gather(chosen)),
        })
    }

    /// The number of rows, for [`Distribution::over`].
    pub(crate) fn repeat<S>(&self, distribution: Distribution<1, S>) -> Distribution<1, S> {
        distribution.iid([self.len()])
    }
}

impl<S> Distribution<1, S> {
    /// One independent copy for each of these rows.
    #[must_use]
    pub fn over(self, rows: &Rows<'_>) -> Self {
        rows.repeat(self)
    }
}
