//! Reads and writes NumPy's array files, the format of arrays in the engine.

use partita_inference::{DataType, Record};

use crate::error::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// The file of an array: version 1.0, little endian, row-major.
///
/// # Example
/// ```
/// use partita_flower::{npy_decode, npy_encode};
/// use partita_inference::Message;
/// let record = Message::new("example").floats("x", &[1.0, 2.5]).records.remove(0);
/// let bytes = npy_encode(&record);
/// assert_eq!(bytes.len(), 128 + 16);
/// assert_eq!(npy_decode("x", &bytes)?, record);
/// # Ok::<(), partita_flower::Error>(())
/// ```
#[must_use]
pub fn npy_encode(record: &Record) -> Vec<u8> {
    let shape: String = match record.shape.as_slice() {
        [] => String::new(),
        [one] => format!("{one},"),
        more => more.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut head =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", descriptor(record.data_type));
    // The data start at a multiple of 64 bytes; the header ends in a line break.
    let unpadded = MAGIC.len() + 2 + head.len() + 1;
    head.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    head.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend(u16::try_from(head.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(head.as_bytes());
    bytes.extend(&record.bytes);
    bytes
}

/// The name of a type of numbers in the engine's arrays.
pub(crate) fn data_type_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::F64 => "float64",
        DataType::U64 => "uint64",
    }
}

fn descriptor(data_type: DataType) -> &'static str {
    match data_type {
        DataType::F64 => "<f8",
        DataType::U64 => "<u8",
    }
}

/// Reads such a file as the record `name`; every field is checked.
///
/// # Errors
/// [`Error::Malformed`] for another version, byte order, order of axes or type, or if the number of bytes disagrees
/// with the shape.
pub fn npy_decode(name: &str, bytes: &[u8]) -> Result<Record> {
    let wrong = |problem: String| Error::malformed("an array", format!("`{}`: {problem}", shown(name)));
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(wrong("it is not a NumPy file of version 1.0".into()));
    };
    let Some((length, rest)) = rest.split_first_chunk::<2>() else {
        return Err(wrong("it ends within its head".into()));
    };
    let length = usize::from(u16::from_le_bytes(*length));
    if rest.len() < length {
        return Err(wrong("it ends within its head".into()));
    }
    let (head, data) = rest.split_at(length);
    let head = std::str::from_utf8(head).map_err(|_| wrong("its head is not UTF-8".into()))?;
    let data_type = [DataType::F64, DataType::U64]
        .into_iter()
        .find(|known| head.contains(&format!("'descr': '{}'", descriptor(*known))))
        .ok_or_else(|| wrong(format!("its numbers are neither <f8 nor <u8: {}", shown(head))))?;
    if !head.contains("'fortran_order': False") {
        return Err(wrong("it is not row-major".into()));
    }
    let shape = head.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')')).map(|(shape, _)| shape);
    let sides = shape.unwrap_or("?").split(',').map(str::trim).filter(|side| !side.is_empty());
    let shape: Vec<u64> = sides
        .map(|side| side.parse().map_err(|_| wrong(format!("its shape is not one of numbers: {}", shown(head)))))
        .collect::<Result<_>>()?;
    let expected = shape.iter().try_fold(8_u64, |product, side| product.checked_mul(*side));
    if expected != u64::try_from(data.len()).ok() {
        return Err(wrong(format!("{} bytes follow for the shape {shape:?}", data.len())));
    }
    Ok(Record { name: name.to_owned(), data_type, shape, bytes: data.to_vec() })
}

/// The beginning of a peer's text, for errors.
pub(crate) fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(60).collect()
}
