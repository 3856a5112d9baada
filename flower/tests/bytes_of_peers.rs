//! Nothing a peer sends is taken for what it is not: objects, arrays, records, trees.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::collections::BTreeMap;

use partita_flower::{Envelope, Limits, Object, ObjectId, Objects, npy_decode, npy_encode, pack, unpack};
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

/// The same message with its parts in the order of their names, which is how it travels.
fn sorted(mut message: Message) -> Message {
    message.records.sort_by(|a, b| a.name.cmp(&b.name));
    message.numbers.sort_by(|a, b| a.0.cmp(&b.0));
    message.settings.sort();
    message
}

#[test]
fn a_message_comes_back_bit_for_bit() {
    let mut objects = Objects::default();
    let root = pack(&message(), &envelope(), &mut objects).unwrap();
    let (found, told) = unpack(&objects, &root).unwrap();
    assert_eq!(found.encode(), sorted(message()).encode());
    assert_eq!(told, envelope());
}

#[test]
fn a_large_array_travels_in_chunks_and_equal_chunks_once() {
    let zeros = Message::new("large").floats("zeros", &vec![0.0; 2_000_000]);
    let mut objects = Objects::default();
    let root = pack(&zeros, &envelope(), &mut objects).unwrap();
    assert!(objects.size() < 12_000_000, "{} bytes", objects.size());
    assert_eq!(unpack(&objects, &root).unwrap().0, zeros);
}

#[test]
fn the_overhead_of_a_million_numbers_is_below_five_per_cent() {
    let numbers: Vec<f64> = (0..1_000_000).map(f64::from).collect();
    let message = Message::new("pvi.answer").floats("change", &numbers);
    let mut objects = Objects::default();
    pack(&message, &envelope(), &mut objects).unwrap();
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
}

#[test]
fn a_dictionary_that_names_strangers_and_an_array_of_another_shape_are_refused() {
    let mut objects = Objects::default();
    let body = format!("{{\"partita\":\"{}\"}}", ObjectId::of(b"stranger"));
    let root = objects.add(&Object::new("RecordDict", Vec::new(), body.into_bytes()));
    assert!(unpack(&objects, &root).unwrap_err().to_string().contains("none of its children"));
    let record = Message::new("x").floats("x", &[1.0, 2.0]).records.remove(0);
    let mut file = npy_encode(&record);
    file.pop();
    assert!(npy_decode("x", &file).unwrap_err().to_string().contains("bytes follow for the shape"));
}

#[test]
fn an_array_of_one_chunk_repeated_without_end_is_refused() {
    let mut objects = Objects::default();
    let chunk = objects.add(&Object::new("ArrayChunk", Vec::new(), vec![0; 1_000_000]));
    let places: Vec<&str> = std::iter::repeat_n("0", 100_000).collect();
    let body = format!(
        "{{\"dtype\":\"float64\",\"shape\":[1],\"stype\":\"numpy.ndarray\",\"arraychunk_ids\":[{}]}}",
        places.join(",")
    );
    let array = objects.add(&Object::new("Array", vec![chunk], body.into_bytes()));
    let arrays = format!("{{\"bomb\":\"{array}\"}}").into_bytes();
    let arrays = objects.add(&Object::new("ArrayRecord", vec![array], arrays));
    let root = with_arrays(&mut objects, &arrays);
    assert!(unpack(&objects, &root).unwrap_err().to_string().contains("far larger than the message"));
}

/// A message with these arrays; its other records are those of an honest one.
fn with_arrays(objects: &mut Objects, arrays: &ObjectId) -> ObjectId {
    let honest = pack(&message(), &envelope(), objects).unwrap();
    let body = Object::decode(objects.encoded(&honest).unwrap()).unwrap().body;
    let mut names: BTreeMap<String, String> = serde_json::from_slice(&body).unwrap();
    names.insert("arrays".into(), arrays.to_string());
    let children = names.values().map(|id| ObjectId::parse(id).unwrap()).collect();
    objects.add(&Object::new("RecordDict", children, serde_json::to_vec(&names).unwrap()))
}

/// The most memory that this process has had, in bytes, where the system says so.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1_024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap())
}

#[test]
fn many_names_of_one_array_are_refused_before_they_fill_the_memory() {
    // 18,000 names, 1.5 MB of them, of an array of 5 MiB: 94 GB.
    const NAMES: usize = 18_000;
    let zeros = Message::new("x").floats("zeros", &vec![0.0; 655_000]).records.remove(0);
    let mut objects = Objects::default();
    let chunk = objects.add(&Object::new("ArrayChunk", Vec::new(), npy_encode(&zeros)));
    let body = r#"{"dtype":"float64","shape":[655000],"stype":"numpy.ndarray","arraychunk_ids":[0]}"#;
    let array = objects.add(&Object::new("Array", vec![chunk], body.into()));
    let names: BTreeMap<String, &str> = (0..NAMES).map(|name| (format!("name-{name:06}"), array.as_str())).collect();
    let names = serde_json::to_vec(&names).unwrap();
    assert!((1_400_000..1_600_000).contains(&names.len()), "{}", names.len());
    let arrays = objects.add(&Object::new("ArrayRecord", vec![array.clone()], names));
    let root = with_arrays(&mut objects, &arrays);
    let started = std::time::Instant::now();
    assert!(unpack(&objects, &root).unwrap_err().to_string().contains("far larger than the message"));
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    assert!(peak().is_none_or(|bytes| bytes < 2 << 30), "{:?} bytes at most", peak());
}
