//! Holds a task of the engine: takes it, keeps it alive, sends and receives its messages, and ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prost::Message as _;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::object::{Limits, Object, ObjectId, Objects, identifiers};
use crate::wire::current::{
    AcquireTaskRequest, AcquireTaskResponse, ConfirmMessageReceivedRequest, Empty, GetNodesResponse, Head, Metadata,
    Node, ObjectTree, PullAppMessagesRequest, PullAppMessagesResponse, PullObjectRequest, PullObjectResponse,
    PullTaskInputResponse, PushAppMessagesRequest, PushAppMessagesResponse, PushLogsRequest, PushObjectRequest,
    PushObjectResponse, PushTaskOutputRequest, SendTaskHeartbeatResponse,
};

/// The node of the coordinator, by the engine's convention.
pub(crate) const COORDINATOR: u64 = 1;

/// How often the engine is told that a task is alive: it waits 30 seconds after a task was taken.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A task that this process holds.
#[derive(Debug)]
pub(crate) struct Task {
    connection: Connection,
    pub(crate) task_id: u64,
    pub(crate) run_id: u64,
    node: u64,
    heart: Option<Heart>,
}

/// A message that arrived: its head, and its content unless the engine reports an error.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) metadata: Metadata,
    pub(crate) content: std::result::Result<(Objects, ObjectId), (i64, String)>,
}

impl Task {
    /// Takes the oldest task of this type, if there is one.
    pub(crate) fn acquire(connection: &Connection, kind: &str, node: u64) -> Result<Option<Self>> {
        let request = AcquireTaskRequest { supported_task_types: vec![kind.to_owned()] };
        let answer: AcquireTaskResponse = connection.call("taking a task", "runtime/acquire-task", &request)?;
        let Some(task) = answer.task else { return Ok(None) };
        let connection = connection.with_token(answer.token);
        let input: PullTaskInputResponse = connection.call("starting a task", "runtime/pull-task-input", &Empty {})?;
        let run_id = input.run.map_or(task.run_id, |run| run.run_id);
        let heart = Heart::start(connection.clone())?;
        Ok(Some(Self { connection, task_id: task.task_id, run_id, node, heart: Some(heart) }))
    }

    /// Whether the engine has stopped the task, or has not been reached for long.
    pub(crate) fn is_stopped(&self) -> bool {
        self.heart.as_ref().is_none_or(Heart::is_stopped)
    }

    /// The nodes that are connected.
    pub(crate) fn nodes(&self) -> Result<Vec<u64>> {
        let answer: GetNodesResponse = self.connection.call("listing nodes", "runtime/get-nodes", &Empty {})?;
        Ok(answer.nodes.into_iter().map(|node| node.node_id).collect())
    }

    /// Sends a message with the content `root` of `objects`; its identifier, and the bytes that crossed the wire.
    pub(crate) fn push(&self, metadata: Metadata, objects: &mut Objects, root: &ObjectId) -> Result<(ObjectId, u64)> {
        let head = Head { metadata: Some(metadata), content: None, error: None };
        let id = objects.add(&Object::new("Message", vec![root.clone()], head.encode_to_vec()));
        let named = Metadata { message_id: id.as_str().to_owned(), ..head.metadata.unwrap_or_default() };
        let request = PushAppMessagesRequest {
            messages_list: vec![Head { metadata: Some(named), content: Some(Empty {}), error: None }],
            message_object_trees: vec![objects.tree(&id)?],
        };
        let mut sent = request.encoded_len() as u64;
        let answer: PushAppMessagesResponse =
            self.connection.call("sending a message", "runtime/push-messages", &request)?;
        if answer.message_ids != [id.as_str()] {
            return Err(Error::Refused {
                operation: "sending a message",
                status: 200,
                detail: "it was not stored: its receiver is not connected, or its time had passed".into(),
                remedy: "Check that the silo's SuperNode is connected.",
            });
        }
        for object in &answer.objects_to_push {
            let request = PushObjectRequest {
                node: Some(Node { node_id: self.node }),
                run_id: self.run_id,
                object_id: object.clone(),
                object_content: objects.encoded(&ObjectId::parse(object)?)?.to_vec(),
                session_id: answer.session_id.clone(),
            };
            sent += request.encoded_len() as u64;
            let stored: PushObjectResponse =
                self.connection.call("sending an object", "runtime/push-object", &request)?;
            if !stored.stored {
                let detail = format!("object {object} was not stored");
                let remedy = "The engine no longer knows the message; it is sent again.";
                return Err(Error::Refused { operation: "sending an object", status: 200, detail, remedy });
            }
        }
        Ok((id, sent))
    }

    /// What has arrived: the replies to these messages, or, for none, the message of the task.
    pub(crate) fn pull(&self, ids: &[ObjectId], limits: Limits) -> Result<Vec<Arrived>> {
        let request = PullAppMessagesRequest { message_ids: ids.iter().map(|id| id.as_str().to_owned()).collect() };
        let answer: PullAppMessagesResponse =
            self.connection.call("receiving messages", "runtime/pull-messages", &request)?;
        let heads = answer.messages_list.into_iter().zip(answer.message_object_trees);
        heads.map(|(head, tree)| self.receive(head, &tree, limits)).collect()
    }

    fn receive(&self, head: Head, tree: &ObjectTree, limits: Limits) -> Result<Arrived> {
        let metadata = head.metadata.ok_or_else(|| Error::malformed("a message", "it has no metadata"))?;
        if let Some(error) = head.error {
            return Ok(Arrived { metadata, content: Err((error.code, error.reason)) });
        }
        let mut objects = Objects::default();
        for id in identifiers(tree, limits)? {
            objects.receive(&id, self.pull_object(&id)?, limits)?;
        }
        let message = ObjectId::parse(&tree.object_id)?;
        let request = ConfirmMessageReceivedRequest {
            node: Some(Node { node_id: self.node }),
            run_id: self.run_id,
            message_object_id: message.as_str().to_owned(),
        };
        let _: Empty = self.connection.call("confirming a message", "runtime/confirm-message-received", &request)?;
        let object = objects.get(&message, "Message")?;
        let [root] = object.children.as_slice() else {
            let problem = format!("it has {} contents, expected 1", object.children.len());
            return Err(Error::malformed("a message", problem));
        };
        Ok(Arrived { metadata, content: Ok((objects, root.clone())) })
    }

    /// An object, which may still be on its way from its sender.
    fn pull_object(&self, id: &ObjectId) -> Result<Vec<u8>> {
        let request = PullObjectRequest {
            node: Some(Node { node_id: self.node }),
            run_id: self.run_id,
            object_id: id.as_str().to_owned(),
        };
        let started = Instant::now();
        loop {
            let answer: PullObjectResponse =
                self.connection.call("receiving an object", "runtime/pull-object", &request)?;
            if answer.object_available {
                return Ok(answer.object_content);
            }
            if !answer.object_found || started.elapsed() > ON_ITS_WAY {
                let problem = format!("its object {id} never arrived at the engine");
                return Err(Error::malformed("a message", problem));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Writes a line into the engine's log of the run.
    pub(crate) fn log(&self, line: &str) -> Result<()> {
        let request = PushLogsRequest {
            node: Some(Node { node_id: self.node }),
            run_id: self.run_id,
            logs: vec![format!("{line}\n")],
        };
        let _: Empty = self.connection.call("writing a log", "runtime/push-logs", &request)?;
        Ok(())
    }

    /// Ends the task; `problem` says why, where it failed.
    pub(crate) fn end(mut self, problem: Option<&str>) -> Result<()> {
        self.heart = None;
        let sub_status = if problem.is_some() { "failed" } else { "completed" };
        let details = problem.unwrap_or_default().to_owned();
        let request = PushTaskOutputRequest { sub_status: sub_status.into(), details };
        // Whoever ends a task has no reason to wait for an engine that is gone.
        let connection = self.connection.with_patience(Duration::from_secs(5));
        let _: Empty = connection.call("ending a task", "runtime/push-task-output", &request)?;
        Ok(())
    }
}

/// How long objects of a message may take to arrive after its head.
const ON_ITS_WAY: Duration = Duration::from_secs(120);

/// Seconds since 1970, as the engine dates messages.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Keeps a task alive from a thread of its own.
#[derive(Debug)]
struct Heart {
    over: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    fn start(connection: Connection) -> Result<Self> {
        let (over, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_over, set_stopped) = (Arc::clone(&over), Arc::clone(&stopped));
        let work = move || {
            let mut next = Instant::now() + HEARTBEAT;
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                if Instant::now() < next {
                    continue;
                }
                next = Instant::now() + HEARTBEAT;
                let answer: Result<SendTaskHeartbeatResponse> =
                    connection.call("keeping a task alive", "runtime/send-task-heartbeat", &Empty {});
                if !answer.is_ok_and(|answer| answer.success) {
                    set_stopped.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("heartbeat".into()).spawn(work);
        let thread = thread.map_err(|error| Error::malformed("a thread", error.to_string()))?;
        Ok(Self { over, stopped, thread: Some(thread) })
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A call that is under way may last as long as patience does: it ends on its own.
            drop(thread);
        }
    }
}
