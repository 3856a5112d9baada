//! Downloads one file, checks it and moves it into place, so that a path either holds the right bytes or nothing.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::dataset::{Dataset, DatasetError};

/// The time limit for a connection, and then for the first byte of an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Downloads `dataset` from `address` to `destination` and returns its content.
///
/// The bytes go to a file beside it, which is renamed once complete; bytes with another checksum are not written. In
/// every case no other file changes and the temporary one is removed.
pub(crate) fn download(dataset: &Dataset, address: &str, destination: &Path) -> Result<Vec<u8>, DatasetError> {
    let bytes = dataset.unpack(fetch(dataset, address)?)?;
    let content = dataset.open(&bytes, destination, address)?;
    write_atomically(destination, &bytes)?;
    Ok(content)
}

/// Reads the answer of an address, undoing only the compression of the transport.
fn fetch(dataset: &Dataset, address: &str) -> Result<Vec<u8>, DatasetError> {
    let failed = |found: String| DatasetError::Download {
        dataset: dataset.name.into(),
        address: address.into(),
        found,
        staged: dataset.staged.into(),
    };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(PATIENCE))
        .timeout_recv_response(Some(PATIENCE))
        .build()
        .into();
    let mut answer = agent.get(address).call().map_err(|error| failed(error.to_string()))?;
    let bar = progress(dataset.name, answer.body().content_length());
    let mut reader = bar.wrap_read(answer.body_mut().as_reader());
    let mut bytes = Vec::new();
    // What was read before an error stays in `bytes`.
    if let Err(error) = reader.read_to_end(&mut bytes) {
        return Err(failed(format!("{error} after {} bytes", bytes.len())));
    }
    bar.finish_and_clear();
    Ok(bytes)
}

/// A progress bar on the terminal's error stream; silent without a terminal.
fn progress(name: &'static str, length: Option<u64>) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new).with_message(name);
    match ProgressStyle::with_template("{msg} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Writes `bytes` beside `destination` and renames the result onto it.
fn write_atomically(destination: &Path, bytes: &[u8]) -> Result<(), DatasetError> {
    let failed = |operation, path: &Path| {
        let path = path.to_path_buf();
        move |source| DatasetError::File { operation, path, source }
    };
    if let Some(folder) = destination.parent() {
        fs::create_dir_all(folder).map_err(failed("making the folder", folder))?;
    }
    let partial = Partial::beside(destination);
    let mut file = File::create_new(&partial.0).map_err(failed("creating", &partial.0))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed("writing", &partial.0))?;
    fs::rename(&partial.0, destination).map_err(failed("moving the finished download to", destination))
}

/// The path of a temporary file, removed on drop.
struct Partial(PathBuf);

impl Partial {
    /// A name unique to this process and call, so that two downloads of one file never share bytes.
    fn beside(destination: &Path) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let mut name = destination.as_os_str().to_owned();
        name.push(format!(".{}-{call}.partial", std::process::id()));
        Self(name.into())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Usually the rename has moved the file, and nothing is left to remove.
        let _ = fs::remove_file(&self.0);
    }
}
