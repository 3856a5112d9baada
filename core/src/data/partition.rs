//! Assigns every row to exactly one silo, one method a file: by key, by size, by label or by place.
//!
//! Each function returns, for each silo, its rows in ascending order. Random assignments depend on the seed only.

mod by_class;
mod by_key;
mod by_size;
mod folds;
mod k_means;
mod label_skew;
mod shards;
mod small_large;

use std::collections::BTreeMap;

use super::error::DataError;

pub use by_class::partition_by_class;
pub use by_key::{partition_by_key, partition_each_row, partition_groups};
pub use by_size::{partition_by_sizes, partition_equally};
pub use folds::{Fold, folds, stratified_folds};
pub use k_means::{Scaling, partition_by_k_means};
pub use label_skew::partition_by_label_skew;
pub use shards::{distinct_labels, partition_by_shards};
pub use small_large::{SmallLarge, partition_small_large};

fn rows_by_key<K: Ord>(keys: &[K]) -> Vec<Vec<usize>> {
    let mut rows: BTreeMap<&K, Vec<usize>> = BTreeMap::new();
    for (row, key) in keys.iter().enumerate() {
        rows.entry(key).or_default().push(row);
    }
    rows.into_values().collect()
}

/// Refuses a count of zero.
pub(super) fn at_least_one(operation: &'static str, name: &'static str, count: usize) -> Result<(), DataError> {
    if count > 0 { Ok(()) } else { Err(argument(operation, name, 0.0, "at least one")) }
}

/// The first of `rows` in parts of these sizes.
fn cut(rows: &[usize], sizes: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    let mut rest = rows;
    let part = |size| {
        let (own, others) = rest.split_at(size);
        rest = others;
        own.to_vec()
    };
    sizes.map(part).collect()
}

fn sort(silos: &mut [Vec<usize>]) {
    silos.iter_mut().for_each(|rows| rows.sort_unstable());
}

/// The sizes of `parts` parts of `rows` rows that differ by at most one, the larger ones first.
fn equal_sizes(rows: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |part| rows / parts + usize::from(part < rows % parts))
}

fn argument(operation: &'static str, argument: &'static str, found: f64, expected: &'static str) -> DataError {
    DataError::Argument { operation, argument, found: found.to_string(), expected }
}
