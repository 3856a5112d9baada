//! Claims what holds where parties have different columns of the same rows.

mod failure;
mod fit;
mod messages;
mod models;
mod parts;
mod privacy;
mod soul;
mod weights;
