//! Reads and writes the lines of a ledger, each bound to all before it by a hash.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::accountant::Cost;
use crate::hexadecimal;

/// One line: an entry, and the hash of the line before it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) previous: String,
    pub(super) entry: Entry,
}

/// What happened; requests are named by their SHA-256, bytes are in hexadecimal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Entry {
    Opened { unit: String },
    Spent { request: String, cost: Cost },
    Answered { request: String, reply: String },
}

/// What stands in a ledger.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) unit: Option<String>,
    pub(super) costs: Vec<Cost>,
    pub(super) replies: BTreeMap<String, Vec<u8>>,
    /// The hash of every line.
    pub(super) heads: Vec<String>,
    /// The hash of the last line; empty if there is none.
    pub(super) head: String,
}

impl Seen {
    /// Reads whole lines.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut seen = Self::default();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let parsed: Line =
                serde_json::from_str(line).map_err(|error| format!("line {number} is none of a ledger ({error})"))?;
            if parsed.previous != seen.head {
                return Err(format!("line {number} does not follow the one before it: lines were changed or removed"));
            }
            match parsed.entry {
                Entry::Opened { unit } if at == 0 => seen.unit = Some(unit),
                Entry::Spent { cost, .. } if at > 0 => {
                    seen.costs.push(cost.checked().map_err(|error| format!("line {number}: {error}"))?);
                }
                Entry::Answered { request, reply } if at > 0 => {
                    let reply = hexadecimal::read(&reply).ok_or_else(|| format!("line {number} has no reply"))?;
                    seen.replies.insert(request, reply);
                }
                _ => return Err(format!("line {number} is out of place")),
            }
            seen.head = hash(line);
            seen.heads.push(seen.head.clone());
        }
        Ok(seen)
    }
}

pub(super) fn hash(line: &str) -> String {
    hexadecimal::write(&Sha256::digest(line.as_bytes()))
}
