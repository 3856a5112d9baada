//! Hands a plate its rows: all of them, or those of a minibatch.

use std::sync::Arc;

use burn::tensor::{DType, FloatDType, Int, Tensor};

use crate::declare::design::Products;
use crate::declare::gathered::Gathered;
use crate::declare::nesting::Chosen;
use crate::declare::takes::TakesOfPlate;
use crate::declare::uploaded::{Uploaded, indices};
use crate::device::Precision;
use crate::distribution::Distribution;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::{expand_rows, inner_products};

/// The rows of a plate that are being evaluated.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    pub(crate) total: usize,
    pub(crate) chosen: Option<Chosen<'a>>,
    /// The cache of what other evaluations of the same rows took.
    pub(crate) gathered: Option<Gathered>,
    /// Whether tensors taken of these rows stay on the device.
    pub(crate) on_device: bool,
    /// The precision that all data are taken in: tensors in double precision, designs in either; `None` for tensors as they
    /// are, and designs in double precision.
    pub(crate) precision: Option<Precision>,
    pub(crate) outer: Outer,
    /// The products of designs that this reading keeps, if it does.
    pub(crate) products: Option<Products>,
    /// How often each row of the outermost plate is repeated.
    pub(crate) repeats: usize,
    /// Where what rows take is noted, if this reading does.
    pub(crate) takes: Option<TakesOfPlate>,
}

/// What the rows of a plate belong to.
#[derive(Debug, Clone)]
pub(crate) enum Outer {
    /// Unknown: the rows stand outside a model's statements.
    Unknown,
    /// The silo: one outer row.
    Silo,
    /// The rows of the enclosing plate that are evaluated.
    Plate {
        len: usize,
        /// The place among them of each row evaluated.
        places: Arc<[usize]>,
        /// These places on a device, where all rows are evaluated.
        uploaded: Arc<Uploaded<Tensor<1, Int>>>,
    },
}

impl<'a> Rows<'a> {
    /// These rows (all for `None`) of a plate of `total`, gathered on the host.
    pub(crate) fn on_host(total: usize, chosen: Option<&'a [usize]>) -> Self {
        let chosen = chosen.map(Chosen::Given);
        let (outer, repeats) = (Outer::Unknown, 1);
        let (on_device, precision) = (false, None);
        Self { total, chosen, gathered: None, on_device, precision, outer, products: None, repeats, takes: None }
    }

    /// The same rows, gathered on the device.
    pub(crate) fn on_device(total: usize, chosen: Option<&'a [usize]>) -> Self {
        Self { on_device: true, ..Self::on_host(total, chosen) }
    }

    /// The number of rows now evaluated.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.total, |chosen| chosen.len())
    }

    /// Whether no row is evaluated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rows of the whole plate.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The indices now evaluated, or `None` for all rows in order.
    #[must_use]
    pub fn indices(&self) -> Option<&[usize]> {
        if let Some(takes) = &self.takes {
            takes.give_up();
        }
        self.chosen.as_deref()
    }

    /// Notes the numbers that `add` adds for a row of the whole plate, for each row evaluated, where they are noted.
    pub(crate) fn note(&self, add: impl FnMut(usize, &mut Vec<u64>)) {
        let Some(takes) = &self.takes else { return };
        match self.chosen.as_deref() {
            Some(chosen) => takes.note(chosen.iter().copied(), add),
            None => takes.note(0..self.total, add),
        }
    }

    /// Notes the rows of a tensor.
    fn note_tensor(&self, tensor: &Handle) {
        let Some(takes) = &self.takes else { return };
        match tensor.constant() {
            Some(numbers) => {
                let each = numbers.len() / self.total.max(1);
                self.note(|row, noted| noted.extend(numbers[row * each..][..each].iter().map(|own| own.to_bits())));
            }
            None => takes.give_up(),
        }
    }

    /// These rows of a tensor that has one entry a row in its first dimension; in double precision where the reading computes
    /// in it.
    ///
    /// # Shapes
    /// `tensor`: `[total, ...]` → `[len, ...]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the first dimension is not the plate's number of rows.
    pub fn take<const D: usize>(&self, tensor: &Tensor<D>) -> Result<Tensor<D>> {
        let shape = tensor.dims();
        let mut expected = shape;
        expected[0] = self.total;
        Error::same_shape("rows.take", &shape, &expected, "Give the plate as many rows as the data has.")?;
        if self.takes.is_some() {
            self.note_tensor(&Handle::from(tensor.clone()));
        }
        let Some(chosen) = self.chosen.as_deref() else { return Ok(self.widened(tensor.clone())) };
        let select = || tensor.clone().select(0, indices(chosen.iter().copied(), &tensor.device()));
        let (Some(gathered), Some(chosen)) = (&self.gathered, self.shared()) else { return Ok(self.widened(select())) };
        let source = Handle::from(tensor.clone());
        Ok(self.widened(gathered.tensor(chosen, &source, || Handle::from(select())).typed()))
    }

    /// The same numbers in double precision, where the reading computes in it and they are in single precision.
    fn widened<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        let is_double = self.precision == Some(Precision::Double);
        if is_double && tensor.dtype() == DType::F32 { tensor.cast(FloatDType::F64) } else { tensor }
    }

    /// The precision in which designs that these rows are taken of are multiplied.
    pub(crate) fn of_designs(&self) -> Precision {
        self.precision.unwrap_or(Precision::Double)
    }

    /// What the outer rows have, for each of these rows: the effect of a patient at each of the patient's visits.
    ///
    /// Outer rows are those now evaluated of the enclosing plate; around an outermost plate it is the silo, one row.
    ///
    /// # Shapes
    /// `tensor`: `[outer len, ...]` → `[len, ...]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the first dimension is not the number of outer rows now evaluated; [`Error::Argument`] for
    /// rows that a plate did not hand out, as those of an encoder.
    ///
    /// # Example
    /// ```
    /// # use partita_core::{Device, Groups, Latents, LogDensity, Model, Normal, Result, Scope, SiteTable, burn};
    /// # use burn::{module::Module, tensor::Tensor};
    /// #[derive(Module, Debug)]
    /// struct Visits {}
    ///
    /// impl Model for Visits {
    ///     type Globals = ();
    ///     type Data = (Groups, Tensor<1>);
    ///     fn global(&self, _: &mut Scope) -> Result<()> { Ok(()) }
    ///     fn local(&self, scope: &mut Scope, _: &(), (visits, y): &Self::Data) -> Result<()> {
    ///         scope.plate("patient", visits.groups(), |scope, _| {
    ///             let level = scope.sample("level", Normal::new(0.0, 1.0))?;
    ///             scope.plate("visit", visits, |scope, rows| {
    ///                 scope.observe("y", Normal::new(rows.expand(&level)?, 1.0), rows.take(y)?)
    ///             })
    ///         })
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// let data = (Groups::of_sizes(&[2, 1]).unwrap(), device.tensor(vec![0.5, 0.7, -1.0], [3]));
    /// let table = SiteTable::of(&Visits {}, &device, &data)?;
    /// let levels = [vec![0.5, -1.0], Vec::new()];
    /// let found = LogDensity::new(&Visits {}, &device, &table)
    ///     .local(Latents { globals: &[], locals: &levels }, &data)?;
    /// // Five normal densities at distances of 0.5, 1, 0, 0.2 and 0.
    /// let expected = -0.5 * (0.25 + 1.0 + 0.04) - 2.5 * (2.0 * std::f64::consts::PI).ln();
    /// assert!((found.value - expected).abs() < 1e-12);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn expand<const D: usize>(&self, tensor: &Tensor<D>) -> Result<Tensor<D>> {
        let found = tensor.dims();
        let mut shape = found;
        shape[0] = match &self.outer {
            Outer::Unknown => return Err(no_outer_rows()),
            Outer::Silo => 1,
            Outer::Plate { len, .. } => *len,
        };
        let remedy = "Give one entry for each row now evaluated of the enclosing plate: a latent of that plate, or what its rows take of data; outside, one for the silo.";
        Error::same_shape("rows.expand", &found, &shape, remedy)?;
        let Outer::Plate { places, uploaded, .. } = &self.outer else {
            shape[0] = self.len();
            return Ok(tensor.clone().expand(shape));
        };
        if self.on_device {
            let device = tensor.device().inner();
            let upload = || indices(places.iter().copied(), &device);
            let index = if self.chosen.is_some() { upload() } else { uploaded.for_tensor(tensor, |_| upload()) };
            return Ok(tensor.clone().select(0, index));
        }
        let source = Handle::from(tensor.clone());
        let expand = || expand_rows(source.clone(), Arc::clone(places));
        Ok(match (&self.gathered, self.shared()) {
            (Some(gathered), Some(chosen)) => gathered.expanded(chosen, &source, expand).typed(),
            _ => expand().typed(),
        })
    }

    /// What the outer rows have times constant columns of these rows, summed over columns: of the intercept and the slope of
    /// each patient, $`b_{g0} + b_{g1} t`$ at each visit. It is one node of the tape.
    ///
    /// # Shapes
    /// `effects`: `[outer len, width]`; `columns`: `[total, width]` → `[len]`.
    ///
    /// # Errors
    /// Those of [`Rows::expand`] and [`Rows::take`].
    ///
    /// # Example
    /// ```
    /// # use partita_core::{Device, Groups, Latents, Model, Normal, Result, Scope, SiteTable, burn, natural_values};
    /// # use burn::{module::Module, tensor::Tensor};
    /// #[derive(Module, Debug)]
    /// struct Slopes {}
    ///
    /// impl Model for Slopes {
    ///     type Globals = ();
    ///     type Data = (Groups, Tensor<2>);
    ///     fn global(&self, _: &mut Scope) -> Result<()> { Ok(()) }
    ///     fn local(&self, scope: &mut Scope, _: &(), (visits, columns): &Self::Data) -> Result<()> {
    ///         scope.plate("patient", visits.groups(), |scope, patients| {
    ///             let effects = scope.sample("effects", Normal::new(0.0, 1.0).iid([patients.len(), 2]))?;
    ///             scope.plate("visit", visits, |scope, rows| {
    ///                 scope.deterministic("level", rows.inner_products(&effects, columns)?).map(|_| ())
    ///             })
    ///         })
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// let columns = device.tensor(vec![1.0, 0.0, 1.0, 2.0, 1.0, 3.0], [3, 2]);
    /// let data = (Groups::of_sizes(&[2, 1]).unwrap(), columns);
    /// let table = SiteTable::of(&Slopes {}, &device, &data)?;
    /// let locals = [vec![0.5, 1.0, -1.0, 2.0], Vec::new()];
    /// let found = natural_values(&Slopes {}, &device, &table, &data, Latents { globals: &[], locals: &locals })?;
    /// assert_eq!(found[1].1.values, [0.5, 2.5, 5.0]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn inner_products(&self, effects: &Tensor<2>, columns: &Tensor<2>) -> Result<Tensor<1>> {
        let columns = self.take(columns)?;
        let expected = [effects.dims()[0], columns.dims()[1]];
        let remedy = "Give each group as many effects as there are columns.";
        Error::same_shape("rows.inner_products", &effects.dims(), &expected, remedy)?;
        match &self.outer {
            // A column that depends on latents has a gradient of its own.
            Outer::Plate { len, places, .. }
                if !self.on_device && !columns.is_autodiff() && effects.dims() == [*len, columns.dims()[1]] =>
            {
                let (effects, columns) = (Handle::from(effects.clone()), Handle::from(columns).read()?);
                Ok(inner_products(effects, columns, Arc::clone(places)).typed())
            }
            _ => Ok((self.expand(effects)? * columns).sum_dim(1).reshape([-1])),
        }
    }

    /// These rows of a constant stored in its own layout: `gather` is called with the indices, `None` for all rows.
    pub(crate) fn gather(
        &self,
        source: &Arc<Vec<f64>>,
        gather: impl FnOnce(&[usize]) -> Vec<f64>,
    ) -> Option<Arc<Vec<f64>>> {
        let chosen = self.chosen.as_deref()?;
        Some(match (&self.gathered, self.shared()) {
            (Some(gathered), Some(shared)) => gathered.numbers(shared, source, || gather(chosen)),
            _ => Arc::new(gather(chosen)),
        })
    }

    /// As [`Rows::indices`], to be kept.
    pub(crate) fn shared_indices(&self) -> Option<Arc<[usize]>> {
        Some(match self.chosen.as_ref()? {
            Chosen::Shared(rows) => Arc::clone(rows),
            Chosen::Given(rows) => Arc::from(*rows),
        })
    }

    /// The indices, where they are those of a minibatch.
    pub(crate) fn shared(&self) -> Option<&Arc<[usize]>> {
        match self.chosen.as_ref()? {
            Chosen::Shared(rows) => Some(rows),
            Chosen::Given(_) => None,
        }
    }

    /// The number of rows, for [`Distribution::over`].
    pub(crate) fn repeat<S>(&self, distribution: Distribution<1, S>) -> Distribution<1, S> {
        distribution.iid([self.len()])
    }
}

fn no_outer_rows() -> Error {
    let expected = "the rows of a plate; an encoder takes what it needs of outer rows from data with one entry a row";
    Error::argument("rows.expand", "rows", "rows that no plate handed out", expected)
}

impl<S> Distribution<1, S> {
    /// One independent copy for each of these rows.
    #[must_use]
    pub fn over(self, rows: &Rows<'_>) -> Self {
        rows.repeat(self)
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::module::Module;
    use burn::tensor::Tensor;

    use crate::{Device, Groups, Latents, LogDensity, Model, Normal, Result, Scope, SiteTable};

    /// Visits whose column is multiplied by a global.
    #[derive(Module, Debug)]
    struct Scaled {}

    impl Model for Scaled {
        type Globals = Tensor<1>;
        type Data = (Groups, Tensor<2>, Tensor<1>);

        fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
            scope.sample("scale", Normal::new(0.0, 1.0))
        }

        fn local(&self, scope: &mut Scope<'_>, scale: &Tensor<1>, (visits, column, y): &Self::Data) -> Result<()> {
            scope.plate("patient", visits.groups(), |scope, patients| {
                let effects = scope.sample("effect", Normal::new(0.0, 1.0).iid([patients.len(), 1]))?;
                scope.plate("visit", visits, |scope, rows| {
                    let scaled = column.clone() * scale.clone().reshape([1, 1]);
                    scope.observe("y", Normal::new(rows.inner_products(&effects, &scaled)?, 1.0), rows.take(y)?)
                })
            })
        }
    }

    #[test]
    fn columns_that_depend_on_a_global_have_a_gradient_by_it() {
        let device = Device::flex();
        let (column, y) = (device.tensor(vec![1.0, 2.0, 3.0], [3, 1]), device.tensor(vec![0.0; 3], [3]));
        let data = (Groups::of_sizes(&[2, 1]).unwrap(), column, y);
        let table = SiteTable::of(&Scaled {}, &device, &data).unwrap();
        let locals = [vec![0.5, -1.0], Vec::new()];
        let density = LogDensity::new(&Scaled {}, &device, &table);
        let found = density.local(Latents { globals: &[2.0], locals: &locals }, &data).unwrap();
        // Minus the scale of two times the squares of (0.5, 1, -3).
        assert!((found.globals[0] + 2.0 * 10.25).abs() < 1e-12, "{:?}", found.globals);
    }
}
