//! Overrides default options with the entries of a table of a run file, and refuses unknown entries.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// A table of a run file: its name in errors, and what its entries are checked against.
pub(super) struct Table {
    /// Its name in errors.
    pub(super) what: &'static str,
    /// Options that a run file sets elsewhere.
    pub(super) elsewhere: &'static [Elsewhere],
    /// Choices for which the file may omit constants.
    pub(super) usual: Vec<Usual>,
}

/// An option that a run file sets elsewhere.
pub(super) struct Elsewhere {
    pub(super) entry: &'static str,
    pub(super) place: &'static str,
}

/// One choice of an entry, with its default constants.
pub(super) struct Usual {
    pub(super) entry: &'static str,
    pub(super) choice: Value,
    /// The constant that the file must set; empty for none.
    pub(super) needed: &'static str,
}

impl Usual {
    /// # Errors
    /// [`Error::Malformed`] for a choice that cannot be serialised.
    pub(super) fn new(entry: &'static str, choice: impl Serialize, needed: &'static str) -> Result<Self> {
        let choice = serde_json::to_value(choice).map_err(|error| Error::malformed("a choice", error.to_string()))?;
        Ok(Self { entry, choice, needed })
    }

    /// Adds to an entry the constants of this choice that it omits.
    fn complete(&self, said: &mut Value) {
        for (name, constants) in self.choice.as_object().into_iter().flatten() {
            let Some(Value::Object(own)) = said.get_mut(name) else { continue };
            let constants = constants.as_object().into_iter().flatten();
            for (constant, value) in constants.filter(|(name, _)| *name != self.needed) {
                own.entry(constant).or_insert_with(|| value.clone());
            }
        }
    }
}

impl Table {
    /// `base`, overridden by the entries of the table.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an entry that the options do not have, that is set elsewhere, or of another type.
    pub(super) fn over<T: Serialize + DeserializeOwned>(&self, base: &T, entries: &Map<String, Value>) -> Result<T> {
        let mut value = self.read(serde_json::to_value(base))?;
        let Value::Object(known) = &mut value else { return Err(self.wrong("it is not a table".into())) };
        for (name, entry) in entries {
            if let Some(other) = self.elsewhere.iter().find(|other| other.entry == name) {
                return Err(self.wrong(format!("`{name}` is said {}", other.place)));
            }
            let Some(slot) = known.get_mut(name) else {
                let names = known.keys().filter(|name| self.elsewhere.iter().all(|other| other.entry != *name));
                let mut names: Vec<&str> = names.map(String::as_str).collect();
                // In order whatever the order of a map: another crate may turn on `preserve_order` of serde_json.
                names.sort_unstable();
                return Err(self.wrong(format!("`{name}` is none of {}", names.join(", "))));
            };
            *slot = entry.clone();
            self.usual.iter().filter(|usual| usual.entry == name).for_each(|usual| usual.complete(slot));
        }
        let options = self.read(serde_json::from_value(value))?;
        let kept = self.read(serde_json::to_value(&options))?;
        match entries.iter().find_map(|(name, entry)| dropped(name, entry, &kept[name])) {
            Some(dropped) => Err(self.wrong(format!("`{dropped}` is unknown"))),
            None => Ok(options),
        }
    }

    /// An error of this table.
    pub(super) fn wrong(&self, problem: String) -> Error {
        Error::malformed(self.what, problem)
    }

    fn read<T>(&self, found: serde_json::Result<T>) -> Result<T> {
        found.map_err(|error| self.wrong(error.to_string()))
    }
}

/// The first name in an entry that has no effect.
fn dropped(path: &str, given: &Value, kept: &Value) -> Option<String> {
    given.as_object()?.iter().find_map(|(name, given)| {
        let path = format!("{path}.{name}");
        match kept.get(name) {
            Some(kept) => dropped(&path, given, kept),
            None => Some(path),
        }
    })
}
