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
    Opened {
        unit: String,
    },
    Spent {
        request: String,
        cost: Cost,
        /// Against how many silos together it is promised; all where it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        colluders: Option<u64>,
        /// What the study's sums are about; ledgers of before 2026-11-28 do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
    },
    Answered {
        request: String,
        reply: String,
    },
}

/// What stands in a ledger.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) unit: Option<String>,
    pub(super) costs: Vec<Cost>,
    /// The fewest silos against which together one of them is promised; `None` where all are.
    pub(super) colluders: Option<u64>,
    pub(super) replies: BTreeMap<String, Vec<u8>>,
    /// What the requests were about that were charged for a study.
    subjects: BTreeMap<String, String>,
    /// The hash of every line.
    pub(super) heads: Vec<String>,
}

impl Seen {
    /// The hash of the last line; empty if there is none.
    pub(super) fn head(&self) -> &str {
        self.heads.last().map_or("", String::as_str)
    }

    /// Reads further whole lines.
    pub(super) fn read(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let at = self.heads.len();
            let number = at + 1;
            let parsed: Line =
                serde_json::from_str(line).map_err(|error| format!("line {number} is none of a ledger ({error})"))?;
            if parsed.previous != self.head() {
                return Err(format!("line {number} does not follow the one before it: lines were changed or removed"));
            }
            match parsed.entry {
                Entry::Opened { unit } if at == 0 => self.unit = Some(unit),
                Entry::Spent { request, cost, colluders, subject } if at > 0 => {
                    self.colluders = self.colluders.into_iter().chain(colluders).min();
                    self.subjects.extend(subject.map(|subject| (request, subject)));
                    self.costs.push(cost.checked().map_err(|error| format!("line {number}: {error}"))?);
                }
                Entry::Answered { request, reply } if at > 0 => {
                    let reply = hexadecimal::read(&reply).ok_or_else(|| format!("line {number} has no reply"))?;
                    self.replies.insert(request, reply);
                }
                _ => return Err(format!("line {number} is out of place")),
            }
            self.heads.push(hash(line.as_bytes()));
        }
        Ok(())
    }

    /// The replies about a subject. What was charged and has none was never sent.
    pub(super) fn given(&self, subject: &str) -> u64 {
        let about = |request: &&String| self.subjects.get(*request).is_some_and(|known| known == subject);
        self.replies.keys().filter(about).count() as u64
    }
}

pub(super) fn hash(line: &[u8]) -> String {
    hexadecimal::write(&Sha256::digest(line))
}
