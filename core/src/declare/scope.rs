//! Interprets a model's statements: one declaration, five readings (site table, draws, density, predictive, pointwise).

mod affine;
mod entry;
mod latent;
mod layer;
mod module;
mod on_device;
mod outcome;
mod outcomes;
mod plate;
mod reading;
mod single;
mod start;
mod statement;

pub(crate) use outcome::{Leaf, Level, Outcome, Quantity, RowPlace, RowTape};
pub(crate) use outcomes::Outcomes;
pub use plate::{Minibatch, PlateRows};
pub(crate) use reading::AnyMoments;
pub use reading::Moments;
pub(crate) use reading::{Density, Layers, OnDevice, Origin, Reading, Score, Source, Tape, Terms};

use std::borrow::Cow;

use plate::Plate;

use super::design::Products;
use super::panic::caught;
use super::site::{Part, SiteTable};
use super::takes::Takes;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// The interface of a model's functions: `sample`, `observe`, `plate`, `factor`, `deterministic`, `module`.
///
/// The framework makes it; a model does not depend on which reading is evaluated.
#[derive(Debug)]
pub struct Scope<'a> {
    device: &'a Device,
    table: Table<'a>,
    source: Source<'a>,
    reading: Reading<'a>,
    place: Place<'a>,
    minibatch: &'a [Minibatch],
    /// The products of designs that are kept for further passes over the local part, if there are any.
    products: Option<Products>,
    /// Where what rows take of the data is noted, if it is.
    takes: Option<Takes>,
    /// The outcomes that stand in for those of the data, if there are any.
    outcomes: Option<Outcomes>,
    pub(crate) outcome: Outcome,
}

/// The site table: being written, or known.
#[derive(Debug)]
enum Table<'a> {
    Building(SiteTable),
    Known(&'a SiteTable),
}

/// The position of the reading in the model.
#[derive(Debug)]
struct Place<'a> {
    part: Part,
    /// The place in the table of the next site.
    next: usize,
    plate: Option<Plate<'a>>,
    /// The pass over the local part, of several on one tape.
    pass: usize,
    /// The factor on log densities outside plates.
    weight: f64,
    /// The prefix of the names of sites, dot included.
    prefix: String,
    /// Whether values of sites are kept for reports.
    reported: bool,
}

/// How the local part of a model is evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalPart<'a> {
    /// The rows of plates that are evaluated; all rows of the others.
    pub(crate) minibatch: &'a [Minibatch],
    /// The factor on its log densities.
    pub(crate) weight: f64,
}

impl LocalPart<'_> {
    /// All rows, once.
    pub(crate) const WHOLE: Self = Self { minibatch: &[], weight: 1.0 };
}

impl<'a> Scope<'a> {
    /// Reads a model whose sites are known.
    pub(crate) fn new(device: &'a Device, table: &'a SiteTable, source: Source<'a>, reading: Reading<'a>) -> Self {
        Self::starting(device, Table::Known(table), source, reading)
    }

    /// Writes the site table of a model, every latent at its start.
    pub(crate) fn of_site_table(device: &'a Device) -> Self {
        Self::starting(device, Table::Building(SiteTable::default()), Source::START, Reading::SiteTable)
    }

    fn starting(device: &'a Device, table: Table<'a>, source: Source<'a>, reading: Reading<'a>) -> Self {
        let place = Place {
            part: Part::Global,
            next: 0,
            plate: None,
            pass: 0,
            weight: 1.0,
            prefix: String::new(),
            reported: true,
        };
        Self {
            device,
            table,
            source,
            reading,
            place,
            minibatch: &[],
            products: None,
            takes: None,
            outcomes: None,
            outcome: Outcome::default(),
        }
    }

    /// Keeps products of designs and coefficients from here on.
    pub(crate) fn keep_products(&mut self) {
        self.products = Some(Products::default());
    }

    /// Notes what rows take of the data from here on.
    pub(crate) fn note_takes(&mut self) -> Takes {
        self.takes.insert(Takes::default()).clone()
    }

    /// Gives the log densities of the global part a weight, before it is read.
    pub(crate) fn begin_global(&mut self, weight: f64) {
        self.place.weight = weight;
    }

    /// Leaves the global part of the model for the local one.
    pub(crate) fn begin_local(&mut self, local: LocalPart<'a>) {
        (self.place.part, self.place.weight, self.minibatch) = (Part::Local, local.weight, local.minibatch);
    }

    /// What a function of the model gives, or its panic as an error that names the last site declared.
    pub(crate) fn run<T>(&mut self, function: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        caught(|| function(self)).unwrap_or_else(|reason| {
            let last = self.next_site().checked_sub(1).and_then(|last| self.table().sites.get(last));
            let place =
                last.map_or_else(|| "before its first site".into(), |site| format!("after site `{}`", site.name));
            Err(Error::Panicked { place, reason })
        })
    }

    /// The site table that was written.
    ///
    /// # Panics
    /// If it was known before: the readings that write a table make their own scope.
    pub(crate) fn into_table(self) -> SiteTable {
        match self.table {
            Table::Building(table) => table,
            Table::Known(_) => unreachable!("invariant: this scope builds its table"),
        }
    }

    /// The device and precision of this run, for tensors a model makes itself.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Whether this reading leaves every number on the device. A host function such as [`crate::elementwise`] would
    /// then copy to the host and back, so a model may prefer Burn's operations.
    #[must_use]
    pub fn stays_on_device(&self) -> bool {
        matches!(self.reading, Reading::OnDevice(_))
    }

    fn table(&self) -> &SiteTable {
        match &self.table {
            Table::Building(table) => table,
            Table::Known(table) => table,
        }
    }

    /// The full name of a site at this position of the model.
    fn full<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let prefix = &self.place.prefix;
        if prefix.is_empty() { name.into() } else { format!("{prefix}{name}").into() }
    }

    /// The factor on densities at this position of the model.
    fn weight_here(&self) -> f64 {
        self.place.weight * self.place.plate.as_ref().map_or(1.0, |plate| plate.scale)
    }

    /// The treatment of a log density at this position of the model.
    fn score(&self) -> Score {
        let Some(terms) = self.terms() else { return Score::Skip };
        match (terms, self.place.part, &self.place.plate) {
            (Terms::Local | Terms::LocalByRow | Terms::LocalByLevel, Part::Global, _) => Score::Skip,
            (Terms::LocalByRow, Part::Local, Some(_)) | (Terms::LocalByLevel, Part::Local, _) => Score::ByRow,
            _ => Score::Sum(self.weight_here()),
        }
    }

    /// Where log densities of the plate now evaluated are added row by row.
    fn row_place(&self) -> RowPlace {
        let silo = || RowPlace::own(Level { pass: self.place.pass, block: None }, 1);
        self.place.plate.as_ref().map_or_else(silo, |plate| plate.place.clone())
    }

    /// Adds log densities of the rows of the plate now evaluated, with the weight of this position of the model.
    ///
    /// Bounds with inner draws weigh rows themselves, and refuse `weighted`.
    fn add_by_row(&mut self, mut numbers: Vec<f64>, tape: Option<Handle>) {
        let weight = if self.terms() == Some(Terms::LocalByLevel) { self.place.weight } else { 1.0 };
        let tape = if (weight - 1.0).abs() < f64::EPSILON {
            tape
        } else {
            numbers.iter_mut().for_each(|number| *number *= weight);
            tape.map(|tape| Handle::from(tape.typed::<1>() * weight))
        };
        self.outcome.add_rows(&self.row_place(), &numbers, tape);
    }

    /// Whether this is a plate without rows to evaluate: a level that a silo lacks, or groups without rows.
    fn is_empty_here(&self) -> bool {
        self.place.plate.as_ref().is_some_and(|plate| plate.len() == 0)
    }

    fn operation(&self, name: &str) -> String {
        let prefix = &self.place.prefix;
        match &self.place.plate {
            Some(plate) => format!("site `{prefix}{name}` in plate `{}`", plate.name),
            None => format!("site `{prefix}{name}`"),
        }
    }

    /// Keeps a value on its natural scale, if the reading keeps values.
    fn keep(&mut self, name: &str, handle: &Handle) -> Result<()> {
        if self.place.reported && matches!(self.reading, Reading::NaturalValues | Reading::Simulate(_)) {
            let name = self.full(name).into_owned();
            self.outcome.values.push((name, handle.read()?));
        }
        Ok(())
    }
}
