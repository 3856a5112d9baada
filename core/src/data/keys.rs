//! Holds the keys that a party has of its rows, and refuses keys that are missing or repeated.

use std::collections::BTreeMap;

use super::error::{DataError, LISTED, RepeatedKey};
use super::groups::is_missing;

/// The keys that a party has sent, one a row.
#[derive(Debug, Clone, Copy)]
pub struct PartyKeys<'a> {
    /// The name of the party.
    pub party: &'a str,
    /// Its keys, in the order of its rows.
    pub keys: &'a [String],
}

/// Refuses keys that are missing or occur twice.
pub(super) fn check_keys(party: &str, keys: &[String]) -> Result<(), DataError> {
    if let Some(row) = keys.iter().position(|key| is_missing(key)) {
        return Err(DataError::MissingKey { party: party.into(), row: row + 1 });
    }
    let mut rows: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (row, key) in keys.iter().enumerate() {
        rows.entry(key).or_default().push(row + 1);
    }
    let repeated = rows.into_iter().filter(|(_, rows)| rows.len() > 1);
    let mut keys: Vec<RepeatedKey> = repeated.map(|(key, rows)| RepeatedKey { key: key.into(), rows }).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let count = keys.len();
    keys.truncate(LISTED);
    Err(DataError::RepeatedKeys { party: party.into(), count, keys })
}
