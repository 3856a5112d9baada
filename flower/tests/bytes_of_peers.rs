//! Nothing a peer sends is taken for what it is not: objects, arrays, records, trees.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita_flower::{Envelope, Limits, Object, ObjectId, Objects, pack, unpack};
use partita_inference::Message;

fn envelope() -> Envelope {
    let (run, identity, silo) = ("run".into(), "abc".into(), "north".into());
    Envelope {
        run,
        began: 1_700_000_000_000,
        start: 4,
        round: 3,
        attempt: 2,
        accepted: 1,
        kept: 1,
        identity,
        silo,
        signature: None,
    }
}

fn message() -> Message {
    Message::new("pvi.solve")
        .floats("natural", &[1.0, -2.5, f64::NAN, f64::INFINITY, -0.0])
        .array("matrix", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])
        .floats("nothing", &[])
        .word("version", u64::MAX)
        .number("damping", 0.1)
        .setting("globals", "β [4], ω [1]")
}

#[test]
fn a_message_comes_back_bit_for_bit() {
    let mut objects = Objects::default();
    let root = pack(&message(), &envelope(), &[], &mut objects).unwrap();
    assert_eq!(Object::decode(objects.encoded(&root).unwrap()).unwrap().children, []);
    let (found, told) = unpack(&objects, &root, Limits::default()).unwrap();
    assert_eq!(found.encode(), message().encode());
    assert_eq!(told, envelope());
}

#[test]
fn a_large_array_travels_in_chunks_and_equal_chunks_once() {
    let zeros = Message::new("large").floats("zeros", &vec![0.0; 7_000_000]);
    let mut objects = Objects::default();
    let root = pack(&zeros, &envelope(), &[], &mut objects).unwrap();
    // Four chunks, of which the two in the middle are equal.
    assert!((38_000_000..41_000_000).contains(&objects.size()), "{} bytes", objects.size());
    assert_eq!(unpack(&objects, &root, Limits::default()).unwrap().0, zeros);
}

#[test]
fn requests_to_many_silos_share_what_is_large() {
    let large = Message::new("pvi.solve").floats("natural", &vec![1.5; 100_000]);
    let mut objects = Objects::default();
    let mut to = |silo: &str| {
        let envelope = Envelope { silo: silo.into(), ..envelope() };
        pack(&large, &envelope, silo.as_bytes(), &mut objects).unwrap()
    };
    let [north, south] = ["north", "south"].map(&mut to);
    assert!(north != south && objects.size() < 802_000, "{} bytes", objects.size());
    // Hellos are equal but for whom they are sent to, and have to be two objects all the same.
    let mut objects = Objects::default();
    let mut hello = |stamp: &[u8]| pack(&Message::new("hello"), &envelope(), stamp, &mut objects).unwrap();
    assert!(hello(b"node 1") != hello(b"node 2"));
}

#[test]
fn the_overhead_of_a_million_numbers_is_below_five_per_cent() {
    let numbers: Vec<f64> = (0..1_000_000).map(f64::from).collect();
    let message = Message::new("pvi.answer").floats("change", &numbers);
    let mut objects = Objects::default();
    pack(&message, &envelope(), &[], &mut objects).unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    let overhead = objects.size() as f64 / (8.0 * numbers.len() as f64) - 1.0;
    assert!((0.0..0.05).contains(&overhead), "{overhead}");
}

#[test]
fn an_object_under_another_name_or_beyond_the_limit_is_refused() {
    let object = Object::new("ArrayChunk", Vec::new(), b"abc".to_vec()).encode();
    let (right, wrong) = (ObjectId::of(&object), ObjectId::of(b"another"));
    let mut objects = Objects::default();
    assert!(objects.receive(&wrong, object.clone(), Limits::default()).is_err());
    objects.receive(&right, object.clone(), Limits::default()).unwrap();
    let small = Limits { bytes: 10, objects: 10 };
    assert!(Objects::default().receive(&right, object, small).unwrap_err().to_string().contains("the most"));
    let single = Limits { objects: 1, ..Limits::default() };
    let another = Object::new("ArrayChunk", Vec::new(), b"def".to_vec()).encode();
    let found = objects.receive(&ObjectId::of(&another), another, single).unwrap_err().to_string();
    assert!(found.contains("1 objects, the most"), "{found}");
}

#[test]
fn a_head_of_an_object_has_three_words_and_an_end_that_is_near() {
    let long = "a".repeat(70_000);
    for (bytes, problem) in [
        ("ArrayChunk  3 3\0abc".to_owned(), "has 4 words, expected 3"),
        ("ArrayChunk 3\0abc".to_owned(), "has 2 words, expected 3"),
        ("ArrayChunk  4\0abc".to_owned(), "announces `4` bytes, 3 follow"),
        ("ArrayChunk  2\0abc".to_owned(), "announces `2` bytes, 3 follow"),
        (format!("{long}  3\0abc"), "its head has no end"),
    ] {
        let found = Object::decode(bytes.as_bytes()).unwrap_err().to_string();
        assert!(found.contains(problem), "{found}");
    }
}

/// A frame's object with these children and places of chunks.
fn framed(objects: &mut Objects, children: Vec<ObjectId>, places: &[u32]) -> ObjectId {
    let honest = pack(&message(), &envelope(), &[], objects).unwrap();
    let body = Object::decode(objects.encoded(&honest).unwrap()).unwrap().body;
    let end = body.len() - message().encode().len() - 4;
    let places = std::iter::once(u32::try_from(places.len()).unwrap()).chain(places.iter().copied());
    let body = [&body[..end], &places.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()].concat();
    objects.add(&Object::new("Message", children, body))
}

#[test]
fn chunks_that_are_not_there_and_messages_of_another_layout_are_refused() {
    let mut objects = Objects::default();
    let stranger = framed(&mut objects, Vec::new(), &[0]);
    assert!(unpack(&objects, &stranger, Limits::default()).unwrap_err().to_string().contains("no chunk 0"));
    let missing = framed(&mut objects, vec![ObjectId::of(b"stranger")], &[0]);
    assert!(unpack(&objects, &missing, Limits::default()).unwrap_err().to_string().contains("is missing"));
    // The second layout had the engine's head for a body, and its content in records beside it.
    let old = objects.add(&Object::new("Message", vec![stranger], vec![10, 2, 8, 7]));
    let error = unpack(&objects, &old, Limits::default()).unwrap_err().to_string();
    assert!(error.contains("found 2, expected 3") && error.contains("same version of Partita"), "{error}");
}

#[test]
fn an_object_of_another_type_is_neither_a_message_nor_a_chunk() {
    let mut objects = Objects::default();
    let array = objects.add(&Object::new("Array", Vec::new(), message().encode()));
    let found = unpack(&objects, &array, Limits::default()).unwrap_err().to_string();
    assert!(found.contains("it is a `Array`, expected `Message`"), "{found}");
    let root = framed(&mut objects, vec![array], &[0]);
    let found = unpack(&objects, &root, Limits::default()).unwrap_err().to_string();
    assert!(found.contains("it is a `Array`, expected `ArrayChunk`"), "{found}");
}

#[test]
fn bytes_after_the_places_of_chunks_are_refused() {
    let mut objects = Objects::default();
    let chunk = objects.add(&Object::new("ArrayChunk", Vec::new(), message().encode()));
    let honest = framed(&mut objects, vec![chunk.clone()], &[0]);
    assert_eq!(unpack(&objects, &honest, Limits::default()).unwrap().0.encode(), message().encode());
    let body = [&Object::decode(objects.encoded(&honest).unwrap()).unwrap().body[..], &[0]].concat();
    let longer = objects.add(&Object::new("Message", vec![chunk], body));
    assert!(unpack(&objects, &longer, Limits::default()).unwrap_err().to_string().contains("bytes after its chunks"));
}

#[test]
fn two_records_of_one_name_are_refused() {
    let mut objects = Objects::default();
    let twice = Message::new("x").floats("a", &[1.0]).floats("a", &[2.0]);
    let root = pack(&twice, &envelope(), &[], &mut objects).unwrap();
    assert!(unpack(&objects, &root, Limits::default()).unwrap_err().to_string().contains("two records `a`"));
}

/// The most memory that this process has had, in bytes, where the system says so.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1_024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap())
}

#[test]
fn one_chunk_repeated_without_end_is_refused_before_it_fills_the_memory() {
    let mut objects = Objects::default();
    let chunk = objects.add(&Object::new("ArrayChunk", Vec::new(), vec![0; 5_000_000]));
    // 20,000 places, 80 kB of them, of a chunk of 5 MB: 100 GB.
    let root = framed(&mut objects, vec![chunk.clone()], &[0; 20_000]);
    let started = std::time::Instant::now();
    assert!(
        unpack(&objects, &root, Limits::default()).unwrap_err().to_string().contains("far larger than the message")
    );
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    assert!(peak().is_none_or(|bytes| bytes < 2 << 30), "{:?} bytes at most", peak());
    // Forty places are 200 MB, which a party that reads a hundred refuses before it knows who asks.
    let root = framed(&mut objects, vec![chunk], &[0; 40]);
    let limits = Limits { bytes: 100_000_000, ..Limits::default() };
    let found = unpack(&objects, &root, limits).unwrap_err().to_string();
    assert!(found.contains("more than 100000000 bytes"), "{found}");
}
