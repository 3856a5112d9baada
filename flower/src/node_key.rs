//! Reads the public key of a SuperNode from its file, so that the name of a silo can be bound to it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Error, Result};
use crate::pem::{der, no_key, pem, read_key};

/// The curves that the engine accepts, by their OpenSSH names, and the prefix of a point of theirs in a
/// `SubjectPublicKeyInfo` (RFC 5480).
const CURVES: [(&str, &[u8]); 3] = [
    (
        "ecdsa-sha2-nistp256",
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\0",
    ),
    (
        "ecdsa-sha2-nistp384",
        b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\0\x22\x03\x62\0",
    ),
    (
        "ecdsa-sha2-nistp521",
        b"\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\0\x23\x03\x81\x86\0",
    ),
];

/// The public key with which a SuperNode was registered.
///
/// # Example
/// ```
/// use partita_flower::NodeKey;
/// let text = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAAB\
///             BBGsX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT+NC4v4af5uO5+tKfA+eFivOM1drMV7Oy7ZAaDe/UfU= north";
/// assert!(NodeKey::parse(text).is_ok());
/// let refused = NodeKey::parse("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA==").unwrap_err().to_string();
/// assert!(refused.contains("ecdsa-sha2-nistp384"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeKey(Vec<u8>);

impl NodeKey {
    /// Reads a file that `ssh-keygen -t ecdsa` has written, such as `north-key.pub`.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read or holds no such key.
    pub fn read(path: &Path) -> Result<Self> {
        read_key(path, Self::parse)
    }

    /// Reads the text of such a file: the kind of key, the key, and a comment.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a key of another kind, and for an incomplete key.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |problem: &str| Error::malformed("the public key of a node", problem);
        let mut words = text.split_whitespace();
        let known = words.next().and_then(|kind| CURVES.iter().find(|curve| curve.0 == kind));
        let Some((kind, before)) = known else {
            let expected = "the public key of a node, as `north.pub`: its kind is none of ecdsa-sha2-nistp256, ecdsa-sha2-nistp384, ecdsa-sha2-nistp521";
            return Err(no_key("the public key of a node", text, expected));
        };
        let blob = words.next().and_then(|word| STANDARD.decode(word).ok()).ok_or_else(|| wrong("it is not base64"))?;
        let mut rest = blob.as_slice();
        let mut field = || -> Option<&[u8]> {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let (own, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
            rest = after;
            Some(own)
        };
        // The kind again, the curve, and the point.
        let (Some(again), Some(_), Some(point)) = (field(), field(), field()) else {
            return Err(wrong("it is incomplete"));
        };
        if again != kind.as_bytes() || !rest.is_empty() {
            return Err(wrong("its kind and its content disagree"));
        }
        Ok(Self([before, point].concat()))
    }

    /// The key of a point on the curve P-256.
    #[must_use]
    pub fn of_point(point: &[u8]) -> Self {
        Self([CURVES[0].1, point].concat())
    }

    /// The key as `ssh-keygen` writes it, with a comment: what the engine registers.
    ///
    /// # Example
    /// ```
    /// use partita_flower::NodeKey;
    /// let key = NodeKey::of_point(&[4; 65]);
    /// let line = key.openssh("north");
    /// assert!(line.starts_with("ecdsa-sha2-nistp256 AAAAE2VjZHNh") && line.ends_with(" north"));
    /// assert_eq!(NodeKey::parse(&line)?, key);
    /// # Ok::<(), partita_flower::Error>(())
    /// ```
    #[must_use]
    pub fn openssh(&self, comment: &str) -> String {
        let found = CURVES.iter().find_map(|(kind, before)| Some((*kind, self.0.strip_prefix(*before)?)));
        let (kind, point) = found.unwrap_or((CURVES[0].0, &self.0));
        let curve = kind.trim_start_matches("ecdsa-sha2-");
        let field = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
        let blob = [field(kind.as_bytes()), field(curve.as_bytes()), field(point)].concat();
        format!("{kind} {} {comment}", STANDARD.encode(blob))
    }

    /// The key in PEM format, as the engine stores it.
    pub(crate) fn pem(&self) -> String {
        pem("PUBLIC KEY", &self.0)
    }

    /// Whether this is the engine's key `pem`.
    pub(crate) fn is(&self, pem: &[u8]) -> bool {
        std::str::from_utf8(pem).ok().and_then(der).is_some_and(|key| key == self.0)
    }
}
