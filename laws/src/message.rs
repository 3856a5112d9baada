//! Checks the laws of messages: bytes there and back, the counted size, and the refusal of anything damaged.

use partita_inference::{Error, MESSAGE_VERSION, Message};

use crate::Violation;

/// Shorter messages are cut at every byte, longer ones at this many places.
const CUTS: usize = 512;

/// A law of [`Message`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageLaw {
    /// What was decoded encodes to other bytes.
    #[error("byte {index} differs after a round trip")]
    RoundTrip {
        /// The first byte that differs.
        index: usize,
    },
    /// The counted size is not the number of bytes.
    #[error("counted {found} bytes, encoded {expected}")]
    Size {
        /// What the message counted.
        found: usize,
        /// The bytes there are.
        expected: usize,
    },
    /// Damaged bytes were read as a message.
    #[error("{damage} was not refused")]
    Accepted {
        /// What had been done to its bytes.
        damage: String,
    },
    /// A whole message was refused, or a damaged one with another error than [`Error::Message`].
    #[error("{error}")]
    Refused {
        /// What the decoder said.
        error: Error,
    },
}

/// Checks that `message` comes back from its bytes, to the bit, and that no damage to their number goes unseen.
///
/// Each proper beginning of the bytes, the bytes with one more, and the bytes under another version must be refused.
///
/// # Errors
/// The first [`MessageLaw`] that does not hold.
///
/// # Example
/// ```
/// use partita_inference::Message;
/// use partita_laws as laws;
/// laws::message(&Message::new("hello").floats("x", &[1.0, f64::NAN]).setting("to", "you"))?;
/// # Ok::<(), laws::Violation<laws::MessageLaw>>(())
/// ```
pub fn message(message: &Message) -> Result<(), Violation<MessageLaw>> {
    let bytes = message.encode();
    if message.size() != bytes.len() {
        return broken(message, MessageLaw::Size { found: message.size(), expected: bytes.len() });
    }
    let back = Message::decode(&bytes).or_else(|error| broken(message, MessageLaw::Refused { error }))?;
    let again = back.encode();
    if again != bytes {
        let index = bytes.iter().zip(&again).position(|(a, b)| a != b).unwrap_or(bytes.len().min(again.len()));
        return broken(message, MessageLaw::RoundTrip { index });
    }
    let stride = bytes.len().div_ceil(CUTS).max(1);
    // One byte short is the hardest cut to see: it is always among them.
    for length in (0..bytes.len()).step_by(stride).chain([bytes.len() - 1]) {
        refused(message, &bytes[..length], || format!("a message cut to {length} of {} bytes", bytes.len()))?;
    }
    refused(message, &[bytes.as_slice(), &[0]].concat(), || "a byte after the end".into())?;
    let other = Message { version: MESSAGE_VERSION + 1, ..message.clone() };
    refused(message, &other.encode(), || format!("version {}", other.version))
}

fn broken<T>(message: &Message, law: MessageLaw) -> Result<T, Violation<MessageLaw>> {
    Violation::of(format!("message `{}`", message.kind), law)
}

fn refused(message: &Message, bytes: &[u8], damage: impl Fn() -> String) -> Result<(), Violation<MessageLaw>> {
    match Message::decode(bytes) {
        Err(Error::Message { .. }) => Ok(()),
        Err(error) => broken(message, MessageLaw::Refused { error }),
        Ok(_) => broken(message, MessageLaw::Accepted { damage: damage() }),
    }
}
