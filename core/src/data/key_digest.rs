//! Replaces a key by a digest under a shared secret, so that keys can be compared without being shown in the clear.

use hmac_sha256::HMAC;

/// The digest HMAC-SHA-256 of `key` under `secret`, as 64 hexadecimal digits.
///
/// A plain hash of a name or a number hides nothing: a list of names can be hashed and compared. Under a secret of 32
/// random bytes or more only holders of the secret can do so. Equal keys give equal digests, as alignment requires.
///
/// # Example
/// ```
/// let digest = partita_core::data::keyed_digest(b"Jefe", "what do ya want for nothing?");
/// assert_eq!(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
/// ```
///
/// # References
/// Krawczyk, Bellare and Canetti (1997), HMAC: keyed-hashing for message authentication, RFC 2104; test vectors in RFC
/// 4231.
#[must_use]
pub fn keyed_digest(secret: &[u8], key: &str) -> String {
    HMAC::mac(key, secret).iter().map(|byte| format!("{byte:02x}")).collect()
}
