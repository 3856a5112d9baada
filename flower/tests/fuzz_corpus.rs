//! Goes over the fuzzer's corpus: honest bytes are taken, hostile ones refused, and changed ones do no harm.
//!
//! The files are what `files` writes, so that a change of the layout shows; `PARTITA_WRITE_CORPUS=1 cargo test
//! --workspace
//! --test fuzz_corpus` writes them anew.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use partita_flower::{DECODERS, Envelope, Object, ObjectId, Objects, pack};
use partita_inference::Message;
use proptest::prelude::*;

/// A file of the corpus: its decoder, its name, whether it is to be taken, and its bytes.
type File = (&'static str, &'static str, bool, Vec<u8>);

fn message() -> Message {
    Message::new("pvi.solve")
        .floats("natural", &[1.0, -2.5, f64::NAN, f64::INFINITY, -0.0])
        .array("matrix", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])
        .floats("nothing", &[])
        .number("damping", 0.1)
        .setting("globals", "β [4], ω [1]")
}

/// A protobuf field with a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        out.push(u8::try_from(length % 128).unwrap() | 128);
        length /= 128;
    }
    out.push(u8::try_from(length).unwrap());
    [out, bytes.to_vec()].concat()
}

/// Objects as the decoder `content` reads them: each after its length in three bytes.
fn framed(objects: &[Vec<u8>]) -> Vec<u8> {
    let one = |bytes: &Vec<u8>| [&u32::try_from(bytes.len()).unwrap().to_le_bytes()[..3], bytes.as_slice()].concat();
    objects.iter().flat_map(one).collect()
}

/// The objects under `root`, children before parents.
fn below(objects: &Objects, root: &ObjectId, found: &mut Vec<Vec<u8>>) {
    let bytes = objects.encoded(root).unwrap().to_vec();
    for child in Object::decode(&bytes).unwrap().children {
        below(objects, &child, found);
    }
    if !found.contains(&bytes) {
        found.push(bytes);
    }
}

/// A tree of one identifier, that many times as deep.
fn tree(depth: usize) -> Vec<u8> {
    let id = field(1, ObjectId::of(b"object").as_str().as_bytes());
    (1..depth).fold(id.clone(), |below, _| [id.clone(), field(2, &below)].concat())
}

fn files() -> Vec<File> {
    let (run, identity, silo) = ("run".into(), "abc".into(), "north".into());
    let envelope = Envelope { run, round: 3, attempt: 2, accepted: 1, identity, silo, ..Envelope::default() };
    let mut objects = Objects::default();
    let root = pack(&message(), &envelope, &[], &mut objects).unwrap();
    let mut content = Vec::new();
    below(&objects, &root, &mut content);
    // The same frame with chunks beside it: as many places as the body says.
    let beside = |chunk: &[u8], count: usize| {
        let chunk = Object::new("ArrayChunk", Vec::new(), chunk.to_vec()).encode();
        let body = Object::decode(objects.encoded(&root).unwrap()).unwrap().body;
        let end = body.len() - message().encode().len() - 4;
        let places = [u32::try_from(count).unwrap().to_le_bytes().to_vec(), vec![0; 4 * count]].concat();
        let body = [&body[..end], places.as_slice()].concat();
        framed(&[chunk.clone(), Object::new("Message", vec![ObjectId::of(&chunk)], body).encode()])
    };
    let (chunked, bomb) = (beside(&message().encode(), 1), beside(&[0; 60_000], 20_000));
    let sealed = std::fs::read(folder().join("sealed/honest")).unwrap();
    let mut changed = sealed.clone();
    changed[sealed.len() / 2] ^= 1;
    // A point with which every secret is zero, and no more content than a byte.
    let without_a_secret = |length: u64| {
        let zeros = ["key-0", "key-1", "key-2", "key-3"].into_iter();
        let message = zeros.fold(Message::new("flower.sealed"), |message, word| message.word(word, 0));
        let message = message.word("length", length).floats("content", &[1.0]);
        let mut objects = Objects::default();
        let root = pack(&message, &envelope, &[], &mut objects).unwrap();
        framed(&[objects.encoded(&root).unwrap().to_vec()])
    };
    // The metadata of a head that names its message.
    let named = field(2, ObjectId::of(&content[0]).as_str().as_bytes());
    let encoded = message().encode();
    let long = |mut bytes: Vec<u8>, place: usize| {
        bytes[place..place + 4].fill(0xff);
        bytes
    };
    vec![
        ("object", "honest", true, content[0].clone()),
        ("object", "hostile_ten_gigabytes", false, b"ArrayChunk  10737418240\0abc".to_vec()),
        ("object", "hostile_child_of_no_digits", false, b"Array xyz 0\0".to_vec()),
        ("object", "hostile_head_without_end", false, vec![b'A'; 70_000]),
        ("message", "honest", true, encoded.clone()),
        ("message", "hostile_truncated", false, encoded[..encoded.len() / 2].to_vec()),
        ("message", "hostile_name_of_four_gigabytes", false, long(encoded.clone(), 6)),
        ("message", "hostile_four_billion_records", false, long(encoded, 6 + 4 + "pvi.solve".len())),
        ("content", "honest", true, framed(&content)),
        ("content", "honest_in_chunks", true, chunked.clone()),
        ("content", "hostile_without_its_chunk", false, chunked[chunked.len() / 2..].to_vec()),
        ("content", "hostile_one_chunk_for_a_gigabyte", false, bomb),
        // `flower/src/seal.rs` writes the honest one.
        ("sealed", "honest", true, sealed.clone()),
        ("sealed", "hostile_changed", false, changed),
        ("sealed", "hostile_key_of_no_secret", false, without_a_secret(1)),
        ("sealed", "hostile_length_beyond_its_content", false, without_a_secret(u64::MAX)),
        ("pulled", "honest", true, [field(1, &field(3, &field(2, b"no reply"))), field(2, &tree(5))].concat()),
        ("pulled", "hostile_deep_tree", false, field(2, &tree(10))),
        ("pulled", "hostile_deeper_than_the_stack", false, field(2, &tree(150))),
        ("pulled", "hostile_identifier", false, field(2, &field(1, b"../../etc/passwd"))),
        ("answers", "honest", true, [field(2, b"token"), field(1, &[8, 7])].concat()),
        ("answers", "hostile_ten_gigabytes", false, vec![26, 0x80, 0x80, 0x80, 0x80, 0x28]),
        ("answers", "hostile_truncated", false, vec![10, 5, 1]),
        ("unfinished", "honest", true, [field(1, &field(1, b"token")), field(2, &field(5, b"asked"))].concat()),
        ("unfinished", "honest_answer", true, [field(1, &field(1, &named)), field(2, &content[0])].concat()),
        ("unfinished", "hostile_without_its_message", false, field(1, &field(1, b"token"))),
        ("unfinished", "hostile_name_of_no_digits", false, field(1, &field(1, &field(2, b"../../etc/passwd")))),
        ("unfinished", "hostile_ten_gigabytes", false, vec![18, 0x80, 0x80, 0x80, 0x80, 0x28]),
    ]
}

#[test]
fn a_tree_of_more_objects_than_are_read_is_refused() {
    let leaf = |place: u32| field(2, &field(1, ObjectId::of(&place.to_le_bytes()).as_str().as_bytes()));
    let wide = |count: u32| field(2, &[tree(1), (0..count).flat_map(leaf).collect()].concat());
    assert!(decode("pulled", &wide(900)) && !decode("pulled", &wide(1_100)));
}

fn decode(decoder: &str, bytes: &[u8]) -> bool {
    let (_, decode) = DECODERS.iter().find(|(name, _)| *name == decoder).unwrap();
    decode(bytes)
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

#[test]
fn honest_files_are_taken_and_hostile_ones_refused() {
    for (decoder, name, is_honest, bytes) in files() {
        assert_eq!(decode(decoder, &bytes), is_honest, "{decoder}/{name}");
    }
}

#[test]
fn the_committed_corpus_is_what_this_version_writes() {
    let mut expected = BTreeSet::new();
    for (decoder, name, _, bytes) in files() {
        let path = folder().join(decoder).join(name);
        if std::env::var_os("PARTITA_WRITE_CORPUS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{} is another: the layout has changed", path.display());
        expected.insert(path);
    }
    // Every decoder has its fuzz target and its folder, and every file of a folder is accounted for.
    for (decoder, _) in DECODERS {
        assert!(folder().with_file_name("fuzz_targets").join(format!("{decoder}.rs")).is_file(), "{decoder}");
        for entry in std::fs::read_dir(folder().join(decoder)).unwrap() {
            let path = entry.unwrap().path();
            // What the fuzzer adds has the names that it gives, hashes: it once reached what nothing before it had.
            let is_found = path.file_name().unwrap().to_string_lossy().len() == 40;
            assert!(is_found || expected.contains(&path), "{} belongs to no test", path.display());
            decode(decoder, &std::fs::read(&path).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoders_do_not_panic_on_noise(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for (_, decode) in DECODERS {
            decode(&bytes);
        }
    }

    #[test]
    fn decoders_do_not_panic_on_files_with_some_bytes_changed(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        which in any::<prop::sample::Index>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static FILES: LazyLock<Vec<File>> = LazyLock::new(files);
        let (decoder, _, _, bytes) = which.get(&FILES);
        let mut bytes = bytes.clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        decode(decoder, &bytes);
        // As the body of every record of a message.
        for kind in ["Message", "ArrayChunk"] {
            decode("content", &framed(&[Object::new(kind, Vec::new(), bytes.clone()).encode()]));
        }
    }
}
