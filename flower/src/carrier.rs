//! Moves messages with their objects between a party and the engine, for a task or for a node.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use partita_inference::Message;
use prost::Message as _;

use crate::connection::Connection;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::frame::Content;
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

/// A message on its way to a party.
#[derive(Debug)]
pub(crate) struct Parcel<'a> {
    pub(crate) metadata: Metadata,
    pub(crate) message: Cow<'a, Message>,
    pub(crate) envelope: Envelope,
}

/// A message as the engine takes it.
#[derive(Debug)]
pub(crate) struct Packed {
    /// It names the message.
    pub(crate) head: Head,
    id: ObjectId,
    pub(crate) objects: Objects,
}

impl Packed {
    /// The message of this head, from the bytes of its objects.
    pub(crate) fn of(head: Head, objects: Vec<Vec<u8>>) -> Result<Self> {
        let id = ObjectId::parse(head.metadata.as_ref().map_or("", |metadata| &metadata.message_id))?;
        let mut own = Self { head, id, objects: Objects::default() };
        for bytes in objects {
            own.objects.add_bytes(bytes);
        }
        Ok(own)
    }

    /// An answer that says why there is none, so that the engine need not wait for another.
    pub(crate) fn error(metadata: Metadata, reason: &str) -> Result<Self> {
        let error = Some(EngineError { code: PARTY_FAILED, reason: reason.to_owned() });
        // The engine refuses a message without time left, and would wait for another.
        let metadata = Metadata { ttl: metadata.ttl.max(1.0), ..metadata };
        let head = Head { metadata: Some(metadata), content: None, error };
        let object = Object::new("Message", Vec::new(), head.encode_to_vec()).encode();
        Self::of(named(head, &ObjectId::of(&object)), vec![object])
    }
}

impl Parcel<'_> {
    pub(crate) fn pack(self) -> Result<Packed> {
        let Self { metadata, message, envelope } = self;
        let mut objects = Objects::default();
        let id = Content::of(&message, &mut objects).pack(&envelope, &metadata.encode_to_vec(), &mut objects)?;
        Ok(Packed { head: named(head(metadata), &id), id, objects })
    }
}

/// The head of a message with content.
fn head(metadata: Metadata) -> Head {
    Head { metadata: Some(metadata), content: Some(Empty {}), error: None }
}

/// A head that names its message.
fn named(mut head: Head, id: &ObjectId) -> Head {
    if let Some(metadata) = &mut head.metadata {
        id.as_str().clone_into(&mut metadata.message_id);
    }
    head
}

/// A message that the engine has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: ObjectId,
    /// The bytes sent for it.
    pub(crate) bytes: u64,
}

/// What the engine says to the heads of messages.
struct Announced {
    /// The objects that it does not have yet.
    missing: BTreeSet<String>,
    session: String,
    /// The bytes of the heads.
    bytes: u64,
    /// The identifiers of the messages in their order, each empty where it was not stored; none where it does not say.
    stored: Option<Vec<String>>,
}

const PUSHING: &str = "sending a message";

/// The most messages of a wave: their receivers ask for objects as soon as they see the heads, and wait for all of the wave.
const WAVE: usize = 8;

/// A wave ends with the message that brings it to so many bytes: its sender holds them all.
const BYTES_OF_A_WAVE: usize = 16 * 1024 * 1024;

/// The pause between two looks for an object that is on its way, at first and after a long wait.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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

    /// Sends a message; `taken` is called once the engine has the head, with the session of its objects.
    pub(crate) fn push_packed(&self, packed: &Packed, taken: &mut dyn FnMut(&str) -> Result<()>) -> Result<Sent> {
        let heads = vec![(packed.head.clone(), packed.id.clone())];
        let mut sent = self.push_heads(heads, &packed.objects, taken)?;
        sent.pop().flatten().ok_or_else(|| Error::Refused {
            operation: PUSHING,
            status: 200,
            detail: "it was not stored: its receiver is not connected, or its time had passed".into(),
            remedy: "Check that the silo is connected.",
        })
    }

    /// Sends the objects that the engine lacks of a message whose head it took; false if it has them all, or has sent them on.
    pub(crate) fn complete(&self, packed: &Packed, session: &str) -> Result<bool> {
        let run_id = packed.head.metadata.as_ref().map_or(0, |metadata| metadata.run_id);
        if !self.object(run_id, &packed.id)?.object_found {
            return Ok(false);
        }
        let mut missing = BTreeSet::new();
        for id in packed.objects.ids() {
            let there = self.object(run_id, id)?;
            if there.object_found && !there.object_available {
                missing.insert(id.as_str().to_owned());
            }
        }
        self.push_objects(run_id, &missing, session, &packed.objects)?;
        Ok(!missing.is_empty())
    }

    /// Sends messages, a wave of them in one call and then their objects; `None` for each that the engine did not take,
    /// such as one to a node that is gone. What several share is sent once a wave.
    pub(crate) fn push_all(&self, parcels: &[Parcel<'_>]) -> Result<Vec<Option<Sent>>> {
        let (mut sent, mut parcels) = (Vec::with_capacity(parcels.len()), parcels.iter().peekable());
        while parcels.peek().is_some() {
            let (mut objects, mut heads) = (Objects::default(), Vec::with_capacity(WAVE));
            let mut last: Option<(&Message, Content)> = None;
            while heads.len() < WAVE
                && objects.size() < BYTES_OF_A_WAVE
                && let Some(Parcel { metadata, message, envelope }) = parcels.next()
            {
                // What all silos are asked is packed once.
                let content = match last.take() {
                    Some((packed, content)) if *packed == **message => content,
                    _ => Content::of(message, &mut objects),
                };
                // Two messages of equal content to two nodes are two objects.
                let id = content.pack(envelope, &metadata.encode_to_vec(), &mut objects)?;
                heads.push((head(metadata.clone()), id));
                last = Some((message, content));
            }
            sent.extend(self.push_heads(heads, &objects, &mut |_| Ok(()))?);
        }
        Ok(sent)
    }

    fn push_heads(
        &self,
        heads: Vec<(Head, ObjectId)>,
        objects: &Objects,
        taken: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<Vec<Option<Sent>>> {
        let run_id = heads.first().and_then(|(head, _)| head.metadata.as_ref()).map_or(0, |metadata| metadata.run_id);
        let (mut with_names, mut trees, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for (head, id) in heads {
            trees.push(objects.tree(&id)?);
            with_names.push(named(head, &id));
            sent.push(Some(Sent { id, bytes: 0 }));
        }
        let Announced { missing, session, bytes, stored } = self.announce(with_names, trees)?;
        for (place, slot) in sent.iter_mut().enumerate() {
            let is_stored = stored.as_ref().is_none_or(|stored| {
                stored.get(place).is_some_and(|id| slot.as_ref().is_some_and(|sent| sent.id.as_str() == id))
            });
            if !is_stored {
                *slot = None;
            }
        }
        taken(&session)?;
        let total = bytes + self.push_objects(run_id, &missing, &session, objects)?;
        // What several messages share counts with the first of them.
        if let Some(first) = sent.iter_mut().flatten().next() {
            first.bytes = total;
        }
        Ok(sent)
    }

    /// Sends objects of messages whose heads were taken; returns the bytes sent.
    fn push_objects(&self, run_id: u64, missing: &BTreeSet<String>, session: &str, objects: &Objects) -> Result<u64> {
        let mut total = 0;
        for object in missing {
            let request = PushObjectRequest {
                node: self.node(),
                run_id,
                object_id: object.clone(),
                object_content: objects.encoded(&ObjectId::parse(object)?)?.to_vec(),
                session_id: session.to_owned(),
            };
            total += request.encoded_len() as u64;
            let stored: PushObjectResponse =
                self.connection.call("sending an object", &self.path("push-object"), &request)?;
            if !stored.stored {
                let detail = format!("object {object} was not stored");
                let remedy = "The engine no longer knows the message; it is sent again.";
                return Err(Error::Refused { operation: "sending an object", status: 200, detail, remedy });
            }
        }
        Ok(total)
    }

    /// Sends the heads of messages, and the trees of their objects.
    fn announce(&self, messages_list: Vec<Head>, message_object_trees: Vec<ObjectTree>) -> Result<Announced> {
        let path = self.path("push-messages");
        match self.api {
            Api::Runtime => {
                let request = PushAppMessagesRequest { messages_list, message_object_trees };
                let answer: PushAppMessagesResponse = self.connection.call(PUSHING, &path, &request)?;
                let (missing, stored) = (answer.objects_to_push.into_iter().collect(), Some(answer.message_ids));
                Ok(Announced { missing, session: answer.session_id, bytes: request.encoded_len() as u64, stored })
            }
            Api::Fleet => {
                let request = PushMessagesRequest { node: self.node(), messages_list, message_object_trees };
                let answer: PushMessagesResponse = self.connection.call(PUSHING, &path, &request)?;
                let missing = answer.objects_to_push.into_iter().collect();
                Ok(Announced { missing, session: answer.session_id, bytes: request.encoded_len() as u64, stored: None })
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
        let mut pause = PAUSE;
        loop {
            match transit.advance(self)? {
                Step::Over(content) => return Ok(Some(Arrived { metadata: transit.metadata, content })),
                Step::Received => pause = PAUSE,
                Step::Waits if is_given_up() => {
                    let error = Error::malformed("a message", "it never came whole");
                    return Ok(Some(Arrived { metadata: transit.metadata, content: Err(Trouble::Unreadable(error)) }));
                }
                Step::Waits => {
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
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
