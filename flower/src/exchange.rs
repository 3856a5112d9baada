//! Gives the exchange over the engine: the same requests and replies as in one process, to silos on other machines.

mod history;
mod options;
mod roster;
mod round;

pub use history::Event;
pub use options::{CoordinatorOptions, Patience};

use std::path::Path;
use std::time::{Duration, Instant};

use partita_inference::{Exchange, Manifest, Message, Outcome, Request, write_atomically};
use serde::{Deserialize, Serialize};

use crate::connection::Connection;
use crate::control::start_run;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::object::{Limits, ObjectId, Objects, hexadecimal};
use crate::record::pack;
use crate::task::{COORDINATOR, Task, now};
use crate::wire::current::Metadata;

/// Silos behind a SuperLink.
#[derive(Debug)]
pub struct Flower {
    options: CoordinatorOptions,
    identity: String,
    task: Task,
    nodes: Vec<u64>,
    rows: Vec<u64>,
    place: Place,
    history: Vec<Event>,
    bytes: [u64; 2],
}

/// Where a run is: what `flower.json` in a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    run: String,
    round: u64,
    /// The latest round of each silo whose answer was taken.
    accepted: Vec<u64>,
}

const PAUSE: Duration = Duration::from_millis(200);

impl Flower {
    /// Starts a run and waits until every silo has said hello. `identity` is the hash of model, settings and algorithm.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Refused`]; [`Error::Missing`] for silos that do not appear.
    pub fn connect(options: CoordinatorOptions, identity: &str) -> Result<Self> {
        let connection = Connection::new(&options.engine)?;
        let run_id = start_run(&connection)?;
        let started = Instant::now();
        let task = loop {
            match Task::acquire(&connection, "flwr-serverapp", COORDINATOR)? {
                Some(task) if task.run_id == run_id => break task,
                // A run that another coordinator left behind.
                Some(task) => task.end(Some("its coordinator is gone"))?,
                None if started.elapsed().as_secs() > options.patience.appear_seconds => {
                    return Err(Error::Refused {
                        operation: "starting a run",
                        status: 200,
                        detail: format!("run {run_id} has no task for its coordinator"),
                        remedy: "Start the SuperLink with `--isolation process`, so that nobody else takes it.",
                    });
                }
                None => std::thread::sleep(PAUSE),
            }
        };
        let count = options.silos.len();
        let run = hexadecimal(&run_id.to_be_bytes());
        let place = Place { run, round: 0, accepted: vec![0; count] };
        let (nodes, rows) = (vec![0; count], vec![0; count]);
        let (identity, history, bytes) = (identity.to_owned(), Vec::new(), [0; 2]);
        let mut flower = Self { options, identity, task, nodes, rows, place, history, bytes };
        flower.find_silos()?;
        Ok(flower)
    }

    /// The rows that each silo says it has.
    #[must_use]
    pub fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// What happened to silos: who was missing when.
    #[must_use]
    pub fn history(&self) -> &[Event] {
        &self.history
    }

    /// Bytes of requests sent and of answers received, as they crossed the wire without the transport's own headers.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Ends the run; `problem` says why, where it failed.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Refused`].
    pub fn end(self, problem: Option<&str>) -> Result<()> {
        self.task.end(problem)
    }

    fn limits(&self) -> Limits {
        Limits { bytes: self.options.patience.largest_answer, ..Limits::default() }
    }

    fn send(
        &mut self,
        message: &Message,
        node: u64,
        (silo, accepted, attempt): (&str, u64, u64),
        time: Duration,
    ) -> Result<ObjectId> {
        let envelope = Envelope {
            run: self.place.run.clone(),
            round: self.place.round,
            attempt,
            accepted,
            identity: self.identity.clone(),
            silo: silo.to_owned(),
        };
        let mut objects = Objects::default();
        let root = pack(message, &envelope, &mut objects)?;
        let metadata = Metadata {
            run_id: self.task.run_id,
            message_id: String::new(),
            src_node_id: COORDINATOR,
            dst_node_id: node,
            reply_to_message_id: String::new(),
            group_id: self.place.round.to_string(),
            ttl: time.as_secs_f64(),
            message_type: "train".into(),
            created_at: now(),
            src_task_id: Some(self.task.task_id),
            dst_task_id: None,
        };
        let (id, sent) = self.task.push(metadata, &mut objects, &root)?;
        self.bytes[0] += sent;
        Ok(id)
    }

    fn note(&mut self, silo: usize, what: String) {
        let (round, silo) = (self.place.round, self.options.silos[silo].clone());
        let line = format!("round {round}, silo `{silo}`: {what}");
        self.history.push(Event { round, silo, what });
        // The engine's log is for people: a run does not end because a line of it was lost.
        let _ = self.task.log(&line);
    }

    /// Answers what only the party itself may be asked: silos save their state after every answer, so that what is left to save
    /// is where the run is.
    fn keep(&mut self, folder: &Path, is_saving: bool) -> Result<()> {
        let path = folder.join("flower.json");
        let wrong = |problem: String| Error::File { path: path.clone(), problem };
        if is_saving {
            let bytes = serde_json::to_vec_pretty(&self.place).map_err(|error| wrong(error.to_string()))?;
            std::fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
            return Ok(write_atomically(&path, &bytes)?);
        }
        let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let place: Place = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if place.accepted.len() != self.options.silos.len() {
            return Err(wrong(format!(
                "it is of {} silos, this run has {}",
                place.accepted.len(),
                self.options.silos.len()
            )));
        }
        self.place = place;
        Ok(())
    }
}

impl Exchange for Flower {
    fn silos(&self) -> &[String] {
        &self.options.silos
    }

    fn exchange(
        &mut self,
        requests: Vec<Request>,
        manifest: &Manifest,
        deadline: Option<Duration>,
    ) -> partita_inference::Result<Vec<Outcome>> {
        let outside = |error: Error| match error {
            Error::Inference(error) => error,
            other => partita_inference::Error::Exchange { problem: other.to_string() },
        };
        let kind = requests.first().map(|request| request.message.kind.clone()).unwrap_or_default();
        if kind == "silo.save" || kind == "silo.restore" {
            let folder = requests[0].message.get_setting("folder")?.to_owned();
            self.keep(folder.as_ref(), kind == "silo.save").map_err(outside)?;
            let answer = if kind == "silo.save" { "silo.saved" } else { "silo.restored" };
            return Ok(requests.iter().map(|_| Outcome::Reply(Message::new(answer))).collect());
        }
        self.round(requests, manifest, deadline).map_err(outside)
    }
}
