//! Gives the statement `plate`: rows that are independent given the globals, all of them or those of a minibatch.

use std::sync::Arc;

use super::entry::Opened;
use super::outcome::{Level, RowPlace};
use super::{Scope, Table, Terms};
use crate::data::Groups;
use crate::declare::gathered::Gathered;
use crate::declare::nesting::Chosen;
use crate::declare::rows::{Outer, Rows};
use crate::declare::site::Part;
use crate::device::Precision;
use crate::distribution::Law;
use crate::error::{Error, Result};

/// The plate being evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Plate<'a> {
    pub(crate) name: String,
    /// Its block of the table.
    pub(crate) block: usize,
    pub(crate) rows: Rows<'a>,
    /// N/B of the outermost plate: the factor on the rows' log densities that makes a minibatch unbiased.
    pub(crate) scale: f64,
    /// Where log densities of its rows are added, in readings row by row.
    pub(crate) place: RowPlace,
}

impl Plate<'_> {
    /// The number of rows now evaluated.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// The rows of a plate, as [`Scope::plate`] takes them: their number, or `&Groups` for a plate inside another.
///
/// # Laws
/// A plate of groups has the density that a sum over its rows, each with what its outer row has, gives
/// (`tests/exactness/nesting.rs`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no rows of a plate",
    note = "a plate takes the number of its rows, a `usize`; inside another plate it takes `&Groups`"
)]
pub trait PlateRows: sealed::Sealed {}

impl PlateRows for usize {}

impl PlateRows for &Groups {}

mod sealed {
    use super::Groups;

    /// What rows a plate was given.
    #[derive(Debug)]
    pub enum Given {
        Number(usize),
        Groups(Groups),
    }

    pub trait Sealed {
        fn given(self) -> Given;
    }

    impl Sealed for usize {
        fn given(self) -> Given {
            Given::Number(self)
        }
    }

    impl Sealed for &Groups {
        fn given(self) -> Given {
            Given::Groups(self.clone())
        }
    }
}

use sealed::Given;

/// The rows of one plate that are evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Minibatch {
    /// The plate.
    pub plate: String,
    /// How often each row is evaluated: 1 except for bounds with inner draws, and for several draws of the globals.
    pub repeats: usize,
    /// Row indices; each occurs `repeats` times.
    rows: Arc<[usize]>,
    /// The largest of them.
    largest: usize,
    /// For how many rows each counts; `None` where each does for itself.
    times: Option<Arc<[f64]>>,
    pub(crate) gathered: Gathered,
}

impl Minibatch {
    /// These rows of `plate`, each evaluated once.
    #[must_use]
    pub fn new(plate: &str, rows: Vec<usize>) -> Self {
        Self::of(plate, rows, 1)
    }

    /// These rows of `plate`, each evaluated with `repeats` draws of its latents.
    #[must_use]
    pub fn repeated(plate: &str, rows: &[usize], repeats: usize) -> Self {
        let rows = rows.iter().flat_map(|row| std::iter::repeat_n(*row, repeats)).collect();
        Self::of(plate, rows, repeats)
    }

    /// These rows of `plate`, all of them once for each of `draws` draws of the globals ([`crate::LogDensity::on_device`]).
    #[must_use]
    pub fn for_draws(plate: &str, rows: &[usize], draws: usize) -> Self {
        Self::of(plate, rows.repeat(draws), draws)
    }

    /// These rows of `plate`, each in the place of `times` rows that are alike ([`crate::LogDensity::rows_alike`]).
    ///
    /// Readings by levels ([`crate::LogDensity::levels`]) multiply the log density of a row that belongs to the silo by its
    /// `times`; rows with latents have weights there already.
    ///
    /// # Shapes
    /// `times`: one number for each of `rows`.
    #[must_use]
    pub fn counted(plate: &str, rows: Vec<usize>, times: Vec<f64>) -> Self {
        Self { times: Some(times.into()), ..Self::of(plate, rows, 1) }
    }

    fn of(plate: &str, rows: Vec<usize>, repeats: usize) -> Self {
        let largest = rows.iter().copied().max().unwrap_or_default();
        Self {
            plate: plate.to_owned(),
            repeats,
            rows: rows.into(),
            largest,
            times: None,
            gathered: Gathered::default(),
        }
    }

    /// Row indices; each occurs `repeats` times.
    #[must_use]
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The same, to be kept.
    pub(crate) fn shared_rows(&self) -> &Arc<[usize]> {
        &self.rows
    }

    /// Refuses rows that a plate of `total` rows does not have.
    pub(crate) fn check(&self, total: usize) -> Result<()> {
        let problem = if self.rows.is_empty() {
            "the minibatch has no rows. Give at least one, or leave the plate out of the minibatch.".into()
        } else if self.largest >= total {
            format!("the minibatch asks for row {}, but there are {total} rows.", self.largest)
        } else if let Some(times) = self.times.as_ref().filter(|times| times.len() != self.rows.len()) {
            format!("the minibatch has {} rows, but says of {} how often they count.", self.rows.len(), times.len())
        } else {
            return Ok(());
        };
        Err(Error::Plate { plate: self.plate.clone(), problem })
    }
}

impl<'a> Scope<'a> {
    /// Declares rows that are independent given what they belong to, and evaluates `body` on the rows of this
    /// evaluation.
    ///
    /// `rows` is the number of rows, or, for a plate inside another, the [`Groups`] that say which outer row each of
    /// its rows belongs to: visits in patients, patients in clinics. Groups differ in size, and a plate inside another
    /// may have no rows. [`Rows::expand`] hands an inner row what its outer row has.
    ///
    /// The framework chooses the rows of outermost plates (all, or a minibatch of B out of N) and multiplies every log
    /// density inside by N/B, both of latents and of observations. Rows of plates inside follow the rows they belong
    /// to.
    ///
    /// # Errors
    /// [`Error::Plate`] in the global function, without rows, with an empty minibatch, for a number of rows inside
    /// another plate, and for groups that are not the rows of the enclosing plate; otherwise those of `body`.
    ///
    /// # Example
    /// ```
    /// # use partita_core::{Device, Groups, Model, Normal, Result, Scope, SiteTable, burn};
    /// # use burn::{module::Module, tensor::Tensor};
    /// #[derive(Debug, Clone)]
    /// struct Clinic { visits: Groups, y: Tensor<1> }
    ///
    /// #[derive(Module, Debug)]
    /// struct Patients {}
    ///
    /// impl Model for Patients {
    ///     type Globals = Tensor<1>;
    ///     type Data = Clinic;
    ///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
    ///     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Clinic) -> Result<()> {
    ///         scope.plate("patient", data.visits.groups(), |scope, _| {
    ///             let level = scope.sample("level", Normal::new(mean.clone(), 1.0))?;
    ///             scope.plate("visit", &data.visits, |scope, visits| {
    ///                 scope.observe("y", Normal::new(visits.expand(&level)?, 1.0), visits.take(&data.y)?)
    ///             })
    ///         })
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// let visits = Groups::by_key(&["ada", "bea", "ada"]).unwrap();
    /// let data = Clinic { visits, y: device.tensor(vec![0.5, 0.7, -1.0], [3]) };
    /// let table = SiteTable::of(&Patients {}, &device, &data)?;
    /// assert_eq!((table.blocks()[0].rows, table.blocks()[1].rows), (2, 3));
    /// assert_eq!(table.blocks()[1].parent.as_ref().map(|patients| patients.rows.to_vec()), Some(vec![0, 1, 0]));
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn plate<T>(
        &mut self,
        name: &str,
        rows: impl PlateRows,
        body: impl FnOnce(&mut Self, &Rows<'a>) -> Result<T>,
    ) -> Result<T> {
        let plate = match rows.given() {
            Given::Number(rows) => self.outermost_plate(name, rows)?,
            Given::Groups(groups) => self.inner_plate(name, &groups)?,
        };
        let rows = plate.rows.clone();
        let around = self.place.plate.replace(plate);
        let result = body(self, &rows);
        self.place.plate = around;
        result
    }

    /// A plate of a number of rows, of which a minibatch may choose.
    fn outermost_plate(&mut self, name: &str, total: usize) -> Result<Plate<'a>> {
        self.check_plate(name, total)?;
        let block = self.block(Opened { plate: Some(name), rows: total, within: None })?;
        let minibatch: &'a [Minibatch] = self.minibatch;
        let batch = minibatch.iter().find(|batch| batch.plate == name);
        if let Some(batch) = batch {
            batch.check(total)?;
        }
        let chosen = batch.map(|batch| Chosen::Shared(Arc::clone(&batch.rows)));
        let scale = batch.map_or(1.0, |batch| total as f64 * batch.repeats as f64 / batch.rows.len() as f64);
        let gathered = batch.map(|batch| batch.gathered.clone());
        let (products, repeats) = (self.products.clone(), batch.map_or(1, |batch| batch.repeats));
        let (on_device, precision, outer) = (self.stays_on_device(), self.precision(), Outer::Silo);
        let mut rows = Rows { total, chosen, gathered, on_device, precision, outer, products, repeats, takes: None };
        rows.takes = self.takes.as_ref().map(|takes| takes.of(block, rows.len()));
        let place = self.outermost_place(block, rows.len(), batch.and_then(|batch| batch.times.clone()));
        Ok(Plate { name: name.to_owned(), block, rows, scale, place })
    }

    /// A plate inside another, whose rows follow those of the other.
    fn inner_plate(&mut self, name: &str, groups: &Groups) -> Result<Plate<'a>> {
        let around = self.check_inner(name, groups)?.clone();
        let within = Some((around.block, groups));
        let block = self.block(Opened { plate: Some(name), rows: groups.rows(), within })?;
        let (chosen, places, gathered) = match (around.rows.shared(), &around.rows.gathered) {
            (Some(outer), Some(gathered)) => {
                let followed = gathered.follow(outer, groups);
                (Some(Chosen::Shared(followed.rows)), followed.places, Some(followed.gathered))
            }
            _ => (None, Arc::clone(groups.shared()), None),
        };
        let uploaded = self.table().blocks[block]
            .nesting
            .as_ref()
            .map(|nesting| Arc::clone(&nesting.uploaded))
            .unwrap_or_default();
        let place = self.inner_place(&around, block, &places);
        let outer = Outer::Plate { len: around.rows.len(), places, uploaded };
        let (total, products, repeats) = (groups.rows(), self.products.clone(), around.rows.repeats);
        let (on_device, precision) = (self.stays_on_device(), self.precision());
        let mut rows = Rows { total, chosen, gathered, on_device, precision, outer, products, repeats, takes: None };
        rows.takes = self.takes.as_ref().map(|takes| takes.of(block, rows.len()));
        Ok(Plate { name: name.to_owned(), block, rows, scale: around.scale, place })
    }

    /// The precision of data that rows take: double where this reading computes in it.
    fn precision(&self) -> Option<Precision> {
        Some(self.device.precision()).filter(|own| *own == Precision::Double)
    }

    /// How log densities of the local part are summed, if the reading adds them.
    pub(super) fn terms(&self) -> Option<Terms> {
        match &self.reading {
            super::Reading::Density(density) => Some(density.terms),
            super::Reading::OnDevice(own) => Some(own.terms),
            _ => None,
        }
    }

    /// Where log densities of the rows of an outermost plate are added.
    fn outermost_place(&self, block: usize, rows: usize, times: Option<Arc<[f64]>>) -> RowPlace {
        let level = |block| Level { pass: self.place.pass, block };
        match self.terms() {
            // Rows without latents of their own belong to the silo, whose latents they may depend on.
            Some(Terms::LocalByLevel) if self.table().blocks[block].width == 0 => {
                RowPlace { level: level(None), len: 1, rows, of: Some(vec![0; rows].into()), times }
            }
            _ => RowPlace::own(level(Some(block)), rows),
        }
    }

    /// Where log densities of the rows of a plate inside another are added.
    fn inner_place(&self, around: &Plate<'_>, block: usize, places: &Arc<[usize]>) -> RowPlace {
        match self.terms() {
            Some(Terms::LocalByLevel) if self.table().blocks[block].width > 0 => {
                RowPlace::own(Level { pass: self.place.pass, block: Some(block) }, places.len())
            }
            Some(Terms::LocalByLevel | Terms::LocalByRow) => around.place.within(places),
            _ => around.place.clone(),
        }
    }

    /// The plate around a plate of groups; refuses one of other rows, and none.
    fn check_inner(&self, name: &str, groups: &Groups) -> Result<&Plate<'a>> {
        let (count, problem) = (groups.groups(), |problem: String| Error::Plate { plate: name.into(), problem });
        if self.place.part == Part::Global {
            return Err(problem(IN_GLOBAL.into()));
        }
        let Some(around) = &self.place.plate else {
            return Err(problem(format!(
                "it is one of groups, but stands outside a plate. Open it inside a plate of the {count} groups (`groups.groups()`), or give the number of rows."
            )));
        };
        if around.rows.total() != count {
            return Err(problem(format!(
                "it has rows of {count} groups, but stands in plate `{}` of {} rows, expected one group for each. Group by the rows of the enclosing plate; `Groups::by_key_in` takes their order.",
                around.name,
                around.rows.total()
            )));
        }
        if let Some(batch) = self.minibatch.iter().find(|batch| batch.plate == name) {
            return Err(problem(format!(
                "the minibatch names it, but its rows follow those of plate `{}` around it. Leave `{}` out of the minibatch.",
                around.name, batch.plate
            )));
        }
        Ok(around)
    }

    /// Refuses a plate without rows, and a plate in the global function or in another plate.
    fn check_plate(&self, name: &str, rows: usize) -> Result<()> {
        let problem = if self.place.part == Part::Global {
            IN_GLOBAL.into()
        } else if let Some(around) = &self.place.plate {
            format!(
                "it stands in plate `{}`, and a number of rows does not say which of its {rows} rows belong to which row there. Give `&Groups`, as `Groups::by_key` or `Groups::new` make them.",
                around.name
            )
        } else if rows == 0 {
            "the plate has no rows. Open it only where it has some (`if rows > 0`), or leave out a silo that has no rows at all."
                .into()
        } else {
            return Ok(());
        };
        Err(Error::Plate { plate: name.into(), problem })
    }

    /// Refuses an encoder of rows that the model does not have; a silo that has no rows opens no plate at all.
    pub(crate) fn check_encoded(&self, plate: &str) -> Result<()> {
        let Table::Building(table) = &self.table else { return Ok(()) };
        let plates: Vec<&str> = table.blocks.iter().filter_map(|block| block.plate.as_deref()).collect();
        if plates.is_empty() || plates.contains(&plate) {
            return Ok(());
        }
        let problem = format!(
            "an encoder is to serve its rows, but the model opens no such plate here. Name one of its plates: {}.",
            plates.join(", ")
        );
        Err(Error::Plate { plate: plate.into(), problem })
    }

    /// Gives a distribution of one number as many copies as the plate has rows; refuses other row counts.
    pub(super) fn fit_to_plate(&self, name: &str, mut law: Law) -> Result<Law> {
        let rows = match &self.place.plate {
            Some(plate) if plate.len() == 0 => law.assembled().map(|()| 0)?,
            Some(plate) => law.sound().map(|()| plate.len())?,
            None => return law.sound().map(|()| law),
        };
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

/// Why the global function has no plates.
const IN_GLOBAL: &str = "a plate stands in the global function, but its rows belong to silos. Declare it in `local`; for a global vector use `.iid([n])`.";
