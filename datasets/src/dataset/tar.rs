//! Finds one file of a tar archive in memory, by the last part of its path.

use tar::Archive;

use super::error::DatasetError;

/// The content of the file whose path ends in `name`; `archive` is the name of the archive in errors.
pub(crate) fn file<'a>(archive: &str, bytes: &'a [u8], name: &str) -> Result<&'a [u8], DatasetError> {
    let wrong = |found: String, expected: String| DatasetError::format(archive, found, expected);
    let mut names: Vec<String> = Vec::new();
    let broken = |error: std::io::Error, names: &[String]| {
        wrong(format!("{error} after the files {}", names.join(", ")), format!("a file {name}"))
    };
    for entry in Archive::new(bytes).entries().map_err(|error| broken(error, &[]))? {
        let entry = entry.map_err(|error| broken(error, &names))?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if path.rsplit('/').next() == Some(name) {
            let (start, size) = (entry.raw_file_position(), entry.size());
            let place = |number: u64| usize::try_from(number).ok();
            let content = place(start).zip(place(size)).and_then(|(start, size)| bytes.get(start..)?.get(..size));
            let found = || format!("{} bytes", bytes.len());
            return content.ok_or_else(|| wrong(found(), format!("{size} bytes of {path} after its header")));
        }
        names.push(path);
    }
    Err(wrong(format!("the files {}", names.join(", ")), format!("a file {name}")))
}
