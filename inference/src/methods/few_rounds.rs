//! Gives few rounds: rows integrated out in their silos, natural-gradient steps of the globals on draws that stay.

mod alone;
pub(crate) mod coordinator;
mod course;
mod messages;
mod on_device;
mod options;
mod past;
mod plates;
mod private;
mod quadratic;
mod silo;
mod step;
mod surrogate;
mod third;

pub use coordinator::FewRounds;
pub(crate) use coordinator::check;
pub use options::FewRoundsOptions;
pub use private::{PrivateRounds, PrivateRoundsOptions, PrivateRoundsSilo};
pub use silo::FewRoundsSilo;
