//! Says which group each row belongs to, from a column of keys, from indices or from sizes, for plates inside plates.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use super::error::DataError;
use crate::array::Array;
use crate::error::{Error, Result as Evaluated};

/// The group of each row: visits of patients, patients of clinics. Rows need not be sorted, and groups differ in size.
///
/// A plate of `&Groups` stands inside the plate of its groups; see [`crate::Scope::plate`]. Clones share their numbers.
///
/// # Laws
/// Every row is in exactly one group: the rows of all groups are the rows.
///
/// # Example
/// ```
/// use partita_core::Groups;
/// let visits = Groups::by_key(&["ada", "bea", "ada"])?;
/// assert_eq!((visits.groups(), visits.rows()), (2, 3));
/// assert_eq!(visits.labels(), ["ada", "bea"]);
/// assert_eq!(visits.rows_of(0), [0, 2]);
/// # Ok::<(), partita_core::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups(Arc<Index>);

/// The group of each row, and the rows of each group in compressed form.
#[derive(Debug, PartialEq, Eq)]
struct Index {
    /// The group of each row.
    of: Arc<[usize]>,
    /// Where the rows of each group start in `members`, and where the last ends.
    starts: Vec<usize>,
    /// The rows, group by group, ascending within each.
    members: Vec<usize>,
    labels: Vec<String>,
}

/// Whether groups may have no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Empty {
    Refused,
    Allowed,
}

impl Groups {
    /// Rows with equal keys are one group; groups are numbered in the order in which their keys occur first.
    ///
    /// Keys are compared as they are displayed. Give data of the groups themselves in the order of
    /// [`Groups::labels`], or take [`Groups::by_key_in`].
    ///
    /// # Errors
    /// [`DataError::GroupKey`] for a key that is empty or says `NA`, `NaN` or `?`; it names the row.
    pub fn by_key<K: Display>(keys: &[K]) -> Result<Self, DataError> {
        let (mut labels, mut numbers) = (Vec::new(), BTreeMap::new());
        let mut of = Vec::with_capacity(keys.len());
        for (row, key) in keys.iter().enumerate() {
            let key = present(key, row, "rows")?;
            of.push(*numbers.entry(key.clone()).or_insert_with(|| {
                labels.push(key);
                labels.len() - 1
            }));
        }
        Self::build(of, labels, Empty::Refused)
    }

    /// Rows whose key is the `g`-th of `groups` are group `g`: the order of a table that has one row a group.
    ///
    /// # Errors
    /// [`DataError::GroupKey`] for a key that is missing, that is not among `groups`, or that `groups` has twice;
    /// [`DataError::EmptyGroup`] for a group without rows, which [`Groups::by_key_or_empty`] accepts.
    ///
    /// # Example
    /// ```
    /// use partita_core::Groups;
    /// let visits = Groups::by_key_in(&["ada", "bea", "ada"], &["bea", "ada"])?;
    /// assert_eq!(visits.index(), [1, 0, 1]);
    /// # Ok::<(), partita_core::DataError>(())
    /// ```
    pub fn by_key_in<K: Display, G: Display>(keys: &[K], groups: &[G]) -> Result<Self, DataError> {
        Self::matched(keys, groups, Empty::Refused)
    }

    /// As [`Groups::by_key_in`], with groups that may have no rows: patients who were never visited.
    ///
    /// # Errors
    /// [`DataError::GroupKey`] as for [`Groups::by_key_in`].
    pub fn by_key_or_empty<K: Display, G: Display>(keys: &[K], groups: &[G]) -> Result<Self, DataError> {
        Self::matched(keys, groups, Empty::Allowed)
    }

    /// Row `i` is of group `index[i]`, one of `groups`; labels are the numbers.
    ///
    /// # Errors
    /// [`DataError::GroupKey`] for an index that is no group; [`DataError::EmptyGroup`] for a group without rows.
    pub fn new(index: Vec<usize>, groups: usize) -> Result<Self, DataError> {
        Self::build(index, numbered(groups), Empty::Refused)
    }

    /// As [`Groups::new`], with groups that may have no rows.
    ///
    /// # Errors
    /// [`DataError::GroupKey`] for an index that is no group.
    ///
    /// # Example
    /// ```
    /// use partita_core::Groups;
    /// assert!(Groups::new(vec![0, 0], 2).is_err());
    /// assert!(Groups::with_empty(vec![0, 0], 2)?.rows_of(1).is_empty());
    /// # Ok::<(), partita_core::DataError>(())
    /// ```
    pub fn with_empty(index: Vec<usize>, groups: usize) -> Result<Self, DataError> {
        Self::build(index, numbered(groups), Empty::Allowed)
    }

    /// The first `sizes[0]` rows are of group 0, the next `sizes[1]` of group 1, and so on.
    ///
    /// # Errors
    /// [`DataError::EmptyGroup`] for a size of zero.
    ///
    /// # Example
    /// ```
    /// use partita_core::Groups;
    /// assert_eq!(Groups::of_sizes(&[1, 2])?.index(), [0, 1, 1]);
    /// # Ok::<(), partita_core::DataError>(())
    /// ```
    pub fn of_sizes(sizes: &[usize]) -> Result<Self, DataError> {
        let of = sizes.iter().enumerate().flat_map(|(group, size)| std::iter::repeat_n(group, *size)).collect();
        Self::build(of, numbered(sizes.len()), Empty::Refused)
    }

    /// All of so many rows in one group.
    ///
    /// # Example
    /// ```
    /// use partita_core::Groups;
    /// assert_eq!((Groups::one(3).groups(), Groups::one(3).rows_of(0)), (1, [0, 1, 2].as_slice()));
    /// ```
    #[must_use]
    pub fn one(rows: usize) -> Self {
        let (of, members) = (vec![0; rows].into(), (0..rows).collect());
        Self(Arc::new(Index { of, starts: vec![0, rows], members, labels: numbered(1) }))
    }

    fn matched<K: Display, G: Display>(keys: &[K], groups: &[G], empty: Empty) -> Result<Self, DataError> {
        let (mut labels, mut numbers) = (Vec::with_capacity(groups.len()), BTreeMap::new());
        for (group, key) in groups.iter().enumerate() {
            let key = present(key, group, "groups")?;
            if numbers.insert(key.clone(), group).is_some() {
                let expected = "a key that no group before it has";
                return Err(DataError::GroupKey { list: "groups", row: group + 1, found: key, expected });
            }
            labels.push(key);
        }
        let mut of = Vec::with_capacity(keys.len());
        for (row, key) in keys.iter().enumerate() {
            let found = present(key, row, "rows")?;
            let Some(group) = numbers.get(&found) else {
                let expected = "a key among those of the groups";
                return Err(DataError::GroupKey { list: "rows", row: row + 1, found, expected });
            };
            of.push(*group);
        }
        Self::build(of, labels, empty)
    }

    fn build(of: Vec<usize>, labels: Vec<String>, empty: Empty) -> Result<Self, DataError> {
        let groups = labels.len();
        let mut starts = vec![0; groups + 1];
        for (row, group) in of.iter().enumerate() {
            if *group >= groups {
                let (found, expected) = (group.to_string(), "an index below the number of groups");
                return Err(DataError::GroupKey { list: "rows", row: row + 1, found, expected });
            }
            starts[group + 1] += 1;
        }
        if let Some(group) = starts.iter().skip(1).position(|count| *count == 0).filter(|_| empty == Empty::Refused) {
            return Err(DataError::EmptyGroup { group, label: labels[group].clone(), groups, rows: of.len() });
        }
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let (mut next, mut members) = (starts.clone(), vec![0; of.len()]);
        for (row, group) in of.iter().enumerate() {
            members[next[*group]] = row;
            next[*group] += 1;
        }
        Ok(Self(Arc::new(Index { of: of.into(), starts, members, labels })))
    }

    /// The number of groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.0.labels.len()
    }

    /// The number of rows of all groups.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.of.len()
    }

    /// The keys of the groups, or their numbers where there are no keys.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.0.labels
    }

    /// The group of each row.
    #[must_use]
    pub fn index(&self) -> &[usize] {
        &self.0.of
    }

    /// The group of one row.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn of_row(&self, row: usize) -> usize {
        self.0.of[row]
    }

    /// The rows of one group, ascending.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn rows_of(&self, group: usize) -> &[usize] {
        &self.0.members[self.0.starts[group]..self.0.starts[group + 1]]
    }

    /// Numbers of rows summed within each group: the log likelihood of a patient from those of visits.
    ///
    /// # Shapes
    /// `[rows, ...]` → `[groups]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the first dimension is not the number of rows.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Array, Groups};
    /// let visits = Groups::new(vec![1, 0, 1], 2)?;
    /// let sums = visits.sums(&Array::new(vec![-1.0, -2.0, -4.0], vec![3])?)?;
    /// assert_eq!(sums.values, [-2.0, -5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sums(&self, numbers: &Array) -> Evaluated<Array> {
        if numbers.shape.first() != Some(&self.rows()) {
            return Err(Error::Shape {
                operation: "groups.sums".into(),
                found: numbers.shape.clone(),
                expected: vec![self.rows()],
                remedy: "Give numbers whose first dimension is the rows that are grouped.".into(),
            });
        }
        let each: usize = numbers.shape.iter().skip(1).product();
        let mut sums = vec![0.0; self.groups()];
        for (group, own) in self.0.of.iter().zip(numbers.values.chunks_exact(each.max(1))) {
            sums[*group] += own.iter().sum::<f64>();
        }
        Array::new(sums, vec![self.groups()])
    }

    /// The group of each row, shared.
    pub(crate) fn shared(&self) -> &Arc<[usize]> {
        &self.0.of
    }

    /// Whether both are one index in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether both assign rows alike, whatever their labels.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        self.is_same(other) || (self.groups() == other.groups() && self.0.of == other.0.of)
    }
}

fn numbered(groups: usize) -> Vec<String> {
    (0..groups).map(|group| group.to_string()).collect()
}

/// Whether the text of a key stands for a missing cell.
pub(super) fn is_missing(key: &str) -> bool {
    ["", "NA", "NaN", "?"].contains(&key.trim())
}

/// The text of a key; refuses one that stands for a missing cell.
fn present(key: &impl Display, row: usize, list: &'static str) -> Result<String, DataError> {
    let found = key.to_string();
    if is_missing(&found) {
        let expected = "a key; drop the row or find out its group, and write the name out where this text is one";
        return Err(DataError::GroupKey { list, row: row + 1, found, expected });
    }
    Ok(found)
}
