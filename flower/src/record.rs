//! Packs a Partita message into the engine's records and reads it back, with every field checked.

use std::collections::BTreeMap;

use partita_inference::{DataType, MESSAGE_VERSION, Message, Record};
use prost::Message as _;
use serde::{Deserialize, Serialize};

use crate::envelope::{Envelope, LAYOUT_VERSION};
use crate::error::{Error, Result};
use crate::npy::{data_type_name, npy_decode, npy_encode, shown};
use crate::object::{Object, ObjectId, Objects};
use crate::signature::Signature;
use crate::wire::{
    ConfigRecord, ConfigRecordItem, ConfigRecordValue, ConfigValue, MetricRecord, MetricRecordItem, MetricRecordValue,
    MetricValue,
};

/// The most bytes of a chunk of an array.
const CHUNK: usize = 5 * 1024 * 1024;

/// The description of an array's chunks in an `Array`.
#[derive(Debug, Serialize, Deserialize)]
struct ArrayBody {
    dtype: String,
    shape: Vec<u64>,
    stype: String,
    arraychunk_ids: Vec<usize>,
}

/// Adds a message with its envelope to `objects` as a `RecordDict`; returns its identifier.
///
/// The records are `partita` (the envelope), `settings` and `numbers` (configurations), `arrays`, and `metrics` with
/// `num-examples`, which strategies written for Flower require.
///
/// # Errors
/// [`Error::Malformed`] if two records of the message have one name.
pub fn pack(message: &Message, envelope: &Envelope, objects: &mut Objects) -> Result<ObjectId> {
    let mut records: BTreeMap<&str, ObjectId> = BTreeMap::new();
    records.insert("partita", objects.add(&config(head(message, envelope))));
    let settings = message.settings.iter().map(|(name, value)| (name.clone(), ConfigValue::Text(value.clone())));
    records.insert("settings", objects.add(&config(settings.collect())));
    let numbers = message.numbers.iter().map(|(name, value)| (name.clone(), ConfigValue::Double(*value)));
    records.insert("numbers", objects.add(&config(numbers.collect())));
    let mut arrays: BTreeMap<&str, ObjectId> = BTreeMap::new();
    for record in &message.records {
        let id = array(record, objects)?;
        if arrays.insert(&record.name, id).is_some() {
            return Err(Error::malformed("a message to be sent", format!("it has two records `{}`", record.name)));
        }
    }
    records.insert("arrays", objects.add(&dictionary("ArrayRecord", &arrays)?));
    let one = MetricRecordValue { value: Some(MetricValue::Signed(1)) };
    let metrics = MetricRecord { items: vec![MetricRecordItem { key: "num-examples".into(), value: Some(one) }] };
    records.insert("metrics", objects.add(&Object::new("MetricRecord", Vec::new(), metrics.encode_to_vec())));
    Ok(objects.add(&dictionary("RecordDict", &records)?))
}

/// Reads a message with its envelope from the `RecordDict` `id`.
///
/// # Errors
/// [`Error::Malformed`] for anything that [`pack`] cannot write.
pub fn unpack(objects: &Objects, id: &ObjectId) -> Result<(Message, Envelope)> {
    let mut unfolding = Unfolding::of(objects);
    let records = references(&mut unfolding, id, "RecordDict")?;
    let record = |name: &'static str| {
        let found = records.get(name);
        found.ok_or_else(|| Error::malformed("a message", format!("its record `{name}` is missing")))
    };
    let (kind, envelope) = read_head(values(&mut unfolding, record("partita")?)?)?;
    let mut message = Message::new(&kind);
    for (name, value) in values(&mut unfolding, record("settings")?)? {
        let ConfigValue::Text(text) = value else { return Err(not_a(&name, "word")) };
        message.settings.push((name, text));
    }
    for (name, value) in values(&mut unfolding, record("numbers")?)? {
        let ConfigValue::Double(number) = value else { return Err(not_a(&name, "number")) };
        message.numbers.push((name, number));
    }
    let arrays = references(&mut unfolding, record("arrays")?, "ArrayRecord")?;
    for (name, array) in arrays {
        message.records.push(read_array(&name, &mut unfolding, &array)?);
    }
    Ok((message, envelope))
}

/// The objects of a message, and how much has been read of them: names may refer to one object many times.
struct Unfolding<'a> {
    objects: &'a Objects,
    read: usize,
    most: usize,
}

impl<'a> Unfolding<'a> {
    fn of(objects: &'a Objects) -> Self {
        Self { objects, read: 0, most: MOST_REPEATED * objects.size().max(CHUNK) }
    }

    /// The object `id`, which must have this type; each reading counts against the whole message.
    fn get(&mut self, id: &ObjectId, kind: &str) -> Result<Object> {
        self.read = self.read.saturating_add(self.objects.encoded(id)?.len());
        if self.read > self.most {
            let problem = format!(
                "its objects repeat until they are far larger than the message: found more than {} bytes of {}, \
                 expected at most {MOST_REPEATED} times as many",
                self.most,
                self.objects.size()
            );
            return Err(Error::malformed("a message", problem));
        }
        self.objects.get(id, kind)
    }
}

fn head(message: &Message, envelope: &Envelope) -> Vec<(String, ConfigValue)> {
    let Envelope { run, began, start, round, attempt, accepted, kept, identity, silo, signature } = envelope;
    let text = |name: &str, value: &str| (name.to_owned(), ConfigValue::Text(value.to_owned()));
    let word = |name: &str, value: u64| (name.to_owned(), ConfigValue::Unsigned(value));
    let mut words = vec![
        word("layout", LAYOUT_VERSION),
        word("version", u64::from(message.version)),
        text("kind", &message.kind),
        text("run", run),
        word("began", *began),
        word("start", *start),
        word("round", *round),
        word("attempt", *attempt),
        word("accepted", *accepted),
        word("kept", *kept),
        text("identity", identity),
        text("silo", silo),
    ];
    if let Some(Signature { at, seal, bytes }) = signature {
        words.extend([word("signed", *at), text("seal", seal), text("signature", bytes)]);
    }
    words
}

fn read_head(values: BTreeMap<String, ConfigValue>) -> Result<(String, Envelope)> {
    let word = |name: &str| match values.get(name) {
        Some(ConfigValue::Unsigned(value)) => Ok(*value),
        _ => Err(not_a(name, "whole number")),
    };
    let text = |name: &str| match values.get(name) {
        Some(ConfigValue::Text(value)) => Ok(value.clone()),
        _ => Err(not_a(name, "word")),
    };
    for (name, expected) in [("layout", LAYOUT_VERSION), ("version", u64::from(MESSAGE_VERSION))] {
        if word(name)? != expected {
            return Err(Error::Unwelcome {
                what: "the version of a message",
                found: format!("{name} {}", word(name)?),
                expected: format!("{name} {expected}"),
                remedy: "Install the same version of Partita at all parties.",
            });
        }
    }
    let envelope = Envelope {
        run: text("run")?,
        began: word("began")?,
        start: word("start")?,
        round: word("round")?,
        attempt: word("attempt")?,
        accepted: word("accepted")?,
        kept: word("kept")?,
        identity: text("identity")?,
        silo: text("silo")?,
        signature: match values.contains_key("signature") {
            true => Some(Signature { at: word("signed")?, seal: text("seal")?, bytes: text("signature")? }),
            false => None,
        },
    };
    Ok((text("kind")?, envelope))
}

fn not_a(name: &str, expected: &str) -> Error {
    Error::malformed("a message", format!("its entry `{}` is not a {expected}", shown(name)))
}

fn config(values: Vec<(String, ConfigValue)>) -> Object {
    let item = |(key, value)| ConfigRecordItem { key, value: Some(ConfigRecordValue { value: Some(value) }) };
    let record = ConfigRecord { items: values.into_iter().map(item).collect() };
    Object::new("ConfigRecord", Vec::new(), record.encode_to_vec())
}

fn values(objects: &mut Unfolding<'_>, id: &ObjectId) -> Result<BTreeMap<String, ConfigValue>> {
    let body = objects.get(id, "ConfigRecord")?.body;
    let record =
        ConfigRecord::decode(body.as_slice()).map_err(|error| Error::malformed("a record", error.to_string()))?;
    let mut values = BTreeMap::new();
    for item in record.items {
        let value = item.value.and_then(|value| value.value).ok_or_else(|| not_a(&item.key, "word or number"))?;
        if values.insert(item.key.clone(), value).is_some() {
            return Err(Error::malformed("a record", format!("`{}` is there twice", shown(&item.key))));
        }
    }
    Ok(values)
}

/// An object whose body maps names to its children.
fn dictionary(kind: &str, entries: &BTreeMap<&str, ObjectId>) -> Result<Object> {
    let mut children: Vec<ObjectId> = Vec::new();
    for id in entries.values() {
        if !children.contains(id) {
            children.push(id.clone());
        }
    }
    let names: BTreeMap<&str, &str> = entries.iter().map(|(name, id)| (*name, id.as_str())).collect();
    let body = serde_json::to_vec(&names).map_err(|error| Error::malformed("a dictionary", error.to_string()))?;
    Ok(Object::new(kind, children, body))
}

fn references(objects: &mut Unfolding<'_>, id: &ObjectId, kind: &str) -> Result<BTreeMap<String, ObjectId>> {
    let object = objects.get(id, kind)?;
    let names: BTreeMap<String, String> = serde_json::from_slice(&object.body)
        .map_err(|error| Error::malformed("a dictionary of records", error.to_string()))?;
    names
        .into_iter()
        .map(|(name, id)| {
            let id = ObjectId::parse(&id)?;
            if object.children.contains(&id) {
                return Ok((name, id));
            }
            Err(Error::malformed("a dictionary of records", format!("`{}` is none of its children", shown(&name))))
        })
        .collect()
}

fn array(record: &Record, objects: &mut Objects) -> Result<ObjectId> {
    let file = npy_encode(record);
    let mut children: Vec<ObjectId> = Vec::new();
    let mut places = Vec::new();
    for chunk in file.chunks(CHUNK) {
        let id = objects.add(&Object::new("ArrayChunk", Vec::new(), chunk.to_vec()));
        let known = children.iter().position(|child| *child == id);
        places.push(known.unwrap_or(children.len()));
        if known.is_none() {
            children.push(id);
        }
    }
    let body = ArrayBody {
        dtype: data_type_name(record.data_type).into(),
        shape: record.shape.clone(),
        stype: "numpy.ndarray".into(),
        arraychunk_ids: places,
    };
    let body = serde_json::to_vec(&body).map_err(|error| Error::malformed("an array", error.to_string()))?;
    Ok(objects.add(&Object::new("Array", children, body)))
}

fn read_array(name: &str, objects: &mut Unfolding<'_>, id: &ObjectId) -> Result<Record> {
    let wrong = |problem: String| Error::malformed("an array", format!("`{}`: {problem}", shown(name)));
    let object = objects.get(id, "Array")?;
    let body: ArrayBody = serde_json::from_slice(&object.body).map_err(|error| wrong(error.to_string()))?;
    let mut file = Vec::new();
    for place in &body.arraychunk_ids {
        let child = object.children.get(*place).ok_or_else(|| wrong(format!("it has no chunk {place}")))?;
        file.extend_from_slice(&objects.get(child, "ArrayChunk")?.body);
    }
    let record = npy_decode(name, &file)?;
    let known = [DataType::F64, DataType::U64].map(data_type_name).contains(&body.dtype.as_str());
    if known
        && body.dtype == data_type_name(record.data_type)
        && body.shape == record.shape
        && body.stype == "numpy.ndarray"
    {
        return Ok(record);
    }
    Err(wrong(format!(
        "it says {} {:?}, its file {:?} {:?}",
        shown(&body.dtype),
        body.shape,
        record.data_type,
        record.shape
    )))
}

/// The largest ratio of what a message unfolds to and its bytes: a chunk that is repeated is sent once.
const MOST_REPEATED: usize = 64;
