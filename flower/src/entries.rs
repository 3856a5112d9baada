//! Names the entry by which two parties' copies of the file that all share differ, from short hashes of what each says.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::shown;
use crate::object::hexadecimal;

/// The digits of a hash that people and parties compare.
const DIGITS: usize = 12;
/// The longest text of a peer that is compared.
const LONGEST: usize = 1 << 14;

/// The name of the entry that no file has: parties of two versions are of two runs.
pub(crate) const VERSION: &str = "version of Partita";

/// The beginning of the SHA-256 of a value. Whoever knows what the value may be can find it: entries are no secrets.
pub(crate) fn short_hash(value: &Value) -> String {
    short(&hexadecimal(&Sha256::digest(value.to_string().as_bytes())))
}

/// The beginning of a hash, or of a peer's text in its place.
pub(crate) fn short(hash: &str) -> String {
    shown(&hash.chars().take(DIGITS).collect::<String>())
}

/// Entries as they travel, a line each.
pub(crate) fn text(entries: &[(String, String)]) -> String {
    entries.iter().map(|(name, hash)| format!("{hash} {name}\n")).collect()
}

/// The first of these entries that another party does not have alike, as people write it; none where it has all of them, or
/// tells of none that could be compared.
pub(crate) fn differing(own: &[(String, String)], other: &str) -> Option<String> {
    if other.is_empty() || other.len() > LONGEST {
        return None;
    }
    let other: Vec<(&str, &str)> = other.lines().filter_map(|line| line.split_once(' ')).collect();
    let (name, _) = own.iter().find(|(name, hash)| !other.contains(&(hash.as_str(), name.as_str())))?;
    Some(if name == VERSION { name.clone() } else { format!("`{name}`") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries(formula: &str, seed: u64) -> Vec<(String, String)> {
        let all = [(VERSION, json!("0.1.0")), ("formula", json!(formula)), ("seed", json!(seed))];
        all.into_iter().map(|(name, value)| (name.to_owned(), short_hash(&value))).collect()
    }

    #[test]
    fn the_first_entry_that_differs_is_named_as_the_file_has_it() {
        let own = entries("y ~ x", 1);
        let with = |other: &[(String, String)]| differing(&own, &text(other));
        assert_eq!(with(&own), None);
        assert_eq!(with(&entries("y ~ x", 2)).unwrap(), "`seed`");
        assert_eq!(with(&entries("y ~ z", 2)).unwrap(), "`formula`");
        // One that the other does not have.
        assert_eq!(with(&own[..2]).unwrap(), "`seed`");
        assert_eq!(with(&own[1..]).unwrap(), VERSION);
        // Parties that tell nothing, and texts that are none.
        assert_eq!((differing(&own, ""), differing(&[], &text(&own))), (None, None));
        assert_eq!(differing(&own, &"x y\n".repeat(1 << 14)), None);
        assert_eq!(differing(&own, "\n \nformula").unwrap(), VERSION);
    }

    #[test]
    fn twelve_digits_stand_for_a_value_and_for_an_identity() {
        let hash = short_hash(&json!("y ~ x"));
        assert!(hash.len() == 12 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{hash}");
        assert_ne!(hash, short_hash(&json!("y ~ z")));
        assert_eq!((short("é".repeat(20).as_str()), short("a run")), ("é".repeat(12), "a run".to_owned()));
    }
}
