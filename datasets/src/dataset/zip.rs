//! Reads one entry of a zip archive in memory: stored or deflated, no longer than the archive announces.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::error::DatasetError;

/// The content of the entry called `path`; `archive` is the name of the archive in errors.
///
/// Sizes come from the directory at the end of the archive, since those before the content may be unset. The cyclic
/// redundancy check of the entry is verified.
pub(crate) fn entry(archive: &str, bytes: &[u8], path: &str) -> Result<Vec<u8>, DatasetError> {
    let wrong = |found: String, expected: String| DatasetError::format(archive, found, expected);
    let mut zip = ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| wrong(format!("{} bytes ({error})", bytes.len()), "a whole zip archive".into()))?;
    let Some(index) = zip.index_for_name(path) else {
        let names: Vec<_> = zip.file_names().flatten().collect();
        return Err(wrong(format!("the entries {}", names.join(", ")), format!("an entry {path}")));
    };
    let damaged = |error: String| wrong(format!("{error} for entry {path}"), "stored or deflated bytes".into());
    let entry = zip.by_index(index).map_err(|error| damaged(error.to_string()))?;
    let size = entry.size();
    let mut content = Vec::new();
    // One byte more than announced shows a wrong size without unpacking an unbounded entry.
    entry.take(size.saturating_add(1)).read_to_end(&mut content).map_err(|error| damaged(error.to_string()))?;
    if content.len() as u64 != size {
        return Err(wrong(format!("{} bytes for entry {path}", content.len()), format!("{size} bytes")));
    }
    Ok(content)
}
