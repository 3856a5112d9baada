//! Proves to an engine that a party knows its secret, without sending it.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::object::hexadecimal;

type HmacSha256 = Hmac<Sha256>;

fn keyed(key: &[u8], text: &[u8]) -> Result<Vec<u8>> {
    let mac = HmacSha256::new_from_slice(key).map_err(|error| Error::malformed("the secret", error.to_string()))?;
    Ok(mac.chain_update(text).finalize().into_bytes().to_vec())
}

/// The proof that a caller who takes a task knows the secret.
pub(crate) fn signature(secret: &[u8], body: &[u8]) -> Result<[(&'static str, String); 4]> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A number used once: the clock in nanoseconds and the process, hashed.
    let nonce = hexadecimal(&Sha256::digest(format!("{} {}", time.as_nanos(), std::process::id())))[..32].to_owned();
    let body = hexadecimal(&Sha256::digest(body));
    let seconds = time.as_secs();
    let text = format!("method=/flwr.proto.Runtime/AcquireTask\nts={seconds}\nnonce={nonce}\nbody_sha256={body}");
    let key = keyed(secret, b"superexec-auth-v1")?;
    Ok([
        ("flwr-superexec-ts", seconds.to_string()),
        ("flwr-superexec-nonce", nonce),
        ("flwr-superexec-body-sha256", body),
        ("flwr-superexec-signature", hexadecimal(&keyed(&key, text.as_bytes())?)),
    ])
}
