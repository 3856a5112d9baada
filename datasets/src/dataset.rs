//! Finds a data set by name: in the folder of staged files, in the cache, or at its canonical address.

mod error;
mod registry;
pub(crate) mod tar;
pub(crate) mod zip;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::download::download;

pub use error::DatasetError;
pub use registry::datasets;

/// Names the folder of files put in place beforehand; it is read first and never written.
const STAGED_FOLDER: &str = "PARTITA_DATA";

/// Names the folder that downloads are kept in.
const CACHE_FOLDER: &str = "PARTITA_CACHE";

/// A public data file: its name, its location and its checksum.
///
/// A path that ends in `.gz` is that of a compressed file. [`datasets`] lists the data sets known by name; a value made
/// by hand serves for any other public file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dataset {
    /// The name to ask for.
    pub name: &'static str,
    /// Its path in the cache folder, where it is kept as delivered.
    pub file: &'static str,
    /// Its path in the folder of staged files.
    pub staged: &'static str,
    /// Its source.
    pub source: Source,
    /// Its checksum.
    pub checksum: Checksum,
}

/// The source of a data file that is neither staged nor cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// This address delivers it.
    Address(&'static str),
    /// This address delivers a zip archive that contains it. The path names the entry; for nested archives, one entry
    /// after the other.
    Zip(&'static str, &'static [&'static str]),
    /// No address delivers it; these sentences say how to get it, or what to use instead.
    Prepared(&'static str),
}

/// A checksum in lower-case hexadecimal digits, and the bytes it covers; SHA-256 unless another algorithm is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Of the content, compressed or not.
    Content(&'static str),
    /// Of the file as its address delivers it, compressed if its path ends in `.gz`.
    Delivered(&'static str),
    /// As [`Checksum::Delivered`], but of MD5: for files without a published SHA-256. It detects damage, not forgery.
    DeliveredMd5(&'static str),
}

/// The data set called `name`.
///
/// # Errors
/// [`DatasetError::Unknown`] for a name that is not in [`datasets`].
///
/// # Example
/// ```
/// let epilepsy = partita_datasets::dataset("epil")?;
/// assert_eq!(epilepsy.file, "mixed_models/epil.csv");
/// # Ok::<(), partita_datasets::DatasetError>(())
/// ```
pub fn dataset(name: &str) -> Result<Dataset, DatasetError> {
    datasets().iter().find(|dataset| dataset.name == name).copied().ok_or_else(|| DatasetError::Unknown {
        found: name.into(),
        expected: datasets().iter().map(|dataset| dataset.name).collect::<Vec<_>>().join(", "),
    })
}

impl Dataset {
    /// The path of the file: staged, cached, or downloaded into the cache.
    ///
    /// The folder named by `PARTITA_DATA` comes first, then the cache folder: `PARTITA_CACHE`, or
    /// `XDG_CACHE_HOME/partita`, or `HOME/.cache/partita`. Every file found is checked against [`Dataset::checksum`].
    ///
    /// # Errors
    /// [`DatasetError::Checksum`] if the checksum differs, [`DatasetError::Download`] if the download fails,
    /// [`DatasetError::NotStaged`] if there is no address to download from, [`DatasetError::NoCache`] and
    /// [`DatasetError::File`] if the file cannot be kept.
    pub fn locate(&self) -> Result<PathBuf, DatasetError> {
        self.find().map(|(path, _)| path)
    }

    /// As [`Dataset::locate`], in the given folders instead of those of the environment.
    ///
    /// # Errors
    /// As [`Dataset::locate`]; [`DatasetError::NoCache`] if a download is needed and `cache` is `None`.
    pub fn locate_in(&self, staged: Option<&Path>, cache: Option<&Path>) -> Result<PathBuf, DatasetError> {
        self.find_in(staged, cache).map(|(path, _)| path)
    }

    /// The content of the file, uncompressed.
    ///
    /// # Errors
    /// As [`Dataset::locate`].
    pub fn read(&self) -> Result<Vec<u8>, DatasetError> {
        self.find().map(|(_, content)| content)
    }

    /// As [`Dataset::read`], in the given folders instead of those of the environment.
    ///
    /// # Errors
    /// As [`Dataset::locate_in`].
    pub fn read_in(&self, staged: Option<&Path>, cache: Option<&Path>) -> Result<Vec<u8>, DatasetError> {
        self.find_in(staged, cache).map(|(_, content)| content)
    }

    /// The path of the file and its content.
    fn find(&self) -> Result<(PathBuf, Vec<u8>), DatasetError> {
        let folder = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = folder(CACHE_FOLDER)
            .or_else(|| folder("XDG_CACHE_HOME").map(|path| path.join("partita")))
            .or_else(|| folder("HOME").map(|path| path.join(".cache/partita")));
        self.find_in(folder(STAGED_FOLDER).as_deref(), cache.as_deref())
    }

    fn find_in(&self, staged: Option<&Path>, cache: Option<&Path>) -> Result<(PathBuf, Vec<u8>), DatasetError> {
        let places = [staged.map(|folder| folder.join(self.staged)), cache.map(|folder| folder.join(self.file))];
        if let Some(path) = places.into_iter().flatten().find(|path| path.is_file()) {
            let failed = |source| DatasetError::File { operation: "reading", path: path.clone(), source };
            let bytes = fs::read(&path).map_err(failed)?;
            let content = self.open(&bytes, &path, &path.display().to_string())?;
            return Ok((path, content));
        }
        let address = match self.source {
            Source::Address(address) | Source::Zip(address, _) => address,
            Source::Prepared(remedy) => {
                return Err(DatasetError::NotStaged {
                    dataset: self.name.into(),
                    staged: self.staged.into(),
                    remedy: remedy.into(),
                });
            }
        };
        let path = cache.ok_or_else(|| DatasetError::NoCache { dataset: self.name.into() })?.join(self.file);
        let content = download(self, address, &path)?;
        Ok((path, content))
    }

    /// The content of `bytes`, from or for the file at `path`; an error unless they match the checksum.
    pub(crate) fn open(&self, bytes: &[u8], path: &Path, origin: &str) -> Result<Vec<u8>, DatasetError> {
        match self.checksum {
            Checksum::Delivered(expected) => self.check(&hexadecimal(&Sha256::digest(bytes)), expected, origin)?,
            Checksum::DeliveredMd5(expected) => self.check(&hexadecimal(&Md5::digest(bytes)), expected, origin)?,
            Checksum::Content(_) => {}
        }
        let content = if path.extension().is_some_and(|ending| ending == "gz") {
            let mut content = Vec::new();
            GzDecoder::new(bytes).read_to_end(&mut content).map_err(|error| {
                DatasetError::format(
                    format!("data set `{}` from {origin}", self.name),
                    error.to_string(),
                    "a whole gzip file",
                )
            })?;
            content
        } else {
            bytes.to_vec()
        };
        if let Checksum::Content(expected) = self.checksum {
            self.check(&hexadecimal(&Sha256::digest(&content)), expected, origin)?;
        }
        Ok(content)
    }

    /// The file itself among the `bytes` that its address delivered.
    pub(crate) fn unpack(&self, bytes: Vec<u8>) -> Result<Vec<u8>, DatasetError> {
        let Source::Zip(address, path) = self.source else { return Ok(bytes) };
        let name = format!("data set `{}` from {address}", self.name);
        path.iter().try_fold(bytes, |archive, entry| zip::entry(&name, &archive, entry))
    }

    fn check(&self, found: &str, expected: &str, origin: &str) -> Result<(), DatasetError> {
        if found == expected {
            return Ok(());
        }
        Err(DatasetError::Checksum {
            dataset: self.name.into(),
            origin: origin.into(),
            found: found.into(),
            expected: expected.into(),
            remedy: match self.source {
                Source::Address(address) => format!("fetch {address} by hand."),
                Source::Zip(address, path) => format!("fetch {address} by hand and unpack {}.", path.join(", then ")),
                Source::Prepared(remedy) => remedy.into(),
            },
        })
    }
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
