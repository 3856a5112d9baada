//! Lists the errors of exchanges over an engine, each with what was found and what to try.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The error of an exchange between a party and the engine.
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
        /// How long the call was tried, in seconds.
        patience_seconds: u64,
        /// The last message of the transport.
        reason: String,
    },
    /// The engine's certificate was not verified.
    #[error(
        "the engine at {address} was not trusted: {reason}. Give the certificate of the authority that signed the engine's as `certificate_authority`, and the name it is signed for as `address`."
    )]
    Untrusted {
        /// Its address.
        address: String,
        /// The message of the transport.
        reason: String,
    },
    /// The engine refused a call.
    #[error("{operation}: the engine refused with status {status}: {detail}. {remedy}")]
    Refused {
        /// The call.
        operation: &'static str,
        /// The HTTP status.
        status: u16,
        /// The message of the engine.
        detail: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// Malformed bytes of a peer.
    #[error("{what} cannot be read: {problem}. It was refused; nothing of it was used.")]
    Malformed {
        /// The object read.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// A message of another run, or one that asks for something its receiver does not allow.
    #[error("{what}: found {found}, expected {expected}. {remedy}")]
    Unwelcome {
        /// The quantity compared.
        what: &'static str,
        /// The value in the message.
        found: String,
        /// The value that its receiver expects.
        expected: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// Parties that did not appear.
    #[error(
        "waited {seconds} s for the silos {missing}; {found} nodes are connected{}. Start them, or check their names.",
        last(trouble.as_deref())
    )]
    Missing {
        /// The names of those absent.
        missing: String,
        /// The nodes that the engine knows.
        found: usize,
        /// How long it waited, in seconds.
        seconds: u64,
        /// What went wrong last when nodes were asked who they are.
        trouble: Option<String>,
    },
    /// Its user interrupted this party while it waited.
    #[error(
        "interrupted while waiting for {what}. Start again with `--resume` to go on from the last checkpoint, or without it if the folder `state` has no checkpoint yet."
    )]
    Interrupted {
        /// What it waited for.
        what: String,
    },
    /// A file of this party.
    #[error("{}: {problem}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The error of the algorithm.
    #[error(transparent)]
    Inference(#[from] partita_inference::Error),
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error of a file of this party.
    #[must_use]
    pub fn file(path: &Path, problem: impl Display) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_string() }
    }

    /// [`Error::Unwelcome`] unless something `holds`; what was found and expected is put into words for the error alone.
    pub(crate) fn unless(
        holds: bool,
        what: &'static str,
        found: impl Display,
        expected: impl Display,
        remedy: &'static str,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        Err(Self::Unwelcome { what, found: found.to_string(), expected: expected.to_string(), remedy })
    }

    pub(crate) fn malformed(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Malformed { what, problem: problem.into() }
    }
}

/// What went wrong last, as a part of a sentence.
fn last(trouble: Option<&str>) -> String {
    let sentence = |trouble: &str| format!("; the last trouble with a hello: {}", trouble.trim_end_matches('.'));
    trouble.map(sentence).unwrap_or_default()
}

/// The most letters of a peer's text in an error.
const SHOWN: usize = 400;

/// A peer's text, for errors; of a long one the beginning.
pub(crate) fn shown(text: &str) -> String {
    let mut letters = text.chars().filter(|letter| !letter.is_control());
    let mut shown: String = letters.by_ref().take(SHOWN).collect();
    shown.extend(letters.next().map(|_| '…'));
    shown
}

/// A text in which a peer's may be, for a log: no line of it looks like one of the log's own, and nothing else in it moves a
/// terminal.
pub(crate) fn set_in(text: &str) -> String {
    let line = |line: &str| line.chars().filter(|letter| !letter.is_control()).collect::<String>();
    text.lines().map(line).collect::<Vec<_>>().join("\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_text_with_a_peer_s_in_it_are_set_in() {
        assert_eq!(set_in("one line"), "one line");
        assert_eq!(set_in("refused: `a\nwaiting\u{1b}[2K`\r\nat 1"), "refused: `a\n    waiting[2K`\n    at 1");
    }

    #[test]
    fn a_text_of_a_peer_is_whole_up_to_four_hundred_letters_and_has_no_line_breaks() {
        assert_eq!(shown("one\r\ntwo"), "onetwo");
        assert_eq!(shown(&"é".repeat(400)), "é".repeat(400));
        assert_eq!(shown(&"é".repeat(401)), "é".repeat(400) + "…");
    }

    #[test]
    fn silos_that_did_not_appear_are_named_with_what_went_wrong_last() {
        let missing = |trouble: Option<&str>| {
            let trouble = trouble.map(str::to_owned);
            Error::Missing { missing: "`north`".into(), found: 2, seconds: 300, trouble }.to_string()
        };
        assert_eq!(
            missing(None),
            "waited 300 s for the silos `north`; 2 nodes are connected. Start them, or check their names."
        );
        let said = missing(Some("the engine refused."));
        assert!(said.contains("connected; the last trouble with a hello: the engine refused. Start"), "{said}");
    }
}
