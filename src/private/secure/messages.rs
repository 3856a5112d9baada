//! Writes and reads what silos and coordinator say to each other for a masked sum: keys first, then one exchange a sum.

use partita_inference::{DataType, Error, Field, Message, Record, Release, Result};
use partita_privacy::{Masked, SignedKey, hexadecimal};
use serde::{Deserialize, Serialize};

use super::parts::Frame;

/// Asks a silo for its key of a session.
pub(super) const KEY: &str = "private.key";
/// Asks for a masked sum.
pub(super) const MASKED: &str = "private.masked_round";
/// The most words of eight bytes of a frame.
const FRAME: usize = 1 << 13;

/// All that may leave a silo that masks its sums.
pub(super) fn fields(numbers: usize) -> Vec<Field> {
    let field = |name, meaning, limit, release| Field { name, meaning, limit, release };
    vec![
        field("key", "an X25519 key for one session, and the silo's signature of it", 256, Release::Public),
        field("roster", "a hash of run, round, attempt, roster and request", 8, Release::Public),
        field("frame", "the names and lengths of what is summed", FRAME, Release::Public),
        field("values", "the sums, with masks that cancel in the sum over all silos", 2 * numbers, Release::Noised),
    ]
}

/// A signed key as it travels.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    silo: String,
    run: String,
    key: Vec<u8>,
    signature: Vec<u8>,
}

/// What a masked sum is asked with.
pub(super) struct MaskedRequest {
    pub(super) session: String,
    /// The place of this sum among those of the session.
    pub(super) round: u64,
    pub(super) attempt: u64,
    pub(super) roster: Vec<String>,
    pub(super) keys: Vec<SignedKey>,
    /// The request for the sum itself.
    pub(super) plain: Message,
}

fn wrong(message: &Message, problem: String) -> Error {
    Error::Message { kind: message.kind.clone(), problem }
}

fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Declined { problem: error.to_string() })
}

fn written(own: &SignedKey) -> Key {
    Key { silo: own.silo.clone(), run: own.run.clone(), key: own.key.to_vec(), signature: own.signature.to_vec() }
}

fn read(key: Key, message: &Message) -> Result<SignedKey> {
    let Key { silo, run, key, signature } = key;
    match (key.try_into(), signature.try_into()) {
        (Ok(key), Ok(signature)) => Ok(SignedKey { silo, run, key, signature }),
        _ => Err(wrong(message, "its key or signature has another length".into())),
    }
}

/// The answer to [`KEY`].
pub(super) fn keyed(own: &SignedKey) -> Result<Message> {
    Ok(Message::new("private.keyed").setting("key", &text(&written(own))?))
}

/// The key of an answer to [`KEY`].
pub(super) fn key_of(reply: &Message) -> Result<SignedKey> {
    let key = serde_json::from_str(reply.get_setting("key")?).map_err(|error| wrong(reply, error.to_string()))?;
    read(key, reply)
}

impl MaskedRequest {
    pub(super) fn write(&self) -> Result<Message> {
        let mut bytes = self.plain.encode();
        let length = bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let keys: Vec<Key> = self.keys.iter().map(written).collect();
        let message = Message::new(MASKED).setting("session", &self.session).word("attempt", self.attempt);
        let message =
            message.word("round", self.round).setting("roster", &text(&self.roster)?).setting("keys", &text(&keys)?);
        let mut message = message.word("length", length);
        let shape = vec![(bytes.len() / 8) as u64];
        message.records.push(Record { name: "plain".into(), data_type: DataType::U64, shape, bytes: bytes.into() });
        Ok(message)
    }

    pub(super) fn read(message: &Message) -> Result<Self> {
        let of = |name| {
            serde_json::from_str::<Vec<Key>>(message.get_setting(name)?)
                .map_err(|error| wrong(message, error.to_string()))
        };
        let keys = of("keys")?.into_iter().map(|key| read(key, message)).collect::<Result<_>>()?;
        let roster = serde_json::from_str(message.get_setting("roster")?);
        let roster = roster.map_err(|error| wrong(message, error.to_string()))?;
        let (session, attempt) = (message.get_setting("session")?.to_owned(), message.get_word("attempt")?);
        let round = message.get_word("round")?;
        let record = message.records.iter().find(|record| record.name == "plain");
        let length = usize::try_from(message.get_word("length")?).unwrap_or(usize::MAX);
        let bytes = record.and_then(|record| record.bytes.get(..length));
        let plain = Message::decode(bytes.ok_or_else(|| wrong(message, "it asks for nothing".into()))?)?;
        Ok(Self { session, round, attempt, roster, keys, plain })
    }
}

/// The answer to [`MASKED`].
pub(super) fn masked(frame: &Frame, own: &Masked) -> Result<Message> {
    let bytes: Vec<u8> = own.values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let roster = hexadecimal::write(&own.roster);
    let mut message = Message::new("private.masked").setting("roster", &roster).setting("frame", &text(frame)?);
    let shape = vec![own.values.len() as u64, 2];
    message.records.push(Record { name: "values".into(), data_type: DataType::U64, shape, bytes: bytes.into() });
    Ok(message)
}

/// The frame, the numbers and the roster's hash of an answer to [`MASKED`].
pub(super) fn values_of(reply: &Message) -> Result<(Frame, Masked)> {
    let record = reply.records.iter().find(|record| record.name == "values" && record.data_type == DataType::U64);
    let record = record.ok_or_else(|| wrong(reply, "it has no numbers".into()))?;
    let (sixteen, rest) = record.bytes.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(wrong(reply, "its numbers have another length".into()));
    }
    let values = sixteen.iter().map(|own| u128::from_le_bytes(*own)).collect();
    let frame = serde_json::from_str(reply.get_setting("frame")?).map_err(|error| wrong(reply, error.to_string()))?;
    let roster = hexadecimal::read(reply.get_setting("roster")?).and_then(|bytes| bytes.try_into().ok());
    let roster = roster.ok_or_else(|| wrong(reply, "its roster is no hash".into()))?;
    Ok((frame, Masked { values, roster }))
}

/// Whether this asks for a masked sum as [`MaskedRequest`] does.
pub(crate) fn is_request(message: &Message) -> bool {
    MaskedRequest::read(message).is_ok()
}

/// Whether this has the numbers of a masked sum.
pub(crate) fn is_masked(message: &Message) -> bool {
    values_of(message).is_ok()
}

/// Whether this has a key of a session.
pub(crate) fn is_key(message: &Message) -> bool {
    key_of(message).is_ok()
}

/// What the fuzzer's corpus is made of.
#[cfg(test)]
pub(crate) mod corpus {
    use partita_inference::Message;
    use partita_privacy::{Masked, SignedKey};

    use super::{MaskedRequest, keyed, masked};
    use crate::private::secure::parts::apart;

    fn plain() -> Message {
        Message::new("private.round").word("step", 1).number("clip", 0.3).number("curvature", 2.0)
    }

    pub(crate) fn request(names: &[&str], keys: &[SignedKey]) -> Message {
        let roster = names.iter().map(|name| (*name).to_owned()).collect();
        let (session, keys) = ("s1".into(), keys.to_vec());
        MaskedRequest { session, round: 1, attempt: 0, roster, keys, plain: plain() }.write().unwrap()
    }

    pub(crate) fn answer(own: &Masked) -> Message {
        let sums = Message::new("private.answer").floats("gradient", &[1.0]).floats("curvature", &[2.0]);
        masked(&apart(&sums.number("clipped", 0.0), &plain()).unwrap().0, own).unwrap()
    }

    pub(crate) fn key(own: &SignedKey) -> Message {
        keyed(own).unwrap()
    }
}
