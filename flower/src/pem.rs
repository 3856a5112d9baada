//! Writes keys as text between lines that name them, and reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

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
