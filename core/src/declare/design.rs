//! Holds a constant design matrix and multiplies it by coefficients as one node of the tape.

mod on_device;
mod products;
mod single;

pub(crate) use products::Products;

use std::sync::Arc;

use burn::tensor::Tensor;

use self::products::Whole;
use self::single::{Numbers, Single};
use crate::array::Array;
use crate::declare::rows::{Outer, Rows};
use crate::declare::uploaded::Uploaded;
use crate::device::Precision;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::kernel::{add_scaled, dot};
use crate::math::operation;

/// A constant design: covariates of each row, or of each of the `repeats` measurements of a row.
///
/// $$ \eta_{rt} = \sum_k x_{rtk}\thinspace \beta_k + b_r $$
/// with $\beta$ = `coefficients` and $b$ = `intercepts`.
///
/// # Shapes
/// A `Design<2>` is `[rows, columns]` and its predictors are `[rows]`; a `Design<3>` is `[rows, repeats, columns]` and
/// its predictors are `[rows, repeats]`. Both are given row-major. `Design` alone names a `Design<3>`.
///
/// # Numerics
/// Numbers are kept and multiplied in double precision. At a party of a vertical model on a device of single precision they
/// are multiplied in single precision, and kept in both: a sum over rows is in double precision from 2,048 rows to the next.
///
/// # Example
/// ```
/// use partita_core::{Design, Device};
/// let device = Device::flex();
/// let design = Design::new(vec![1.0, 2.0, 3.0, 4.0], [2, 2])?;
/// let predictor = design.predictor(device.tensor(vec![10.0, 1.0], [2]), None)?;
/// assert_eq!(predictor.dims(), [2]);
/// assert_eq!(predictor.into_data().try_into_vec::<f64>().unwrap(), [12.0, 34.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Design<const D: usize = 3> {
    /// Column by column, so that every loop runs over contiguous numbers.
    values: Arc<Vec<f64>>,
    /// `[rows, repeats, columns]`, with one repeat where the rank is 2.
    cells: [usize; 3],
    uploaded: Arc<Uploaded<Tensor<2>>>,
    /// The same numbers in single precision, where rows are taken that are multiplied in it.
    single: Single,
    precision: Precision,
    /// The rows taken, where rows are taken on the device; `values` are then those of all rows.
    taken: Option<on_device::Taken>,
    /// All rows, of which the values stay those, where products are kept.
    whole: Option<Whole>,
    /// What the rows taken belong to.
    outer: Outer,
}

/// What is added to the predictor of a row.
#[derive(Debug)]
enum Intercepts {
    None,
    /// One number a row.
    OfRows(Tensor<1>),
    /// One number for each outer row, and the outer row of each row.
    OfGroups(Tensor<1>, Arc<[usize]>),
}

impl<const D: usize> Design<D> {
    /// Makes a design of row-major `values`.
    ///
    /// The shape is `[rows, columns]` or `[rows, repeats, columns]`; another number of dimensions does not compile.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not one value a cell, [`Error::NotFinite`] for NaN or infinite values.
    pub fn new(values: Vec<f64>, shape: [usize; D]) -> Result<Self> {
        const { assert!(D == 2 || D == 3, "a design is [rows, columns] or [rows, repeats, columns]") };
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite { operation: "design matrix".into(), found: values[index], index });
        }
        let given = Array::new(values, shape.to_vec())?.values;
        let (rows, columns) = (shape[0], shape[D - 1]);
        let cells = [rows, if D == 3 { shape[1] } else { 1 }, columns];
        let by_column = (0..columns).flat_map(|column| given.iter().skip(column).step_by(columns)).copied().collect();
        let (single, precision, outer) = (Single::default(), Precision::Double, Outer::Unknown);
        let (values, uploaded) = (Arc::new(by_column), Arc::default());
        Ok(Self { values, cells, uploaded, single, precision, taken: None, whole: None, outer })
    }

    /// The shape: `[rows, columns]` or `[rows, repeats, columns]`.
    #[must_use]
    pub fn shape(&self) -> [usize; D] {
        let mut shape = [self.cells[0]; D];
        shape[1..].copy_from_slice(&self.cells[4 - D..]);
        shape
    }

    /// The rows of a plate's evaluation.
    ///
    /// # Errors
    /// [`Error::Shape`] if the plate's total is not the design's number of rows.
    pub fn take(&self, rows: &Rows<'_>) -> Result<Self> {
        let [found, repeats, columns] = self.cells;
        let mut expected = self.shape();
        expected[0] = rows.total();
        let remedy = "Give the plate as many rows as the design has.";
        Error::same_shape("rows of a design", &self.shape(), &expected, remedy)?;
        rows.note(|row, noted| {
            for column in self.values.chunks_exact((found * repeats).max(1)) {
                noted.extend(column[row * repeats..][..repeats].iter().map(|own| own.to_bits()));
            }
        });
        let outer = rows.outer.clone();
        if rows.on_device {
            return Ok(Self { outer, ..self.take_on_device(rows) });
        }
        let cells = [rows.len(), repeats, columns];
        let products = rows.products.clone();
        if let (Some(products), true) = (&products, rows.repeats > 1) {
            let whole = Whole { products: products.clone(), total: found, chosen: rows.shared_indices() };
            return Ok(Self { cells, whole: Some(whole), outer, ..self.clone() });
        }
        let whole = products.map(|products| Whole { products, total: rows.len(), chosen: None });
        let precision = rows.of_designs();
        let Some(values) = rows.gather(&self.values, |chosen| self.gather(chosen)) else {
            return Ok(Self { precision, whole, outer, ..self.clone() });
        };
        let (uploaded, single) = (Arc::default(), Single::default());
        Ok(Self { values, cells, uploaded, single, precision, taken: None, whole, outer })
    }

    /// The cells of these rows, column by column.
    fn gather(&self, chosen: &[usize]) -> Vec<f64> {
        let [found, repeats, columns] = self.cells;
        let mut values = Vec::with_capacity(chosen.len() * repeats * columns);
        for column in self.values.chunks_exact((found * repeats).max(1)) {
            match repeats {
                1 => values.extend(chosen.iter().map(|&row| column[row])),
                _ => {
                    chosen.iter().for_each(|&row| values.extend_from_slice(&column[row * repeats..(row + 1) * repeats]))
                }
            }
        }
        values
    }

    /// The predictor of every cell, in `[rows]` or `[rows, repeats]`.
    fn cells_predictor(&self, coefficients: Tensor<1>, intercepts: Intercepts) -> Result<Handle> {
        let [rows, repeats, columns] = self.cells;
        check("coefficients", coefficients.dims()[0], columns)?;
        let shape = if D == 2 { vec![rows] } else { vec![rows, repeats] };
        if let Some(taken) = &self.taken {
            let eta = self.predictor_on_device(taken, coefficients, intercepts);
            return Ok(Handle::from(eta).reshaped(&shape));
        }
        operation::computes_on_host("Design::predictor");
        let (intercepts, places) = match intercepts {
            Intercepts::None => (None, None),
            Intercepts::OfRows(intercepts) => (Some(intercepts), None),
            Intercepts::OfGroups(intercepts, places) => (Some(intercepts), Some(places)),
        };
        let (coefficients, intercepts) = (Handle::from(coefficients), intercepts.map(Handle::from));
        if let Some(whole) = &self.whole {
            let product = whole.product(&self.values, coefficients, self.cells);
            return whole.take(product, (intercepts, places), repeats, shape);
        }
        let inputs = [Some(coefficients), intercepts];
        let (numbers, cells) = (self.numbers(), self.cells);
        operation::apply_with_constants(inputs, move |[beta, intercepts], wanted| {
            let count = intercepts.as_ref().map_or(0, Vec::len);
            let own = Start { intercepts: intercepts.as_deref(), places: places.as_deref() };
            let eta = numbers.multiply(&beta.unwrap_or_default(), own, cells);
            let back = move |gradient: &[f64]| {
                let mut results = Vec::with_capacity(2);
                if wanted[0] {
                    results.push(numbers.by_coefficient(gradient, cells));
                }
                if wanted[1] {
                    results.push(by_intercept(gradient, cells[1], count, places.as_deref()));
                }
                results
            };
            (Array { values: eta, shape }, Box::new(back))
        })
    }

    /// The numbers that are multiplied.
    fn numbers(&self) -> Numbers {
        match self.precision {
            Precision::Double => Numbers::Double(Arc::clone(&self.values)),
            Precision::Single => Numbers::Single(self.single.of(&self.values)),
        }
    }

    fn of_rows(&self, intercepts: Option<Tensor<1>>) -> Result<Intercepts> {
        let Some(intercepts) = intercepts else { return Ok(Intercepts::None) };
        check("intercepts", intercepts.dims()[0], self.cells[0])?;
        Ok(Intercepts::OfRows(intercepts))
    }

    fn of_groups(&self, intercepts: Tensor<1>) -> Result<Intercepts> {
        let (expected, places) = match &self.outer {
            Outer::Unknown => return Err(not_taken()),
            Outer::Silo => (1, vec![0; self.cells[0]].into()),
            Outer::Plate { len, places, .. } => (*len, Arc::clone(places)),
        };
        let operation = "intercepts of a linear predictor by group";
        let remedy = "Give one intercept for each row now evaluated of the enclosing plate; outside, one for the silo.";
        Error::same_shape(operation, &intercepts.dims(), &[expected], remedy)?;
        Ok(Intercepts::OfGroups(intercepts, places))
    }
}

impl Design<2> {
    /// The linear predictor, with an intercept for each row where given.
    ///
    /// # Shapes
    /// `coefficients`: `[columns]`; `intercepts`: `[rows]`. Returns `[rows]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for coefficients or intercepts of other shapes.
    pub fn predictor(&self, coefficients: Tensor<1>, intercepts: Option<Tensor<1>>) -> Result<Tensor<1>> {
        Ok(self.cells_predictor(coefficients, self.of_rows(intercepts)?)?.typed())
    }

    /// The linear predictor with an intercept for each outer row: that of the patient at each visit.
    ///
    /// The design must be one that [`Design::take`] returned for the rows of an inner plate. It is one node of the tape:
    /// [`Rows::expand`] and [`Design::predictor`] would be two.
    ///
    /// # Shapes
    /// `coefficients`: `[columns]`; `intercepts`: one for each row now evaluated of the enclosing plate. Returns `[rows]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for coefficients or intercepts of other shapes; [`Error::Argument`] for a design that no rows
    /// were taken of.
    ///
    /// # Example
    /// ```
    /// # use partita_core::{Design, Device, Groups, Latents, LogDensity, Model, Normal, Result, Scope, SiteTable, burn};
    /// # use burn::{module::Module, tensor::Tensor};
    /// #[derive(Module, Debug)]
    /// struct Visits {}
    ///
    /// impl Model for Visits {
    ///     type Globals = Tensor<1>;
    ///     type Data = (Groups, Design<2>, Tensor<1>);
    ///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("beta", Normal::new(0.0, 1.0)) }
    ///     fn local(&self, scope: &mut Scope, beta: &Tensor<1>, (visits, design, y): &Self::Data) -> Result<()> {
    ///         scope.plate("patient", visits.groups(), |scope, _| {
    ///             let levels = scope.sample("level", Normal::new(0.0, 1.0))?;
    ///             scope.plate("visit", visits, |scope, rows| {
    ///                 let mean = design.take(rows)?.predictor_by_group(beta.clone(), levels)?;
    ///                 scope.observe("y", Normal::new(mean, 1.0), rows.take(y)?)
    ///             })
    ///         })
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// let (visits, design) = (Groups::of_sizes(&[2, 1]).unwrap(), Design::new(vec![1.0, 2.0, 3.0], [3, 1])?);
    /// let data = (visits, design, device.tensor(vec![1.5, 2.5, 2.0], [3]));
    /// let table = SiteTable::of(&Visits {}, &device, &data)?;
    /// let levels = [vec![0.5, -1.0], Vec::new()];
    /// let found = LogDensity::new(&Visits {}, &device, &table)
    ///     .local(Latents { globals: &[1.0], locals: &levels }, &data)?;
    /// // The predictors are the outcomes; the levels lie 0.5 and 1 from zero.
    /// let expected = -0.5 * (0.25 + 1.0) - 2.5 * (2.0 * std::f64::consts::PI).ln();
    /// assert!((found.value - expected).abs() < 1e-12);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn predictor_by_group(&self, coefficients: Tensor<1>, intercepts: Tensor<1>) -> Result<Tensor<1>> {
        Ok(self.cells_predictor(coefficients, self.of_groups(intercepts)?)?.typed())
    }
}

impl Design<3> {
    /// The linear predictor, with an intercept for each row where given.
    ///
    /// # Shapes
    /// `coefficients`: `[columns]`; `intercepts`: `[rows]`. Returns `[rows, repeats]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for coefficients or intercepts of other shapes.
    pub fn predictor(&self, coefficients: Tensor<1>, intercepts: Option<Tensor<1>>) -> Result<Tensor<2>> {
        Ok(self.cells_predictor(coefficients, self.of_rows(intercepts)?)?.typed())
    }

    /// As [`Design::<2>::predictor_by_group`], for rows of several measurements.
    ///
    /// # Shapes
    /// `coefficients`: `[columns]`; `intercepts`: one for each row now evaluated of the enclosing plate. Returns
    /// `[rows, repeats]`.
    ///
    /// # Errors
    /// As for [`Design::<2>::predictor_by_group`].
    pub fn predictor_by_group(&self, coefficients: Tensor<1>, intercepts: Tensor<1>) -> Result<Tensor<2>> {
        Ok(self.cells_predictor(coefficients, self.of_groups(intercepts)?)?.typed())
    }
}

fn not_taken() -> Error {
    let expected = "what `design.take(rows)` returns for the rows of a plate inside another";
    Error::argument("predictor_by_group", "design", "a design of which no plate took rows", expected)
}

/// Numbers of a column that are multiplied at a time: their predictors stay in the first-level cache.
const TILE: usize = 2_048;

fn check(what: &str, found: usize, expected: usize) -> Result<()> {
    let remedy = "One coefficient a column of the design, one intercept a row.";
    Error::same_shape(format_args!("{what} of a linear predictor"), &[found], &[expected], remedy)
}

/// The numbers that predictors start from: one a row, or those at the `places` of the rows.
#[derive(Debug, Clone, Copy)]
struct Start<'a> {
    intercepts: Option<&'a [f64]>,
    places: Option<&'a [usize]>,
}

impl Start<'_> {
    /// The intercept of each cell, or zero.
    fn cells(self, rows: usize, repeats: usize) -> Vec<f64> {
        let mut cells = match self {
            Self { intercepts: Some(own), places: Some(places) } if repeats == 1 => {
                return places.iter().map(|place| own[*place]).collect();
            }
            _ => vec![0.0; rows * repeats],
        };
        let each = cells.chunks_exact_mut(repeats.max(1));
        match (self.intercepts, self.places) {
            (Some(own), None) => each.zip(own).for_each(|(row, intercept)| row.fill(*intercept)),
            (Some(own), Some(places)) => each.zip(places).for_each(|(row, place)| row.fill(own[*place])),
            (None, _) => {}
        }
        cells
    }
}

fn multiply(values: &[f64], beta: &[f64], start: Start<'_>, [rows, repeats, _]: [usize; 3]) -> Vec<f64> {
    let mut eta = start.cells(rows, repeats);
    for (tile, start) in eta.chunks_mut(TILE).zip((0..).step_by(TILE)) {
        for (column, coefficient) in values.chunks_exact((rows * repeats).max(1)).zip(beta) {
            add_scaled(tile, *coefficient, &column[start..start + tile.len()]);
        }
    }
    eta
}

fn by_coefficient(values: &[f64], gradient: &[f64], [rows, repeats, columns]: [usize; 3]) -> Vec<f64> {
    let mut by_coefficient = vec![0.0; columns];
    for (tile, start) in gradient.chunks(TILE).zip((0..).step_by(TILE)) {
        for (sum, column) in by_coefficient.iter_mut().zip(values.chunks_exact((rows * repeats).max(1))) {
            *sum += dot(&column[start..start + tile.len()], tile);
        }
    }
    by_coefficient
}

/// The derivative by each of `count` intercepts: the sum over the cells of its row, or of the rows at its place.
fn by_intercept(gradient: &[f64], repeats: usize, count: usize, places: Option<&[usize]>) -> Vec<f64> {
    let rows = || gradient.chunks_exact(repeats.max(1)).map(|row| row.iter().sum::<f64>());
    let Some(places) = places else { return rows().collect() };
    let mut sums = vec![0.0; count];
    if repeats != 1 {
        rows().zip(places).for_each(|(own, place)| sums[*place] += own);
        return sums;
    }
    // Rows of one group mostly follow each other: their sum stays in a register.
    let mut own = gradient.iter();
    for run in places.chunk_by(|a, b| a == b) {
        sums[run[0]] += own.by_ref().take(run.len()).sum::<f64>();
    }
    sums
}
