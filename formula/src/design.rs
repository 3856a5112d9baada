//! The design that one silo computes from its rows and the agreement: columns, offset, outcome, groups.

mod block;
mod collinear;
mod error;
mod evaluate;
mod matrix;
mod outcome;
mod random;
mod spline;
mod sums;

pub(crate) use block::check_alone;
pub use collinear::Collinear;
pub use error::{DesignError, RowPlace};
pub(crate) use evaluate::Evaluation;
pub use matrix::{Design, Matrix};
pub use outcome::Outcome;
pub(crate) use outcome::event_times;
pub use random::{GroupScope, RandomDesign};
pub use sums::ColumnSums;
