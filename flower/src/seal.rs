//! Seals silos' answers to their coordinator, and requests to a silo, so that the engine between them reads none of their numbers.

use std::collections::BTreeMap;
use std::path::Path;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hkdf::Hkdf;
use partita_inference::{DataType, Message, Record};
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::frame::unpack;
use crate::object::{Limits, ObjectId, Objects, from_hexadecimal, hexadecimal};
use crate::own_file;
use crate::signature::PartyPublicKey;

/// The kind of a sealed message.
pub(crate) const SEALED: &str = "flower.sealed";

/// Goes into the key, so that no key for another purpose is one of an answer, or of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sealing {
    Answer,
    Request,
}

impl Sealing {
    fn purpose(self) -> &'static [u8] {
        match self {
            Self::Answer => b"partita answer 1",
            Self::Request => b"partita request 1",
        }
    }
}

/// The words of an X25519 public key of the sender's, made for the one message.
const OWN: [&str; 4] = ["key-0", "key-1", "key-2", "key-3"];

/// The X25519 key with which a coordinator reads answers, made anew at each start, or a silo what is sealed to it.
pub(crate) struct SealKey(StaticSecret);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SealKey").field("public", &self.public()).finish_non_exhaustive()
    }
}

impl SealKey {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(StaticSecret::from(random()?)))
    }

    /// The one in this file, which its owner alone may read; it is made if there is none.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is no such key, or cannot be written.
    pub(crate) fn kept(path: &Path) -> Result<Self> {
        let Some(bytes) = own_file::read(path)? else {
            let own = Self::new()?;
            own_file::write(path, own.0.as_bytes())?;
            return Ok(own);
        };
        let problem = "it is no key of 32 bytes. Remove it: the silo makes another at its next start.";
        let own: [u8; 32] = bytes.try_into().map_err(|_| Error::file(path, problem))?;
        Ok(Self(StaticSecret::from(own)))
    }

    /// The public part in hexadecimal, which stands in every signed request and in a silo's sealed hello.
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
        limits: Limits,
        signatures: &BTreeMap<String, PartyPublicKey>,
    ) -> Result<(Message, Envelope)> {
        let (message, envelope) = unpack(&objects, root, limits)?;
        drop(objects);
        signatures.get(&envelope.silo).map_or(Ok(()), |key| key.check_answer(&message, &envelope))?;
        match message.kind == SEALED {
            true => Ok((self.open(&message, &envelope, Sealing::Answer)?, envelope)),
            false => Ok((message, envelope)),
        }
    }

    /// The key of the fuzzer's corpus.
    pub(crate) fn of_the_corpus() -> Self {
        Self(StaticSecret::from([7; 32]))
    }

    /// Opens a message.
    ///
    /// # Errors
    /// [`Error::Malformed`] for one that was sealed to another key, for another round or silo, or changed.
    pub(crate) fn open(&self, sealed: &Message, envelope: &Envelope, sealing: Sealing) -> Result<Message> {
        let wrong = |problem: &str| Error::malformed("a sealed message", problem);
        let mut own = [0; 32];
        for (slot, name) in own.as_chunks_mut::<8>().0.iter_mut().zip(OWN) {
            *slot = sealed.get_word(name)?.to_le_bytes();
        }
        let content = sealed.records.iter().find(|record| record.name == "content");
        let content = content.ok_or_else(|| wrong("it has no content"))?;
        let length = usize::try_from(sealed.get_word("length")?).unwrap_or(usize::MAX);
        let content = content.bytes.get(..length).ok_or_else(|| wrong("it is shorter than it says"))?;
        let (own, receiver) = (PublicKey::from(own), PublicKey::from(&self.0));
        let cipher = cipher(&self.0, &own, [&own, &receiver], sealing)?;
        let payload = Payload { msg: content, aad: &bound(envelope) };
        let opened = cipher.decrypt(&Nonce::default(), payload);
        let opened = opened.map_err(|_| {
            wrong("it was sealed to another key, such as that of an earlier start, or changed on its way")
        })?;
        Ok(Message::decode(&opened)?)
    }
}

/// Seals a message to the key of a signed request, or of a silo's hello.
///
/// # Errors
/// [`Error::Malformed`] for a key that is none, and where the system gives no random numbers.
pub(crate) fn seal(message: &Message, envelope: &Envelope, key: &str, sealing: Sealing) -> Result<Message> {
    seal_by(StaticSecret::from(random()?), message, envelope, key, sealing)
}

/// The same with a secret that was made for this one message.
fn seal_by(
    secret: StaticSecret,
    message: &Message,
    envelope: &Envelope,
    key: &str,
    sealing: Sealing,
) -> Result<Message> {
    let wrong = || Error::malformed("the key to seal to", "it is not 64 digits 0-f of an X25519 key");
    let receiver: [u8; 32] = from_hexadecimal(key).ok_or_else(wrong)?;
    let (own, receiver) = (PublicKey::from(&secret), PublicKey::from(receiver));
    let cipher = cipher(&secret, &receiver, [&own, &receiver], sealing)?;
    let payload = Payload { msg: &message.encode(), aad: &bound(envelope) };
    // The key is of this one message, so that the nonce need not differ.
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

/// The cipher of one message: AES-256-GCM under a key that HKDF-SHA256 makes of the shared secret and both public keys.
fn cipher(secret: &StaticSecret, other: &PublicKey, both: [&PublicKey; 2], sealing: Sealing) -> Result<Aes256Gcm> {
    let wrong = || Error::malformed("a key to seal to", "no secret can be shared with it");
    let shared = secret.diffie_hellman(other);
    if !shared.was_contributory() {
        return Err(wrong());
    }
    let salt = both.map(|key| *key.as_bytes()).concat();
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(Some(&salt), shared.as_bytes()).expand(sealing.purpose(), &mut key).map_err(|_| wrong())?;
    Aes256Gcm::new_from_slice(&key).map_err(|_| wrong())
}

/// What a message belongs to: it opens nowhere else.
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
    fn an_answer_is_read_by_the_coordinator_of_this_start_in_its_place_and_by_no_other() {
        let answer = Message::new("pvi.answer").floats("change", &[1.25; 7]).setting("word", "a secret word");
        let key = SealKey::new().unwrap();
        let sealed = seal(&answer, &envelope(), &key.public(), Sealing::Answer).unwrap();
        let mut objects = Objects::default();
        let root = pack(&sealed, &envelope(), &[], &mut objects).unwrap();
        let (sealed, place) = unpack(&objects, &root, Limits::default()).unwrap();
        assert_eq!(key.open(&sealed, &place, Sealing::Answer).unwrap(), answer);

        let bytes = sealed.encode();
        for word in [&b"a secret word"[..], b"pvi.answer", &1.25_f64.to_le_bytes()] {
            assert!(!bytes.windows(word.len()).any(|part| part == word));
        }
        assert!(SealKey::new().unwrap().open(&sealed, &place, Sealing::Answer).is_err());
        // What is sealed as an answer is no request, to a silo that had the same key.
        assert!(key.open(&sealed, &place, Sealing::Request).is_err());
        for other in [
            Envelope { round: 4, ..envelope() },
            Envelope { attempt: 1, ..envelope() },
            Envelope { silo: "south".into(), ..envelope() },
            Envelope { run: "ru".into(), ..envelope() },
            Envelope { identity: "ab".into(), ..envelope() },
        ] {
            assert!(key.open(&sealed, &other, Sealing::Answer).is_err());
        }
        for record in 0..sealed.records.len() {
            let mut changed = sealed.clone();
            Arc::make_mut(&mut changed.records[record].bytes)[0] ^= 1;
            assert!(key.open(&changed, &place, Sealing::Answer).is_err(), "{}", changed.records[record].name);
        }
        // Two answers of equal content differ.
        assert!(seal(&answer, &envelope(), &key.public(), Sealing::Answer).unwrap().encode() != bytes);
    }

    /// The honest file of the fuzzer's corpus is what this version seals.
    #[test]
    fn the_sealed_answer_of_the_corpus_has_the_bytes_of_this_version() {
        let key = SealKey::of_the_corpus();
        let answer = Message::new("pvi.answer").floats("change", &[1.25; 7]);
        let sealed =
            seal_by(StaticSecret::from([9; 32]), &answer, &envelope(), &key.public(), Sealing::Answer).unwrap();
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
            assert!(seal(&answer, &envelope(), key, Sealing::Answer).is_err(), "{key}");
        }
    }

    #[test]
    fn the_key_of_a_silo_is_made_once_and_a_file_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        let first = SealKey::kept(&path).unwrap().public();
        assert_eq!(SealKey::kept(&path).unwrap().public(), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(&path, "short").unwrap();
        assert!(SealKey::kept(&path).unwrap_err().to_string().contains("no key of 32 bytes"));
    }
}
