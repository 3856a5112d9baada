//! Reads a model's encoder as tensors on a device, with the pull-back of gradients to θ that stay there.

use burn::module::Module;
use burn::tensor::Tensor;

use super::encoding::{block_at, encode};
use crate::declare::model::Model;
use crate::declare::rows::Rows;
use crate::declare::site::SiteTable;
use crate::declare::theta;
use crate::error::Result;

/// Local posteriors of some rows as the model's encoder gives them, of which nothing is read: the twin of
/// [`crate::Encoded`].
///
/// # Shapes
/// Mean and log-scale `[rows, width]`.
#[derive(Debug)]
pub struct DeviceEncoded {
    tapes: [Tensor<2>; 2],
}

impl DeviceEncoded {
    /// Encodes `rows` (all for `None`) of block `block` of the site table; `None` if the model does not encode its
    /// plate.
    ///
    /// # Errors
    /// As for [`crate::Encoded::of`], but for numbers that are not finite, which are not seen.
    pub fn of<M: Model>(
        model: &M,
        table: &SiteTable,
        block: usize,
        data: &M::Data,
        rows: Option<&[usize]>,
    ) -> Result<Option<Self>> {
        let block = block_at(table, block)?;
        let encoded = encode(model, block, data, &Rows::on_device(block.rows, rows))?;
        Ok(encoded.map(|encoding| Self { tapes: [encoding.mean, encoding.log_scale] }))
    }

    /// Means and log-scales as constants.
    #[must_use]
    pub fn parameters(&self) -> [Tensor<2>; 2] {
        self.tapes.clone().map(Tensor::inner)
    }

    /// The transpose of the encoder's Jacobian times gradients by means and log-scales: one flat gradient for each
    /// trained parameter of `model`, the one that encoded; `None` where it depends on none.
    #[must_use]
    pub fn vjp<M: Module>(self, model: &M, gradients: [Tensor<2>; 2]) -> Option<Vec<Tensor<1>>> {
        let terms = self.tapes.into_iter().zip(gradients).filter(|(tape, _)| tape.is_autodiff());
        let sum = terms.map(|(tape, gradient)| (tape * gradient).sum()).reduce(|sum, term| sum + term)?;
        Some(theta::device_gradient(model, &sum.backward()))
    }
}
