//! Tests the errors of messages: damaged bytes, missing fields, fields that are not in the manifest.

use partita::inference::{
    Algorithm, DataType, Error, Exchange, Field, InProcess, MESSAGE_VERSION, Manifest, Message, Outcome, Record,
    Release, Request, Result, Sfvi, SiloProgram,
};
use partita::{Device, Settings};

use super::sound;

/// A message with every kind of content.
fn whole() -> Message {
    Message::new("test.whole").floats("x", &[1.0, 2.0]).word("step", 3).number("norm", 0.5).setting("silo", "a")
}

#[test]
fn a_message_of_another_version_is_refused() {
    let other = Message { version: MESSAGE_VERSION + 1, ..whole() };
    let words = ["version 2", "speaks version 1", "the same version of Partita"];
    refused!(Message::decode(&other.encode()), Error::Message { .. }, words);
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let result = Message::decode(b"GET / HTTP/1.1\r\n");
    refused!(result, Error::Message { .. }, ["does not begin as a Partita message"]);
    refused!(Message::decode(&[]), Error::Message { .. }, ["ends 4 bytes too early"]);
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    let bytes = whole().encode();
    for length in 0..bytes.len() {
        refused!(Message::decode(&bytes[..length]), Error::Message { .. }, ["too early", "same version"]);
    }
}

#[test]
fn bytes_after_the_end_of_a_message_are_refused() {
    let bytes = [whole().encode(), vec![0]].concat();
    refused!(Message::decode(&bytes), Error::Message { .. }, ["bytes after its end"]);
}

#[test]
fn a_record_whose_bytes_do_not_fill_its_shape_is_refused() {
    for (shape, bytes) in [(vec![3], vec![0; 16]), (vec![2], vec![0; 15]), (vec![u64::MAX, 2], vec![0; 16])] {
        let record = Record { name: "x".into(), data_type: DataType::F64, shape, bytes: bytes.into() };
        let message = Message { records: vec![record], ..Message::new("test") };
        refused!(Message::decode(&message.encode()), Error::Message { .. }, ["record `x`", "bytes for shape"]);
    }
}

#[test]
fn a_record_of_an_unknown_type_and_a_name_that_is_no_text_are_refused() {
    let mut bytes = Message::new("t").floats("x", &[1.0]).encode();
    // After magic, version, the kind and the number of records: the length of the name, the name, the type.
    let name = 4 + 2 + 4 + 1 + 4 + 4;
    bytes[name + 1] = 9;
    refused!(Message::decode(&bytes), Error::Message { .. }, ["record `x` has unknown type 9"]);
    bytes[name] = 0xff;
    refused!(Message::decode(&bytes), Error::Message { .. }, ["not UTF-8"]);
}

#[test]
fn a_count_larger_than_the_message_is_refused_without_asking_for_memory() {
    let mut bytes = Message::new("t").encode();
    let numbers = 4 + 2 + 4 + 1 + 4;
    bytes[numbers..numbers + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    refused!(Message::decode(&bytes), Error::Message { .. }, ["too early"]);
}

#[test]
fn fields_that_are_missing_or_of_another_type_or_length_are_refused() {
    let message = whole();
    refused!(message.get_floats("y"), Error::Message { .. }, ["`test.whole`", "record `y`", "missing"]);
    refused!(message.get_floats("step"), Error::Message { .. }, ["record `step` of type F64 is missing"]);
    refused!(message.get_word("x"), Error::Message { .. }, ["record `x` of type U64 is missing"]);
    refused!(message.expect_floats("x", 3), Error::Message { .. }, ["record `x` has 2 numbers, expected 3"]);
    refused!(message.get_number("x"), Error::Message { .. }, ["number `x` is missing"]);
    refused!(message.get_setting("x"), Error::Message { .. }, ["setting `x` is missing"]);
}

/// A silo that answers every request with this message.
struct Parrot(Message);

impl SiloProgram for Parrot {
    fn name(&self) -> &str {
        "parrot"
    }

    fn answer(&mut self, _: &Message) -> Result<Message> {
        Ok(self.0.clone())
    }
}

fn ask(reply: Message, manifest: &Manifest) -> Result<Vec<Outcome>> {
    let mut exchange = InProcess::new(vec![Box::new(Parrot(reply)) as Box<dyn SiloProgram>], 1).unwrap();
    exchange.exchange(vec![Request { silo: 0, message: Message::new("test") }], manifest, None)
}

#[test]
fn a_field_beside_the_manifest_does_not_leave_a_silo() {
    let algorithm = Sfvi::new(&sound(), &Device::flex(), &Settings::default(), &["parrot".to_owned()]).unwrap();
    let reply = || Message::new("sfvi.terms").word("step", 0).floats("elbo", &[-1.0]);
    assert!(ask(reply(), algorithm.manifest()).is_ok());
    for leak in [reply().floats("data", &[1.0]), reply().number("data", 1.0), reply().setting("data", "1")] {
        let words = ["silo `parrot`", "field `data`", "not in the manifest", "held it back"];
        refused!(ask(leak, algorithm.manifest()), Error::Manifest { .. }, words);
    }
}

#[test]
fn a_field_longer_than_the_manifest_allows_does_not_leave_a_silo() {
    let manifest =
        Manifest { fields: vec![Field { name: "elbo", meaning: "one number", limit: 1, release: Release::Forbidden }] };
    assert!(ask(Message::new("test").floats("elbo", &[1.0]), &manifest).is_ok());
    let result = ask(Message::new("test").floats("elbo", &[1.0, 2.0]), &manifest);
    refused!(result, Error::Manifest { .. }, ["silo `parrot`", "field `elbo`", "has 2 numbers", "allows 1"]);
    let result = ask(Message::new("test").setting("elbo", "more than eight letters"), &manifest);
    refused!(result, Error::Manifest { .. }, ["field `elbo`", "has 3 numbers"]);
}

#[test]
fn a_field_given_twice_or_with_odd_bytes_does_not_leave_a_silo() {
    let manifest =
        Manifest { fields: vec![Field { name: "elbo", meaning: "one number", limit: 1, release: Release::Forbidden }] };
    let twice = Message::new("test").floats("elbo", &[1.0]).floats("elbo", &[2.0]);
    refused!(ask(twice, &manifest), Error::Manifest { .. }, ["field `elbo`", "more than once"]);
    let as_number = Message::new("test").floats("elbo", &[1.0]).number("elbo", 2.0);
    refused!(ask(as_number, &manifest), Error::Manifest { .. }, ["field `elbo`", "more than once"]);
    let record = Record { name: "elbo".into(), data_type: DataType::F64, shape: vec![1], bytes: vec![0; 15].into() };
    let odd = Message { records: vec![record], ..Message::new("test") };
    refused!(ask(odd, &manifest), Error::Manifest { .. }, ["field `elbo`", "has 2 numbers"]);
}

#[test]
fn a_reply_to_another_step_or_without_its_fields_is_refused() {
    let mut algorithm = Sfvi::new(&sound(), &Device::flex(), &Settings::default(), &["parrot".to_owned()]).unwrap();
    let mut take = |reply: Message| algorithm.incoming(vec![Outcome::Reply(reply)]);
    let share = |step| Message::new("sfvi.terms").word("step", step);
    refused!(take(share(4)), Error::Message { .. }, ["silo `parrot` answered step 4, asked was step 0"]);
    refused!(take(share(0)), Error::Message { .. }, ["record `elbo`", "missing"]);
    let short = share(0).floats("elbo", &[1.0]).floats("grad_mean", &[]);
    refused!(take(short), Error::Message { .. }, ["record `grad_mean` has 0 numbers, expected 1"]);
}
