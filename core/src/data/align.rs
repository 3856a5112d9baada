//! Brings the rows of parties that hold different columns of the same people into one order, by a shared key.

use std::collections::BTreeSet;

use super::error::DataError;
use super::keys::{PartyKeys, check_keys};
use super::party::PartyRows;

/// The keys that every party has, in ascending order, and how many rows of each party are left out.
///
/// Vertical data are aligned before anything else: row $`i`$ of every party is then the row of key $`i`$. The order
/// comes from the keys alone.
///
/// # Laws
/// The result depends neither on the order of rows in a party's file nor, except for the order of
/// [`Alignment::unmatched`], on the order of the parties. A key that each party holds once is never dropped, and no
/// other key is kept.
///
/// # What keys reveal
/// The place where keys are compared learns all keys of all parties, and every party learns the shared ones. Membership
/// may itself be confidential, such as that of a clinic's patients. [`PartyRows::with_keyed_digests`] replaces keys
/// before they leave a party by digests that can be computed only with a secret the parties share. A party that has the
/// secret can still digest any list of names, and the digests still show how many rows two parties have in common.
/// Private set intersection would reveal less; Partita does not implement it.
///
/// # Example
/// ```
/// use partita_core::data::{Alignment, PartyColumn, PartyRows};
/// let rows = |party, keys: &[&str], column: PartyColumn| {
///     PartyRows::new(party, keys.iter().map(|key| key.to_string()).collect(), vec![column])
/// };
/// let clinic = rows("clinic", &["Eva", "Ada", "Max"], PartyColumn::complete("age", vec![30.0, 41.0, 52.0]))?;
/// let insurer = rows("insurer", &["Ada", "Tom", "Eva"], PartyColumn::complete("claims", vec![1.0, 2.0, 3.0]))?;
/// let alignment = Alignment::of(&[&clinic, &insurer])?;
/// assert_eq!(alignment.keys(), ["Ada", "Eva"]);
/// assert_eq!(alignment.unmatched(), [("clinic".to_owned(), 1), ("insurer".to_owned(), 1)]);
/// assert_eq!(clinic.aligned(&alignment)?.column("age")?, [41.0, 30.0]);
/// assert_eq!(insurer.aligned(&alignment)?.column("claims")?, [1.0, 3.0]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    keys: Vec<String>,
    unmatched: Vec<(String, usize)>,
}

impl Alignment {
    /// Aligns rows that are all in this process.
    ///
    /// # Errors
    /// As [`Alignment::of_keys`].
    pub fn of(parties: &[&PartyRows]) -> Result<Self, DataError> {
        let keys: Vec<PartyKeys<'_>> =
            parties.iter().map(|rows| PartyKeys { party: rows.party(), keys: rows.keys() }).collect();
        Self::of_keys(&keys)
    }

    /// Aligns by the keys that each party has sent.
    ///
    /// # Errors
    /// [`DataError::Argument`] for fewer than two parties or two of one name; [`DataError::MissingKey`] and
    /// [`DataError::RepeatedKeys`] for a party's keys, see [`PartyRows::new`]; [`DataError::NoSharedKey`] if the
    /// parties have no key in common: look whether they write it alike, or digest it with the same secret.
    pub fn of_keys(parties: &[PartyKeys<'_>]) -> Result<Self, DataError> {
        const OPERATION: &str = "aligning rows by key";
        let names: BTreeSet<&str> = parties.iter().map(|own| own.party).collect();
        if parties.len() < 2 || names.len() < parties.len() {
            return Err(DataError::Argument {
                operation: OPERATION,
                argument: "the list of parties",
                found: format!("{:?}", parties.iter().map(|own| own.party).collect::<Vec<_>>()),
                expected: "two parties or more, of names that differ",
            });
        }
        let mut shared: Option<BTreeSet<&str>> = None;
        for PartyKeys { party, keys } in parties {
            check_keys(party, keys)?;
            let own: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
            shared = Some(match shared {
                Some(shared) => shared.intersection(&own).copied().collect(),
                None => own,
            });
        }
        let keys: Vec<String> = shared.into_iter().flatten().map(String::from).collect();
        let rows = parties.iter().map(|own| (own.party.to_owned(), own.keys.len()));
        if keys.is_empty() {
            return Err(DataError::NoSharedKey { parties: rows.collect() });
        }
        let unmatched = rows.map(|(name, count)| (name, count - keys.len())).collect();
        Ok(Self { keys, unmatched })
    }

    /// The shared keys in ascending order: row $`i`$ of aligned data has key $`i`$.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The number of rows that all parties share.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.keys.len()
    }

    /// For each party how many of its rows are left out because another party lacks their key.
    #[must_use]
    pub fn unmatched(&self) -> &[(String, usize)] {
        &self.unmatched
    }
}

impl PartyRows {
    /// These rows in the order of `alignment`, without the rows whose key another party lacks.
    ///
    /// # Errors
    /// [`DataError::UnknownKeys`] if the alignment has keys that this party does not have: it is that of other data.
    pub fn aligned(&self, alignment: &Alignment) -> Result<Self, DataError> {
        self.in_order_of(alignment.keys())
    }
}
