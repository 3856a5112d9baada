//! Gives the engine's content-addressed objects: bytes with a head that names their children, identified by their hash.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::wire::ObjectTree;

/// The SHA-256 of an object's bytes, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(String);

impl ObjectId {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(hexadecimal(&Sha256::digest(bytes)))
    }

    /// Reads an identifier, which has 64 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn parse(text: &str) -> Result<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(is_digit) {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::malformed(
            "an object's identifier",
            format!("it has {} characters, expected 64 digits 0-f", text.len()),
        ))
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As many bytes from twice as many hexadecimal digits; none for anything else.
pub(crate) fn from_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (place, slot) in bytes.iter_mut().enumerate() {
        *slot = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

/// An object in parts: its type, its children and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The name of its type, such as `Array`.
    pub kind: String,
    /// Its children, in order.
    pub children: Vec<ObjectId>,
    /// Its own content.
    pub body: Vec<u8>,
}

/// The longest head that is accepted: room for the children of four gigabytes in chunks.
const LONGEST_HEAD: usize = 65 * 1024;

impl Object {
    /// An object of this type.
    #[must_use]
    pub fn new(kind: &str, children: Vec<ObjectId>, body: Vec<u8>) -> Self {
        Self { kind: kind.to_owned(), children, body }
    }

    /// Its bytes: `type children length`, a zero byte, the body.
    ///
    /// # Example
    /// ```
    /// use partita_flower::{Object, ObjectId};
    /// let bytes = Object::new("ArrayChunk", Vec::new(), b"abc".to_vec()).encode();
    /// assert_eq!(bytes, b"ArrayChunk  3\0abc");
    /// assert!(ObjectId::of(&bytes).as_str().starts_with("8f37"));
    /// ```
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encoded(&self.kind, &self.children, &self.body)
    }

    /// Reads an object's bytes; every field is checked.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Parts { kind, children, body } = Parts::of(bytes)?;
        Ok(Self { kind: kind.to_owned(), children, body: body.to_vec() })
    }
}

/// The bytes of an object with these parts.
fn encoded(kind: &str, children: &[ObjectId], body: &[u8]) -> Vec<u8> {
    let children: Vec<&str> = children.iter().map(ObjectId::as_str).collect();
    let head = format!("{kind} {} {}\0", children.join(","), body.len()).into_bytes();
    [&head, body].concat()
}

/// The parts of an object whose body stays where it is.
pub(crate) struct Parts<'a> {
    kind: &'a str,
    pub(crate) children: Vec<ObjectId>,
    pub(crate) body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self> {
        let wrong = |problem: String| Error::malformed("an object", problem);
        let end = bytes.iter().take(LONGEST_HEAD).position(|byte| *byte == 0);
        let Some(end) = end else { return Err(wrong("its head has no end".into())) };
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| wrong("its head is not UTF-8".into()))?;
        let words: Vec<&str> = head.split(' ').collect();
        let [kind, children, length] = words.as_slice() else {
            return Err(wrong(format!("its head has {} words, expected 3", words.len())));
        };
        let body = &bytes[end + 1..];
        if length.parse() != Ok(body.len()) {
            return Err(wrong(format!("its head announces `{length}` bytes, {} follow", body.len())));
        }
        let children = match *children {
            "" => Vec::new(),
            some => some.split(',').map(ObjectId::parse).collect::<Result<_>>()?,
        };
        Ok(Self { kind, children, body })
    }
}

/// The largest message of a peer that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of all objects of a message.
    pub bytes: usize,
    /// The most objects of a message.
    pub objects: usize,
}

impl Default for Limits {
    /// A gigabyte in ten thousand objects.
    fn default() -> Self {
        Self { bytes: 1 << 30, objects: 10_000 }
    }
}

/// The objects of a message, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Objects {
    bytes: BTreeMap<ObjectId, Vec<u8>>,
    size: usize,
}

impl Objects {
    /// Adds an object; returns its identifier.
    pub fn add(&mut self, object: &Object) -> ObjectId {
        self.add_bytes(object.encode())
    }

    /// Adds an object of no children.
    pub(crate) fn add_leaf(&mut self, kind: &str, body: &[u8]) -> ObjectId {
        self.add_bytes(encoded(kind, &[], body))
    }

    pub(crate) fn add_bytes(&mut self, bytes: Vec<u8>) -> ObjectId {
        let id = ObjectId::of(&bytes);
        if !self.bytes.contains_key(&id) {
            self.size += bytes.len();
            self.bytes.insert(id.clone(), bytes);
        }
        id
    }

    /// Adds bytes to which a peer gives this identifier.
    ///
    /// # Errors
    /// [`Error::Malformed`] if their identifier differs, or they are more than `limits` allows.
    pub fn receive(&mut self, id: &ObjectId, bytes: Vec<u8>, limits: Limits) -> Result<()> {
        let found = ObjectId::of(&bytes);
        if found != *id {
            return Err(Error::malformed("an object", format!("it was announced as {id}, its bytes hash to {found}")));
        }
        if self.size + bytes.len() > limits.bytes || self.bytes.len() >= limits.objects {
            let problem = format!(
                "it has more than {} bytes or {} objects, the most that this party reads",
                limits.bytes, limits.objects
            );
            return Err(Error::malformed("a message", problem));
        }
        self.size += bytes.len();
        self.bytes.insert(id.clone(), bytes);
        Ok(())
    }

    /// The object `id`, which must have this type.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is absent, of another type, or not an object.
    pub fn get(&self, id: &ObjectId, kind: &str) -> Result<Object> {
        let Parts { kind, children, body } = self.parts(id, kind)?;
        Ok(Object { kind: kind.to_owned(), children, body: body.to_vec() })
    }

    /// The parts of the object `id`, as [`Objects::get`] gives them.
    pub(crate) fn parts(&self, id: &ObjectId, kind: &str) -> Result<Parts<'_>> {
        let parts = Parts::of(self.encoded(id)?)?;
        if parts.kind == kind {
            return Ok(parts);
        }
        Err(Error::malformed("an object", format!("it is a `{}`, expected `{kind}`", crate::error::shown(parts.kind))))
    }

    /// An object's bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there is none of that identifier.
    pub fn encoded(&self, id: &ObjectId) -> Result<&[u8]> {
        let found = self.bytes.get(id).map(Vec::as_slice);
        found.ok_or_else(|| Error::malformed("a message", format!("its object {id} is missing")))
    }

    /// The bytes of every object.
    pub(crate) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.values().map(Vec::as_slice)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.bytes.keys()
    }

    /// Whether an object is present.
    #[must_use]
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.bytes.contains_key(id)
    }

    /// The number of bytes of all objects.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The tree under an object, in the form that the engine expects.
    pub(crate) fn tree(&self, id: &ObjectId) -> Result<ObjectTree> {
        let parts = Parts::of(self.encoded(id)?)?;
        let mut children: Vec<ObjectTree> = Vec::new();
        for child in &parts.children {
            // A child named twice is announced once.
            if !children.iter().any(|known| known.object_id == child.as_str()) {
                children.push(self.tree(child)?);
            }
        }
        Ok(ObjectTree { object_id: id.as_str().to_owned(), children })
    }
}

/// The deepest tree of an engine's message: message, dictionary, record, array, chunk.
const DEEPEST: usize = 8;

/// The identifiers of a tree, each once, children before parents.
pub(crate) fn identifiers(tree: &ObjectTree, limits: Limits) -> Result<Vec<ObjectId>> {
    fn visit(tree: &ObjectTree, depth: usize, limits: Limits, found: &mut Vec<ObjectId>) -> Result<()> {
        if depth > DEEPEST || found.len() > limits.objects {
            return Err(Error::malformed("a message", "its tree of objects is too deep or too wide"));
        }
        for child in &tree.children {
            visit(child, depth + 1, limits, found)?;
        }
        found.push(ObjectId::parse(&tree.object_id)?);
        Ok(())
    }
    let mut found = Vec::new();
    visit(tree, 0, limits, &mut found)?;
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|id| seen.insert(id.clone()));
    Ok(found)
}
