//! Notes what each row of a plate takes of the data, so that rows which take the same can be found.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::site::SiteTable;
use crate::error::Result;

/// What the rows of all plates take in one reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct Takes(Arc<Mutex<BTreeMap<usize, Taken>>>);

/// What the rows of one plate take.
#[derive(Debug, Clone)]
pub(crate) struct TakesOfPlate {
    all: Takes,
    block: usize,
}

/// The bits of the numbers that each row evaluated takes, in the order of the model's statements.
#[derive(Debug)]
enum Taken {
    Numbers(Vec<Vec<u64>>),
    /// Rows take something that cannot be compared: a tensor that depends on latents, or their own indices.
    Unknown,
}

impl Takes {
    /// Those of the plate with this block, of which so many rows are evaluated.
    pub(crate) fn of(&self, block: usize, rows: usize) -> TakesOfPlate {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(block).or_insert_with(|| Taken::Numbers(vec![Vec::new(); rows]));
        TakesOfPlate { all: self.clone(), block }
    }

    /// For each row evaluated of each block, the first row that takes the same and whose inner rows do, as a place among
    /// the rows evaluated.
    ///
    /// `outer` gives, for a block inside another, that block and the place there of each row.
    pub(crate) fn alike(
        &self,
        table: &SiteTable,
        outer: impl Fn(usize) -> Result<Option<(usize, Vec<usize>)>>,
        rows: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<usize>>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = table.blocks.len();
        let outer: Vec<Option<(usize, Vec<usize>)>> = (0..blocks).map(outer).collect::<Result<_>>()?;
        // Inner blocks come after those around them.
        for block in (0..blocks).rev() {
            let Some((around, places)) = &outer[block] else { continue };
            let own = all.remove(&block).unwrap_or(Taken::Unknown);
            match (all.get_mut(around), own) {
                (Some(Taken::Numbers(around)), Taken::Numbers(own)) => {
                    for (numbers, place) in own.into_iter().zip(places) {
                        let slot = &mut around[*place];
                        // Lengths tell where the numbers of one inner row end.
                        slot.extend([block as u64, numbers.len() as u64]);
                        slot.extend(numbers);
                    }
                }
                (Some(slot), _) => *slot = Taken::Unknown,
                (None, _) => {}
            }
        }
        let mut same: Vec<Vec<usize>> = Vec::with_capacity(blocks);
        for (block, outer) in outer.iter().enumerate() {
            let found = match (outer, all.get(&block)) {
                (Some((around, places)), _) => follow(&same[*around], places),
                (None, Some(Taken::Numbers(own))) => first_of(own),
                (None, _) => (0..rows(block)).collect(),
            };
            same.push(found);
        }
        Ok(same)
    }
}

/// For each row, the first with the same numbers.
fn first_of(rows: &[Vec<u64>]) -> Vec<usize> {
    let mut first = HashMap::with_capacity(rows.len());
    rows.iter().enumerate().map(|(row, numbers)| *first.entry(numbers.as_slice()).or_insert(row)).collect()
}

/// For each inner row, that of the row alike to the one around it, which stands at the same place there.
fn follow(same: &[usize], places: &[usize]) -> Vec<usize> {
    let mut inner = vec![Vec::new(); same.len()];
    places.iter().enumerate().for_each(|(row, place)| inner[*place].push(row));
    let mut found = vec![0; places.len()];
    for (place, rows) in inner.iter().enumerate() {
        rows.iter().zip(&inner[same[place]]).for_each(|(row, first)| found[*row] = *first);
    }
    found
}

impl TakesOfPlate {
    /// Notes what `add` adds for each row evaluated.
    pub(crate) fn note(&self, rows: impl Iterator<Item = usize>, mut add: impl FnMut(usize, &mut Vec<u64>)) {
        self.change(|taken| {
            if let Taken::Numbers(all) = taken {
                all.iter_mut().zip(rows).for_each(|(numbers, row)| add(row, numbers));
            }
        });
    }

    /// Notes that what rows take is not known.
    pub(crate) fn give_up(&self) {
        self.change(|taken| *taken = Taken::Unknown);
    }

    fn change(&self, change: impl FnOnce(&mut Taken)) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = all.get_mut(&self.block) {
            change(taken);
        }
    }
}
