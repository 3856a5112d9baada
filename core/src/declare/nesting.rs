//! Finds which rows of inner plates are evaluated where a minibatch chooses rows of an outermost plate.

use std::ops::Deref;
use std::sync::Arc;

use burn::tensor::{Int, Tensor};

use super::gathered::Gathered;
use super::scope::Minibatch;
use super::site::{LocalBlock, SiteTable};
use super::uploaded::Uploaded;
use crate::data::Groups;
use crate::error::{Error, Result};

/// The groups of a plate inside another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nesting {
    pub(crate) groups: Groups,
    /// The outer row of each row, on a device.
    pub(crate) uploaded: Arc<Uploaded<Tensor<1, Int>>>,
}

impl Nesting {
    pub(crate) fn of(groups: &Groups) -> Self {
        Self { groups: groups.clone(), uploaded: Arc::default() }
    }
}

/// Rows chosen by a minibatch, or those that follow from it.
#[derive(Debug, Clone)]
pub(crate) enum Chosen<'a> {
    Given(&'a [usize]),
    Shared(Arc<[usize]>),
}

impl Deref for Chosen<'_> {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Self::Given(rows) => rows,
            Self::Shared(rows) => rows,
        }
    }
}

impl SiteTable {
    /// The rows of a block that are evaluated with a minibatch, in this order; `None` for all rows in order.
    ///
    /// A minibatch chooses rows of outermost plates. Of a plate inside, the rows of each chosen row follow, as often as
    /// it is chosen.
    ///
    /// # Errors
    /// [`Error::Plate`] for a minibatch that names a plate inside another, that has no rows, or rows there are not.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn rows_evaluated(&self, block: usize, minibatch: &[Minibatch]) -> Result<Option<Vec<usize>>> {
        self.check_minibatch(minibatch)?;
        Ok(self.chosen(block, minibatch).map(|(rows, _)| rows.to_vec()))
    }

    /// The place of each evaluated row's outer row among the evaluated rows of the outer block; `None` for rows that
    /// belong to none.
    ///
    /// # Errors
    /// As for [`SiteTable::rows_evaluated`].
    ///
    /// # Panics
    /// If there is no such block.
    pub fn outer_places(&self, block: usize, minibatch: &[Minibatch]) -> Result<Option<Vec<usize>>> {
        self.check_minibatch(minibatch)?;
        let own = &self.blocks[block];
        let Some(parent) = &own.parent else { return Ok(None) };
        let Some(Nesting { groups, .. }) = &own.nesting else {
            // The silo's own latents are one row.
            return Ok(Some(vec![0; self.chosen(block, minibatch).map_or(own.rows, |(rows, _)| rows.len())]));
        };
        Ok(Some(match self.chosen(parent.block, minibatch) {
            Some((outer, gathered)) => gathered.follow(&outer, groups).places.to_vec(),
            None => parent.rows.to_vec(),
        }))
    }

    /// The block of the outermost plate around a block's rows: the plate that a minibatch names.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn outermost(&self, block: usize) -> usize {
        let own = &self.blocks[block];
        match (&own.nesting, &own.parent) {
            (Some(_), Some(parent)) => self.outermost(parent.block),
            _ => block,
        }
    }

    /// The rows evaluated of a block, with what was gathered of them; the minibatch is one that was checked.
    pub(crate) fn chosen(&self, block: usize, minibatch: &[Minibatch]) -> Option<(Arc<[usize]>, Gathered)> {
        let own = &self.blocks[block];
        if let (Some(Nesting { groups, .. }), Some(parent)) = (&own.nesting, &own.parent) {
            let (outer, gathered) = self.chosen(parent.block, minibatch)?;
            let followed = gathered.follow(&outer, groups);
            return Some((followed.rows, followed.gathered));
        }
        let plate = own.plate.as_deref()?;
        let batch = minibatch.iter().find(|batch| batch.plate == plate)?;
        Some((Arc::clone(batch.shared_rows()), batch.gathered.clone()))
    }

    /// Refuses a minibatch of a plate inside another, and rows that a plate does not have.
    pub(crate) fn check_minibatch(&self, minibatch: &[Minibatch]) -> Result<()> {
        for batch in minibatch {
            let named = |block: &LocalBlock| block.plate.as_ref() == Some(&batch.plate);
            let Some(block) = self.blocks.iter().position(named) else { continue };
            if self.blocks[block].nesting.is_some() {
                let outermost = self.blocks[self.outermost(block)].plate.as_deref().unwrap_or_default();
                return Err(Error::Plate {
                    plate: batch.plate.clone(),
                    problem: format!(
                        "the minibatch names it, but its rows follow those of plate `{outermost}` around it. Name `{outermost}` in the minibatch."
                    ),
                });
            }
            batch.check(self.blocks[block].rows)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::rows::{Outer, Rows};
    use crate::device::Device;
    use crate::handle::Handle;

    /// Rows of two groups as a plate hands them out, for these outer rows (all for `None`).
    fn visits<'a>(groups: &Groups, outer: Option<&[usize]>, gathered: &Gathered) -> Rows<'a> {
        let followed = outer.map(|outer| gathered.follow(&outer.into(), groups));
        let places = followed.as_ref().map_or_else(|| Arc::clone(groups.shared()), |own| Arc::clone(&own.places));
        Rows {
            total: groups.rows(),
            chosen: followed.as_ref().map(|own| Chosen::Shared(Arc::clone(&own.rows))),
            gathered: followed.map(|own| own.gathered),
            products: None,
            takes: None,
            repeats: 1,
            on_device: false,
            precision: None,
            outer: Outer::Plate {
                len: outer.map_or(groups.groups(), <[usize]>::len),
                places,
                uploaded: Arc::default(),
            },
        }
    }

    #[test]
    fn constants_are_copied_never_for_all_rows_and_once_for_a_minibatch() {
        let (device, groups, gathered) = (Device::flex(), Groups::new(vec![1, 0, 1], 2).unwrap(), Gathered::default());
        let y = device.tensor(vec![1.0, 2.0, 3.0], [3]);
        let same = |a: Tensor<1>, b: Tensor<1>| Handle::from(a).is_same_constant(&Handle::from(b));
        let all = visits(&groups, None, &gathered);
        assert!(same(all.take(&y).unwrap(), y.clone()));
        let chosen = || visits(&groups, Some(&[1, 1]), &gathered);
        assert_eq!(chosen().indices(), Some([0, 2, 0, 2].as_slice()));
        assert!(same(chosen().take(&y).unwrap(), chosen().take(&y).unwrap()));
        let age = device.tensor(vec![5.0, 7.0], [2]);
        let expanded = chosen().expand(&age).unwrap();
        assert_eq!(Handle::from(expanded.clone()).read().unwrap().values, [5.0, 5.0, 7.0, 7.0]);
        assert!(same(expanded, chosen().expand(&age).unwrap()));
        // The same memory taken and expanded is not the same rows.
        let two = device.tensor(vec![1.0, 2.0, 3.0], [3]);
        let lone = Groups::new(vec![2, 1, 0], 3).unwrap();
        let shared = Gathered::default();
        let rows = || visits(&lone, Some(&[0, 1, 2]), &shared);
        assert_eq!(Handle::from(rows().take(&two).unwrap()).read().unwrap().values, [3.0, 2.0, 1.0]);
        assert_eq!(Handle::from(rows().expand(&two).unwrap()).read().unwrap().values, [1.0, 2.0, 3.0]);
    }
}
