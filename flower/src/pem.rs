//! Writes keys as text between lines that name them, reads their files, and says what is in a file of another kind.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Error, Result};

/// The text of `der` under a label, as in `PUBLIC KEY`.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----");
    for (place, letter) in STANDARD.encode(der).chars().enumerate() {
        if place % 64 == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text + &format!("\n-----END {label}-----\n")
}

/// The bytes between the lines that name them.
pub(crate) fn der(text: &str) -> Option<Vec<u8>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
    STANDARD.decode(lines.collect::<String>()).ok()
}

/// What stands before the 32 bytes of an Ed25519 key, private and public, in the files that `openssl` writes (RFC 8410).
pub(crate) const PRIVATE: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
pub(crate) const PUBLIC: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// What the text of a file is, in the words of `partita keys`, where another was expected.
fn found(text: &str) -> &'static str {
    let own = der(text).unwrap_or_default();
    match text.trim_start() {
        _ if own.starts_with(PRIVATE) => "a private key that signs, as in `north-signs.key` or `coordinator.key`",
        _ if own.starts_with(PUBLIC) => "a public key of signatures, as in `north-signs.pub` or `coordinator.pub`",
        text if text.starts_with("-----BEGIN CERTIFICATE") => "a certificate, as in `ca.pem`",
        text if text.starts_with("-----BEGIN PRIVATE KEY") => "a private key of a node, as in `north.key`",
        text if text.starts_with("ecdsa-") => "the public key of a node, as in `north.pub`",
        _ => "no key that `partita keys` writes",
    }
}

/// The error of a text that is not the key that was expected.
pub(crate) fn no_key(whose: &'static str, text: &str, expected: &str) -> Error {
    Error::malformed(whose, format!("found {}, expected {expected}", found(text)))
}

/// Reads the file of a key.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read or holds no such key.
pub(crate) fn read_key<T>(path: &Path, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
    let remedy = "`partita keys` writes it, at the key's owner: get it from there, or name the right file.";
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, format!("{error}. {remedy}")))?;
    parse(&text).map_err(|error| match error {
        Error::Malformed { problem, .. } => Error::file(path, problem),
        other => Error::file(path, other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_key::NodeKey;
    use crate::signature::{PartyKey, PartyPublicKey};

    #[test]
    fn a_file_of_another_kind_is_named_and_so_is_the_right_one() {
        let (key, node) = (PartyKey::generate().unwrap(), NodeKey::of_point(&[4; 65]).openssh("north"));
        for (found, kind, right) in [
            (PartyPublicKey::parse(&key.pem()).unwrap_err(), "a private key that signs", "`coordinator.pub` or"),
            (PartyPublicKey::parse(&node).unwrap_err(), "the public key of a node", "`coordinator.pub` or"),
            (PartyKey::parse(&key.public().pem()).unwrap_err(), "a public key of signatures", "`coordinator.key` or"),
            (NodeKey::parse(&key.public().pem()).unwrap_err(), "a public key of signatures", "`north.pub`"),
            (PartyKey::parse("silos").unwrap_err(), "no key that `partita keys` writes", "`coordinator.key` or"),
        ] {
            let found = found.to_string();
            assert!(found.contains(kind) && found.contains(right), "{found}");
        }
        let found = read_key(Path::new("absent.pub"), NodeKey::parse).unwrap_err().to_string();
        assert!(found.contains("absent.pub: ") && found.contains("get it from there"), "{found}");
    }
}
