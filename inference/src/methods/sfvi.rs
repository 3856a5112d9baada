//! Gives structured variational inference: over silos, on pooled data, and on a device that is read once in a while.

pub(crate) mod coordinator;
mod holder;
mod messages;
pub(crate) mod on_device;
mod pooled;
mod private;

pub use coordinator::Sfvi;
pub use holder::Central;
pub use on_device::OnDeviceSilo;
pub use pooled::CentralSilo;
pub use private::{PrivateSfvi, PrivateSfviOptions, PrivateSfviSilo};
