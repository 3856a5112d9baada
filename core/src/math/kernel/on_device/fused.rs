//! Holds the kernels of CubeCL, each in a file of its own with the function that launches it.
//!
//! A function gives `None` where there is no kernel: on other devices, in double precision, and for shapes that tensor operations
//! broadcast. Launches are checked: a thread that reads or writes beyond a tensor's end does neither.

#![allow(unreachable_pub, reason = "CubeCL's macro writes `pub`")]

mod adam;
mod bernoulli;
mod categorical;
mod diagonal;
mod launch;
mod log1p;
mod normal;
mod poisson;

pub(super) use adam::adam;
pub(crate) use bernoulli::bernoulli;
pub(crate) use categorical::categorical;
pub(super) use diagonal::{draw, pull_back};
pub(crate) use normal::normal_square;
pub(crate) use poisson::poisson;
