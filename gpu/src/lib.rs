//! Finds the device of a run by its name, with a precision in which the device is reliable.

mod device;

pub use device::{DeviceError, device, device_names, device_with_precision};
