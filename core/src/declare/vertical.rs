//! Says what the parties of a vertical model declare: contributions to a predictor, and the head that holds the labels.

mod contribution;
mod head;

pub use contribution::{Columns, Contribution};
pub use head::Head;
