//! Keeps a posterior on a device: draws, gradients and Adam as tensor operations, of which nothing is read to the host.
//!
//! The formulas are those of the host twins [`crate::Family`], [`crate::RowGaussian`] and the fused Adam, which specify
//! them; a run of one equals a run of the other to rounding.

mod globals;
mod moving;
mod noise;
mod rows;

pub(crate) use globals::{Globals, GlobalsDraw, GlobalsGradient, Ready};
pub(crate) use moving::{Moving, Places};
pub(crate) use noise::{BlockNoise, ParticleNoise};
pub(crate) use rows::{RowBlock, RowStep, RowsDraw, RowsGradient, ThroughRows};

use burn::tensor::Tensor;

/// The sum of two gradients, the first of which may not be there yet.
pub(crate) fn plus<const D: usize>(sum: &mut Option<Tensor<D>>, term: Tensor<D>) {
    *sum = Some(match sum.take() {
        Some(sum) => sum + term,
        None => term,
    });
}
