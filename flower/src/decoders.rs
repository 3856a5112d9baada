//! Lists every decoder of a peer's bytes, and of what a silo that was killed has left, for the fuzzer and for the tests over its corpus.

use std::collections::BTreeMap;

use partita_inference::Message;
use prost::Message as _;

use crate::frame::unpack;
use crate::object::{Limits, Object, ObjectId, Objects, identifiers};
use crate::seal::SealKey;
use crate::unfinished::is_readable;
use crate::wire::{
    AcquireTaskResponse, GetNodesResponse, PullAppMessagesResponse, PullObjectResponse, PullTaskInputResponse,
    PushAppMessagesResponse, StartRunResponse,
};

/// A decoder of bytes from outside: its name, and a function that returns whether it accepted the bytes.
pub type Decoder = (&'static str, fn(&[u8]) -> bool);

/// The decoders: for any bytes, none may panic, hang, or allocate more memory than a small multiple of its input.
///
/// `content` and `sealed` read a message in objects: each starts with its length in three bytes, little endian, and the last
/// is the root. `sealed` opens it with the key of the corpus, if it is sealed. `unfinished` reads the files of a silo that was killed.
///
/// # Example
/// ```
/// use partita_flower::{DECODERS, Object};
/// let (name, decode) = DECODERS[0];
/// assert_eq!(name, "object");
/// assert!(decode(&Object::new("ArrayChunk", Vec::new(), b"abc".to_vec()).encode()));
/// assert!(!decode(b"abc"));
/// ```
pub const DECODERS: [Decoder; 7] = [
    ("object", |bytes| Object::decode(bytes).is_ok()),
    ("message", |bytes| Message::decode(bytes).is_ok()),
    ("content", |bytes| content(bytes).is_some_and(|(objects, root)| unpack(&objects, &root, LIMITS).is_ok())),
    ("sealed", |bytes| {
        let read = |(objects, root)| SealKey::of_the_corpus().read(objects, &root, LIMITS, &BTreeMap::new());
        content(bytes).is_some_and(|found| read(found).is_ok())
    }),
    ("pulled", pulled),
    ("answers", answers),
    ("unfinished", is_readable),
];

/// The limits for the fuzzer's objects together: far more than it sends.
const LIMITS: Limits = Limits { bytes: 1 << 24, objects: 1_000 };

/// Objects, and which is the root.
fn content(mut bytes: &[u8]) -> Option<(Objects, ObjectId)> {
    let mut objects = Objects::default();
    let mut root = None;
    while let Some((length, rest)) = bytes.split_first_chunk::<3>() {
        let length = usize::try_from(u32::from_le_bytes([length[0], length[1], length[2], 0])).ok()?;
        let (object, rest) = rest.split_at_checked(length)?;
        let id = ObjectId::of(object);
        objects.receive(&id, object.to_vec(), LIMITS).ok()?;
        (root, bytes) = (Some(id), rest);
    }
    Some((objects, root?))
}

/// The heads of messages, and the trees of the objects they announce.
fn pulled(bytes: &[u8]) -> bool {
    let Ok(answer) = PullAppMessagesResponse::decode(bytes) else { return false };
    answer.message_object_trees.iter().all(|tree| identifiers(tree, LIMITS).is_ok())
}

/// The other answers of an engine.
fn answers(bytes: &[u8]) -> bool {
    [
        AcquireTaskResponse::decode(bytes).is_ok(),
        PullTaskInputResponse::decode(bytes).is_ok(),
        PushAppMessagesResponse::decode(bytes).is_ok(),
        PullObjectResponse::decode(bytes).is_ok(),
        GetNodesResponse::decode(bytes).is_ok(),
        StartRunResponse::decode(bytes).is_ok(),
    ]
    .contains(&true)
}
