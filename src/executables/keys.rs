//! Reads the keys to which the coordinator's file binds the names of silos.

use std::collections::BTreeMap;

use partita_flower::{Error, NodeKey, Result};

use super::CoordinatorFile;

impl CoordinatorFile {
    /// The keys of silos, by name.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for a name that is not a silo's, [`Error::File`] for a file that holds no key.
    pub(super) fn read_keys(&self, silos: &[String]) -> Result<BTreeMap<String, NodeKey>> {
        if let Some(name) = self.keys.keys().find(|name| !silos.contains(name)) {
            return Err(Error::Unwelcome {
                what: "a name among the keys",
                found: format!("`{name}`"),
                expected: format!("one of {}, the silos of the run", silos.join(", ")),
                remedy: "Correct the name under `[keys]` in the coordinator's file, or the silos in the run's.",
            });
        }
        self.keys.iter().map(|(name, path)| Ok((name.clone(), NodeKey::read(path)?))).collect()
    }
}
