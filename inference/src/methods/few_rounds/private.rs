//! Gives few rounds of noised sums over clipped rows: natural-gradient steps that a filter takes as far as noise lets it.

mod coordinator;
mod messages;
mod options;
mod quadratics;
mod silo;

pub use coordinator::PrivateRounds;
pub use options::PrivateRoundsOptions;
pub use silo::PrivateRoundsSilo;
