//! Finds a data set by name: in the folder of staged files, in the cache, or at its canonical address.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::download::download;

/// Names the folder of files put in place beforehand; it is read first and never written.
const STAGED_FOLDER: &str = "PARTITA_DATA";

/// Names the folder that downloads are kept in.
const CACHE_FOLDER: &str = "PARTITA_CACHE";

/// A public data file: what it is called, where it is found and the checksum that says it is the right one.
///
/// [`datasets`] lists those known by name; a value made by hand serves for any other public file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dataset {
    /// The name to ask for.
    pub name: &'static str,
    /// Its path in the cache folder.
    pub file: &'static str,
    /// Its path in the folder of staged files, where it may be compressed (`.gz`).
    pub staged: &'static str,
    /// The address it is downloaded from.
    pub address: &'static str,
    /// SHA-256 of the uncompressed file, in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

/// What went wrong while a data set was looked for, downloaded or read.
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
        /// The names there are.
        expected: String,
    },
    /// No folder is known to keep a download in.
    #[error(
        "data set `{dataset}`: found no cache folder, expected one of the variables {CACHE_FOLDER}, XDG_CACHE_HOME or HOME. Set {CACHE_FOLDER} to a folder that may be written."
    )]
    NoCache {
        /// The data set.
        dataset: String,
    },
    /// A file is not the one that was meant.
    #[error(
        "data set `{dataset}` from {origin}: found SHA-256 {found}, expected {expected}. The file is damaged or another version: remove it and ask again, or fetch {address} by hand."
    )]
    Checksum {
        /// The data set.
        dataset: String,
        /// The file or the address the bytes came from.
        origin: String,
        /// The checksum of these bytes.
        found: String,
        /// The checksum of the right file.
        expected: String,
        /// The canonical address of the right file.
        address: String,
    },
    /// The canonical address did not answer with the file.
    #[error("data set `{dataset}`: downloading {address} found {found}, expected the file. Check the connection, or put the file in place as {} in the folder named by {STAGED_FOLDER}.", staged.display())]
    Download {
        /// The data set.
        dataset: String,
        /// The address.
        address: String,
        /// What happened instead.
        found: String,
        /// Where a staged copy is looked for.
        staged: PathBuf,
    },
    /// A file or folder could not be read or written.
    #[error("{operation} {}: found {source}, expected it to succeed. Check that the path exists and its permissions, or set {CACHE_FOLDER} to another folder.", path.display())]
    File {
        /// What was being done.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file has the right name but not the right form.
    #[error(
        "{dataset}: found {found}, expected {expected}. Fetch the file anew, or report the problem with its version."
    )]
    Format {
        /// The data set.
        dataset: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
}

/// The data set called `name`.
///
/// # Errors
/// [`DatasetError::Unknown`] for a name that is not in [`datasets`].
///
/// # Example
/// ```
/// let epilepsy = partita_models::dataset("epil")?;
/// assert_eq!(epilepsy.file, "mixed_models/epil.csv");
/// # Ok::<(), partita_models::DatasetError>(())
/// ```
pub fn dataset(name: &str) -> Result<Dataset, DatasetError> {
    datasets().iter().find(|dataset| dataset.name == name).copied().ok_or_else(|| DatasetError::Unknown {
        found: name.into(),
        expected: datasets().iter().map(|dataset| dataset.name).collect::<Vec<_>>().join(", "),
    })
}

impl Dataset {
    /// The path of the file: staged, cached, or downloaded into the cache now.
    ///
    /// The folder named by `PARTITA_DATA` is looked in first, then the cache folder: `PARTITA_CACHE`, or
    /// `XDG_CACHE_HOME/partita`, or `HOME/.cache/partita`. Whatever is found is checked against [`Dataset::sha256`].
    ///
    /// # Errors
    /// [`DatasetError::Checksum`] if the file found or downloaded is another one, [`DatasetError::Download`] if it
    /// could not be downloaded, [`DatasetError::NoCache`] and [`DatasetError::File`] if it could not be kept.
    pub fn locate(&self) -> Result<PathBuf, DatasetError> {
        let folder = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = folder(CACHE_FOLDER)
            .or_else(|| folder("XDG_CACHE_HOME").map(|path| path.join("partita")))
            .or_else(|| folder("HOME").map(|path| path.join(".cache/partita")));
        self.locate_in(folder(STAGED_FOLDER).as_deref(), cache.as_deref())
    }

    /// As [`Dataset::locate`], in the given folders instead of those the environment names.
    ///
    /// # Errors
    /// As [`Dataset::locate`]; [`DatasetError::NoCache`] if a download is needed and `cache` is `None`.
    pub fn locate_in(&self, staged: Option<&Path>, cache: Option<&Path>) -> Result<PathBuf, DatasetError> {
        let places = [staged.map(|folder| folder.join(self.staged)), cache.map(|folder| folder.join(self.file))];
        for path in places.into_iter().flatten() {
            if path.is_file() {
                self.check(&read_plain(&path)?, path.display().to_string())?;
                return Ok(path);
            }
        }
        let cache = cache.ok_or_else(|| DatasetError::NoCache { dataset: self.name.into() })?;
        download(self, &cache.join(self.file))
    }

    /// The bytes of the file, uncompressed.
    ///
    /// # Errors
    /// As [`Dataset::locate`].
    pub fn read(&self) -> Result<Vec<u8>, DatasetError> {
        read_plain(&self.locate()?)
    }

    /// Refuses `bytes` that are not this data set's file.
    pub(crate) fn check(&self, bytes: &[u8], origin: String) -> Result<(), DatasetError> {
        let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if found == self.sha256 {
            return Ok(());
        }
        Err(DatasetError::Checksum {
            dataset: self.name.into(),
            origin,
            found,
            expected: self.sha256.into(),
            address: self.address.into(),
        })
    }
}

/// Reads a whole file, undoing the compression that the ending `.gz` announces.
fn read_plain(path: &Path) -> Result<Vec<u8>, DatasetError> {
    let failed = |source| DatasetError::File { operation: "reading", path: path.to_path_buf(), source };
    let bytes = fs::read(path).map_err(failed)?;
    if path.extension().is_none_or(|ending| ending != "gz") {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).map_err(failed)?;
    Ok(plain)
}

/// A file of the pinned copy of Rdatasets.
macro_rules! rdatasets {
    ($name:literal, $package:literal, $sha256:literal) => {
        rdatasets!(
            $name,
            $package,
            $name,
            concat!("mixed_models/", $name, ".csv"),
            concat!("mixed_models/", $name, ".csv"),
            $sha256
        )
    };
    ($name:literal, $package:literal, $source:literal, $file:expr, $staged:expr, $sha256:literal) => {
        Dataset {
            name: $name,
            file: $file,
            staged: $staged,
            address: concat!(
                "https://raw.githubusercontent.com/vincentarelbundock/Rdatasets/",
                "1dcc2bf5f955cc1224a3e1307256e1fe86b68dae/csv/",
                $package,
                "/",
                $source,
                ".csv"
            ),
            sha256: $sha256,
        }
    };
}

/// Every data set that can be asked for by name.
#[must_use]
pub fn datasets() -> &'static [Dataset] {
    &DATASETS
}

const DATASETS: [Dataset; 8] = [
    rdatasets!(
        "six_cities",
        "geepack",
        "ohio",
        "six_cities/ohio.csv",
        "six_cities/ohio.rdatasets.csv.gz",
        "d8b15f07aad13776e6b9bbf858c62f19b99978a90ebdec8f55b6fc1aa2b41e05"
    ),
    rdatasets!("bacteria", "MASS", "923b0e1969b6a391caa30a938447e60fba8ff6b839bbd49653ac7f84c244b907"),
    rdatasets!("cbpp", "lme4", "8919ad586aabfa75fa3b3ece7ad7b398c7b31bf17467f17c304cbec86afa910a"),
    rdatasets!("epil", "MASS", "6d4aded9dda1c8cd051d370ce77816264c972e773417e62cfad3d061d3083a99"),
    rdatasets!("radon", "HLMdiag", "ff4829f63360178130568cfddc0b01b8121c7c905384197623275d1b733a8eb3"),
    rdatasets!("respiratory", "geepack", "035875079fb7990f29880b6cffa144615e50d9eb7259752b343aa4365f5e0ecb"),
    rdatasets!("toenail", "lme4", "2d147344995318ae5fd4de6d7eb05765b095084eb20f6821e1850a216b022564"),
    Dataset {
        name: "rugged",
        file: "rugged/rugged.csv",
        staged: "rugged/rugged.csv",
        address: "https://raw.githubusercontent.com/rmcelreath/rethinking/ac1b3b2cda83f3e14096e2d997a6e30ad109eeee/data/rugged.csv",
        sha256: "8c5cfbaf782abffc522b362eb430acf54d73cab6f2a1360c41ef21bc7def89dc",
    },
];
