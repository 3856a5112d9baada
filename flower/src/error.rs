//! Lists every way in which speaking through an engine can fail, each with what was found and what to try.

use std::path::PathBuf;

/// What can go wrong between a party and the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No answer came.
    #[error(
        "{operation} at {address}: no answer within {patience_seconds} s ({reason}). Check that the engine runs there, that the port is open, and that both sides agree on TLS."
    )]
    Transport {
        /// The call.
        operation: &'static str,
        /// Where it was sent.
        address: String,
        /// How long it was tried, in seconds.
        patience_seconds: u64,
        /// What the transport said last.
        reason: String,
    },
    /// The engine could not show that it is the one this party trusts.
    #[error(
        "the engine at {address} was not trusted: {reason}. Give the certificate of the authority that signed the engine's as `certificate_authority`, and the name it is signed for as `address`."
    )]
    Untrusted {
        /// Where it is.
        address: String,
        /// What the transport said.
        reason: String,
    },
    /// The engine refused a call.
    #[error("{operation}: the engine refused with status {status}: {detail}. {remedy}")]
    Refused {
        /// The call.
        operation: &'static str,
        /// The HTTP status.
        status: u16,
        /// The engine's words.
        detail: String,
        /// What to try.
        remedy: &'static str,
    },
    /// Bytes of a peer that are not what they claim to be.
    #[error("{what} cannot be read: {problem}. It was refused; nothing of it was used.")]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A message that does not belong to this run, or asks for what its receiver does not allow.
    #[error("{what}: found {found}, expected {expected}. {remedy}")]
    Unwelcome {
        /// What was compared.
        what: &'static str,
        /// What the message said.
        found: String,
        /// What its receiver wants.
        expected: String,
        /// What to try.
        remedy: &'static str,
    },
    /// Parties that did not appear.
    #[error(
        "waited {seconds} s for the silos {missing}; {found} nodes are connected. Start them, or check their names."
    )]
    Missing {
        /// The names of those absent.
        missing: String,
        /// The nodes that the engine knows.
        found: usize,
        /// How long it waited, in seconds.
        seconds: u64,
    },
    /// A file of a party's own.
    #[error("{}: {problem}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// What the algorithm reports.
    #[error(transparent)]
    Inference(#[from] partita_inference::Error),
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn malformed(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Malformed { what, problem: problem.into() }
    }
}
