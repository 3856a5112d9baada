//! Finds the device a run computes on by its name, with the precision that device can be trusted with.

mod device;

pub use device::{DeviceError, device, device_names, device_with_precision};
