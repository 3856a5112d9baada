//! Holds priors made of several sites, as functions that a model calls with its scope and a name.

mod autoregression;
mod basis_process;
mod correlated_slopes;
mod horseshoe;
mod process;
mod regularised_horseshoe;

pub use autoregression::{Series, autoregression};
pub use basis_process::{BasisFunctions, basis_process};
pub use correlated_slopes::{SlopeScales, correlated_slopes, slope_scales};
pub use horseshoe::{Horseshoe, horseshoe};
pub use process::{Kernel, gaussian_process};
pub use regularised_horseshoe::{RegularisedHorseshoe, regularised_horseshoe};
