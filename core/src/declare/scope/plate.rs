//! Gives the statement `plate`: rows that are independent given the globals, all of them or those of a minibatch.

use super::Scope;
use crate::declare::gathered::Gathered;
use crate::declare::rows::Rows;
use crate::declare::site::Part;
use crate::distribution::Law;
use crate::error::{Error, Result};

/// The plate being evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Plate<'a> {
    pub(crate) name: String,
    pub(crate) total: usize,
    pub(crate) chosen: Option<&'a [usize]>,
    /// N/B: the factor on the rows' log densities that makes a minibatch unbiased.
    pub(crate) scale: f64,
}

impl Plate<'_> {
    /// The number of rows now evaluated.
    pub(crate) fn len(&self) -> usize {
        self.chosen.map_or(self.total, <[usize]>::len)
    }
}

/// The rows of one plate that are evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minibatch {
    /// The plate.
    pub plate: String,
    /// Row indices; each occurs `repeats` times in succession.
    pub rows: Vec<usize>,
    /// The number of draws of its latents for each row: 1 except for bounds with inner draws.
    pub repeats: usize,
    pub(crate) gathered: Gathered,
}

impl Minibatch {
    /// These rows of `plate`, each evaluated once.
    #[must_use]
    pub fn new(plate: &str, rows: Vec<usize>) -> Self {
        Self { plate: plate.to_owned(), rows, repeats: 1, gathered: Gathered::default() }
    }

    /// These rows of `plate`, each evaluated with `repeats` draws of its latents.
    #[must_use]
    pub fn repeated(plate: &str, rows: &[usize], repeats: usize) -> Self {
        let rows = rows.iter().flat_map(|row| std::iter::repeat_n(*row, repeats)).collect();
        Self { plate: plate.to_owned(), rows, repeats, gathered: Gathered::default() }
    }

    /// Refuses rows that a plate of `total` rows does not have.
    fn check(&self, total: usize) -> Result<()> {
        let problem = if self.rows.is_empty() {
            "the minibatch has no rows. Give at least one, or leave the plate out of the minibatch.".into()
        } else if let Some(outside) = self.rows.iter().find(|row| **row >= total) {
            format!("the minibatch asks for row {outside}, but there are {total} rows.")
        } else {
            return Ok(());
        };
        Err(Error::Plate { plate: self.plate.clone(), problem })
    }
}

impl<'a> Scope<'a> {
    /// Declares rows that are independent given the globals, and evaluates `body` on the rows of this evaluation.
    ///
    /// The framework chooses the rows (all, or a minibatch of B out of N) and multiplies every log density inside by
    /// N/B, both of latents and of observations.
    ///
    /// # Errors
    /// [`Error::Plate`] in the global function, inside another plate, without rows, or with an empty minibatch;
    /// otherwise those of `body`.
    pub fn plate<T>(
        &mut self,
        name: &str,
        rows: usize,
        body: impl FnOnce(&mut Self, &Rows<'a>) -> Result<T>,
    ) -> Result<T> {
        self.check_plate(name, rows)?;
        self.block(Some(name), rows)?;
        let minibatch: &'a [Minibatch] = self.minibatch;
        let batch = minibatch.iter().find(|batch| batch.plate == name);
        if let Some(batch) = batch {
            batch.check(rows)?;
        }
        let chosen = batch.map(|batch| batch.rows.as_slice());
        #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
        let scale = batch.map_or(1.0, |batch| rows as f64 * batch.repeats as f64 / batch.rows.len() as f64);
        self.place.plate = Some(Plate { name: name.to_owned(), total: rows, chosen, scale });
        let gathered = batch.map(|batch| &batch.gathered);
        let result = body(self, &Rows { total: rows, chosen, gathered, on_device: self.stays_on_device() });
        self.place.plate = None;
        result
    }

    /// Refuses a plate without rows, and a plate in the global function or in another plate.
    fn check_plate(&self, name: &str, rows: usize) -> Result<()> {
        let problem = if self.place.part == Part::Global {
            "a plate stands in the global function, but its rows belong to silos. Declare it in `local`; for a global vector use `.iid([n])`."
        } else if self.place.plate.is_some() {
            "plates cannot be nested. Flatten the two into one plate whose rows are the inner rows, and index the outer level."
        } else if rows == 0 {
            "the plate has no rows: this silo is empty. Leave the silo out, or check how its data were selected."
        } else {
            return Ok(());
        };
        Err(Error::Plate { plate: name.into(), problem: problem.into() })
    }

    /// Gives a distribution of one number as many copies as the plate has rows; refuses other row counts.
    pub(super) fn fit_to_plate(&self, name: &str, mut law: Law) -> Result<Law> {
        law.sound()?;
        let Some(plate) = &self.place.plate else { return Ok(law) };
        let rows = plate.len();
        if law.is_single() {
            law.batch = vec![rows];
        }
        if law.batch.first() != Some(&rows) {
            let mut expected = law.shape();
            if let Some(first) = expected.first_mut() {
                *first = rows;
            }
            return Err(Error::Shape {
                operation: self.operation(name),
                found: law.shape(),
                expected,
                remedy: "Inside a plate the first dimension is the plate's rows (`rows.len()`); use `.iid([rows.len(), ...])` or `rows.take(...)`.".into(),
            });
        }
        Ok(law)
    }
}
