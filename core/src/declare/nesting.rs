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
    Followed(Arc<[usize]>),
}

impl Deref for Chosen<'_> {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Self::Given(rows) => rows,
            Self::Followed(rows) => rows,
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
    pub(crate) fn chosen<'m>(&self, block: usize, minibatch: &'m [Minibatch]) -> Option<(Chosen<'m>, Gathered)> {
        let own = &self.blocks[block];
        if let (Some(Nesting { groups, .. }), Some(parent)) = (&own.nesting, &own.parent) {
            let (outer, gathered) = self.chosen(parent.block, minibatch)?;
            let followed = gathered.follow(&outer, groups);
            return Some((Chosen::Followed(followed.rows), followed.gathered));
        }
        let plate = own.plate.as_deref()?;
        let batch = minibatch.iter().find(|batch| batch.plate == plate)?;
        Some((Chosen::Given(&batch.rows), batch.gathered.clone()))
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
