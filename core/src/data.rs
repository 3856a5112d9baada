//! Reads tables, splits their rows among silos and into minibatches, all reproducible from one seed.

mod error;
mod minibatch;
mod partition;
mod table;

pub use error::{BadCell, DataError};
pub use minibatch::Minibatches;
pub use partition::{
    Scaling, SmallLarge, distinct_labels, partition_by_class, partition_by_k_means, partition_by_key,
    partition_by_label_skew, partition_by_shards, partition_by_sizes, partition_each_row, partition_equally,
    partition_groups, partition_small_large,
};
pub use table::Table;
