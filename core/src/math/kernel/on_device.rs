//! Offers kernels for devices: each is one launch on a CubeCL device in single precision, and tensor operations elsewhere.
//!
//! The tensor operations specify what a kernel computes: `step_plain`, `draw_plain`, `pull_back_plain`, and those of
//! [`crate::Density::on_device`]. `tests/exactness/gpu/fused.rs` holds each kernel to them and to the host.

mod adam;
mod diagonal;
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
mod fused;

pub use adam::{AdamTensors, bounded, in_units};
pub use diagonal::{DiagonalGradient, DiagonalNoise, DrawGradients, DrawTensors, over_draws};
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
pub(crate) use fused::{bernoulli, categorical, normal_square, poisson};
