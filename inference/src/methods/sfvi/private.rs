//! Gives SFVI over noised sums of clipped rows: one draw of the globals an exchange, filtered once a round of draws.

mod coordinator;
mod messages;
mod options;
mod silo;

pub use coordinator::PrivateSfvi;
pub use options::PrivateSfviOptions;
pub use silo::PrivateSfviSilo;
