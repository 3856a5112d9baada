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
use partita_core::{Device, Part, SiteTable};

/// A vector of the globals as a tensor `[1, width]` for each site of theirs.
pub(crate) fn by_site(globals: &[f64], table: &SiteTable, device: &Device) -> Vec<Tensor<2>> {
    let site = |offset: usize, width: usize| device.tensor(globals[offset..][..width].to_vec(), [1, width]);
    table.latents(Part::Global).map(|own| site(own.offset(), own.width())).collect()
}

/// The sum of two gradients, the first of which may not be there yet.
pub(crate) fn plus<const D: usize>(sum: &mut Option<Tensor<D>>, term: Tensor<D>) {
    *sum = Some(match sum.take() {
        Some(sum) => sum + term,
        None => term,
    });
}
