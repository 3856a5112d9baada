//! Packs a Partita message with its envelope into one object of the engine, and what is large into chunks beside it.

use std::collections::BTreeSet;

use partita_inference::Message;

use crate::envelope::{Envelope, LAYOUT_VERSION};
use crate::error::{Error, Result, shown};
use crate::object::{Limits, Object, ObjectId, Objects, Parts};

/// How a frame begins.
const MAGIC: &[u8] = b"partita message ";
/// The type of a frame's object: the engine knows it, and reads its hash and its children alone.
const KIND: &str = "Message";
/// The type of a chunk's object.
const CHUNK_KIND: &str = "ArrayChunk";
/// The longest content that stands in the frame itself. A longer one goes beside it, and requests to many silos share it.
const INLINE: usize = 64 * 1024;
/// The most bytes of a chunk.
const CHUNK: usize = 16 * 1024 * 1024;
/// The largest ratio of what a message unfolds to and its bytes: a chunk that is repeated is sent once.
const MOST_REPEATED: usize = 64;

/// Adds a message with its envelope to `objects` as one object; returns its identifier.
///
/// The object's body is the layout's number, `stamp`, the envelope as JSON, the places of the chunks among the object's
/// children, and what [`Message::encode`] gives, if that is short. `stamp` tells messages of equal content apart, and is
/// not read.
///
/// # Errors
/// [`Error::Malformed`] for an envelope that cannot be written.
///
/// # Example
/// ```
/// use partita_flower::{Envelope, Limits, Objects, pack, unpack};
/// use partita_inference::Message;
/// let (message, mut objects) = (Message::new("example").number("x", 1.5), Objects::default());
/// let root = pack(&message, &Envelope::default(), b"to silo 7", &mut objects)?;
/// assert_eq!(unpack(&objects, &root, Limits::default())?.0, message);
/// # Ok::<(), partita_flower::Error>(())
/// ```
pub fn pack(message: &Message, envelope: &Envelope, stamp: &[u8], objects: &mut Objects) -> Result<ObjectId> {
    Content::of(message, objects).pack(envelope, stamp, objects)
}

/// A message's content as objects, which messages of equal content to many silos share.
pub(crate) struct Content {
    children: Vec<ObjectId>,
    /// The place of each chunk among the children.
    places: Vec<usize>,
    /// What is too short for a chunk.
    inline: Vec<u8>,
}

impl Content {
    /// Adds the chunks of a message to `objects`.
    pub(crate) fn of(message: &Message, objects: &mut Objects) -> Self {
        let content = message.encode();
        let (mut children, mut places): (Vec<ObjectId>, Vec<usize>) = (Vec::new(), Vec::new());
        if content.len() <= INLINE {
            return Self { children, places, inline: content };
        }
        for chunk in content.chunks(CHUNK) {
            let id = objects.add_leaf(CHUNK_KIND, chunk);
            let known = children.iter().position(|child| *child == id);
            places.push(known.unwrap_or(children.len()));
            if known.is_none() {
                children.push(id);
            }
        }
        Self { children, places, inline: Vec::new() }
    }

    /// Adds a message of this content with its envelope, as [`pack`] does.
    pub(crate) fn pack(&self, envelope: &Envelope, stamp: &[u8], objects: &mut Objects) -> Result<ObjectId> {
        let mut body = [MAGIC, LAYOUT_VERSION.to_le_bytes().as_slice()].concat();
        let written = serde_json::to_vec(envelope);
        let written = written.map_err(|error| Error::malformed("an envelope", error.to_string()))?;
        for part in [stamp, &written] {
            body.extend(count(part.len())?);
            body.extend_from_slice(part);
        }
        body.extend(count(self.places.len())?);
        for place in &self.places {
            body.extend(count(*place)?);
        }
        body.extend_from_slice(&self.inline);
        Ok(objects.add(&Object::new(KIND, self.children.clone(), body)))
    }
}

/// Reads the message `id` of `objects` with its envelope; every field is checked, and what the message unfolds to has
/// no more bytes than `limits` allows: it is not signed yet.
///
/// # Errors
/// [`Error::Unwelcome`] for a message of another layout; [`Error::Malformed`] for anything that [`pack`] cannot write,
/// and for a message beyond the limits.
pub fn unpack(objects: &Objects, id: &ObjectId, limits: Limits) -> Result<(Message, Envelope)> {
    let Parts { children, body: mut rest, .. } = objects.parts(id, KIND)?;
    let layout = match take(&mut rest, MAGIC.len()) {
        Ok(MAGIC) => long(&mut rest)?,
        _ => 2,
    };
    let remedy = "Install the same version of Partita at all parties.";
    Error::unless(layout == LAYOUT_VERSION, "the layout of a message", layout, LAYOUT_VERSION, remedy)?;
    part(&mut rest)?;
    let envelope: Envelope = serde_json::from_slice(part(&mut rest)?)
        .map_err(|error| Error::malformed("an envelope", shown(&error.to_string())))?;
    let chunks = short(&mut rest)?;
    let (mut unfolded, most) = (Vec::new(), (MOST_REPEATED * objects.size()).min(limits.bytes));
    for _ in 0..chunks {
        let place = short(&mut rest)?;
        let child = children.get(place);
        let child = child.ok_or_else(|| Error::malformed("a message", format!("it has no chunk {place}")))?;
        let chunk = objects.parts(child, CHUNK_KIND)?.body;
        if unfolded.len() + chunk.len() > most {
            let problem = format!(
                "its chunks repeat until they are far larger than the message: found more than {most} bytes of {}, \
                 expected at most {MOST_REPEATED} times as many, and at most the {} that this party reads",
                objects.size(),
                limits.bytes
            );
            return Err(Error::malformed("a message", problem));
        }
        unfolded.extend_from_slice(chunk);
    }
    let message = match (chunks, rest) {
        (0, content) => Message::decode(content)?,
        (_, []) => Message::decode(&unfolded)?,
        _ => return Err(Error::malformed("a message", "there are bytes after its chunks")),
    };
    let mut names = BTreeSet::new();
    match message.records.iter().find(|record| !names.insert(&record.name)) {
        None => Ok((message, envelope)),
        Some(twice) => Err(Error::malformed("a message", format!("it has two records `{}`", shown(&twice.name)))),
    }
}

fn count(length: usize) -> Result<[u8; 4]> {
    let short = u32::try_from(length);
    short.map(u32::to_le_bytes).map_err(|_| Error::malformed("a message to be sent", "it has more than 4 GB in a part"))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    let short = || Error::malformed("a message", "it ends too early");
    let (own, after) = rest.split_at_checked(length).ok_or_else(short)?;
    *rest = after;
    Ok(own)
}

fn short(rest: &mut &[u8]) -> Result<usize> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(take(rest, 4)?);
    Ok(usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX))
}

fn long(rest: &mut &[u8]) -> Result<u64> {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(take(rest, 8)?);
    Ok(u64::from_le_bytes(bytes))
}

/// What stands after its length.
fn part<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = short(rest)?;
    take(rest, length)
}
