//! Holds a silo that was killed to what it still owes its engine, whenever it was killed.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

#[path = "../../tests/fixtures/started_silo.rs"]
mod engine;

use std::borrow::Cow;

use partita_inference::Message;

use engine::{Has, engine};

use super::*;
use crate::carrier::Parcel;
use crate::connection::Connection;
use crate::engine::Engine;
use crate::envelope::Envelope;
use crate::wire::Metadata;

/// What a silo did at its start.
struct Settled {
    calls: Vec<String>,
    said: String,
}

/// A start of a silo in this folder.
fn start(folder: &Path, has: Has) -> Settled {
    let (address, calls) = engine(has, folder.to_owned());
    let connection = Connection::new(&Engine::insecure(&address)).unwrap();
    let mut said = String::new();
    settle(folder, &Carrier { connection, node: 0, api: Api::Runtime }, &mut |line| said.push_str(line));
    assert!(!record_file(folder).exists() && !answer_file(folder).exists());
    let calls = calls.lock().unwrap().clone();
    Settled { calls, said }
}

/// A folder in which a silo was killed after `before` was recorded.
fn killed(scratch: &Path, before: impl FnOnce(&mut Unfinished, &Packed)) -> PathBuf {
    let folder = scratch.join("own");
    let _ = std::fs::remove_dir_all(&folder);
    let connection = Connection::new(&Engine::insecure("127.0.0.1:1")).unwrap();
    let metadata = Metadata { run_id: 7, ttl: 60.0, reply_to_message_id: "asked".into(), ..Metadata::default() };
    let message = Message::new("example").number("x", 1.5);
    let parcel = Parcel { metadata: metadata.clone(), message: Cow::Borrowed(&message), envelope: Envelope::default() };
    let source = Source::Task(Box::new(Task::of_leftover(Leftover::default(), &connection)));
    let mut own = Unfinished::begin(&folder, &source, &metadata).unwrap();
    before(&mut own, &parcel.pack().unwrap());
    folder
}

fn answered(own: &mut Unfinished, packed: &Packed) {
    own.answered(packed).unwrap();
}

fn taken(own: &mut Unfinished, packed: &Packed) {
    own.answered(packed).unwrap();
    own.taken("old").unwrap();
}

#[test]
fn a_silo_that_was_killed_sends_what_its_supernode_lacks_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let found = start(&killed(scratch.path(), |_, _| {}), Has::Nothing);
    assert_eq!(found.calls, ["error", "object", "end"], "{}", found.said);
    assert!(found.said.contains("given back"), "{}", found.said);
    for has in [Has::Nothing, Has::Head] {
        let found = start(&killed(scratch.path(), answered), has);
        assert_eq!(found.calls, ["head", "object", "end"], "{}", found.said);
    }
    let found = start(&killed(scratch.path(), taken), Has::Head);
    assert_eq!(found.calls, ["look", "look", "object", "end"], "{}", found.said);
    let found = start(&killed(scratch.path(), taken), Has::Nothing);
    assert_eq!(found.calls, ["look", "end"], "{}", found.said);
    assert!(found.said.contains("had been sent whole"), "{}", found.said);
}

#[test]
fn a_silo_that_is_killed_again_while_it_settles_sends_no_head_twice() {
    for before in [|_: &mut Unfinished, _: &Packed| {}, answered] {
        let scratch = tempfile::tempdir().unwrap();
        start(&killed(scratch.path(), before), Has::Nothing);
        // Its engine has the object, and has sent the answer on, as the silo is killed before it hears so.
        let found = start(&scratch.path().join("object"), Has::Nothing);
        assert_eq!(found.calls, ["look", "end"], "{}", found.said);
        let found = start(&scratch.path().join("end"), Has::Nothing);
        assert_eq!(found.calls, ["end"], "{}", found.said);
    }
}

#[test]
fn nothing_is_said_to_be_lost_where_nothing_is_owed() {
    let scratch = tempfile::tempdir().unwrap();
    let sent = |own: &mut Unfinished, packed: &Packed| {
        taken(own, packed);
        own.is_sent();
    };
    // It was killed between the end of its task and the end of its record.
    let found = start(&killed(scratch.path(), sent), Has::AnEndedTask);
    assert!(found.said.contains("had been sent whole") && !found.said.contains("lost"), "{}", found.said);
    // It comes back after its time, when the engine has told the coordinator so.
    let found = start(&killed(scratch.path(), |_, _| {}), Has::AnEndedTask);
    assert!(found.said.contains("needs no answer") && !found.said.contains("lost"), "{}", found.said);
    // The engine may have the head, and waits for the rest.
    let found = start(&killed(scratch.path(), taken), Has::AnEndedTask);
    assert!(found.said.contains("is lost") && found.said.contains("restart the SuperNode"), "{}", found.said);
}

#[test]
fn an_answer_to_an_earlier_request_is_not_sent() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = killed(scratch.path(), |own, packed| {
        own.record.answering = Some(Metadata { reply_to_message_id: "later".into(), ..Metadata::default() });
        own.write().unwrap();
        own.answered(packed).unwrap();
    });
    let found = start(&folder, Has::Nothing);
    assert_eq!(found.calls, ["error", "object", "end"], "{}", found.said);
}

#[test]
fn a_file_that_is_no_record_is_removed_and_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(record_file(folder.path()), b"{\"token\":1}").unwrap();
    let found = start(folder.path(), Has::Nothing);
    assert!(found.said.contains("is lost") && found.calls.is_empty(), "{}", found.said);
}
