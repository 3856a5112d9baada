//! Keeps on disk what a silo owes its SuperNode, and gives it at the next start if the silo's process is killed.

use std::fmt;
use std::path::{Path, PathBuf};

use partita_inference::write_atomically;
use prost::Message as _;

use crate::carrier::Packed;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::task::{Leftover, Task};
use crate::wire::Head;

/// What a SuperNode is told of a request whose silo was killed before it had an answer.
const STARTED_AGAIN: &str = "the silo was started again";

/// The request that a silo has taken, and how far its answer has come.
///
/// A SuperNode delivers one message after another. It waits for all objects of an answer once it has the head, and it
/// takes a second answer to a message for the answer to the next one. So a silo that starts again sends what is missing
/// of an answer, and nothing else.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct Record {
    #[prost(message, optional, tag = "1")]
    task: Option<Leftover>,
    /// The head of the answer.
    #[prost(message, optional, tag = "2")]
    head: Option<Head>,
    /// The objects of the answer once there is one: from then on its head may have reached the SuperNode.
    #[prost(bytes = "vec", repeated, tag = "3")]
    objects: Vec<Vec<u8>>,
    /// The session in which the SuperNode takes the objects, once it has the head.
    #[prost(string, tag = "4")]
    session: String,
}

/// The token of the task is not shown.
impl fmt::Debug for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Record").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

/// The file of the request that is being answered.
#[derive(Debug)]
pub(crate) struct Unfinished {
    path: PathBuf,
    record: Record,
}

impl Unfinished {
    /// Records a request before it is looked at; `head` is that of its answer.
    pub(crate) fn begin(folder: &Path, task: &Task, head: Head) -> Result<Self> {
        let record = Record { task: Some(task.leftover()), head: Some(head), ..Record::default() };
        let own = Self { path: file(folder), record };
        own.write()?;
        Ok(own)
    }

    /// Records an answer before its head is sent.
    pub(crate) fn answered(&mut self, packed: &Packed) -> Result<()> {
        self.record.head = Some(packed.head.clone());
        self.record.objects = packed.objects.all().map(<[u8]>::to_vec).collect();
        self.write()
    }

    /// Records that the head was taken, and that objects go in this session.
    pub(crate) fn taken(&mut self, session: &str) -> Result<()> {
        session.clone_into(&mut self.record.session);
        self.write()
    }

    /// Forgets the request.
    pub(crate) fn end(self) {
        // If it stays, the next start finds that nothing is owed.
        let _ = std::fs::remove_file(self.path);
    }

    fn write(&self) -> Result<()> {
        let written = write_atomically(&self.path, &self.record.encode_to_vec());
        written.map_err(|error| Error::File { path: self.path.clone(), problem: error.to_string() })
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("unfinished")
}

/// Gives what a process that was killed owes.
pub(crate) fn settle(folder: &Path, connection: &Connection, log: &mut dyn FnMut(&str)) {
    let path = file(folder);
    let Ok(bytes) = std::fs::read(&path) else { return };
    let record = Record::decode(bytes.as_slice());
    let record = record.map_err(|error| Error::malformed("an unfinished request", error.to_string()));
    match record.and_then(|record| record.settle(connection)) {
        Ok(line) => log(line),
        Err(error) => log(&format!(
            "a request that was not answered when this silo ended is lost: {error}. If no other request comes within \
             three minutes, restart the SuperNode"
        )),
    }
    let _ = std::fs::remove_file(path);
}

impl Record {
    /// Returns a line for the log.
    fn settle(self, connection: &Connection) -> Result<&'static str> {
        let absent = || Error::malformed("an unfinished request", "it is of an earlier version of Partita");
        let (task, head) = (self.task.ok_or_else(absent)?, self.head.ok_or_else(absent)?);
        let task = Task::of_leftover(task, connection);
        if self.objects.is_empty() {
            let metadata = head.metadata.ok_or_else(absent)?;
            task.carrier().push_error(metadata, STARTED_AGAIN)?;
            task.end(Some(STARTED_AGAIN))?;
            return Ok("a request that was not answered when this silo ended was given back");
        }
        let packed = Packed::of(head, self.objects)?;
        let is_sent = match self.session.as_str() {
            "" => task.carrier().push_packed(&packed, &mut |_| Ok(())).map(|_| true)?,
            session => task.carrier().complete(&packed, session)?,
        };
        task.end(None)?;
        Ok(match is_sent {
            true => "the rest of an answer that was on its way when this silo ended was sent",
            false => "the last answer had been sent whole when this silo ended",
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use partita_inference::Message;

    use super::*;
    use crate::carrier::{Parcel, head};
    use crate::engine::Engine;
    use crate::envelope::Envelope;
    use crate::wire::{
        Metadata, PullObjectResponse, PushAppMessagesRequest, PushAppMessagesResponse, PushObjectResponse,
    };

    /// A SuperNode that has these objects in part, and lacks any other; returns the calls to it.
    fn supernode(in_part: Vec<String>) -> (String, Arc<Mutex<Vec<String>>>) {
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
                        let asked = crate::wire::PullObjectRequest::decode(body.as_slice()).unwrap();
                        let object_found = in_part.contains(&asked.object_id);
                        ("look", PullObjectResponse { object_found, ..PullObjectResponse::default() }.encode_to_vec())
                    }
                    "push-task-output" => ("end", Vec::new()),
                    other => panic!("{other}"),
                };
                own.lock().unwrap().push(said.to_owned());
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
                stream.write_all(&[head.as_bytes(), &answer].concat()).unwrap();
            }
        });
        (address, calls)
    }

    /// The calls of a silo that starts again after `before` was recorded.
    fn calls(is_in_part: bool, before: impl FnOnce(&mut Unfinished, &Packed)) -> (Vec<String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let metadata = Metadata { run_id: 7, ttl: 60.0, reply_to_message_id: "asked".into(), ..Metadata::default() };
        let message = Message::new("example").number("x", 1.5);
        let parcel = Parcel { metadata: metadata.clone(), message: &message, envelope: Envelope::default() };
        let packed = parcel.pack().unwrap();
        let in_part = packed.objects.ids().map(|id| id.as_str().to_owned()).filter(|_| is_in_part).collect();
        let (address, calls) = supernode(in_part);
        let connection = Connection::new(&Engine::insecure(&address)).unwrap();
        let task = Task::of_leftover(Leftover::default(), &connection);
        let mut own = Unfinished::begin(folder.path(), &task, head(metadata)).unwrap();
        before(&mut own, &packed);
        let mut said = String::new();
        settle(folder.path(), &connection, &mut |line| said.push_str(line));
        assert!(!file(folder.path()).exists());
        let found = calls.lock().unwrap().clone();
        (found, said)
    }

    #[test]
    fn a_silo_that_was_killed_sends_what_its_supernode_lacks_and_nothing_else() {
        let (found, said) = calls(false, |_, _| {});
        assert_eq!(found, ["error", "object", "end"], "{said}");
        assert!(said.contains("given back"), "{said}");
        for is_in_part in [false, true] {
            let (found, said) = calls(is_in_part, |own, packed| own.answered(packed).unwrap());
            assert_eq!(found, ["head", "object", "end"], "{said}");
        }
        let taken = |own: &mut Unfinished, packed: &Packed| {
            own.answered(packed).unwrap();
            own.taken("old").unwrap();
        };
        let (found, said) = calls(true, taken);
        assert_eq!(found, ["look", "look", "object", "end"], "{said}");
        let (found, said) = calls(false, taken);
        assert_eq!(found, ["look", "end"], "{said}");
        assert!(said.contains("had been sent whole"), "{said}");
    }

    #[test]
    fn a_file_that_is_no_record_is_removed_and_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(file(folder.path()), b"{\"token\":1}").unwrap();
        let (mut said, connection) = (String::new(), Connection::new(&Engine::insecure("127.0.0.1:1")).unwrap());
        settle(folder.path(), &connection, &mut |line| said.push_str(line));
        assert!(said.contains("is lost") && !file(folder.path()).exists(), "{said}");
    }
}
