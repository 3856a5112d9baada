//! Gives structured variational inference: over silos, on pooled data, and on a device that is read once in a while.

pub(crate) mod coordinator;
pub(crate) mod on_device;
pub(crate) mod pooled;

pub use coordinator::Sfvi;
pub use on_device::OnDeviceSilo;
