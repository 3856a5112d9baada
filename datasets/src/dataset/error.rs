//! Names every way in which public data can fail to be found, downloaded or read, with what to try.

use std::io;
use std::path::PathBuf;

use partita_core::DataError;

use super::{CACHE_FOLDER, STAGED_FOLDER};

/// The error of finding, downloading or reading a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// No data set has this name.
    #[error(
        "data set `{found}` is unknown, expected one of: {expected}. Use one of these names, or read your own file with the csv crate."
    )]
    Unknown {
        /// The name asked for.
        found: String,
        /// The known names.
        expected: String,
    },
    /// There is no folder to keep a download in.
    #[error(
        "data set `{dataset}`: found no cache folder, expected one of the variables {CACHE_FOLDER}, XDG_CACHE_HOME or HOME. Set {CACHE_FOLDER} to a folder that may be written."
    )]
    NoCache {
        /// The data set.
        dataset: String,
    },
    /// A file has another checksum than expected.
    #[error(
        "data set `{dataset}` from {origin}: found checksum {found}, expected {expected}. The file is damaged or another version: remove it and ask again, or get it anew: {remedy}"
    )]
    Checksum {
        /// The data set.
        dataset: String,
        /// The file or the address of the bytes.
        origin: String,
        /// The checksum of these bytes.
        found: String,
        /// The checksum of the right file.
        expected: String,
        /// How to get the right file.
        remedy: String,
    },
    /// A file that cannot be downloaded is not in place.
    #[error("data set `{dataset}`: found no file {} in the folder named by {STAGED_FOLDER} or in the cache, expected it there. {remedy}", staged.display())]
    NotStaged {
        /// The data set.
        dataset: String,
        /// The path searched.
        staged: PathBuf,
        /// How to get or make it, or what to use instead.
        remedy: String,
    },
    /// The canonical address did not answer with the file.
    #[error("data set `{dataset}`: downloading {address} found {found}, expected the file. Check the connection, or put the file in place as {} in the folder named by {STAGED_FOLDER}.", staged.display())]
    Download {
        /// The data set.
        dataset: String,
        /// The address.
        address: String,
        /// The failure.
        found: String,
        /// The path searched for a staged copy.
        staged: PathBuf,
    },
    /// A file or folder could not be read or written.
    #[error("{operation} {}: found {source}, expected it to succeed. Check that the path exists and its permissions, or set {CACHE_FOLDER} to another folder.", path.display())]
    File {
        /// The operation.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file is malformed.
    #[error(
        "{dataset}: found {found}, expected {expected}. Fetch the file anew, or report the problem with its version."
    )]
    Format {
        /// The data set.
        dataset: String,
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// A line of a text file is malformed.
    #[error(
        "reading {}, line {line}: found {found}, expected {expected}. Correct the line; none is skipped silently.",
        file.display()
    )]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The value found.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// A table of text could not be read, split or standardised.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The index of an image or a document is out of range.
    #[error("{operation}: found index {index}, expected one below {count}. Count from 0.")]
    Index {
        /// The operation.
        operation: &'static str,
        /// The index.
        index: usize,
        /// The number found.
        count: usize,
    },
}

impl DatasetError {
    /// A malformed file: its data set, what was found, and what was expected.
    pub(crate) fn format(dataset: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Format { dataset: dataset.into(), found: found.into(), expected: expected.into() }
    }
}
