//! Seals a silo's answers to the coordinator that asked, so that the engine between them reads none of their numbers.

use std::collections::BTreeMap;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hkdf::Hkdf;
use partita_inference::{DataType, Message, Record};
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::frame::unpack;
use crate::object::{ObjectId, Objects, from_hexadecimal, hexadecimal};
use crate::signature::PartyPublicKey;

/// The kind of a sealed answer.
const SEALED: &str = "flower.sealed";

/// Goes into the key, so that no key for another purpose is one of an answer.
const PURPOSE: &[u8] = b"partita answer 1";

/// The words of an X25519 public key of the silo's, made for the one answer.
const OWN: [&str; 4] = ["key-0", "key-1", "key-2", "key-3"];

/// The X25519 key with which a coordinator reads answers, made anew at each start.
pub(crate) struct AnswerKey(StaticSecret);

impl AnswerKey {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(StaticSecret::from(random()?)))
    }

    /// The public part in hexadecimal, which stands in every signed request.
    pub(crate) fn public(&self) -> String {
        hexadecimal(PublicKey::from(&self.0).as_bytes())
    }

    /// Reads the answer `root` of `objects`, which is not kept, and opens it if it is sealed; who is one of `signatures` has to have signed it.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for an answer in the name of a silo that has not signed it; [`Error::Malformed`].
    pub(crate) fn read(
        &self,
        objects: Objects,
        root: &ObjectId,
        signatures: &BTreeMap<String, PartyPublicKey>,
    ) -> Result<(Message, Envelope)> {
        let (message, envelope) = unpack(&objects, root)?;
        drop(objects);
        signatures.get(&envelope.silo).map_or(Ok(()), |key| key.check_answer(&message, &envelope))?;
        match message.kind == SEALED {
            true => Ok((self.open(&message, &envelope)?, envelope)),
            false => Ok((message, envelope)),
        }
    }

    /// The key of the fuzzer's corpus.
    pub(crate) fn of_the_corpus() -> Self {
        Self(StaticSecret::from([7; 32]))
    }

    /// Opens an answer.
    ///
    /// # Errors
    /// [`Error::Malformed`] for one that was sealed to another key, for another round or silo, or changed.
    fn open(&self, sealed: &Message, envelope: &Envelope) -> Result<Message> {
        let wrong = |problem: &str| Error::malformed("a sealed answer", problem);
        let mut own = [0; 32];
        for (slot, name) in own.as_chunks_mut::<8>().0.iter_mut().zip(OWN) {
            *slot = sealed.get_word(name)?.to_le_bytes();
        }
        let content = sealed.records.iter().find(|record| record.name == "content");
        let content = content.ok_or_else(|| wrong("it has no content"))?;
        let length = usize::try_from(sealed.get_word("length")?).unwrap_or(usize::MAX);
        let content = content.bytes.get(..length).ok_or_else(|| wrong("it is shorter than it says"))?;
        let (own, coordinator) = (PublicKey::from(own), PublicKey::from(&self.0));
        let cipher = cipher(&self.0, &own, [&own, &coordinator])?;
        let payload = Payload { msg: content, aad: &bound(envelope) };
        let opened = cipher.decrypt(&Nonce::default(), payload);
        let opened =
            opened.map_err(|_| wrong("it was sealed to another start of the coordinator, or changed on its way"))?;
        Ok(Message::decode(&opened)?)
    }
}

/// Seals an answer to the key of a signed request.
///
/// # Errors
/// [`Error::Malformed`] for a key that is none; [`Error::File`] where the system gives no random numbers.
pub(crate) fn seal(answer: &Message, envelope: &Envelope, key: &str) -> Result<Message> {
    seal_by(StaticSecret::from(random()?), answer, envelope, key)
}

/// The same with a secret that was made for this one answer.
fn seal_by(secret: StaticSecret, answer: &Message, envelope: &Envelope, key: &str) -> Result<Message> {
    let wrong = || Error::malformed("the key for answers", "it is not 64 digits 0-f of an X25519 key");
    let coordinator: [u8; 32] = from_hexadecimal(key).ok_or_else(wrong)?;
    let (own, coordinator) = (PublicKey::from(&secret), PublicKey::from(coordinator));
    let cipher = cipher(&secret, &coordinator, [&own, &coordinator])?;
    let payload = Payload { msg: &answer.encode(), aad: &bound(envelope) };
    // The key is of this one answer, so that the nonce need not differ.
    let mut bytes = cipher.encrypt(&Nonce::default(), payload).map_err(|_| wrong())?;
    let length = bytes.len();
    bytes.resize(length.next_multiple_of(8), 0);
    let words = own.as_bytes().as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
    let sealed = OWN.iter().zip(words).fold(Message::new(SEALED), |message, (name, word)| message.word(name, word));
    let mut sealed = sealed.word("length", length as u64);
    let shape = vec![(bytes.len() / 8) as u64];
    sealed.records.push(Record { name: "content".into(), data_type: DataType::U64, shape, bytes: bytes.into() });
    Ok(sealed)
}

/// The cipher of one answer: AES-256-GCM under a key that HKDF-SHA256 makes of the shared secret and both public keys.
fn cipher(secret: &StaticSecret, other: &PublicKey, both: [&PublicKey; 2]) -> Result<Aes256Gcm> {
    let wrong = || Error::malformed("a key for an answer", "no secret can be shared with it");
    let shared = secret.diffie_hellman(other);
    if !shared.was_contributory() {
        return Err(wrong());
    }
    let salt = both.map(|key| *key.as_bytes()).concat();
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(Some(&salt), shared.as_bytes()).expand(PURPOSE, &mut key).map_err(|_| wrong())?;
    Aes256Gcm::new_from_slice(&key).map_err(|_| wrong())
}

/// What an answer belongs to: it opens nowhere else.
fn bound(envelope: &Envelope) -> Vec<u8> {
    let Envelope { run, round, attempt, silo, identity, .. } = envelope;
    let mut bytes = [round.to_le_bytes(), attempt.to_le_bytes()].concat();
    for part in [run, silo, identity] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::malformed("the system's random numbers", error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frame::pack;

    fn envelope() -> Envelope {
        let (run, identity, silo) = ("run".into(), "abc".into(), "north".into());
        Envelope { run, round: 3, attempt: 2, identity, silo, ..Envelope::default() }
    }

    #[test]
    fn an_answer_is_read_by_the_coordinator_of_this_start_in_its_place_and_by_nobody_else() {
        let answer = Message::new("pvi.answer").floats("change", &[1.25; 7]).setting("word", "a secret word");
        let key = AnswerKey::new().unwrap();
        let sealed = seal(&answer, &envelope(), &key.public()).unwrap();
        let mut objects = Objects::default();
        let root = pack(&sealed, &envelope(), &[], &mut objects).unwrap();
        let (sealed, place) = unpack(&objects, &root).unwrap();
        assert_eq!(key.open(&sealed, &place).unwrap(), answer);

        let bytes = sealed.encode();
        for word in [&b"a secret word"[..], b"pvi.answer", &1.25_f64.to_le_bytes()] {
            assert!(!bytes.windows(word.len()).any(|part| part == word));
        }
        assert!(AnswerKey::new().unwrap().open(&sealed, &place).is_err());
        for other in [
            Envelope { round: 4, ..envelope() },
            Envelope { attempt: 1, ..envelope() },
            Envelope { silo: "south".into(), ..envelope() },
            Envelope { run: "ru".into(), ..envelope() },
            Envelope { identity: "ab".into(), ..envelope() },
        ] {
            assert!(key.open(&sealed, &other).is_err());
        }
        for record in 0..sealed.records.len() {
            let mut changed = sealed.clone();
            Arc::make_mut(&mut changed.records[record].bytes)[0] ^= 1;
            assert!(key.open(&changed, &place).is_err(), "{}", changed.records[record].name);
        }
        // Two answers of equal content differ.
        assert!(seal(&answer, &envelope(), &key.public()).unwrap().encode() != bytes);
    }

    /// The honest file of the fuzzer's corpus is what this version seals.
    #[test]
    fn the_sealed_answer_of_the_corpus_has_the_bytes_of_this_version() {
        let key = AnswerKey::of_the_corpus();
        let answer = Message::new("pvi.answer").floats("change", &[1.25; 7]);
        let sealed = seal_by(StaticSecret::from([9; 32]), &answer, &envelope(), &key.public()).unwrap();
        let mut objects = Objects::default();
        let root = pack(&sealed, &envelope(), &[], &mut objects).unwrap();
        let bytes = objects.encoded(&root).unwrap();
        let framed = [&u32::try_from(bytes.len()).unwrap().to_le_bytes()[..3], bytes].concat();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/sealed/honest");
        if std::env::var_os("PARTITA_WRITE_CORPUS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &framed).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == framed, "the layout of sealed answers has changed");
    }

    #[test]
    fn a_key_that_is_none_and_one_with_which_no_secret_can_be_shared_are_refused() {
        let answer = Message::new("pvi.answer");
        for key in ["", "zz", &"0".repeat(64), &"é".repeat(32)] {
            assert!(seal(&answer, &envelope(), key).is_err(), "{key}");
        }
    }
}
