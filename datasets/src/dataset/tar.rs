//! Reads one file of a tar archive in memory: the plain format, with names of at most a hundred bytes.

use super::error::DatasetError;

/// Headers and contents begin at multiples of this many bytes.
const BLOCK: usize = 512;

/// The content of the file whose path ends in `name`; `archive` is what errors call the archive.
pub(crate) fn file<'a>(archive: &str, bytes: &'a [u8], name: &str) -> Result<&'a [u8], DatasetError> {
    let wrong = |found: String, expected: String| DatasetError::Format { dataset: archive.into(), found, expected };
    let (mut at, mut names) = (0, Vec::new());
    // Two blocks of zeros end an archive.
    while let Some(header) = bytes.get(at..).and_then(|rest| rest.get(..BLOCK)).filter(|header| header[0] != 0) {
        let path = String::from_utf8_lossy(until_zero(&header[..100])).into_owned();
        let digits = String::from_utf8_lossy(until_zero(&header[124..136])).trim().to_owned();
        let Ok(size) = usize::from_str_radix(&digits, 8) else {
            return Err(wrong(format!("size {digits:?} of {path}"), "an octal number".into()));
        };
        if path.rsplit('/').next() == Some(name) {
            let content = bytes.get(at + BLOCK..).and_then(|rest| rest.get(..size));
            let found = || format!("{} bytes", bytes.len());
            return content.ok_or_else(|| wrong(found(), format!("{size} bytes of {path} after its header")));
        }
        names.push(path);
        at = at.saturating_add(BLOCK).saturating_add(size.div_ceil(BLOCK).saturating_mul(BLOCK));
    }
    Err(wrong(format!("the files {}", names.join(", ")), format!("a file {name}")))
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
