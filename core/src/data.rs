//! Reads tables, splits their rows among silos and into minibatches, all reproducible from one seed.

mod error;
mod minibatch;
mod partition;
mod table;

pub use error::{BadCell, DataError};
pub use minibatch::Minibatches;
pub use partition::{
    partition_by_key, partition_by_label_skew, partition_by_sizes, partition_equally, partition_groups,
};
pub use table::Table;
