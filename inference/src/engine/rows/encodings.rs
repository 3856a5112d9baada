//! Holds the tapes of a step's encoders, and takes gradients by what they gave back to the model's parameters.

use partita_core::{AnyModel, Device, Encoded};

use crate::engine::error::Result;
use crate::engine::estimator::add;

/// What encoders gave for the rows of one step, one entry a block; `None` where rows have parameters of their own.
#[derive(Debug)]
pub(crate) struct Encodings {
    blocks: Vec<Option<Encoded>>,
}

impl Encodings {
    pub(crate) fn new(blocks: Vec<Option<Encoded>>) -> Self {
        Self { blocks }
    }

    /// Takes the gradients by encoded parameters out of `particles` (one vector a block each, left empty), and returns
    /// their sum pulled back to all of θ; `None` if nothing is encoded.
    pub(crate) fn vjp(
        self,
        model: &AnyModel,
        device: &Device,
        mut particles: Vec<&mut [Vec<f64>]>,
    ) -> Result<Option<Vec<f64>>> {
        let mut theta: Option<Vec<f64>> = None;
        for (block, encoded) in self.blocks.into_iter().enumerate() {
            let Some(encoded) = encoded else { continue };
            let mut sum = vec![0.0; encoded.parameters().len()];
            particles.iter_mut().for_each(|particle| add(&mut sum, &std::mem::take(&mut particle[block])));
            let own = encoded.vjp(model, device, &sum)?;
            match &mut theta {
                Some(theta) => add(theta, &own),
                None => theta = Some(own),
            }
        }
        Ok(theta)
    }
}
