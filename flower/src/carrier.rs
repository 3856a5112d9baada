//! Moves messages with their objects between a party and the engine, for a task or for a node.

use std::collections::BTreeSet;
use std::time::Duration;

use prost::Message as _;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::object::{Limits, Object, ObjectId, Objects};
use crate::transit::{Arrived, Step, Transit, Trouble};
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

    /// The messages whose heads have come: the replies to `ids`, at most one to each, or, for none, one that this party
    /// is asked.
    pub(crate) fn heads(&self, ids: &[ObjectId], limits: Limits) -> Result<Vec<Transit>> {
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
        let mut found: Vec<Transit> = Vec::new();
        for (head, tree) in heads.into_iter().zip(trees) {
            let metadata = head.metadata.ok_or_else(|| Error::malformed("a message", "it has no metadata"))?;
            // A reply to no open request is ignored: its content stays at the engine.
            let is_open = if ids.is_empty() { found.is_empty() } else { open.remove(&*metadata.reply_to_message_id) };
            if is_open {
                found.push(Transit::new(metadata, head.error, &tree, limits));
            }
        }
        Ok(found)
    }

    /// A message that this party is asked, once it is whole. While objects of it are in transit, `is_given_up` is called
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

    /// Asks for an object, which may still be in transit.
    pub(crate) fn object(&self, run_id: u64, id: &ObjectId) -> Result<PullObjectResponse> {
        let request = PullObjectRequest { node: self.node(), run_id, object_id: id.as_str().to_owned() };
        self.connection.call("receiving an object", &self.path("pull-object"), &request)
    }

    /// Tells the engine that a message has come whole.
    pub(crate) fn confirm(&self, run_id: u64, message: &ObjectId) -> Result<()> {
        let message_object_id = message.as_str().to_owned();
        let request = ConfirmMessageReceivedRequest { node: self.node(), run_id, message_object_id };
        let path = self.path("confirm-message-received");
        let _: Empty = self.connection.call("confirming a message", &path, &request)?;
        Ok(())
    }
}
