//! Moves messages with their objects between a party and the engine, for a task or for a node.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use prost::Message as _;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::object::{Limits, Object, ObjectId, Objects, identifiers};
use crate::wire::{
    ConfirmMessageReceivedRequest, Empty, EngineError, Head, Metadata, Node, ObjectTree, PullAppMessagesRequest,
    PullAppMessagesResponse, PullMessagesRequest, PullMessagesResponse, PullObjectRequest, PullObjectResponse,
    PushAppMessagesRequest, PushAppMessagesResponse, PushMessagesRequest, PushMessagesResponse, PushObjectRequest,
    PushObjectResponse,
};

/// The part of the engine's interface that a party speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// For programs that take tasks.
    Runtime,
    /// For nodes.
    Fleet,
}

/// What moves messages.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) connection: Connection,
    pub(crate) node: u64,
    pub(crate) api: Api,
}

/// What the engine says to the head of a message.
struct Announced {
    /// The objects that it does not have yet.
    missing: Vec<String>,
    session: String,
    /// The bytes of the head.
    sent: u64,
}

/// The engine's code for a party that failed at a message.
const PARTY_FAILED: i64 = 2;

/// A message that arrived: its head, and its content or the reason for its absence.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) metadata: Metadata,
    pub(crate) content: std::result::Result<(Objects, ObjectId), Trouble>,
}

/// The reason why a message has no content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The engine, or the other party through it, reports an error.
    #[error("error {code}: {reason}")]
    Reported { code: i64, reason: String },
    /// It is malformed.
    #[error(transparent)]
    Unreadable(Error),
}

impl Carrier {
    fn path(&self, call: &str) -> String {
        match self.api {
            Api::Runtime => format!("runtime/{call}"),
            Api::Fleet => format!("fleet/{call}"),
        }
    }

    fn node(&self) -> Option<Node> {
        Some(Node { node_id: self.node })
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
        let run_id = named.run_id;
        let head = Head { metadata: Some(named), content, error: head.error };
        let Announced { missing, session, mut sent } = self.announce(head, objects.tree(&id)?, &id)?;
        for object in &missing {
            let request = PushObjectRequest {
                node: self.node(),
                run_id,
                object_id: object.clone(),
                object_content: objects.encoded(&ObjectId::parse(object)?)?.to_vec(),
                session_id: session.clone(),
            };
            sent += request.encoded_len() as u64;
            let stored: PushObjectResponse =
                self.connection.call("sending an object", &self.path("push-object"), &request)?;
            if !stored.stored {
                let detail = format!("object {object} was not stored");
                let remedy = "The engine no longer knows the message; it is sent again.";
                return Err(Error::Refused { operation: "sending an object", status: 200, detail, remedy });
            }
        }
        Ok((id, sent))
    }

    /// Sends the head of a message, and the tree of its objects.
    fn announce(&self, head: Head, tree: ObjectTree, id: &ObjectId) -> Result<Announced> {
        let (operation, path) = ("sending a message", self.path("push-messages"));
        let (messages_list, message_object_trees) = (vec![head], vec![tree]);
        match self.api {
            Api::Runtime => {
                let request = PushAppMessagesRequest { messages_list, message_object_trees };
                let answer: PushAppMessagesResponse = self.connection.call(operation, &path, &request)?;
                if answer.message_ids != [id.as_str()] {
                    return Err(Error::Refused {
                        operation,
                        status: 200,
                        detail: "it was not stored: its receiver is not connected, or its time had passed".into(),
                        remedy: "Check that the silo's SuperNode is connected.",
                    });
                }
                let sent = request.encoded_len() as u64;
                Ok(Announced { missing: answer.objects_to_push, session: answer.session_id, sent })
            }
            Api::Fleet => {
                let request = PushMessagesRequest { node: self.node(), messages_list, message_object_trees };
                let answer: PushMessagesResponse = self.connection.call(operation, &path, &request)?;
                let sent = request.encoded_len() as u64;
                Ok(Announced { missing: answer.objects_to_push, session: answer.session_id, sent })
            }
        }
    }

    /// The messages that have arrived: the replies to `ids`, at most one to each, or, for none, one that this party is
    /// asked. While objects of a message are in transit, `is_given_up` is called repeatedly to ask whether to stop
    /// waiting.
    pub(crate) fn pull(
        &self,
        ids: &[ObjectId],
        limits: Limits,
        is_given_up: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Arrived>> {
        let (operation, path) = ("receiving messages", self.path("pull-messages"));
        let message_ids = ids.iter().map(|id| id.as_str().to_owned()).collect();
        let (heads, trees) = match self.api {
            Api::Runtime => {
                let request = PullAppMessagesRequest { message_ids };
                let answer: PullAppMessagesResponse = self.connection.call(operation, &path, &request)?;
                (answer.messages_list, answer.message_object_trees)
            }
            Api::Fleet => {
                let request = PullMessagesRequest { node: self.node(), message_ids };
                let answer: PullMessagesResponse = self.connection.call(operation, &path, &request)?;
                (answer.messages_list, answer.message_object_trees)
            }
        };
        let mut open: BTreeSet<&str> = ids.iter().map(ObjectId::as_str).collect();
        let mut arrived = Vec::new();
        for (head, tree) in heads.into_iter().zip(trees) {
            let metadata = head.metadata.ok_or_else(|| Error::malformed("a message", "it has no metadata"))?;
            // A reply to no open request is ignored: its content stays at the engine.
            let is_open = if ids.is_empty() { arrived.is_empty() } else { open.remove(&*metadata.reply_to_message_id) };
            if !is_open {
                continue;
            }
            let content = match head.error {
                Some(EngineError { code, reason }) => {
                    Err(Trouble::Reported { code, reason: crate::npy::shown(&reason) })
                }
                None => match self.receive(metadata.run_id, &tree, limits, is_given_up) {
                    Ok(found) => Ok(found),
                    Err(error @ (Error::Transport { .. } | Error::Untrusted { .. })) => return Err(error),
                    Err(error) => Err(Trouble::Unreadable(error)),
                },
            };
            arrived.push(Arrived { metadata, content });
        }
        Ok(arrived)
    }

    /// The complete content of a message.
    fn receive(
        &self,
        run_id: u64,
        tree: &ObjectTree,
        limits: Limits,
        is_given_up: &mut dyn FnMut() -> bool,
    ) -> Result<(Objects, ObjectId)> {
        let mut objects = Objects::default();
        for id in identifiers(tree, limits)? {
            objects.receive(&id, self.pull_object(run_id, &id, is_given_up)?, limits)?;
        }
        let message = ObjectId::parse(&tree.object_id)?;
        let request =
            ConfirmMessageReceivedRequest { node: self.node(), run_id, message_object_id: message.as_str().to_owned() };
        let _: Empty =
            self.connection.call("confirming a message", &self.path("confirm-message-received"), &request)?;
        let object = objects.get(&message, "Message")?;
        let [root] = object.children.as_slice() else {
            let problem = format!("it has {} contents, expected 1", object.children.len());
            return Err(Error::malformed("a message", problem));
        };
        Ok((objects, root.clone()))
    }

    /// An object, which may still be in transit.
    fn pull_object(&self, run_id: u64, id: &ObjectId, is_given_up: &mut dyn FnMut() -> bool) -> Result<Vec<u8>> {
        let request = PullObjectRequest { node: self.node(), run_id, object_id: id.as_str().to_owned() };
        let started = Instant::now();
        loop {
            let answer: PullObjectResponse =
                self.connection.call("receiving an object", &self.path("pull-object"), &request)?;
            if answer.object_available {
                return Ok(answer.object_content);
            }
            // A task that was stopped has lost its sender.
            if !answer.object_found || started.elapsed() > ON_ITS_WAY || is_given_up() {
                let problem = format!("its object {id} never arrived at the engine");
                return Err(Error::malformed("a message", problem));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The time limit for objects of a message after its head: a SuperNode delivers them once it has them all.
const ON_ITS_WAY: Duration = Duration::from_secs(120);
