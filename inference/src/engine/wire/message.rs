//! Gives the one form in which parties speak: named arrays, numbers and settings, versioned and counted in bytes.

use std::sync::Arc;

use rayon::prelude::*;

use crate::engine::PART;
use crate::engine::error::{Error, Result};

/// The version of the message format; both sides must have the same.
pub const MESSAGE_VERSION: u16 = 1;

/// The most that a message may count to: a trillion steps are more than any run takes, and sums of such counts do not
/// overflow.
pub(crate) const LARGEST_COUNT: u64 = 1 << 40;

const MAGIC: [u8; 4] = *b"PTTA";

/// The type of a record's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DataType {
    /// 64-bit floating point, little endian.
    F64 = 1,
    /// 64-bit unsigned, little endian.
    U64 = 2,
}

/// One named array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// The type of its numbers.
    pub data_type: DataType,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The numbers, row-major, little endian. Copies of a message share them.
    pub bytes: Arc<Vec<u8>>,
}

/// A message between the coordinator and a silo.
///
/// # Laws
/// `Message::decode(&message.encode()) == message`, and `message.size() == message.encode().len()`; bytes cut short,
/// lengthened or of another version are refused. `laws::message` checks it.
///
/// # Example
/// ```
/// use partita_inference::Message;
/// let message = Message::new("hello").floats("x", &[1.0, 2.0]);
/// assert_eq!(message.size(), message.encode().len());
/// assert_eq!(Message::decode(&message.encode())?.get_floats("x")?, [1.0, 2.0]);
/// # Ok::<(), partita_inference::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The version of the format.
    pub version: u16,
    /// What the message is: `algorithm.verb`.
    pub kind: String,
    /// Named arrays.
    pub records: Vec<Record>,
    /// Named numbers.
    pub numbers: Vec<(String, f64)>,
    /// Named words.
    pub settings: Vec<(String, String)>,
}

impl Message {
    /// An empty message of this kind.
    #[must_use]
    pub fn new(kind: &str) -> Self {
        Self {
            version: MESSAGE_VERSION,
            kind: kind.to_owned(),
            records: Vec::new(),
            numbers: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Adds a vector of floats.
    #[must_use]
    pub fn floats(self, name: &str, values: &[f64]) -> Self {
        let shape = [values.len()];
        self.array(name, values, &shape)
    }

    /// Adds an array of floats.
    #[must_use]
    pub fn array(mut self, name: &str, values: &[f64], shape: &[usize]) -> Self {
        let (shape, bytes) = (shape.iter().map(|&length| length as u64).collect(), encoded(values).into());
        self.records.push(Record { name: name.to_owned(), data_type: DataType::F64, shape, bytes });
        self
    }

    /// Adds one unsigned number, exactly.
    #[must_use]
    pub fn word(mut self, name: &str, value: u64) -> Self {
        let bytes = value.to_le_bytes().to_vec().into();
        self.records.push(Record { name: name.to_owned(), data_type: DataType::U64, shape: vec![1], bytes });
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, name: &str, value: f64) -> Self {
        self.numbers.push((name.to_owned(), value));
        self
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a record of another message, whose numbers both then hold once.
    pub(crate) fn share(mut self, shared: &Record) -> Self {
        self.records.push(shared.clone());
        self
    }

    /// Whether there is a record of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.records.iter().any(|record| record.name == name)
    }

    /// The floats of a record.
    ///
    /// # Errors
    /// [`Error::Message`] if there is none of that name and type.
    pub fn get_floats(&self, name: &str) -> Result<Vec<f64>> {
        let record = self.record(name, DataType::F64)?;
        Ok(decoded(&record.bytes))
    }

    /// The floats of a record that must have this many.
    ///
    /// # Errors
    /// [`Error::Message`] if there is none of that name, type and length.
    pub fn expect_floats(&self, name: &str, length: usize) -> Result<Vec<f64>> {
        Ok(decoded(&self.record_of(name, length)?.bytes))
    }

    /// A record of floats that must have this many.
    pub(crate) fn record_of(&self, name: &str, length: usize) -> Result<&Record> {
        let record = self.record(name, DataType::F64)?;
        let found = record.bytes.len() / 8;
        if found == length {
            return Ok(record);
        }
        Err(self.malformed(format!("record `{name}` has {found} numbers, expected {length}")))
    }

    /// The unsigned number of a record.
    ///
    /// # Errors
    /// [`Error::Message`] if there is none of that name and type.
    pub fn get_word(&self, name: &str) -> Result<u64> {
        let record = self.record(name, DataType::U64)?;
        match record.bytes.as_slice() {
            bytes if bytes.len() == 8 => Ok(u64::from_le_bytes(eight(bytes))),
            _ => Err(self.malformed(format!("record `{name}` is not one number"))),
        }
    }

    /// The unsigned number of a record that counts something, of which there are at most `most`.
    ///
    /// # Errors
    /// [`Error::Message`] if there is none of that name and type, or it is larger: whoever obeyed it would not come to
    /// an end.
    ///
    /// # Example
    /// ```
    /// use partita_inference::Message;
    /// let message = Message::new("example").word("draws", 65);
    /// assert_eq!(message.get_count("draws", 1 << 40)?, 65);
    /// assert!(message.get_count("draws", 64).is_err());
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    pub fn get_count(&self, name: &str, most: u64) -> Result<u64> {
        match self.get_word(name)? {
            count if count <= most => Ok(count),
            count => Err(self.malformed(format!("`{name}` is {count}, expected at most {most}"))),
        }
    }

    /// The record of floats with the largest Euclidean norm, and that norm; not a number is larger than any number.
    ///
    /// # Example
    /// ```
    /// use partita_inference::Message;
    /// let message = Message::new("example").floats("small", &[1.0]).floats("large", &[3.0, 4.0]);
    /// assert_eq!(message.largest_norm(), Some(("large", 5.0)));
    /// ```
    #[must_use]
    pub fn largest_norm(&self) -> Option<(&str, f64)> {
        let floats = self.records.iter().filter(|record| record.data_type == DataType::F64);
        let norm = |record: &Record| decoded(&record.bytes).iter().map(|value| value * value).sum::<f64>().sqrt();
        floats.map(|record| (record.name.as_str(), norm(record))).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
    }

    /// A number.
    ///
    /// # Errors
    /// [`Error::Message`] if there is none of that name.
    pub fn get_number(&self, name: &str) -> Result<f64> {
        let found = self.numbers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value).ok_or_else(|| self.malformed(format!("number `{name}` is missing")))
    }

    /// A setting.
    ///
    /// # Errors
    /// [`Error::Message`] if there is none of that name.
    pub fn get_setting(&self, name: &str) -> Result<&str> {
        let found = self.settings.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| self.malformed(format!("setting `{name}` is missing")))
    }

    /// All records of floats by their names.
    pub(crate) fn named_floats(&self) -> Vec<(String, Vec<f64>)> {
        let floats = self.records.iter().filter(|record| record.data_type == DataType::F64);
        floats.map(|record| (record.name.clone(), decoded(&record.bytes))).collect()
    }

    /// Whether the squares of the floats of every record have a finite sum: all floats are finite then. It copies none.
    pub(crate) fn has_finite_squares(&self) -> bool {
        let mut floats = self.records.iter().filter(|record| record.data_type == DataType::F64);
        floats.all(|record| square(&record.bytes).is_finite())
    }

    fn record(&self, name: &str, data_type: DataType) -> Result<&Record> {
        self.records
            .iter()
            .find(|record| record.name == name && record.data_type == data_type)
            .ok_or_else(|| self.malformed(format!("record `{name}` of type {data_type:?} is missing")))
    }

    fn malformed(&self, problem: String) -> Error {
        Error::Message { kind: self.kind.clone(), problem }
    }

    /// The length of the encoded message in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let text = |value: &str| 4 + value.len();
        let records: usize =
            self.records.iter().map(|r| text(&r.name) + 1 + 4 + 8 * r.shape.len() + 8 + r.bytes.len()).sum();
        let numbers: usize = self.numbers.iter().map(|(name, _)| text(name) + 8).sum();
        let settings: usize = self.settings.iter().map(|(name, value)| text(name) + text(value)).sum();
        4 + 2 + text(&self.kind) + 3 * 4 + records + numbers + settings
    }

    /// The same with its parts in the order of their names, as they come from an engine: a signature of it, or an account of
    /// it, does not depend on the way that it took.
    ///
    /// # Example
    /// ```
    /// use partita_inference::Message;
    /// let one = Message::new("hello").number("b", 1.0).number("a", 2.0);
    /// let other = Message::new("hello").number("a", 2.0).number("b", 1.0);
    /// assert!(one.encode() != other.encode() && one.ordered().encode() == other.ordered().encode());
    /// ```
    #[must_use]
    pub fn ordered(&self) -> Self {
        let mut message = self.clone();
        message.records.sort_by(|a, b| a.name.cmp(&b.name));
        message.numbers.sort_by(|a, b| a.0.cmp(&b.0));
        message.settings.sort();
        message
    }

    /// The message as bytes.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "counts and name lengths are far below 2^32")]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        let text = |out: &mut Vec<u8>, value: &str| {
            out.extend((value.len() as u32).to_le_bytes());
            out.extend(value.as_bytes());
        };
        out.extend(MAGIC);
        out.extend(self.version.to_le_bytes());
        text(&mut out, &self.kind);
        out.extend((self.records.len() as u32).to_le_bytes());
        for record in &self.records {
            text(&mut out, &record.name);
            out.push(record.data_type as u8);
            out.extend((record.shape.len() as u32).to_le_bytes());
            record.shape.iter().for_each(|length| out.extend(length.to_le_bytes()));
            out.extend((record.bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(&record.bytes);
        }
        out.extend((self.numbers.len() as u32).to_le_bytes());
        for (name, value) in &self.numbers {
            text(&mut out, name);
            out.extend(value.to_le_bytes());
        }
        out.extend((self.settings.len() as u32).to_le_bytes());
        for (name, value) in &self.settings {
            text(&mut out, name);
            text(&mut out, value);
        }
        out
    }

    /// Reads a message from bytes, trusting nothing in them.
    ///
    /// # Errors
    /// [`Error::Message`] for another version, truncated or inconsistent bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader { rest: bytes };
        if reader.take(4)? != MAGIC {
            return Err(broken("it does not begin as a Partita message"));
        }
        let version = u16::from_le_bytes([reader.byte()?, reader.byte()?]);
        if version != MESSAGE_VERSION {
            return Err(broken(&format!("it has version {version}, this program speaks version {MESSAGE_VERSION}")));
        }
        let mut message = Self { version, ..Self::new(&reader.text()?) };
        for _ in 0..reader.count()? {
            let name = reader.text()?;
            let data_type = match reader.byte()? {
                1 => DataType::F64,
                2 => DataType::U64,
                other => return Err(broken(&format!("record `{name}` has unknown type {other}"))),
            };
            let shape = (0..reader.count()?).map(|_| reader.long()).collect::<Result<Vec<u64>>>()?;
            let length = reader.long()?;
            let cells = shape.iter().try_fold(8_u64, |product, &side| product.checked_mul(side));
            if cells != Some(length) {
                return Err(broken(&format!("record `{name}` has {length} bytes for shape {shape:?}")));
            }
            let bytes = reader.take(usize::try_from(length).unwrap_or(usize::MAX))?.to_vec().into();
            message.records.push(Record { name, data_type, shape, bytes });
        }
        for _ in 0..reader.count()? {
            let name = reader.text()?;
            message.numbers.push((name, f64::from_bits(reader.long()?)));
        }
        for _ in 0..reader.count()? {
            let name = reader.text()?;
            message.settings.push((name, reader.text()?));
        }
        if reader.rest.is_empty() { Ok(message) } else { Err(broken("there are bytes after its end")) }
    }
}

/// Numbers as bytes of a record.
pub(crate) fn encoded(numbers: &[f64]) -> Vec<u8> {
    // Long vectors are written once, and not filled with zeros before.
    let bytes: Vec<[u8; 8]> = match numbers.len() > PART {
        true => numbers.par_iter().with_min_len(PART).map(|number| number.to_le_bytes()).collect(),
        false => numbers.iter().map(|number| number.to_le_bytes()).collect(),
    };
    bytes.into_flattened()
}

/// The numbers of a record of floats.
pub(crate) fn decoded(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

/// The sum of the squares of numbers, in eight running parts.
fn square(bytes: &[u8]) -> f64 {
    let (blocks, rest) = bytes.as_chunks::<64>();
    let mut lanes = [0.0; 8];
    blocks.iter().for_each(|block| add_squares(&mut lanes, block.as_chunks::<8>().0));
    add_squares(&mut lanes, rest.as_chunks::<8>().0);
    lanes.iter().sum()
}

fn add_squares(lanes: &mut [f64; 8], numbers: &[[u8; 8]]) {
    for (lane, bytes) in lanes.iter_mut().zip(numbers) {
        let number = f64::from_le_bytes(*bytes);
        *lane += number * number;
    }
}

fn broken(problem: &str) -> Error {
    Error::Message { kind: "(bytes)".into(), problem: problem.to_owned() }
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[..8]);
    out
}

/// Reads encoded parts off the front of a slice.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.rest.len() {
            return Err(broken(&format!("it ends {} bytes too early", count - self.rest.len())));
        }
        let (own, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(own)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn count(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn long(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(eight(self.take(8)?)))
    }

    fn text(&mut self) -> Result<String> {
        let length = self.count()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| broken("a name is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float_that_is_not_finite_is_noticed() {
        for length in [1, 8, 9, 37] {
            for place in 0..length {
                let mut numbers = vec![-1.5; length];
                let of = |numbers: &[f64]| Message::new("test").word("count", u64::MAX).floats("x", numbers);
                assert!(of(&numbers).has_finite_squares());
                for found in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    numbers[place] = found;
                    assert!(!of(&numbers).has_finite_squares(), "{found} at {place} of {length}");
                }
            }
        }
    }
}
