//! Reads tables, aligns, splits and batches their rows, all reproducible from one seed.

mod align;
mod error;
mod groups;
mod key_digest;
mod keys;
mod minibatch;
mod partition;
mod party;
mod table;

pub use align::Alignment;
pub use error::{BadCell, DataError, MissingCell, RepeatedKey};
pub use groups::Groups;
pub use key_digest::keyed_digest;
pub use keys::PartyKeys;
pub use minibatch::Minibatches;
pub use partition::{
    Fold, Scaling, SmallLarge, distinct_labels, folds, partition_by_class, partition_by_k_means, partition_by_key,
    partition_by_label_skew, partition_by_shards, partition_by_sizes, partition_each_row, partition_equally,
    partition_groups, partition_small_large, stratified_folds,
};
pub use party::{PartyColumn, PartyRows};
pub use table::Table;
