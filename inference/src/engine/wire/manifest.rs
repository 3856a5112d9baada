//! Declares what may leave a silo, so that the exchange can hold back everything else.

use crate::engine::error::{Error, Result};
use crate::engine::wire::message::Message;

/// Under what condition a field leaves a silo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It does not depend on the silo's data or local latents.
    Public,
    /// It depends on them through a sum over clipped rows with noise ([`crate::Mechanism`]).
    Noised,
    /// It depends on them otherwise: a private silo ([`crate::PrivateParty`]) holds it back.
    Forbidden,
}

/// One field of a reply that may leave a silo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name of the record, number or setting.
    pub name: &'static str,
    /// What it is, for people.
    pub meaning: &'static str,
    /// The most numbers it may have.
    pub limit: usize,
    /// Whether and how it depends on the silo's data or local latents.
    pub release: Release,
}

impl Release {
    /// Whether the field depends on the data, in a word or two.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Public => "no",
            Self::Noised => "with noise",
            Self::Forbidden => "yes",
        }
    }
}

/// All that an algorithm lets leave a silo.
///
/// # Laws
/// A reply that passes [`Manifest::check`] holds no field the manifest does not list, and none longer than listed.
/// Fields declared independent of the data are the same bytes whatever the data: a test changes data and watches them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The fields.
    pub fields: Vec<Field>,
}

impl Manifest {
    /// Refuses a reply with a field that is not listed, that is longer than listed, or that is there twice.
    ///
    /// # Errors
    /// [`Error::Manifest`].
    pub fn check(&self, silo: &str, reply: &Message) -> Result<()> {
        let fields = || {
            let lengths = reply.records.iter().map(|record| (record.name.as_str(), record.bytes.len().div_ceil(8)));
            let numbers = reply.numbers.iter().map(|(name, _)| (name.as_str(), 1));
            let settings = reply.settings.iter().map(|(name, value)| (name.as_str(), value.len().div_ceil(8)));
            lengths.chain(numbers).chain(settings)
        };
        for (name, length) in fields() {
            let problem = match self.fields.iter().find(|field| field.name == name) {
                None => "is not in the manifest".to_owned(),
                Some(_) if fields().filter(|(other, _)| *other == name).count() > 1 => {
                    "is there more than once".to_owned()
                }
                Some(field) if length > field.limit => {
                    format!("has {length} numbers, the manifest allows {}", field.limit)
                }
                Some(_) => continue,
            };
            return Err(Error::Manifest { silo: silo.to_owned(), field: name.to_owned(), problem });
        }
        Ok(())
    }
}

impl std::fmt::Display for Manifest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "{:<20} {:>10}  {:<16} meaning", "field", "numbers", "depends on data")?;
        for field in &self.fields {
            let depends = field.release.words();
            writeln!(formatter, "{:<20} {:>10}  {depends:<16} {}", field.name, field.limit, field.meaning)?;
        }
        Ok(())
    }
}
