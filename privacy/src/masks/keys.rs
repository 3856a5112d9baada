//! Signs the keys that silos exchange for a run, so that a coordinator cannot put its own in their place.

use std::collections::BTreeMap;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use x25519_dalek::{PublicKey, SharedSecret, StaticSecret};

use super::{Verified, fresh};
use crate::entropy::Entropy;
use crate::error::{Error, Result};

/// What is signed begins with this, so that no signature for another purpose is one of a key.
const PURPOSE: &[u8] = b"partita run key 1\0";

/// The Ed25519 public keys of the silos that one trusts to mask with, by name.
pub type Peers = BTreeMap<String, [u8; 32]>;

/// The lasting private key of a silo.
#[derive(Clone)]
pub struct SiloKey(SigningKey);

/// The X25519 key of a silo for one run, made anew for each.
pub struct RunKey {
    secret: StaticSecret,
    signed: SignedKey,
}

/// The public part of a silo's key for one run, signed with its lasting one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedKey {
    /// The silo.
    pub silo: String,
    /// The run.
    pub run: String,
    /// The X25519 public key.
    pub key: [u8; 32],
    /// The Ed25519 signature over all three.
    pub signature: [u8; 64],
}

impl std::fmt::Debug for SiloKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SiloKey").field("public", &self.public()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RunKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunKey").field("signed", &self.signed).finish_non_exhaustive()
    }
}

impl SiloKey {
    /// The key whose 32 private bytes these are.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// A new one.
    ///
    /// # Errors
    /// [`Error::Entropy`] where there are no random bits.
    pub fn generate(entropy: &mut dyn Entropy) -> Result<Self> {
        Ok(Self::from_bytes(&fresh(entropy)?))
    }

    /// The public key, for the files of the other silos.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }
}

impl RunKey {
    /// A new key of `silo` for `run`.
    ///
    /// # Errors
    /// [`Error::Entropy`] where there are no random bits.
    pub fn new(run: &str, silo: &str, own: &SiloKey, entropy: &mut dyn Entropy) -> Result<Self> {
        let secret = StaticSecret::from(fresh(entropy)?);
        let key = PublicKey::from(&secret).to_bytes();
        let signature = own.0.sign(&content(run, silo, &key)).to_bytes();
        Ok(Self { secret, signed: SignedKey { silo: silo.to_owned(), run: run.to_owned(), key, signature } })
    }

    /// What the other silos get.
    #[must_use]
    pub fn signed(&self) -> SignedKey {
        self.signed.clone()
    }

    pub(super) fn silo(&self) -> &str {
        &self.signed.silo
    }

    pub(super) fn run(&self) -> &str {
        &self.signed.run
    }

    pub(super) fn share(&self, other: Verified, name: &str) -> Result<SharedSecret> {
        let shared = self.secret.diffie_hellman(&other.0);
        match shared.was_contributory() {
            true => Ok(shared),
            false => Err(refused(name, "one with which a secret can be shared")),
        }
    }
}

impl SignedKey {
    /// The key, once it is seen to be one of a peer for `run`.
    pub(super) fn verified(&self, run: &str, peers: &Peers) -> Result<Verified> {
        if self.run != run {
            return Err(refused(&self.silo, "one of this run"));
        }
        let public = peers.get(&self.silo).ok_or_else(|| super::stranger(&self.silo))?;
        let wrong = |_| refused(&self.silo, "one signed with the silo's own key");
        let public = VerifyingKey::from_bytes(public).map_err(wrong)?;
        let signature = Signature::from_bytes(&self.signature);
        public.verify_strict(&content(&self.run, &self.silo, &self.key), &signature).map_err(wrong)?;
        Ok(Verified(PublicKey::from(self.key)))
    }
}

fn refused(silo: &str, expected: &str) -> Error {
    Error::Refused {
        what: "a key",
        found: format!("another of {silo}"),
        expected: expected.to_owned(),
        remedy: "Exchange keys anew at the start of the run, and compare public keys with the owner by another way.",
    }
}

/// What is signed: every part with its length.
fn content(run: &str, silo: &str, key: &[u8; 32]) -> Vec<u8> {
    let mut bytes = PURPOSE.to_vec();
    for part in [run.as_bytes(), silo.as_bytes(), key] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}
