//! Runs a silo: takes its tasks from the silo's own SuperNode, checks what it is asked, and answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use partita_inference::Message;

use crate::connection::{Connection, Engine};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::keeper::Keeper;
use crate::object::{Limits, Objects};
use crate::record::{pack, unpack};
use crate::task::{Arrived, COORDINATOR, Task, now};
use crate::wire::current::Metadata;

/// What a silo's owner allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiloOptions {
    /// The silo's name in the run.
    pub name: String,
    /// Its SuperNode.
    pub engine: Engine,
    /// The algorithms it takes part in, as the beginnings of what it may be asked: `pvi`, `avg`, `sfvi`.
    pub allow: Vec<String>,
    /// The most bytes of a request.
    pub largest_request: usize,
}

/// What a silo says about itself when asked who it is.
pub(crate) const HELLO: &str = "flower.hello";
/// The answer of a silo that refuses or fails.
pub(crate) const FAILED: &str = "flower.failed";

/// Kinds of requests that only the party itself may make, since they name its files.
const OWN: [&str; 2] = ["silo.save", "silo.restore"];

/// How long to wait between two looks for a task.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves requests until `stop` is set. `rows` is how many rows the silo says it has, `identity` the hash of the model and the
/// settings it takes part with, `log` is told one line an event.
///
/// # Errors
/// [`Error::Transport`] if the SuperNode is gone for longer than the patience; [`Error::File`] for a state that cannot be kept.
pub fn serve(
    options: &SiloOptions,
    (identity, rows): (&str, u64),
    keeper: &mut Keeper,
    stop: &AtomicBool,
    log: &mut dyn FnMut(&str),
) -> Result<()> {
    let connection = Connection::new(&options.engine)?;
    let limits = Limits { bytes: options.largest_request, ..Limits::default() };
    while !stop.load(Ordering::Relaxed) {
        let task = match Task::acquire(&connection, "flwr-clientapp", 0) {
            Ok(Some(task)) => task,
            Ok(None) => {
                std::thread::sleep(PAUSE);
                continue;
            }
            // A task that was stopped between being taken and being started is nobody's.
            Err(error @ Error::Refused { .. }) => {
                log(&format!("no task: {error}"));
                std::thread::sleep(10 * PAUSE);
                continue;
            }
            Err(error) => return Err(error),
        };
        let party = Party { options, identity, rows };
        match party.serve(&task, keeper, limits) {
            Ok(line) => {
                log(&line);
                report(task.end(None), log);
            }
            Err(error @ Error::File { .. }) => {
                report(task.end(Some("the silo cannot keep its state")), log);
                return Err(error);
            }
            Err(error) => {
                log(&format!("a task failed: {error}"));
                report(task.end(Some("the silo could not answer")), log);
            }
        }
    }
    Ok(())
}

fn report(ended: Result<()>, log: &mut dyn FnMut(&str)) {
    if let Err(error) = ended {
        log(&format!("the engine was not told that a task ended: {error}"));
    }
}

struct Party<'a> {
    options: &'a SiloOptions,
    identity: &'a str,
    rows: u64,
}

impl Party<'_> {
    /// Answers the message of a task; what happened, in a line.
    fn serve(&self, task: &Task, keeper: &mut Keeper, limits: Limits) -> Result<String> {
        let Some(Arrived { metadata, content }) = task.pull(&[], limits)?.into_iter().next() else {
            return Ok("a task without a message".into());
        };
        let (objects, root) =
            content.map_err(|(code, reason)| Error::malformed("a message", format!("error {code}: {reason}")))?;
        let left = metadata.created_at + metadata.ttl - now();
        if left <= 0.0 {
            return Ok(format!("a message came {:.0} s after its time: not answered", -left));
        }
        let (message, envelope) = unpack(&objects, &root)?;
        let (reply, line) = self.reply(&message, &envelope, keeper)?;
        let own = Envelope { silo: self.options.name.clone(), identity: self.identity.to_owned(), ..envelope };
        let mut objects = Objects::default();
        let root = pack(&reply, &own, &mut objects)?;
        let answer = Metadata {
            run_id: metadata.run_id,
            message_id: String::new(),
            src_node_id: metadata.dst_node_id,
            dst_node_id: COORDINATOR,
            reply_to_message_id: metadata.message_id,
            group_id: metadata.group_id,
            ttl: (metadata.created_at + metadata.ttl - now()).max(1.0),
            message_type: metadata.message_type,
            created_at: now(),
            src_task_id: metadata.dst_task_id,
            dst_task_id: metadata.src_task_id,
        };
        task.push(answer, &mut objects, &root)?;
        Ok(line)
    }

    /// The answer to a request: what was asked for, or the kind of the error. Its words stay here, since they may quote data.
    fn reply(&self, message: &Message, envelope: &Envelope, keeper: &mut Keeper) -> Result<(Message, String)> {
        let asked = format!("round {}, attempt {}: {}", envelope.round, envelope.attempt, message.kind);
        if message.kind == HELLO {
            let answer = Message::new(HELLO).word("rows", self.rows);
            return Ok((answer, format!("the coordinator of run `{}` says hello", envelope.run)));
        }
        match self.check(message, envelope).and_then(|()| keeper.answer(envelope, message)) {
            Ok(reply) => Ok((reply, asked)),
            // Without its state the silo cannot go on: its owner has to see to it.
            Err(error @ Error::File { .. }) => Err(error),
            Err(error) => {
                let kind = kind_of(&error);
                let reply = Message::new(FAILED).setting("error", &kind);
                Ok((reply, format!("{asked}: refused: {error}")))
            }
        }
    }

    fn check(&self, message: &Message, envelope: &Envelope) -> Result<()> {
        let unwelcome = |what, found: &str, expected: String, remedy| {
            Err(Error::Unwelcome { what, found: crate::npy::shown(found), expected, remedy })
        };
        let SiloOptions { name, allow, .. } = self.options;
        if envelope.silo != *name {
            let remedy = "Give every silo the name that the coordinator calls it by.";
            return unwelcome("the silo that a request is for", &envelope.silo, format!("`{name}`"), remedy);
        }
        if envelope.identity != self.identity {
            let remedy = "Start all parties with the same model, settings and algorithm.";
            return unwelcome(
                "the model and settings of a request",
                &envelope.identity,
                self.identity.to_owned(),
                remedy,
            );
        }
        let verb = message.kind.split_once('.').map_or(message.kind.as_str(), |(algorithm, _)| algorithm);
        if OWN.contains(&message.kind.as_str()) || !(verb == "silo" || allow.iter().any(|known| known == verb)) {
            let remedy = "Add it to `allow` in this silo's configuration, if its owner agrees.";
            return unwelcome("what a silo is asked", &message.kind, format!("one of {}", allow.join(", ")), remedy);
        }
        Ok(())
    }
}

/// The name of an error's kind, which says nothing of the data.
fn kind_of(error: &Error) -> String {
    let text = match error {
        Error::Inference(inner) => format!("{inner:?}"),
        other => format!("{other:?}"),
    };
    text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or("Error").to_owned()
}
