//! Keeps a posterior on a device: draws, gradients and Adam as tensor operations, of which nothing is read to the host.
//!
//! The formulas are those of the host twins [`crate::Family`], [`crate::RowGaussian`] and the fused Adam, which specify
//! them; a run of one equals a run of the other to rounding.

mod cavity;
mod evaluate;
mod fit;
mod globals;
mod moving;
mod noise;
mod rows;
mod steps;

pub(crate) use fit::{DeviceFit, Interval, Owner, Weights};
pub(crate) use steps::{Before, Begin, DeviceSteps};

use cavity::{Cavity, CavityPart};
use globals::{GlobalUnits, Globals, GlobalsDraw, GlobalsGradient, Ready};
use moving::{Moving, Places, Update};
use noise::{BlockNoise, ParticleNoise};
use rows::{RowBlock, RowStep, RowsDraw, RowsGradient, ThroughRows};

use burn::tensor::Tensor;

/// The sum of two gradients, the first of which may not be there yet.
pub(crate) fn plus<const D: usize>(sum: &mut Option<Tensor<D>>, term: Tensor<D>) {
    *sum = Some(match sum.take() {
        Some(sum) => sum + term,
        None => term,
    });
}
