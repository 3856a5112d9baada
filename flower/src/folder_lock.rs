//! Locks a party's folder, so that a second party in it is refused before it overwrites what the first one keeps.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::error::{Error, Result};

/// A folder that no other process, and no other party of this one, may use while this value lives.
///
/// The lock is the operating system's: that of a process which was killed is free.
///
/// # Example
/// ```
/// use partita_flower::FolderLock;
/// let folder = tempfile::tempdir()?;
/// let lock = FolderLock::take(folder.path())?;
/// assert!(FolderLock::take(folder.path()).unwrap_err().to_string().contains("in use"));
/// drop(lock);
/// assert!(FolderLock::take(folder.path()).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "the lock ends with the file")] File);

/// The file of a folder that is locked.
const LOCK: &str = "in-use";

impl FolderLock {
    /// Locks a folder, which is created if absent.
    ///
    /// # Errors
    /// [`Error::File`] for a folder that another party uses, or that cannot be written.
    pub fn take(folder: &Path) -> Result<Self> {
        let unwritable = |error: std::io::Error| {
            let remedy = "Name another, or let this user write there.";
            Error::file(folder, format!("nothing can be written into this folder ({error}). {remedy}"))
        };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        let file = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK));
        let file = file.map_err(unwritable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                let problem = "this folder is in use by another party that runs. End that one, or name another folder.";
                Err(Error::file(folder, problem))
            }
            Err(TryLockError::Error(error)) => Err(Error::file(folder, format!("it cannot be locked ({error})"))),
        }
    }
}
