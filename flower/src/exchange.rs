//! Gives the exchange over the engine: the same requests and replies as in one process, to silos on other machines.

mod history;
mod options;
mod place;
mod roster;
mod round;
mod under_way;

pub use crate::notice::Log;
pub use history::{Event, EventKind};
pub use options::{CoordinatorOptions, LostSilo, Patience};

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use partita_inference::Message;

use crate::carrier::Parcel;
use crate::connection::Connection;
use crate::control::start_run;
use crate::engine::Engine;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::history_file::HistoryFile;
use crate::notice::{User, Wait};
use crate::object::{ObjectId, hexadecimal};
use crate::refused::check_listed;
use crate::seal::{SealKey, Sealing, seal};
use crate::signature::milliseconds;
use crate::silo::HELLO;
use crate::task::{COORDINATOR, Task, now};
use crate::transit::Inbox;
use crate::wire::Metadata;
use place::{PLACE, Place, read_place};
use roster::Roster;
use under_way::UnderWay;

/// Silos behind a SuperLink.
pub struct Flower {
    options: CoordinatorOptions,
    identity: String,
    task: Task,
    roster: Roster,
    place: Place,
    /// The latest round of each silo whose answer is in the latest checkpoint, once there is one, and in the oldest that is
    /// kept.
    latest: Option<Vec<u64>>,
    kept: Option<Vec<u64>>,
    /// The folder of the latest checkpoint.
    folder: Option<PathBuf>,
    /// Who sits rounds out.
    missing: Vec<bool>,
    bytes: [u64; 2],
    history: Vec<Event>,
    history_file: HistoryFile,
    /// What silos seal their answers to, if there is a key that signs requests.
    answer_key: SealKey,
    /// The kinds of requests that are sealed, each to its silo.
    sealed: BTreeSet<String>,
    user: User,
    wait: Wait,
    inbox: Inbox,
    under_way: UnderWay,
}

impl std::fmt::Debug for Flower {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Flower");
        shown.field("options", &self.options).field("place", &self.place).field("roster", &self.roster);
        shown.finish_non_exhaustive()
    }
}

/// One sending of a message.
#[derive(Clone, Copy)]
struct Attempt {
    /// The silo; none where the node has yet to say which it is.
    silo: Option<usize>,
    round: u64,
    attempt: u64,
    /// How long an answer may take.
    time: Duration,
}

const PAUSE: Duration = Duration::from_millis(200);

/// How long after an interruption an answer is waited for: with it the run may end at a checkpoint of its own.
const GRACE_OF_INTERRUPTION: Duration = Duration::from_secs(10);

/// How much longer than its deadline the engine keeps a message: a late answer still counts, and what is late is told
/// by this coordinator's clock alone, however long a call takes.
const GRACE: Duration = Duration::from_secs(60);

impl Flower {
    /// Starts a run and waits until every silo has said hello. `identity` is the hash of model, settings and algorithm.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Untrusted`], [`Error::Refused`]; [`Error::Missing`] for silos that do not appear;
    /// [`Error::Unwelcome`] for a quorum of none or of more than there are, and for a silo with another identity.
    pub fn connect(options: CoordinatorOptions, identity: &str) -> Result<Self> {
        Self::connect_with(options, identity, Arc::new(|_| ()))
    }

    /// As [`Flower::connect`], and tells `log` of every event.
    ///
    /// # Errors
    /// As for [`Flower::connect`].
    pub fn connect_with(options: CoordinatorOptions, identity: &str, log: Log) -> Result<Self> {
        let count = options.silos.len();
        let expected = format_args!("1 to {count}, the number of silos");
        let remedy = "Correct `quorum` in the coordinator's file.";
        Error::unless((1..=count).contains(&options.quorum), "the quorum", options.quorum, expected, remedy)?;
        if let Some(key) = &options.engine.key {
            return Err(Error::Unwelcome {
                what: "the engine in the coordinator's file",
                found: format!("`key = \"{}\"`", key.display()),
                expected: "no key: a coordinator is no node".into(),
                remedy: "Take `key` out; the keys of silos are in the table `keys`.",
            });
        }
        options.warnings().iter().for_each(|line| log(line));
        let user = User { log, interrupt: Arc::clone(&options.interrupt) };
        let connection = Connection::new(&options.engine)?.for_user(Some(user.clone()));
        let run_id = start_run(&connection)?;
        let task = take_task(&connection, run_id, options.patience.appear_seconds, &user)?;
        let place = Place {
            run: hexadecimal(&task.run_id.to_be_bytes()),
            began: milliseconds(),
            start: 0,
            round: 0,
            accepted: vec![0; count],
            task: task.leftover(),
            rows: vec![0; count],
            is_over: false,
        };
        let (identity, roster, missing) = (identity.to_owned(), Roster::new(count), vec![false; count]);
        let mut flower = Self {
            options,
            identity,
            task,
            roster,
            place,
            latest: None,
            kept: None,
            folder: None,
            missing,
            bytes: [0; 2],
            history: Vec::new(),
            history_file: HistoryFile::default(),
            answer_key: SealKey::new()?,
            sealed: BTreeSet::new(),
            user,
            wait: Wait::new(Duration::ZERO),
            inbox: Inbox::default(),
            under_way: UnderWay::new(),
        };
        if let Err(error) = flower.assemble() {
            // The run on the engine would wait for its coordinator.
            let _ = flower.task.end(Some("the silos did not come together"));
            return Err(error);
        }
        flower.wait = Wait::new(GRACE_OF_INTERRUPTION);
        Ok(flower)
    }

    /// Ends the engine's run of a coordinator that was killed, of which `folder` is a checkpoint: silos that still wait
    /// for what it was sending are free at once, and not in a minute. Whether there was anything to end.
    ///
    /// # Errors
    /// [`Error::File`] for a checkpoint of a run that was not over an engine; [`Error::Transport`],
    /// [`Error::Untrusted`].
    pub fn end_former_run(engine: &Engine, folder: &Path) -> Result<bool> {
        let place = read_place(folder)?;
        let task = Task::of_leftover(place.task, &Connection::new(engine)?);
        match task.end(Some("its coordinator was started again")) {
            Ok(()) => Ok(true),
            Err(Error::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the run of which `folder` is a checkpoint has ended with its report.
    ///
    /// # Errors
    /// [`Error::File`] for a checkpoint of a run that was not over an engine.
    pub fn is_over(folder: &Path) -> Result<bool> {
        Ok(read_place(folder)?.is_over)
    }

    /// The rows that each silo says it has; 0 for one that has not appeared yet.
    #[must_use]
    pub fn rows(&self) -> &[u64] {
        &self.roster.rows
    }

    /// Seals requests of this kind from here on, each to its silo, so that the engine reads none of them. Returns the silos to
    /// which it cannot: they have told no key, since their files name no coordinator, or have not appeared.
    pub fn seal(&mut self, kind: &str) -> Vec<&str> {
        self.sealed.insert(kind.to_owned());
        let keys = self.options.silos.iter().zip(&self.roster.seals);
        keys.filter(|(_, key)| key.is_none()).map(|(name, _)| name.as_str()).collect()
    }

    /// What happened to silos, since the run began: who was missing when.
    #[must_use]
    pub fn history(&self) -> &[Event] {
        &self.history
    }

    /// Bytes of requests sent and of answers received, as they crossed the wire without the transport's own headers.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Ends the run; `problem` says why, where it failed. One that neither failed nor was interrupted is marked as over
    /// in its latest checkpoint.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Refused`]; [`Error::File`] for a checkpoint that cannot be written.
    pub fn end(mut self, problem: Option<&str>) -> Result<()> {
        let is_over = problem.is_none() && !self.user.interrupt.load(Ordering::Relaxed);
        let marked = match self.folder.take().filter(|_| is_over) {
            Some(folder) => self.mark(&folder),
            None => Ok(()),
        };
        self.task.end(problem)?;
        marked
    }

    fn mark(&mut self, folder: &Path) -> Result<()> {
        let place = read_place(folder)?;
        self.write_place(folder, Place { is_over: true, ..place })
    }

    /// A message to a node, ready to be sent.
    fn parcel<'a>(&self, message: &'a Message, node: u64, attempt: Attempt) -> Result<Parcel<'a>> {
        if message.kind != HELLO {
            check_listed(self.options.asks.as_deref(), &message.kind)?;
        }
        let Attempt { silo, round, attempt, time } = attempt;
        let accepted = silo.map_or(0, |silo| self.place.accepted[silo]);
        let kept = silo.and_then(|silo| Some(self.kept.as_ref()?[silo]));
        let envelope = Envelope {
            run: self.place.run.clone(),
            began: self.place.began,
            start: self.place.start,
            round,
            attempt,
            accepted,
            // Without a checkpoint no party goes back.
            kept: kept.unwrap_or(accepted),
            identity: self.identity.clone(),
            silo: silo.map(|silo| self.options.silos[silo].clone()).unwrap_or_default(),
            signature: None,
        };
        let key =
            silo.filter(|_| self.sealed.contains(&message.kind)).and_then(|silo| self.roster.seals[silo].as_ref());
        let message = match key {
            Some(key) => Cow::Owned(seal(message, &envelope, key, Sealing::Request)?),
            None => Cow::Borrowed(message),
        };
        let envelope = match &self.options.key {
            Some(key) => key.sign(&message, envelope, &self.answer_key.public()),
            None => envelope,
        };
        let metadata = Metadata {
            run_id: self.task.run_id,
            message_id: String::new(),
            src_node_id: COORDINATOR,
            dst_node_id: node,
            reply_to_message_id: String::new(),
            group_id: round.to_string(),
            ttl: (time + GRACE).as_secs_f64(),
            message_type: "train".into(),
            created_at: now(),
            src_task_id: Some(self.task.task_id),
            dst_task_id: None,
        };
        Ok(Parcel { metadata, message, envelope })
    }

    /// Sends messages in one call; the identifier of each that was taken.
    fn push(&mut self, parcels: &[Parcel<'_>]) -> Result<Vec<Option<ObjectId>>> {
        let sent = self.task.carrier().push_all(parcels)?;
        self.bytes[0] += sent.iter().flatten().map(|sent| sent.bytes).sum::<u64>();
        Ok(sent.into_iter().map(|sent| sent.map(|sent| sent.id)).collect())
    }

    fn note(&mut self, silo: usize, round: u64, kind: EventKind, what: String) {
        let event = Event::new(round, &self.options.silos[silo], kind, &what);
        let line = event.to_string();
        self.history.push(event);
        (self.user.log)(&line);
        // The engine's log is for people too: a run does not end because a line of it was lost.
        let _ = self.task.log(&line);
    }

    /// Notes that a silo sits out, unless it does already.
    fn is_missing(&mut self, silo: usize, round: u64, why: &str) {
        if !std::mem::replace(&mut self.missing[silo], true) {
            self.note(silo, round, EventKind::Missing, format!("missing: {why}"));
        }
    }

    /// Notes that a silo has answered.
    fn is_back(&mut self, silo: usize, round: u64) {
        if std::mem::replace(&mut self.missing[silo], false) {
            self.note(silo, round, EventKind::Back, "it takes part".into());
        }
    }

    /// Saves where the run is. Silos save their own state after every answer.
    fn save_place(&mut self, folder: &Path) -> Result<()> {
        let accepted = self.under_way.handed_over(&self.place.accepted);
        self.history_file.append(folder, &self.history)?;
        let rows = self.roster.rows.clone();
        self.write_place(folder, Place { accepted, rows, ..self.place.clone() })
    }

    /// Goes on from where a run was, under a start of its own: silos tell by it what this coordinator asks from what
    /// the one before it has asked.
    fn restore_place(&mut self, folder: &Path) -> Result<()> {
        let place = read_place(folder)?;
        let (found, silos) = (place.accepted.len(), self.options.silos.len());
        if found != silos {
            let problem = format!("it is of {found} silos, this run has {silos}");
            return Err(Error::file(&folder.join(PLACE), problem));
        }
        let mut history = self.history_file.take_up(folder)?;
        history.append(&mut self.history);
        self.history = history;
        let rows = place.rows.clone();
        let (place, oldest) = place.take_up(folder, self.task.leftover())?;
        (self.place, self.latest) = (place, Some(oldest));
        self.recall(&rows);
        self.place.rows.clone_from(&self.roster.rows);
        self.write_place(folder, self.place.clone())
    }

    fn write_place(&mut self, folder: &Path, place: Place) -> Result<()> {
        place.write(folder)?;
        // The checkpoint before the latest is on disk too: the run may have to return to it.
        let before = self.latest.replace(place.accepted.clone());
        self.kept = Some(before.unwrap_or(place.accepted));
        self.folder = Some(folder.to_owned());
        Ok(())
    }
}

/// The task of a run that was just started.
///
/// The engine gives the oldest task. Where that is of another run, its coordinator is gone, or started moments ago and
/// takes that of this run: no run has anything of its own yet, so that either serves, and no other run is ended.
fn take_task(connection: &Connection, run_id: u64, seconds: u64, user: &User) -> Result<Task> {
    let (started, mut wait) = (Instant::now(), Wait::new(Duration::ZERO));
    loop {
        if let Some(task) = Task::acquire(connection, "flwr-serverapp", COORDINATOR)? {
            return Ok(task);
        }
        if started.elapsed().as_secs() > seconds {
            return Err(Error::Refused {
                operation: "starting a run",
                status: 200,
                detail: format!("run {run_id} has no task for its coordinator"),
                remedy: "Start the SuperLink with `--isolation process`, so that no other process takes it.",
            });
        }
        wait.look(user, || "the engine to give this coordinator its task".into())?;
        std::thread::sleep(PAUSE);
    }
}
