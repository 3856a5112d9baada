//! Lists the decoders of what parties of masked sums send each other, for the fuzzer and for the tests over its corpus.

use partita_inference::Message;

use super::secure::{is_key, is_masked, is_request};

/// A decoder of bytes from outside: its name, and a function that returns whether it accepted the bytes.
type Decoder = (&'static str, fn(&[u8]) -> bool);

/// The decoders of masked sums: for any bytes, none may panic, hang, or allocate more memory than a small multiple of its
/// input.
///
/// # Example
/// ```
/// use partita::private::DECODERS;
/// assert_eq!(DECODERS.map(|(name, decode)| (name, decode(b"abc"))), [
///     ("masked_request", false), ("masked_answer", false), ("signed_key", false),
/// ]);
/// ```
pub const DECODERS: [Decoder; 3] = [
    ("masked_request", |bytes| Message::decode(bytes).is_ok_and(|message| is_request(&message))),
    ("masked_answer", |bytes| Message::decode(bytes).is_ok_and(|message| is_masked(&message))),
    ("signed_key", |bytes| Message::decode(bytes).is_ok_and(|message| is_key(&message))),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use partita_privacy::{Masker, Peers, Place, RunKey, SeededBits, SignedKey, SiloKey};

    use super::*;
    use crate::private::secure::corpus::{answer, key, request};

    /// A file of the corpus: its decoder, its name, whether it is to be taken, and its bytes.
    type File = (&'static str, &'static str, bool, Vec<u8>);

    /// What silos of the fuzzer's corpus say, with seeded keys.
    fn files() -> Vec<File> {
        let names = ["north", "south", "west"];
        let lasting: Vec<SiloKey> = (1..=3).map(|byte| SiloKey::from_bytes(&[byte; 32])).collect();
        let peers: Peers = names.iter().zip(&lasting).map(|(name, key)| ((*name).to_owned(), key.public())).collect();
        let own = |place: usize| {
            RunKey::new("s1", names[place], &lasting[place], &mut SeededBits::new(place as u64)).unwrap()
        };
        let signed: Vec<SignedKey> = (0..3).map(|place| own(place).signed()).collect();
        let mut masker = Masker::new(own(0), &peers, &signed, 3).unwrap();
        let masked = masker.mask(Place { round: 1, attempt: 0 }, &names, b"a sum", &[1, 2, 3]).unwrap();
        let (request, answer, key) = (request(&names, &signed), answer(&masked), key(&signed[0]));
        let without = |message: &Message, setting: &str| {
            let mut message = message.clone();
            message.settings.retain(|own| own.0 != setting);
            message.encode()
        };
        let mut longer = request.clone();
        let length = longer.records.iter_mut().find(|record| record.name == "length").unwrap();
        length.bytes = u64::MAX.to_le_bytes().to_vec().into();
        let other = |setting: &str, text: &str, message: &Message| {
            let mut message = message.clone();
            message.settings.iter_mut().filter(|own| own.0 == setting).for_each(|own| own.1 = text.to_owned());
            message.encode()
        };
        vec![
            ("masked_request", "honest", true, request.encode()),
            ("masked_request", "hostile_without_keys", false, without(&request, "keys")),
            ("masked_request", "hostile_length_beyond_its_bytes", false, longer.encode()),
            ("masked_request", "hostile_roster_of_no_names", false, other("roster", "[1, 2]", &request)),
            ("masked_answer", "honest", true, answer.encode()),
            ("masked_answer", "hostile_hash_of_other_letters", false, other("roster", &"é".repeat(32), &answer)),
            ("masked_answer", "hostile_long_hash", false, other("roster", &"0".repeat(66), &answer)),
            ("signed_key", "honest", true, key.encode()),
            (
                "signed_key",
                "hostile_short_key",
                false,
                other("key", r#"{"silo":"a","run":"b","key":[1],"signature":[]}"#, &key),
            ),
            ("signed_key", "hostile_deep", false, other("key", &"[".repeat(10_000), &key)),
        ]
    }

    fn decode(decoder: &str, bytes: &[u8]) -> bool {
        DECODERS.iter().find(|(name, _)| *name == decoder).unwrap().1(bytes)
    }

    #[test]
    fn what_the_fuzzer_found_does_no_harm() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("flower/fuzz/corpus");
        for (decoder, decode) in DECODERS {
            for entry in std::fs::read_dir(folder.join(decoder)).unwrap() {
                decode(&std::fs::read(entry.unwrap().path()).unwrap());
            }
        }
    }

    #[test]
    fn honest_files_are_taken_hostile_ones_refused_and_changed_ones_do_no_harm() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("flower/fuzz");
        for (decoder, name, is_honest, bytes) in files() {
            let path = folder.join("corpus").join(decoder).join(name);
            if std::env::var_os("PARTITA_WRITE_CORPUS").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &bytes).unwrap();
            }
            assert!(std::fs::read(&path).unwrap() == bytes, "{}: the layout has changed", path.display());
            assert!(folder.join(format!("fuzz_targets/{decoder}.rs")).is_file(), "{decoder}");
            assert_eq!(decode(decoder, &bytes), is_honest, "{decoder}/{name}");
            // Every byte changed, and every length.
            for place in 0..bytes.len().min(4_000) {
                let mut changed = bytes.clone();
                changed[place] ^= 1 << (place % 8);
                decode(decoder, &changed);
                decode(decoder, &bytes[..place]);
            }
        }
    }
}
