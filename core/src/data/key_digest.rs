//! Replaces a key by a digest under a shared secret, so that keys can be compared without being shown in the clear.

use sha2::{Digest, Sha256};

/// The length in bytes of the blocks of SHA-256.
const BLOCK: usize = 64;

/// The digest HMAC-SHA-256 of `key` under `secret`, as 64 hexadecimal digits.
///
/// A plain hash of a name or a number hides nothing: whoever has a list of names hashes them all. Under a secret of 32
/// random bytes or more only those who have it can do so. Equal keys give equal digests, which is what alignment needs.
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
    let mut block = [0_u8; BLOCK];
    if secret.len() > BLOCK {
        let digest = Sha256::digest(secret);
        block.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
    } else {
        block.iter_mut().zip(secret).for_each(|(to, from)| *to = *from);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(key.as_bytes()).finalize();
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}
