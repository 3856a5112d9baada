//! Signs a coordinator's requests and silos' answers, so that who has a public key takes nothing for its owner's but what is.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use partita_inference::Message;
use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::object::{from_hexadecimal, hexadecimal};
use crate::pem::{PRIVATE, PUBLIC, der, no_key, pem, read_key};

/// What is signed begins with one of these, so that no signature for another purpose is one of a request or an answer.
const REQUEST: &[u8] = b"partita request 1\0";
const ANSWER: &[u8] = b"partita answer of a silo 1\0";

/// How far the time of a signature may be from the silo's clock, in milliseconds.
const HOUR: u64 = 3_600_000;

/// The signature of a request or an answer: Ed25519 (RFC 8032) over the whole message, its envelope and the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// When it was made, in milliseconds since 1970.
    pub at: u64,
    /// The X25519 key to which the answer to a request is to be sealed, in hexadecimal; empty in an answer.
    pub seal: String,
    /// Its 64 bytes, in hexadecimal.
    pub bytes: String,
}

/// The private key of a coordinator, which signs its requests, or of a silo, which signs its answers.
///
/// # Example
/// ```
/// use partita_flower::PartyKey;
/// // `openssl genpkey -algorithm ed25519 -out coordinator.key`; this one is that of RFC 8410.
/// let key = PartyKey::parse(
///     "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n",
/// )?;
/// let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
/// assert_eq!(key.public(), partita_flower::PartyPublicKey::parse(public)?);
/// # Ok::<(), partita_flower::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PartyKey(SigningKey);

/// The public key of the coordinator that a silo answers, or of a silo whose answers a coordinator takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartyPublicKey(VerifyingKey);

impl std::fmt::Debug for PartyKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PartyKey").field("public", &self.public()).finish_non_exhaustive()
    }
}

impl PartyKey {
    /// Reads the file of a private key.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read or holds no such key.
    pub fn read(path: &Path) -> Result<Self> {
        read_key(path, Self::parse)
    }

    /// Reads the text of such a file, which `openssl genpkey -algorithm ed25519` writes.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let expected =
            "an Ed25519 key in PKCS #8 and PEM, as `coordinator.key` or `north-signs.key`, which `partita keys` writes";
        let bytes = key(text, PRIVATE).ok_or_else(|| no_key("the private key of a party", text, expected))?;
        Ok(Self(SigningKey::from_bytes(&bytes)))
    }

    /// A new one, from the system's random numbers.
    ///
    /// # Errors
    /// [`Error::Malformed`] where the system has none.
    ///
    /// # Example
    /// ```
    /// use partita_flower::{PartyKey, PartyPublicKey};
    /// let key = PartyKey::generate()?;
    /// assert_eq!(PartyPublicKey::parse(&key.public().pem())?, PartyKey::parse(&key.pem())?.public());
    /// # Ok::<(), partita_flower::Error>(())
    /// ```
    pub fn generate() -> Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| Error::malformed("a new key", error.to_string()))?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// The text of its file.
    #[must_use]
    pub fn pem(&self) -> String {
        pem("PRIVATE KEY", &[PRIVATE, self.0.as_bytes()].concat())
    }

    /// The 32 bytes of the private key, for what else its owner signs.
    #[must_use]
    pub fn secret_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The public key that belongs to it.
    #[must_use]
    pub fn public(&self) -> PartyPublicKey {
        PartyPublicKey(self.0.verifying_key())
    }

    /// The envelope of a request with its signature, made now; `seal` is the key to which the answer is to be sealed.
    pub(crate) fn sign(&self, message: &Message, envelope: Envelope, seal: &str) -> Envelope {
        self.sign_at((REQUEST, milliseconds()), message, envelope, seal)
    }

    /// The envelope of an answer with its signature, made now.
    pub(crate) fn sign_answer(&self, answer: &Message, envelope: Envelope) -> Envelope {
        self.sign_at((ANSWER, milliseconds()), answer, envelope, "")
    }

    fn sign_at(&self, (purpose, at): (&[u8], u64), message: &Message, envelope: Envelope, seal: &str) -> Envelope {
        let bytes = hexadecimal(&self.0.sign(&signed(purpose, message, &envelope, at, seal)).to_bytes());
        Envelope { signature: Some(Signature { at, seal: seal.to_owned(), bytes }), ..envelope }
    }
}

impl PartyPublicKey {
    /// The text of its file.
    #[must_use]
    pub fn pem(&self) -> String {
        pem("PUBLIC KEY", &[PUBLIC, self.0.as_bytes()].concat())
    }

    /// Reads the file of a public key.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read or holds no such key.
    pub fn read(path: &Path) -> Result<Self> {
        read_key(path, Self::parse)
    }

    /// Reads the text of such a file, which `openssl pkey -in coordinator.key -pubout` writes.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let expected = "an Ed25519 key in PEM, as `coordinator.pub` or `north-signs.pub`, which `partita keys` writes";
        let wrong = || no_key("the public key of a party", text, expected);
        let bytes = key(text, PUBLIC).ok_or_else(wrong)?;
        VerifyingKey::from_bytes(&bytes).map(Self).map_err(|_| wrong())
    }

    /// Refuses a request that this coordinator has not signed within the last hour.
    ///
    /// # Errors
    /// [`Error::Unwelcome`].
    pub(crate) fn check(&self, message: &Message, envelope: &Envelope) -> Result<()> {
        let Some(problem) = self.problem(REQUEST, message, envelope) else { return Ok(()) };
        let remedy = match problem {
            Problem::None => "Give the coordinator its `key`.",
            Problem::Another => {
                "Ask the coordinator's owner for the public key of its file, and give it as `coordinator`."
            }
            Problem::Late => CLOCKS,
        };
        let expected = "one by the coordinator of this silo's file, within an hour".into();
        Err(Error::Unwelcome { what: SIGNATURE, found: problem.words().to_owned(), expected, remedy })
    }

    /// Refuses an answer that this silo has not signed within the last hour.
    ///
    /// # Errors
    /// [`Error::Unwelcome`].
    pub(crate) fn check_answer(&self, answer: &Message, envelope: &Envelope) -> Result<()> {
        let Some(problem) = self.problem(ANSWER, answer, envelope) else { return Ok(()) };
        let remedy = match problem {
            Problem::None => {
                "Give the silo its `signs`, or take its name out of `signatures` in the coordinator's file."
            }
            Problem::Another => {
                "Somebody else answered. Compare `signatures` in the coordinator's file with the silo's owner."
            }
            Problem::Late => CLOCKS,
        };
        let expected = format!("one by silo `{}`, within an hour", crate::error::shown(&envelope.silo));
        Err(Error::Unwelcome {
            what: "the signature of an answer",
            found: problem.words().to_owned(),
            expected,
            remedy,
        })
    }

    /// The 32 bytes of the key.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    fn problem(&self, purpose: &[u8], message: &Message, envelope: &Envelope) -> Option<Problem> {
        let Some(signature) = &envelope.signature else { return Some(Problem::None) };
        let bytes = from_hexadecimal::<64>(&signature.bytes);
        let found = bytes.map(|bytes| ed25519_dalek::Signature::from_bytes(&bytes));
        let content = signed(purpose, message, envelope, signature.at, &signature.seal);
        if found.is_none_or(|found| self.0.verify_strict(&content, &found).is_err()) {
            return Some(Problem::Another);
        }
        (signature.at.abs_diff(milliseconds()) > HOUR).then_some(Problem::Late)
    }
}

/// What is wrong with a signature.
#[derive(Clone, Copy)]
enum Problem {
    None,
    Another,
    Late,
}

impl Problem {
    fn words(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Another => "another's, or one of another content",
            Self::Late => "one of another time",
        }
    }
}

const CLOCKS: &str = "Set the clocks of this machine and of the coordinator's.";

/// What a request without a valid signature is refused for.
pub(crate) const SIGNATURE: &str = "the signature of a request";

/// The 32 bytes of a key in PEM, after what stands before them.
fn key(text: &str, before: &[u8]) -> Option<[u8; 32]> {
    der(text)?.strip_prefix(before)?.try_into().ok()
}

/// Milliseconds since 1970.
pub(crate) fn milliseconds() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// The bytes that are signed: each part after its length, so that no two messages give the same.
fn signed(purpose: &[u8], message: &Message, envelope: &Envelope, at: u64, seal: &str) -> Vec<u8> {
    let Envelope { run, began, start, round, attempt, accepted, kept, identity, silo, signature: _ } = envelope;
    let mut bytes = purpose.to_vec();
    for word in [at, *began, *start, *round, *attempt, *accepted, *kept] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let message = message.ordered();
    for part in [run.as_bytes(), identity.as_bytes(), silo.as_bytes(), seal.as_bytes(), &message.encode()] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn key() -> PartyKey {
        PartyKey(SigningKey::from_bytes(&[7; 32]))
    }

    fn request() -> (Message, Envelope) {
        let message = Message::new("pvi.solve").floats("b", &[1.0, 2.0]).floats("a", &[3.0]).setting("s", "word");
        let (run, identity, silo) = ("run".into(), "abc".into(), "north".into());
        (message.number("n", 0.5), Envelope { run, began: 9, round: 3, identity, silo, ..Envelope::default() })
    }

    #[test]
    fn a_request_that_was_signed_comes_through_the_wire_and_any_other_content_is_refused() {
        let (message, envelope) = request();
        let envelope = key().sign(&message, envelope, "seal");
        let mut objects = crate::object::Objects::default();
        let root = crate::frame::pack(&message, &envelope, &[], &mut objects).unwrap();
        let (message, envelope) = crate::frame::unpack(&objects, &root, crate::object::Limits::default()).unwrap();
        key().public().check(&message, &envelope).unwrap();

        let refused = |message: &Message, envelope: &Envelope| {
            let found = key().public().check(message, envelope).unwrap_err();
            assert!(matches!(found, Error::Unwelcome { what: SIGNATURE, .. }), "{found}");
            found.to_string()
        };
        let changes: [fn(&mut Envelope); 11] = [
            |envelope| envelope.run = "ru".into(),
            |envelope| envelope.began += 1,
            |envelope| envelope.start += 1,
            |envelope| envelope.round += 1,
            |envelope| envelope.attempt += 1,
            |envelope| envelope.accepted += 1,
            |envelope| envelope.kept += 1,
            |envelope| envelope.identity.push('d'),
            |envelope| envelope.silo = "south".into(),
            |envelope| envelope.signature.as_mut().unwrap().at += 1,
            |envelope| envelope.signature.as_mut().unwrap().seal.push('s'),
        ];
        for change in changes {
            let mut other = envelope.clone();
            change(&mut other);
            assert!(refused(&message, &other).contains("another content"));
        }
        // The same letters at another boundary.
        let moved = Envelope { run: "runa".into(), identity: "bc".into(), ..envelope.clone() };
        refused(&message, &moved);
        let changes: [fn(&mut Message); 5] = [
            |message| message.kind = "pvi.save".into(),
            |message| Arc::make_mut(&mut message.records[0].bytes)[0] ^= 1,
            |message| message.records[0].shape = vec![1, 1],
            |message| message.numbers[0].1 = 0.25,
            |message| message.settings[0].1.push('s'),
        ];
        for change in changes {
            let mut other = message.clone();
            change(&mut other);
            assert!(refused(&other, &envelope).contains("another content"));
        }
        assert!(refused(&message, &Envelope { signature: None, ..envelope.clone() }).contains("found none"));
        let another = PartyKey(SigningKey::from_bytes(&[8; 32])).sign(&message, envelope.clone(), "seal");
        refused(&message, &another);
        for bytes in ["", "zz", "é", &"0".repeat(128), &"é".repeat(64)] {
            let signature = Some(Signature { at: milliseconds(), seal: "seal".into(), bytes: bytes.into() });
            refused(&message, &Envelope { signature, ..envelope.clone() });
        }
    }

    #[test]
    fn a_signature_of_two_hours_ago_or_ahead_is_refused() {
        let (message, envelope) = request();
        for at in [milliseconds() - 2 * HOUR, milliseconds() + 2 * HOUR] {
            let late = key().sign_at((REQUEST, at), &message, envelope.clone(), "seal");
            let found = key().public().check(&message, &late).unwrap_err().to_string();
            assert!(found.contains("one of another time"), "{found}");
        }
    }

    #[test]
    fn an_answer_is_taken_from_its_silo_alone_and_no_request_is_an_answer() {
        let (message, envelope) = request();
        let own = key().sign_answer(&message, envelope.clone());
        key().public().check_answer(&message, &own).unwrap();
        let refused = |message: &Message, envelope: &Envelope| {
            key().public().check_answer(message, envelope).unwrap_err().to_string()
        };
        assert!(refused(&message, &envelope).contains("found none"));
        assert!(refused(&message, &key().sign(&message, envelope.clone(), "")).contains("another's"));
        let another = PartyKey(SigningKey::from_bytes(&[8; 32])).sign_answer(&message, envelope.clone());
        assert!(refused(&message, &another).contains("another's"));
        for moved in [
            Envelope { round: 4, ..own.clone() },
            Envelope { attempt: 9, ..own.clone() },
            Envelope { run: "other".into(), ..own.clone() },
            Envelope { silo: "south".into(), ..own.clone() },
        ] {
            assert!(refused(&message, &moved).contains("another's"));
        }
        assert!(refused(&message.clone().number("more", 1.0), &own).contains("another's"));
        // What a silo signs is no request either.
        assert!(key().public().check(&message, &own).is_err());
    }

    #[test]
    fn a_private_key_is_in_no_text_for_people() {
        let text = format!("{:?}", key());
        assert!(text.contains("public") && !text.contains("7, 7, 7") && !text.contains("070707"), "{text}");
    }
}
