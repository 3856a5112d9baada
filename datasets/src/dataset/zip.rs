//! Reads one entry of a zip archive in memory: stored or deflated, without encryption, sizes below four gigabytes.

use std::io::Read;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::error::DatasetError;

const END_OF_DIRECTORY: &[u8] = b"PK\x05\x06";
const DIRECTORY_ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// Bytes of these three records before what has no fixed length.
const END_LENGTH: usize = 22;
const ENTRY_LENGTH: usize = 46;
const LOCAL_LENGTH: usize = 30;

const STORED: usize = 0;
const DEFLATED: usize = 8;

/// The content of the entry called `path`; `archive` is what errors call the archive.
///
/// Sizes come from the directory at the end of the archive: those before the content may be left open. The cyclic
/// redundancy check of the entry is verified.
pub(crate) fn entry(archive: &str, bytes: &[u8], path: &str) -> Result<Vec<u8>, DatasetError> {
    let wrong = |found: String, expected: &str| DatasetError::Format {
        dataset: archive.into(),
        found,
        expected: expected.into(),
    };
    let cut = || wrong(format!("{} bytes", bytes.len()), "a whole zip archive");
    // The end record is followed by a comment of at most 65,535 bytes, so that it is looked for from behind.
    let end = (0..bytes.len().saturating_sub(END_LENGTH - 1)).rev().take(END_LENGTH + usize::from(u16::MAX));
    let end = end.into_iter().find(|&at| bytes[at..].starts_with(END_OF_DIRECTORY)).ok_or_else(cut)?;
    let (count, mut at) = (number(bytes, end + 10, 2).ok_or_else(cut)?, number(bytes, end + 16, 4).ok_or_else(cut)?);
    let mut names = Vec::new();
    for _ in 0..count {
        let record = bytes.get(at..).filter(|rest| rest.starts_with(DIRECTORY_ENTRY)).ok_or_else(cut)?;
        let field = |place, length| number(record, place, length).ok_or_else(cut);
        let (name, extra, comment) = (field(28, 2)?, field(30, 2)?, field(32, 2)?);
        let found = record.get(ENTRY_LENGTH..ENTRY_LENGTH + name).ok_or_else(cut)?;
        if found == path.as_bytes() {
            let (method, check, packed, size) = (field(10, 2)?, field(16, 4)?, field(20, 4)?, field(24, 4)?);
            let local = field(42, 4)?;
            let header = bytes.get(local..).filter(|rest| rest.starts_with(LOCAL_HEADER)).ok_or_else(cut)?;
            let skip = |place| number(header, place, 2).ok_or_else(cut);
            let start = LOCAL_LENGTH + skip(26)? + skip(28)?;
            let content = header.get(start..).and_then(|rest| rest.get(..packed)).ok_or_else(cut)?;
            let content = inflate(content, method, size)
                .map_err(|found| wrong(format!("{found} for entry {path}"), "stored or deflated bytes"))?;
            let mut crc = Crc::new();
            crc.update(&content);
            if content.len() != size || crc.sum() as usize != check {
                let found = format!("{} bytes with check {:08x} for entry {path}", content.len(), crc.sum());
                return Err(wrong(found, &format!("{size} bytes with check {check:08x}")));
            }
            return Ok(content);
        }
        names.push(String::from_utf8_lossy(found).into_owned());
        at += ENTRY_LENGTH + name + extra + comment;
    }
    Err(wrong(format!("the entries {}", names.join(", ")), &format!("an entry {path}")))
}

fn inflate(packed: &[u8], method: usize, size: usize) -> Result<Vec<u8>, String> {
    match method {
        STORED => Ok(packed.to_vec()),
        DEFLATED => {
            let mut content = Vec::new();
            // One byte more than announced shows a wrong size without unpacking without end.
            let read = DeflateDecoder::new(packed).take(size as u64 + 1).read_to_end(&mut content);
            read.map(|_| content).map_err(|error| error.to_string())
        }
        other => Err(format!("compression method {other}")),
    }
}

/// The little-endian number of `length` bytes at `place`, or nothing where the bytes end before.
fn number(bytes: &[u8], place: usize, length: usize) -> Option<usize> {
    let digits = bytes.get(place..)?.get(..length)?;
    Some(digits.iter().rev().fold(0, |number, digit| number << 8 | usize::from(*digit)))
}
