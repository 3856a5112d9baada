//! Claims the properties of fits to parties with different columns of the same rows.

mod failure;
mod fit;
mod messages;
mod models;
mod parts;
mod privacy;
mod soul;
mod weights;
