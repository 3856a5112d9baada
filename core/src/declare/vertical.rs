//! Defines what the parties of a vertical model declare: contributions to a predictor, and the head with the labels.

mod contribution;
mod head;

pub use contribution::{Columns, Contribution};
pub use head::Head;
