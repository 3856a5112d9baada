//! Holds one callable law suite for each trait, so that a new implementation adds one row to a test.

mod bijector;
mod density;
mod device;
mod difference;
mod model;
mod operation;
mod violation;

pub use bijector::{BijectorViolation, bijector};
pub use density::{DensityCase, DensityLaw, DensityViolation, density};
pub use device::{DeviceViolation, bijector_on_device, density_on_device};
pub use difference::derivative;
pub use model::{ModelViolation, model};
pub use operation::{OperationViolation, operation};
pub use violation::Violation;
