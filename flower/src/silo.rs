//! Runs a silo: takes its tasks from the silo's own SuperNode, checks each request, and answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use partita_inference::{Message, Refusal};

use crate::carrier::{Api, Carrier, Packed, Parcel};
use crate::connection::Connection;
use crate::engine::Engine;
use crate::entries::{differing, short, text};
use crate::envelope::Envelope;
use crate::error::{Error, Result, set_in};
use crate::fleet::serve_as_node;
use crate::frame::unpack;
use crate::keeper::Keeper;
use crate::notice::{Log, User};
use crate::object::{Limits, ObjectId, Objects};
use crate::pace::Pace;
use crate::refused::{ASKED, IDENTITY, OTHER_SILO, check_listed, word};
use crate::seal::{SEALED, Sealing, seal};
use crate::sent::SentInRun;
use crate::signature::{PartyKey, PartyPublicKey, SIGNATURE};
use crate::task::{COORDINATOR, Source, Task, now};
use crate::transit::{Arrived, Trouble};
use crate::unfinished::{Unfinished, settle};
use crate::wire::Metadata;

/// The identity of a silo, and what its owner allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiloOptions {
    /// The silo's name in the run.
    pub name: String,
    /// Its SuperNode.
    pub engine: Engine,
    /// The algorithms it takes part in, by the first words of their requests: `pvi`, `avg`, `sfvi`.
    pub allow: Vec<String>,
    /// The words that the file of its study lists as `asks`, where it does: no others are answered, whatever its owner allows.
    pub asks: Option<Vec<String>>,
    /// The most bytes of a request.
    pub largest_request: usize,
    /// The hash of its model and settings.
    pub identity: String,
    /// The entries of the file that all parties share, [`crate::RunFile::entries`], by which a coordinator finds out how another
    /// identity differs; none of a run that follows from no file.
    pub entries: Vec<(String, String)>,
    /// The number of rows that it reports.
    pub rows: u64,
    /// The key that signs its answers; without it, who carries them can change them.
    pub signs: Option<PartyKey>,
    /// The coordinator that it answers, and nothing else; without it, whoever reaches its SuperNode.
    pub coordinator: Option<PartyPublicKey>,
}

/// The kind of the message by which a silo introduces itself.
pub(crate) const HELLO: &str = "flower.hello";
/// The name of the key in its answer, to which requests that only this silo may read are sealed.
pub(crate) const SEAL: &str = "seal";
/// The name of the entries of the file that all parties share, in a hello and in its answer.
pub(crate) const ENTRIES: &str = "entries";
/// The kind of the answer of a silo that refuses or fails.
pub(crate) const FAILED: &str = "flower.failed";

/// The kind of the message by which a study tells silos what was found: nothing is asked after it.
const REPORT: &str = "formula.report";

/// Kinds of requests that only the party itself may make, since they refer to its files.
const OWN: [&str; 2] = ["silo.save", "silo.restore"];

/// The engine's name for the tasks of silos.
const KIND: &str = "flwr-clientapp";

/// The longest pause between two polls for a task.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The pause after a poll that was refused, and that between two looks for a newer task while objects are on their way: on a machine
/// with many silos, polling is what keeps a SuperNode from delivering.
const REFUSED: Duration = Duration::from_secs(1);
const NEWER: Duration = Duration::from_secs(2);

/// Serves requests behind a SuperNode or, where the engine has a key, as a node itself, until `stop` is set, which is heard too
/// where an engine does not answer; `log` receives one line for each event.
///
/// # Errors
/// [`Error::Transport`] if the SuperNode is unreachable for longer than the patience; [`Error::File`] for a state that
/// cannot be saved.
pub fn serve(options: &SiloOptions, keeper: &mut Keeper, stop: &Arc<AtomicBool>, log: &Log) -> Result<()> {
    let user = User { log: Arc::clone(log), interrupt: Arc::clone(stop) };
    let connection = Connection::new(&options.engine)?.for_user(Some(user));
    keeper.set_rows(options.rows);
    log(&format!("waiting at {}", options.engine.address));
    if options.coordinator.is_none() {
        log(
            "warning: this silo answers whoever sends it a request. Give it the key of its coordinator: `coordinator` in its file",
        );
    }
    let serve = if options.engine.key.is_some() { serve_as_node } else { serve_behind_supernode };
    match serve(connection, options, keeper, stop, &mut |line| log(line)) {
        Err(Error::Interrupted { .. }) => Ok(()),
        ended => ended,
    }
}

fn serve_behind_supernode(
    connection: Connection,
    options: &SiloOptions,
    keeper: &mut Keeper,
    stop: &AtomicBool,
    log: &mut dyn FnMut(&str),
) -> Result<()> {
    let limits = options.limits();
    let mut silo = AtWork::new(options, keeper);
    silo.settle(&Carrier { connection: connection.clone(), node: 0, api: Api::Runtime }, log);
    let (mut pace, mut newer) = (Pace::new([LONGEST_PAUSE; 2]), None);
    while !stop.load(Ordering::Relaxed) {
        let taken = match newer.take() {
            Some(task) => Ok(Some(task)),
            None => Task::acquire(&connection, KIND, 0),
        };
        match taken {
            Ok(Some(task)) => {
                let taken = receive(task, &connection, limits, stop, log)?;
                newer = taken.newer;
                if let Some((task, arrived)) = taken.request {
                    pace.came(arrived.metadata.created_at);
                    match silo.answer(Source::Task(Box::new(task)), arrived, log) {
                        Err(Error::Interrupted { .. }) => break,
                        answered => answered?,
                    }
                }
                pace.wait();
                if newer.is_none() {
                    pace.pause(stop);
                }
            }
            Ok(None) => pace.pause(stop),
            // A task that was stopped between acquisition and start belongs to no silo.
            Err(error @ (Error::Refused { .. } | Error::Malformed { .. })) => {
                log(&format!("no task: {error}"));
                std::thread::sleep(REFUSED);
            }
            Err(Error::Interrupted { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    silo.finish(log);
    Ok(())
}

/// The message of a task, and the next task if it was already taken.
struct Taken {
    request: Option<(Task, Arrived)>,
    newer: Option<Task>,
}

/// Waits for the message of a task.
fn receive(
    task: Task,
    connection: &Connection,
    limits: Limits,
    stop: &AtomicBool,
    log: &mut dyn FnMut(&str),
) -> Result<Taken> {
    // A SuperNode delivers one message after another: none follows an incomplete one unless its sender is gone.
    let (mut looked, mut newer) = (Instant::now(), None);
    let mut is_given_up = || {
        if stop.load(Ordering::Relaxed) {
            return true;
        }
        if looked.elapsed() < NEWER {
            return false;
        }
        looked = Instant::now();
        newer = Task::acquire(connection, KIND, 0).ok().flatten();
        newer.is_some()
    };
    let arrived = match task.pull(limits, &mut is_given_up) {
        Ok(_) if newer.is_some() => {
            log("a request that never came whole was given up: there is another");
            // Its sender expects no answer, and the SuperNode expects one to the other message only.
            report(task.end(Some("its sender is gone")), log);
            return Ok(Taken { request: None, newer });
        }
        Ok(arrived) => arrived,
        Err(error @ Error::Transport { .. }) => return Err(error),
        Err(error) => {
            log(&format!("a task failed: {error}"));
            None
        }
    };
    if arrived.is_none() {
        // Without its head a message cannot be answered: the engine tells its sender once the task's time is over.
        log("a task without a message");
    }
    Ok(Taken { request: arrived.map(|arrived| (task, arrived)), newer })
}

/// A silo at its work.
pub(crate) struct AtWork<'a> {
    options: &'a SiloOptions,
    keeper: &'a mut Keeper,
    sent: SentInRun,
}

impl<'a> AtWork<'a> {
    pub(crate) fn new(options: &'a SiloOptions, keeper: &'a mut Keeper) -> Self {
        Self { options, keeper, sent: SentInRun::default() }
    }

    /// Gives what the silo's last process owes.
    pub(crate) fn settle(&self, carrier: &Carrier, log: &mut dyn FnMut(&str)) {
        settle(self.keeper.folder(), carrier, log);
    }

    /// Answers a request, or tells the engine why there is no answer.
    ///
    /// # Errors
    /// [`Error::File`]: without its state the silo cannot continue.
    pub(crate) fn answer(&mut self, source: Source<'_>, arrived: Arrived, log: &mut dyn FnMut(&str)) -> Result<()> {
        let head = answering(arrived.metadata);
        let mut unfinished = Unfinished::begin(self.keeper.folder(), &source, &head)?;
        let content = arrived.content.map_err(unreadable);
        let served = content.and_then(|(objects, root)| self.options.serve(&head, &objects, &root, self.keeper));
        let packed = served.and_then(|Served { answer, envelope, line, counted }| {
            let run = counted.map(|is_last| (envelope.run.clone(), is_last));
            Ok((Parcel { metadata: head.clone(), message: Cow::Borrowed(&answer), envelope }.pack()?, run, line))
        });
        let (packed, run, line, failed) = match packed {
            Ok((packed, run, line)) => (packed, run, line, None),
            Err(error) => {
                let line = format!("a request failed: {}", set_in(&error.to_string()));
                (Packed::error(head, refusal(&error))?, None, line, Some(error))
            }
        };
        let sent = unfinished.send(source.carrier(), &packed);
        log(&line);
        let problem = match (&sent, &failed) {
            (Err(_), _) => Some("the answer was not taken"),
            (Ok(_), Some(error)) => Some(refusal(error)),
            (Ok(_), None) => None,
        };
        match (sent, run) {
            (Ok(sent), Some((run, is_last))) => self.sent.add(&run, sent.bytes, is_last, log),
            (Ok(_), None) => {}
            // What is unfinished stays on record: the next start sends the rest.
            (Err(error @ (Error::File { .. } | Error::Interrupted { .. } | Error::Transport { .. })), _) => {
                return Err(error);
            }
            (Err(error), _) => log(&format!("that answer was not taken: {error}")),
        }
        // The engine has received the answer's head, or expects none: it would take an error now for the next answer.
        report(source.end(problem), log);
        unfinished.end();
        match failed {
            Some(error @ Error::File { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Says what was sent.
    pub(crate) fn finish(&mut self, log: &mut dyn FnMut(&str)) {
        self.sent.finish(log);
    }
}

fn report(ended: Result<()>, log: &mut dyn FnMut(&str)) {
    if let Err(error) = ended {
        log(&format!("the engine was not told that a task ended: {error}"));
    }
}

/// What the engine is told of a request without an answer.
fn refusal(error: &Error) -> &'static str {
    match error {
        Error::File { .. } => "the silo cannot keep its state",
        _ => "the silo could not answer",
    }
}

fn unreadable(trouble: Trouble) -> Error {
    match trouble {
        Trouble::Unreadable(error) => error,
        reported @ Trouble::Reported { .. } => Error::malformed("a message", reported.to_string()),
    }
}

/// The head of the answer to a message.
fn answering(asked: Metadata) -> Metadata {
    Metadata {
        run_id: asked.run_id,
        message_id: String::new(),
        src_node_id: asked.dst_node_id,
        dst_node_id: COORDINATOR,
        reply_to_message_id: asked.message_id,
        group_id: asked.group_id,
        ttl: asked.created_at + asked.ttl - now(),
        message_type: asked.message_type,
        created_at: now(),
        src_task_id: asked.dst_task_id,
        dst_task_id: asked.src_task_id,
    }
}

/// The answer to a message, and a line for the log.
#[derive(Debug)]
struct Served {
    answer: Message,
    envelope: Envelope,
    line: String,
    /// Whether it is the last of its run. None of a hello: a coordinator that goes on with a run says it under another name.
    counted: Option<bool>,
}

impl SiloOptions {
    /// The largest request that it reads.
    pub(crate) fn limits(&self) -> Limits {
        Limits { bytes: self.largest_request, ..Limits::default() }
    }

    /// The answer to the content of a message, and a line for the log.
    fn serve(&self, head: &Metadata, objects: &Objects, root: &ObjectId, keeper: &mut Keeper) -> Result<Served> {
        if head.ttl <= 0.0 {
            let problem = format!("it came {:.0} s after its time, and was not answered", -head.ttl);
            return Err(Error::malformed("a message", problem));
        }
        let (message, envelope) = unpack(objects, root, self.limits())?;
        if let Err(error) = self.coordinator.as_ref().map_or(Ok(()), |key| key.check(&message, &envelope)) {
            // A stranger learns nothing else, not even the silo's name.
            let stranger = Envelope { run: envelope.run, round: envelope.round, ..Envelope::default() };
            let answer = Message::new(FAILED).setting("error", "Unwelcome").setting("what", SIGNATURE);
            return Ok(Served { answer, envelope: stranger, line: format!("refused: {error}"), counted: None });
        }
        let message = match message.kind == SEALED {
            true => keeper.seal_key().open(&message, &envelope, Sealing::Request)?,
            false => message,
        };
        let (reply, line) = self.reply(&message, &envelope, keeper)?;
        let counted = (message.kind != HELLO).then(|| message.kind == REPORT && reply.kind != FAILED);
        // Only who was checked to be the coordinator says for whom an answer is sealed.
        let seal_to = envelope.signature.as_ref().filter(|_| self.coordinator.is_some()).map(|own| own.seal.clone());
        let own = Envelope { silo: self.name.clone(), identity: self.identity.clone(), signature: None, ..envelope };
        let reply = match seal_to {
            Some(key) => seal(&reply, &own, &key, Sealing::Answer)?,
            None => reply,
        };
        let own = match &self.signs {
            Some(key) => key.sign_answer(&reply, own),
            None => own,
        };
        Ok(Served { answer: reply, envelope: own, line, counted })
    }

    /// The answer to a request: the result, or the kind of the error. The error's text stays here, since it may quote
    /// data.
    fn reply(&self, message: &Message, envelope: &Envelope, keeper: &mut Keeper) -> Result<(Message, String)> {
        let asked =
            format!("round {}, attempt {}: {}", envelope.round, envelope.attempt, crate::error::shown(&message.kind));
        if message.kind == HELLO {
            let answer = Message::new(HELLO).word("rows", self.rows);
            // Where a hello is not sealed, whoever carries it could put another key in the place of this one.
            let key = self.coordinator.as_ref().map(|_| keeper.seal_key().public());
            let answer = key.iter().fold(answer, |answer, key| answer.setting(SEAL, key));
            let said = format!("the coordinator of run `{}` says hello", crate::error::shown(&envelope.run));
            return Ok((told(answer, &self.entries), said + &self.difference(message, envelope)));
        }
        match self.check(message, envelope).and_then(|()| keeper.answer(envelope, message)) {
            Ok(reply) => Ok((reply, asked)),
            // Without its state the silo cannot continue: its owner must act.
            Err(error @ Error::File { .. }) => Err(error),
            Err(error) => {
                let reply = Message::new(FAILED).setting("error", &kind_of(&error));
                // The name of a check or of a reason is no secret; values compared, and the text of other errors, may be.
                let what = match &error {
                    Error::Unwelcome { what, .. } => Some(*what),
                    Error::Inference(inner) => inner.refusal().map(Refusal::name),
                    _ => None,
                };
                let reply = what.into_iter().fold(reply, |reply, what| reply.setting("what", what));
                let reply = reply.word("state", keeper.place(&envelope.run));
                Ok((reply, format!("{asked}: refused: {}", set_in(&error.to_string()))))
            }
        }
    }

    /// What a hello says of another file than this silo's, for its log; nothing of the same file.
    fn difference(&self, hello: &Message, envelope: &Envelope) -> String {
        if envelope.identity == self.identity {
            return String::new();
        }
        let entry = hello.get_setting(ENTRIES).ok().and_then(|other| differing(&self.entries, other));
        let what = entry.unwrap_or_else(|| "model, or other settings,".into());
        format!(", of another {what} than this silo has. All parties need the same file and version of Partita")
    }

    fn check(&self, message: &Message, envelope: &Envelope) -> Result<()> {
        let unwelcome = |what, found: &str, expected: String, remedy| {
            Err(Error::Unwelcome { what, found: crate::error::shown(found), expected, remedy })
        };
        let Self { name, allow, .. } = self;
        if envelope.silo != *name {
            let remedy = "Give every silo the name that the coordinator calls it by.";
            return unwelcome(OTHER_SILO, &envelope.silo, format!("`{name}`"), remedy);
        }
        if envelope.identity != self.identity {
            let remedy = "Start all parties with the same model, settings and algorithm; at the hello this log says which entry differs.";
            return unwelcome(IDENTITY, &short(&envelope.identity), short(&self.identity), remedy);
        }
        let word = word(&message.kind);
        if OWN.contains(&message.kind.as_str()) {
            let expected = "a request that leaves the silo's files alone".into();
            return unwelcome(ASKED, &message.kind, expected, "No coordinator may ask for it: no action is needed.");
        }
        check_listed(self.asks.as_deref(), &message.kind)?;
        if !allow.iter().any(|known| known == word) {
            let found = format!("`{word}`, of the request `{}`", message.kind);
            let remedy = "Add it to `allow` in the silo's file, if its owner agrees.";
            return unwelcome(ASKED, &found, format!("one of {}", allow.join(", ")), remedy);
        }
        Ok(())
    }
}

/// A hello or its answer, with the entries of the file that all parties share.
pub(crate) fn told(message: Message, entries: &[(String, String)]) -> Message {
    if entries.is_empty() { message } else { message.setting(ENTRIES, &text(entries)) }
}

/// The name of an error's kind, which reveals nothing of the data.
fn kind_of(error: &Error) -> String {
    let text = match error {
        Error::Inference(inner) => format!("{inner:?}"),
        other => format!("{other:?}"),
    };
    text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or("Error").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silo_is_asked_what_its_owner_allows_and_never_for_its_files() {
        let (name, identity) = ("north".to_owned(), "abc".to_owned());
        let options = SiloOptions {
            name: name.clone(),
            engine: Engine::insecure("127.0.0.1:1"),
            allow: ["pvi", "silo"].map(str::to_owned).to_vec(),
            asks: None,
            largest_request: 1,
            identity: identity.clone(),
            entries: Vec::new(),
            rows: 1,
            signs: None,
            coordinator: None,
        };
        let asked = |options: &SiloOptions, kind| {
            let envelope = Envelope { silo: name.clone(), identity: identity.clone(), ..Envelope::default() };
            options.check(&Message::new(kind), &envelope).is_ok()
        };
        assert!(asked(&options, "pvi.solve") && asked(&options, "pvi"));
        for kind in ["silo.save", "silo.restore", "sfvi.step", "pvisolve", "", ".pvi"] {
            assert!(!asked(&options, kind), "{kind}");
        }
        let usual = SiloOptions { allow: vec!["pvi".into()], ..options };
        assert!(!asked(&usual, "silo.state"));
        // What a study lists is a limit beside that of the owner.
        let listed = SiloOptions { asks: Some(vec!["few".into()]), ..usual };
        assert!(!asked(&listed, "pvi.solve") && !asked(&listed, "few.round"));
        let found = listed.check(
            &Message::new("pvi.solve"),
            &Envelope { silo: name.clone(), identity: identity.clone(), ..Envelope::default() },
        );
        let found = found.unwrap_err().to_string();
        assert!(
            found.contains("`pvi`, of the request `pvi.solve`") && found.contains("`asks` of study.toml"),
            "{found}"
        );
    }
}
