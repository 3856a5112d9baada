//! Reads a model's encoder: local posteriors of some rows on the host, with the pull-back of a gradient to θ.

use std::fmt::{self, Display};

use burn::tensor::Tensor;

use crate::declare::encoding::Encoding;
use crate::declare::model::Model;
use crate::declare::panic::caught;
use crate::declare::rows::Rows;
use crate::declare::site::{LocalBlock, SiteTable};
use crate::declare::theta;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// Local posteriors of some rows of one plate as the model's encoder gives them, and the tape that made them.
///
/// # Shapes
/// [`Encoded::parameters`]: the means `[rows, width]`, then the logarithms of the standard deviations `[rows, width]`,
/// each row-major: the layout of a diagonal Gaussian over rows.
#[derive(Debug)]
pub struct Encoded {
    parameters: Vec<f64>,
    shape: [usize; 2],
    /// Means and log-scales, where gradients flow through them.
    tapes: [Option<Tensor<2>>; 2],
}

impl Encoded {
    /// Encodes `rows` (all for `None`) of block `block` of the site table; `None` if the model does not encode its
    /// plate.
    ///
    /// # Errors
    /// [`Error::Shape`] if the encoder does not give one number for each latent of each row, [`Error::NotFiniteMade`]
    /// for numbers that are not finite, [`Error::Argument`] for a block there is not; otherwise what the encoder
    /// refuses.
    pub fn of<M: Model>(
        model: &M,
        table: &SiteTable,
        block: usize,
        data: &M::Data,
        rows: Option<&[usize]>,
    ) -> Result<Option<Self>> {
        let block = block_at(table, block)?;
        let rows = Rows::on_host(block.rows, rows);
        let Some(Encoding { mean, log_scale }) = encode(model, block, data, &rows)? else { return Ok(None) };
        let shape = mean.dims();
        let mut parameters = Vec::with_capacity(2 * shape[0] * shape[1]);
        for (name, tensor) in [("mean", &mean), ("log-scale", &log_scale)] {
            let values = Handle::from(tensor.clone()).read()?.values;
            if let Some(found) = values.iter().copied().find(|value| !value.is_finite()) {
                return Err(Error::NotFiniteMade { operation: operation(name, block).to_string(), found });
            }
            parameters.extend(values);
        }
        // Constants have nothing to pull back to.
        let tapes = [mean, log_scale].map(|tensor| Handle::from(tensor.clone()).is_tracked().then_some(tensor));
        Ok(Some(Self { parameters, shape, tapes }))
    }

    /// Means, then log-scales.
    #[must_use]
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// The transpose of the encoder's Jacobian times `gradient` (one number for each of [`Encoded::parameters`]): a
    /// gradient by the trained parameters of `model`, the one that encoded, in the order Burn visits them.
    ///
    /// # Errors
    /// [`Error::Length`] for a gradient of the wrong length; [`Error::Device`] if a gradient cannot be read.
    pub fn vjp<M: Model>(self, model: &M, device: &Device, gradient: &[f64]) -> Result<Vec<f64>> {
        let operation = "pulling a gradient back through an encoder";
        let remedy = "Give one number for each mean, then one for each log-scale.";
        Error::same_length(operation, gradient.len(), self.parameters.len(), remedy)?;
        let mut sum: Option<Tensor<1>> = None;
        let halves = gradient.chunks(self.parameters.len().div_ceil(2).max(1));
        for (tape, half) in self.tapes.into_iter().zip(halves) {
            let term = tape.map(|tape| (tape * device.tensor(half.to_vec(), self.shape)).sum());
            sum = match (sum, term) {
                (Some(sum), Some(term)) => Some(sum + term),
                (sum, term) => sum.or(term),
            };
        }
        theta::gradient(model, sum.map(|sum| sum.backward()).as_ref())
    }
}

/// What an encoder gives, in words that are written where an error needs them.
fn operation(name: &str, block: &LocalBlock) -> impl Display {
    fmt::from_fn(move |to| {
        write!(to, "the {name} from the encoder of plate `{}`", block.plate.as_deref().unwrap_or_default())
    })
}

/// A block of the site table by its place.
pub(super) fn block_at(table: &SiteTable, place: usize) -> Result<&LocalBlock> {
    table.blocks().get(place).ok_or_else(|| Error::Argument {
        operation: "encoding rows".into(),
        argument: "block",
        found: place.to_string(),
        expected: "the place of a block of the site table",
    })
}

/// What the model's encoder gives for some rows of a block; refuses other shapes.
pub(super) fn encode<M: Model>(
    model: &M,
    block: &LocalBlock,
    data: &M::Data,
    rows: &Rows<'_>,
) -> Result<Option<Encoding>> {
    let Some(plate) = &block.plate else { return Ok(None) };
    let encoding = caught(|| model.encode(plate, data, rows))
        .unwrap_or_else(|reason| Err(Error::Panicked { place: format!("in the encoder of plate `{plate}`"), reason }));
    let Some(encoding) = encoding? else { return Ok(None) };
    let expected = [rows.len(), block.width];
    for (name, tensor) in [("mean", &encoding.mean), ("log-scale", &encoding.log_scale)] {
        let remedy = "An encoder gives every row evaluated as many numbers as its plate has latents in a row.";
        Error::same_shape(operation(name, block), &tensor.dims(), &expected, remedy)?;
    }
    Ok(Some(encoding))
}
