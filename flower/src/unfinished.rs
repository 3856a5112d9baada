//! Keeps on disk what a silo owes its engine, and gives it at the next start if the silo's process is killed.

use std::fmt;
use std::path::{Path, PathBuf};

use partita_inference::write_atomically;
use prost::Message as _;

use crate::carrier::{Api, Carrier, Packed, Sent};
use crate::error::{Error, Result};
use crate::task::{Leftover, Source, Task};
use crate::wire::{Head, Metadata};

/// What an engine is told of a request whose silo was killed before it had an answer.
const STARTED_AGAIN: &str = "the silo was started again";

/// The request that a silo has taken, and how far its answer has come.
///
/// A SuperNode delivers one message after another. It waits for all objects of an answer once it has the head, and it
/// takes a second answer to a message for the answer to the next one. So a silo that starts again sends what is missing
/// of an answer, and nothing else.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct Record {
    /// The task that brought it; none where the silo is a node of the SuperLink.
    #[prost(message, optional, tag = "1")]
    task: Option<Leftover>,
    /// What its answer is to.
    #[prost(message, optional, tag = "2")]
    answering: Option<Metadata>,
    /// The session in which the engine takes the objects of the answer, once it has the head.
    #[prost(string, tag = "3")]
    session: String,
}

/// The token of the task is not shown.
impl fmt::Debug for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Record").field("answering", &self.answering).finish_non_exhaustive()
    }
}

/// An answer, in a file that is written once, before its head is sent, and removed when all of it was.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    head: Option<Head>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    objects: Vec<Vec<u8>>,
}

/// Whether bytes are one of the files of a silo that was killed, for the fuzzer.
pub(crate) fn is_readable(bytes: &[u8]) -> bool {
    Record::decode(bytes).is_ok_and(|record| record.answering.is_some())
        || Answer::decode(bytes).is_ok_and(|answer| answer.packed().is_ok())
}

/// The files of the request that is being answered.
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: PathBuf,
    record: Record,
}

impl Unfinished {
    /// Records a request before it is looked at, and what an answer to it is to.
    pub(crate) fn begin(folder: &Path, source: &Source<'_>, answering: &Metadata) -> Result<Self> {
        let record = Record { task: source.leftover(), answering: Some(answering.clone()), ..Record::default() };
        let own = Self { folder: folder.to_owned(), record };
        own.write()?;
        Ok(own)
    }

    /// Sends an answer, so that another process can send the rest if this one is killed.
    pub(crate) fn send(&mut self, carrier: &Carrier, packed: &Packed) -> Result<Sent> {
        self.answered(packed)?;
        let sent = self.push(carrier, packed)?;
        self.is_sent();
        Ok(sent)
    }

    /// Records an answer before its head is sent.
    fn answered(&self, packed: &Packed) -> Result<()> {
        let objects = packed.objects.all().map(<[u8]>::to_vec).collect();
        let answer = Answer { head: Some(packed.head.clone()), objects };
        put(&answer_file(&self.folder), &answer.encode_to_vec())
    }

    fn push(&mut self, carrier: &Carrier, packed: &Packed) -> Result<Sent> {
        carrier.push_packed(packed, &mut |session| self.taken(session))
    }

    /// Records that the head was taken, and that objects go in this session.
    fn taken(&mut self, session: &str) -> Result<()> {
        session.clone_into(&mut self.record.session);
        self.write()
    }

    /// From here on nothing is owed but the end of the task.
    fn is_sent(&self) {
        // If it stays, the next start finds that the engine has all of it.
        let _ = std::fs::remove_file(answer_file(&self.folder));
    }

    /// Forgets the request.
    pub(crate) fn end(self) {
        // As above.
        let _ = std::fs::remove_file(record_file(&self.folder));
        let _ = std::fs::remove_file(answer_file(&self.folder));
    }

    fn write(&self) -> Result<()> {
        put(&record_file(&self.folder), &self.record.encode_to_vec())
    }
}

fn record_file(folder: &Path) -> PathBuf {
    folder.join("unfinished")
}

fn answer_file(folder: &Path) -> PathBuf {
    folder.join("unfinished-answer")
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = write_atomically(path, bytes);
    written.map_err(|error| Error::File { path: path.to_owned(), problem: error.to_string() })
}

/// Gives what a process that was killed owes the engine of this carrier.
pub(crate) fn settle(folder: &Path, carrier: &Carrier, log: &mut dyn FnMut(&str)) {
    let Ok(bytes) = std::fs::read(record_file(folder)) else { return };
    let record = Record::decode(bytes.as_slice()).map_err(|error| malformed(error.to_string()));
    let mut own = Unfinished { folder: folder.to_owned(), record: Record::default() };
    let settled = record.and_then(|record| {
        own.record = record;
        own.settle(carrier)
    });
    match settled {
        Ok(line) => log(line),
        Err(error) => {
            let remedy = match carrier.api {
                Api::Runtime => "If no other request comes within three minutes, restart the SuperNode",
                Api::Fleet => "The coordinator asks again",
            };
            log(&format!("a request that was not answered when this silo ended is lost: {error}. {remedy}"));
        }
    }
    own.end();
}

fn malformed(problem: impl Into<String>) -> Error {
    Error::malformed("an unfinished request", problem)
}

impl Unfinished {
    /// Returns a line for the log.
    fn settle(&mut self, carrier: &Carrier) -> Result<&'static str> {
        let answering = self.record.answering.clone().ok_or_else(|| malformed("it does not say of which message"))?;
        let source = match self.record.task.clone() {
            Some(task) if carrier.api == Api::Runtime => {
                Source::Task(Box::new(Task::of_leftover(task, &carrier.connection)))
            }
            None if carrier.api == Api::Fleet && carrier.node == answering.src_node_id => Source::Node(carrier),
            // The engine that it is owed to counts this silo as gone.
            _ => return Ok("a request that was not answered when this silo ended came by another engine or node"),
        };
        let is_begun = !self.record.session.is_empty();
        match (self.answer(&answering)?, is_begun) {
            (Some(packed), false) => {
                self.push(source.carrier(), &packed)?;
                self.ended(source, "the rest of an answer that was on its way when this silo ended was sent")
            }
            (Some(packed), true) => match source.carrier().complete(&packed, &self.record.session)? {
                true => self.ended(source, "the rest of an answer that was on its way when this silo ended was sent"),
                false => self.ended(source, SENT_WHOLE),
            },
            (None, true) => self.ended(source, SENT_WHOLE),
            (None, false) => match self.send(source.carrier(), &Packed::error(answering, STARTED_AGAIN)?) {
                // The engine has ended the task, or is another one now: its coordinator heard of it.
                Err(Error::Refused { .. }) => {
                    Ok("a request that was not answered when this silo ended needs no answer any more")
                }
                Err(error) => Err(error),
                Ok(_) => {
                    source.end(Some(STARTED_AGAIN))?;
                    Ok("a request that was not answered when this silo ended was given back")
                }
            },
        }
    }

    /// The answer to this request, if there was one when the process ended.
    fn answer(&self, answering: &Metadata) -> Result<Option<Packed>> {
        let Ok(bytes) = std::fs::read(answer_file(&self.folder)) else { return Ok(None) };
        let packed = Answer::decode(bytes.as_slice()).map_err(|error| malformed(error.to_string()))?.packed()?;
        let metadata = packed.head.metadata.as_ref();
        let is_own = metadata.is_some_and(|own| own.reply_to_message_id == answering.reply_to_message_id);
        // One of an earlier request was sent whole.
        Ok(is_own.then_some(packed))
    }

    /// Ends the task of an answer that is whole now.
    fn ended(&self, source: Source<'_>, line: &'static str) -> Result<&'static str> {
        self.is_sent();
        match source.end(None) {
            // It was ended by the process that was killed.
            Ok(()) | Err(Error::Refused { .. }) => Ok(line),
            Err(error) => Err(error),
        }
    }
}

impl Answer {
    fn packed(self) -> Result<Packed> {
        Packed::of(self.head.ok_or_else(|| malformed("its answer has no head"))?, self.objects)
    }
}

/// What the log says of an answer of which nothing is missing.
const SENT_WHOLE: &str = "the last answer had been sent whole when this silo ended";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use partita_inference::Message;

    use super::*;
    use crate::carrier::Parcel;
    use crate::connection::Connection;
    use crate::engine::Engine;
    use crate::envelope::Envelope;
    use crate::wire::{
        Metadata, PullObjectRequest, PullObjectResponse, PushAppMessagesRequest, PushAppMessagesResponse,
        PushObjectResponse,
    };

    /// An engine, and what it has of an answer whose head it took.
    #[derive(Clone, Copy, PartialEq)]
    enum Has {
        /// Neither head nor objects: it sent them on, or never had them.
        Nothing,
        /// The head, and no object.
        Head,
        /// It has ended the task.
        AnEndedTask,
    }

    /// Starts an engine; the calls to it. At each call it copies `folder`, as a process that is killed then leaves it, into a
    /// folder of the call's name beside it.
    fn engine(has: Has, folder: PathBuf) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, calls) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(Vec::new())));
        let own = Arc::clone(&calls);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (mut bytes, mut part) = (Vec::new(), [0; 65_536]);
                let (path, body) = loop {
                    let count = stream.read(&mut part).unwrap_or(0);
                    bytes.extend_from_slice(&part[..count]);
                    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                    let text = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                    if bytes.len() >= end + 4 + length.unwrap_or(0) {
                        let path = text.split(' ').nth(1).unwrap_or_default().rsplit('/').next().unwrap_or_default();
                        break (path.to_owned(), bytes[end + 4..].to_vec());
                    }
                };
                let (said, answer) = match path.as_str() {
                    "push-messages" => {
                        let asked = PushAppMessagesRequest::decode(body.as_slice()).unwrap();
                        let head = &asked.messages_list[0];
                        let answer = PushAppMessagesResponse {
                            message_ids: vec![head.metadata.clone().unwrap().message_id],
                            objects_to_push: vec![asked.message_object_trees[0].object_id.clone()],
                            session_id: "new".into(),
                        };
                        (if head.error.is_some() { "error" } else { "head" }, answer.encode_to_vec())
                    }
                    "push-object" => ("object", PushObjectResponse { stored: true }.encode_to_vec()),
                    "pull-object" => {
                        PullObjectRequest::decode(body.as_slice()).unwrap();
                        let found = PullObjectResponse { object_found: has == Has::Head, ..Default::default() };
                        ("look", found.encode_to_vec())
                    }
                    "push-task-output" => ("end", Vec::new()),
                    other => panic!("{other}"),
                };
                let copy = folder.with_file_name(said);
                std::fs::create_dir_all(&copy).unwrap();
                for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                    std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
                }
                own.lock().unwrap().push(said.to_owned());
                let status = if has == Has::AnEndedTask { "401 Unauthorized" } else { "200 OK" };
                let head =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
                stream.write_all(&[head.as_bytes(), &answer].concat()).unwrap();
            }
        });
        (address, calls)
    }

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
        let parcel = Parcel { metadata: metadata.clone(), message: &message, envelope: Envelope::default() };
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
}
