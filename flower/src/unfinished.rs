//! Keeps on disk what a silo owes its engine, and gives it at the next start if the silo's process is killed.

use std::fmt;
use std::path::{Path, PathBuf};

use prost::Message as _;

use crate::carrier::{Api, Carrier, Packed, Sent};
use crate::error::{Error, Result};
use crate::own_file;
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
        own_file::write(&answer_file(&self.folder), &answer.encode_to_vec())
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
        own_file::write(&record_file(&self.folder), &self.record.encode_to_vec())
    }
}

fn record_file(folder: &Path) -> PathBuf {
    folder.join("unfinished")
}

fn answer_file(folder: &Path) -> PathBuf {
    folder.join("unfinished-answer")
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
            log(&format!(
                "a request that was not answered when this silo ended is lost. {remedy}. The reason: {error}"
            ));
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
mod tests;
