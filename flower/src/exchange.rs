//! Gives the exchange over the engine: the same requests and replies as in one process, to silos on other machines.

use std::path::Path;
use std::time::{Duration, Instant};

use partita_inference::{Exchange, Manifest, Message, Outcome, Request, write_atomically};
use serde::{Deserialize, Serialize};

use crate::connection::{Connection, Engine};
use crate::control::start_run;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::object::{Limits, ObjectId, Objects, hexadecimal};
use crate::record::{pack, unpack};
use crate::silo::{FAILED, HELLO};
use crate::task::{COORDINATOR, Task, now};
use crate::wire::current::Metadata;

/// How a coordinator reaches its silos.
#[derive(Debug, Clone, PartialEq)]
pub struct CoordinatorOptions {
    /// The SuperLink.
    pub engine: Engine,
    /// The silos, in the order in which sums run.
    pub silos: Vec<String>,
    /// How long it waits, and how much it reads.
    pub patience: Patience,
    /// The fewest silos that have to answer a round that all were asked in.
    pub quorum: usize,
}

/// How long a coordinator waits for its silos, and how much it reads of what they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Patience {
    /// How long to wait for all silos to appear, in seconds.
    pub appear_seconds: u64,
    /// How long an answer may take, in seconds.
    pub deadline_seconds: u64,
    /// How often a request is sent, after errors and deadlines again.
    pub attempts: u64,
    /// The most bytes of an answer.
    pub largest_answer: usize,
}

impl Default for Patience {
    /// Five minutes to appear, ten for an answer, ten attempts, a gigabyte.
    fn default() -> Self {
        Self { appear_seconds: 300, deadline_seconds: 600, attempts: 10, largest_answer: Limits::default().bytes }
    }
}

/// Something that happened to a silo in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The round.
    pub round: u64,
    /// The silo.
    pub silo: String,
    /// What happened.
    pub what: String,
}

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

/// A request that waits for its answer.
struct Waiting {
    request: Request,
    slot: usize,
    id: ObjectId,
    attempt: u64,
    due: Instant,
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

    /// Says hello to every node that is not known to be one of the silos, until all are found.
    fn find_silos(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut asked: Vec<(u64, ObjectId, Instant)> = Vec::new();
        loop {
            let nodes = self.task.nodes()?;
            // A silo whose node is gone may come back as another.
            for known in &mut self.nodes {
                if !nodes.contains(known) {
                    *known = 0;
                }
            }
            if self.nodes.iter().all(|node| *node != 0) {
                return Ok(());
            }
            asked.retain(|(_, _, since)| since.elapsed() < Duration::from_secs(20));
            for node in &nodes {
                if !self.nodes.contains(node) && !asked.iter().any(|(known, _, _)| known == node) {
                    let hello = Message::new(HELLO);
                    let id = self.send(&hello, *node, ("", 0, 1), Duration::from_secs(60));
                    if let Ok(id) = id {
                        asked.push((*node, id, Instant::now()));
                    }
                }
            }
            let ids: Vec<ObjectId> = asked.iter().map(|(_, id, _)| id.clone()).collect();
            if !ids.is_empty() {
                for arrived in self.task.pull(&ids, self.limits())? {
                    let Ok((objects, root)) = arrived.content else { continue };
                    let node = arrived.metadata.src_node_id;
                    let Ok((message, envelope)) = unpack(&objects, &root) else { continue };
                    if let Some(place) = self.options.silos.iter().position(|name| *name == envelope.silo) {
                        self.nodes[place] = node;
                        self.rows[place] = message.get_word("rows").unwrap_or(0);
                    }
                }
            }
            if started.elapsed().as_secs() > self.options.patience.appear_seconds {
                let missing = self.options.silos.iter().zip(&self.nodes).filter(|(_, node)| **node == 0);
                let missing = missing.map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                return Err(Error::Missing {
                    missing,
                    found: nodes.len(),
                    seconds: self.options.patience.appear_seconds,
                });
            }
            std::thread::sleep(PAUSE);
        }
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

    /// Sends a request again and again, until it is on its way or the attempts are used up.
    fn launch(
        &mut self,
        request: Request,
        slot: usize,
        from: u64,
        time: Duration,
    ) -> Result<std::result::Result<Waiting, String>> {
        let mut reason = "no attempt is left".to_owned();
        for attempt in from..=self.options.patience.attempts.max(1) {
            if attempt > 1 {
                std::thread::sleep(Duration::from_secs(1));
                if let Err(error) = self.find_silos() {
                    reason = error.to_string();
                    continue;
                }
            }
            let (node, name) = (self.nodes[request.silo], self.options.silos[request.silo].clone());
            match self.send(&request.message, node, (&name, self.place.accepted[request.silo], attempt), time) {
                Ok(id) => return Ok(Ok(Waiting { request, slot, id, attempt, due: Instant::now() + time })),
                Err(error @ Error::Transport { .. }) => return Err(error),
                Err(error) => {
                    reason = error.to_string();
                    self.note(request.silo, format!("attempt {attempt} could not be sent: {reason}"));
                }
            }
        }
        Ok(Err(reason))
    }

    fn round(
        &mut self,
        requests: Vec<Request>,
        manifest: &Manifest,
        deadline: Option<Duration>,
    ) -> Result<Vec<Outcome>> {
        let time = deadline.unwrap_or(Duration::from_secs(self.options.patience.deadline_seconds));
        self.place.round += 1;
        let asked: Vec<usize> = requests.iter().map(|request| request.silo).collect();
        let mut outcomes: Vec<Option<Outcome>> = Vec::new();
        outcomes.resize_with(requests.len(), || None);
        let mut waiting = Vec::new();
        for (slot, request) in requests.into_iter().enumerate() {
            match self.launch(request, slot, 1, time)? {
                Ok(sent) => waiting.push(sent),
                Err(reason) => outcomes[slot] = Some(Outcome::Lost { reason }),
            }
        }
        while !waiting.is_empty() {
            let ids: Vec<ObjectId> = waiting.iter().map(|one| one.id.clone()).collect();
            let mut again = Vec::new();
            for arrived in self.task.pull(&ids, self.limits())? {
                let known = waiting.iter().position(|one| one.id.as_str() == arrived.metadata.reply_to_message_id);
                // Another answer to what has been answered already.
                let Some(known) = known else { continue };
                let one = waiting.swap_remove(known);
                match arrived.content {
                    Ok((objects, root)) => {
                        self.bytes[1] += objects.size() as u64;
                        let outcome = self.read(&objects, &root, &one)?;
                        if let Outcome::Reply(reply) = &outcome {
                            manifest.check(&self.options.silos[one.request.silo], reply)?;
                        }
                        outcomes[one.slot] = Some(outcome);
                    }
                    Err((code, reason)) => {
                        self.note(one.request.silo, format!("attempt {}: error {code}: {reason}", one.attempt));
                        again.push(one);
                    }
                }
            }
            let (late, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|one| Instant::now() > one.due);
            waiting = rest;
            for one in late {
                self.note(one.request.silo, format!("attempt {}: no answer in {} s", one.attempt, time.as_secs()));
                again.push(one);
            }
            for one in again {
                let (slot, silo) = (one.slot, one.request.silo);
                match self.launch(one.request, slot, one.attempt + 1, time)? {
                    Ok(sent) => waiting.push(sent),
                    Err(reason) => {
                        self.note(silo, format!("lost: {reason}"));
                        outcomes[slot] = Some(Outcome::Lost { reason });
                    }
                }
            }
            if self.task.is_stopped() {
                return Err(Error::Refused {
                    operation: "the run",
                    status: 200,
                    detail: "the engine has stopped it".into(),
                    remedy: "Start the coordinator again: it goes on from its checkpoint.",
                });
            }
            if !waiting.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
        let outcomes: Vec<Outcome> = outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Timeout)).collect();
        let answered = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Reply(_))).count();
        if answered < self.options.quorum.min(asked.len()) {
            return Err(Error::Unwelcome {
                what: "the silos that answered a round",
                found: answered.to_string(),
                expected: format!("a quorum of {}", self.options.quorum),
                remedy: "Bring the missing silos back and start the coordinator again: it goes on from its checkpoint.",
            });
        }
        for (silo, outcome) in asked.iter().zip(&outcomes) {
            if matches!(outcome, Outcome::Reply(_)) {
                self.place.accepted[*silo] = self.place.round;
            }
        }
        Ok(outcomes)
    }

    /// A silo's answer, or what it says went wrong.
    fn read(&self, objects: &Objects, root: &ObjectId, one: &Waiting) -> Result<Outcome> {
        let name = &self.options.silos[one.request.silo];
        let lost = |problem: String| Outcome::Lost { reason: problem };
        let (reply, envelope) = match unpack(objects, root) {
            Ok(found) => found,
            Err(error) => return Ok(lost(error.to_string())),
        };
        let expected = (&self.place.run, self.place.round, &self.identity, name);
        let found = (&envelope.run, envelope.round, &envelope.identity, &envelope.silo);
        if found != expected {
            return Ok(lost(format!("it answered for {found:?}, asked was {expected:?}")));
        }
        if reply.kind == FAILED {
            let kind = reply.get_setting("error").map_or("unknown", |kind| kind).to_owned();
            let problem = format!("the silo answered with an error of kind `{kind}`; its own log says more");
            let kind = one.request.message.kind.clone();
            return Ok(Outcome::Failed(partita_inference::Error::Message { kind, problem }));
        }
        Ok(Outcome::Reply(reply))
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
