//! Holds a task of the engine: takes it, keeps it alive, sends and receives its messages, and ends it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prost::Message as _;
use serde::{Deserialize, Serialize};

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::object::{Limits, Object, ObjectId, Objects};
use crate::transit::{Arrived, Step, Transit, Trouble};
use crate::wire::{
    AcquireTaskRequest, AcquireTaskResponse, ConfirmMessageReceivedRequest, Empty, EngineError, GetNodesResponse, Head,
    Metadata, Node, NodeInfo, PullAppMessagesRequest, PullAppMessagesResponse, PullObjectRequest, PullObjectResponse,
    PullTaskInputResponse, PushAppMessagesRequest, PushAppMessagesResponse, PushLogsRequest, PushObjectRequest,
    PushObjectResponse, PushTaskOutputRequest, SendTaskHeartbeatResponse,
};

/// The node of the coordinator, by the engine's convention.
pub(crate) const COORDINATOR: u64 = 1;

/// The interval of heartbeats: the engine gives a task up after 30 seconds without one.
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

/// The record of a task whose process ended: enough to give it back.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Leftover {
    token: String,
    task_id: u64,
    run_id: u64,
    /// The head of the answer that was not given, as the engine encodes it.
    answer: Option<Vec<u8>>,
}

/// The token is not shown.
impl std::fmt::Debug for Leftover {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Leftover");
        shown.field("task_id", &self.task_id).field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

impl Leftover {
    /// Ends the task, and tells the requester that no answer will come; otherwise the engine waits until the task's
    /// time is over.
    pub(crate) fn give_back(self, connection: &Connection, reason: &str) -> Result<()> {
        let Self { token, task_id, run_id, answer } = self;
        let connection = connection.with_token(token).with_patience(Duration::from_secs(5));
        let task = Task { connection, task_id, run_id, node: 0, heart: None };
        if let Some(answer) = answer {
            let answer = Metadata::decode(answer.as_slice());
            task.push_error(answer.map_err(|error| Error::malformed("a task", error.to_string()))?, reason)?;
        }
        task.end(Some(reason))
    }
}

/// The engine's code for a party that failed at a message.
const PARTY_FAILED: i64 = 2;

impl Task {
    /// Takes the oldest task of this type, if there is one.
    pub(crate) fn acquire(connection: &Connection, kind: &str, node: u64) -> Result<Option<Self>> {
        let request = AcquireTaskRequest { supported_task_types: vec![kind.to_owned()] };
        let answer: AcquireTaskResponse = connection.call("taking a task", "runtime/acquire-task", &request)?;
        let Some(task) = answer.task else { return Ok(None) };
        let connection = connection.with_token(answer.token);
        let input: PullTaskInputResponse = connection.call("starting a task", "runtime/pull-task-input", &Empty {})?;
        let run_id = input.run.map_or(task.run_id, |run| run.run_id);
        let heart = Heart::start(connection.for_user(None))?;
        Ok(Some(Self { connection, task_id: task.task_id, run_id, node, heart: Some(heart) }))
    }

    /// Whether the engine has stopped the task, or has been unreachable for long.
    pub(crate) fn is_stopped(&self) -> bool {
        self.heart.as_ref().is_none_or(Heart::is_stopped)
    }

    /// The nodes that are connected.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeInfo>> {
        let answer: GetNodesResponse = self.connection.call("listing nodes", "runtime/get-nodes", &Empty {})?;
        Ok(answer.nodes)
    }

    /// Sends a message with the content `root` of `objects`; returns its identifier and the bytes sent.
    pub(crate) fn push(&self, metadata: Metadata, objects: &mut Objects, root: &ObjectId) -> Result<(ObjectId, u64)> {
        let head = Head { metadata: Some(metadata), content: None, error: None };
        self.push_head(head, objects, vec![root.clone()])
    }

    /// Answers a message with an error, so that the engine need not wait for another answer.
    pub(crate) fn push_error(&self, metadata: Metadata, reason: &str) -> Result<()> {
        let error = Some(EngineError { code: PARTY_FAILED, reason: reason.to_owned() });
        // The engine refuses a message without time left, and would wait for another.
        let metadata = Metadata { ttl: metadata.ttl.max(1.0), ..metadata };
        let head = Head { metadata: Some(metadata), content: None, error };
        self.push_head(head, &mut Objects::default(), Vec::new()).map(drop)
    }

    fn push_head(&self, head: Head, objects: &mut Objects, children: Vec<ObjectId>) -> Result<(ObjectId, u64)> {
        let id = objects.add(&Object::new("Message", children, head.encode_to_vec()));
        let content = head.error.is_none().then_some(Empty {});
        let named = Metadata { message_id: id.as_str().to_owned(), ..head.metadata.unwrap_or_default() };
        let request = PushAppMessagesRequest {
            messages_list: vec![Head { metadata: Some(named), content, error: head.error }],
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

    /// The messages whose heads have come: the replies to `ids`, at most one to each, or, for none, the message of the
    /// task.
    pub(crate) fn heads(&self, ids: &[ObjectId], limits: Limits) -> Result<Vec<Transit>> {
        let request = PullAppMessagesRequest { message_ids: ids.iter().map(|id| id.as_str().to_owned()).collect() };
        let answer: PullAppMessagesResponse =
            self.connection.call("receiving messages", "runtime/pull-messages", &request)?;
        let mut open: BTreeSet<&str> = ids.iter().map(ObjectId::as_str).collect();
        let mut found: Vec<Transit> = Vec::new();
        for (head, tree) in answer.messages_list.into_iter().zip(answer.message_object_trees) {
            let metadata = head.metadata.ok_or_else(|| Error::malformed("a message", "it has no metadata"))?;
            // A reply to no open request is ignored: its content stays at the engine.
            let is_open = if ids.is_empty() { found.is_empty() } else { open.remove(&*metadata.reply_to_message_id) };
            if is_open {
                found.push(Transit::new(metadata, head.error, &tree, limits));
            }
        }
        Ok(found)
    }

    /// The message of the task, once it is whole. While objects of it are in transit, `is_given_up` is called
    /// repeatedly to ask whether to stop waiting.
    pub(crate) fn pull(&self, limits: Limits, is_given_up: &mut dyn FnMut() -> bool) -> Result<Option<Arrived>> {
        let Some(mut transit) = self.heads(&[], limits)?.into_iter().next() else { return Ok(None) };
        loop {
            match transit.advance(self)? {
                Step::Over(content) => return Ok(Some(Arrived { metadata: transit.metadata, content })),
                Step::Received => {}
                Step::Waits if is_given_up() => {
                    let error = Error::malformed("a message", "it never came whole");
                    return Ok(Some(Arrived { metadata: transit.metadata, content: Err(Trouble::Unreadable(error)) }));
                }
                Step::Waits => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// The record with which to give this task back if its process ends before it has given `answer`, if one is due.
    pub(crate) fn leftover(&self, answer: Option<&Metadata>) -> Leftover {
        let token = self.connection.token.clone().unwrap_or_default();
        let answer = answer.map(Metadata::encode_to_vec);
        Leftover { token, task_id: self.task_id, run_id: self.run_id, answer }
    }

    /// Asks for an object, which may still be in transit.
    pub(crate) fn object(&self, id: &ObjectId) -> Result<PullObjectResponse> {
        let request = PullObjectRequest {
            node: Some(Node { node_id: self.node }),
            run_id: self.run_id,
            object_id: id.as_str().to_owned(),
        };
        self.connection.call("receiving an object", "runtime/pull-object", &request)
    }

    /// Tells the engine that a message has come whole.
    pub(crate) fn confirm(&self, message: &ObjectId) -> Result<()> {
        let request = ConfirmMessageReceivedRequest {
            node: Some(Node { node_id: self.node }),
            run_id: self.run_id,
            message_object_id: message.as_str().to_owned(),
        };
        let _: Empty = self.connection.call("confirming a message", "runtime/confirm-message-received", &request)?;
        Ok(())
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

    /// Ends the task; `problem` is the reason of a failure.
    pub(crate) fn end(mut self, problem: Option<&str>) -> Result<()> {
        self.heart = None;
        let sub_status = if problem.is_some() { "failed" } else { "completed" };
        let details = problem.unwrap_or_default().to_owned();
        let request = PushTaskOutputRequest { sub_status: sub_status.into(), details };
        // Ending a task does not wait long for an engine that is unreachable.
        let connection = self.connection.with_patience(Duration::from_secs(5));
        let _: Empty = connection.call("ending a task", "runtime/push-task-output", &request)?;
        Ok(())
    }
}

/// Seconds since 1970, the engine's clock.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Keeps a task alive from its own thread.
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
            // A call in progress may last as long as the patience: it ends by itself.
            drop(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    #[test]
    fn the_token_of_a_task_is_in_no_text_for_people() {
        let connection = Connection::new(&Engine::insecure("127.0.0.1:1")).unwrap().with_token("t0k3n".into());
        let task = Task { connection, task_id: 1, run_id: 2, node: 3, heart: None };
        for text in [format!("{task:?}"), format!("{:?}", task.leftover(None)), format!("{:?}", task.connection)] {
            assert!(text.len() > 20 && !text.contains("t0k3n"), "{text}");
        }
    }
}
