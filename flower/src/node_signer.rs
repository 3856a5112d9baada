//! Signs a node's calls with its private key, as the engine asks of nodes.

use std::path::Path;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use crate::error::{Error, Result};
use crate::node_key::NodeKey;
use crate::pem::{der, no_key, read_key};

/// The private key of a node.
#[derive(Debug)]
pub(crate) struct NodeSigner {
    pair: EcdsaKeyPair,
    /// The public key as the engine stores it.
    pub(crate) public: Vec<u8>,
}

impl NodeSigner {
    /// Reads a file that `partita keys silo` has written: a private key on the curve P-256, in PEM format.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        read_key(path, Self::parse)
    }

    fn parse(text: &str) -> Result<Self> {
        let expected =
            "a private key of a node, as `north.key`, which `partita keys silo` writes (PEM, `PRIVATE KEY`, P-256)";
        let none = || no_key("the private key of a node", text, expected);
        let text = text.trim();
        let is_named = text.starts_with("-----BEGIN PRIVATE KEY-----") && text.ends_with("-----END PRIVATE KEY-----");
        let bytes = der(text).filter(|_| is_named).ok_or_else(none)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &bytes, &SystemRandom::new());
        let pair = pair.map_err(|_| none())?;
        let public = NodeKey::of_point(pair.public_key().as_ref()).pem().into_bytes();
        Ok(Self { pair, public })
    }

    /// The headers of a call made now.
    pub(crate) fn headers(&self) -> Result<[(&'static str, String); 3]> {
        // The engine reads an offset, and not every version of it a `Z`.
        let time = humantime::format_rfc3339_micros(SystemTime::now()).to_string().replace('Z', "+00:00");
        let signed = self.pair.sign(&SystemRandom::new(), time.as_bytes());
        let signed = signed.map_err(|_| Error::malformed("a signature", "the system has no random numbers"))?;
        Ok([
            ("flwr-public-key", STANDARD.encode(&self.public)),
            ("flwr-timestamp", time),
            ("flwr-signature", STANDARD.encode(signed)),
        ])
    }
}
