//! Gives the statements of a model: sample, observe, factor, deterministic, within, weighted.

use burn::tensor::Tensor;

use super::{Reading, Scope, Score, Terms};
use crate::array::Array;
use crate::declare::site::{Part, Role};
use crate::distribution::{Distribution, Latent, Law, Loss};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::noise::Purpose;

impl Scope<'_> {
    /// Declares a latent site and returns its value.
    ///
    /// # Shapes
    /// The distribution's. Inside a plate a distribution of shape `[1]` is repeated for every row; any other must
    /// have the plate's rows in its first dimension.
    ///
    /// # Errors
    /// [`Error::DuplicateSite`], [`Error::Shape`], [`Error::ChangingStructure`] if the sites differ from the last
    /// evaluation's, [`Error::NotFiniteMade`] if its log density is not finite.
    pub fn sample<const D: usize, S>(&mut self, name: &str, distribution: Distribution<D, S>) -> Result<Tensor<D>>
    where
        Distribution<D, S>: Latent,
    {
        let law = self.fit_to_plate(name, distribution.law)?;
        self.latent(name, law)
    }

    /// Declares a latent site that reports leave out, for sites declared by [`Scope::deterministic`] say what it holds: as a
    /// Cholesky factor, of which people read correlations.
    ///
    /// # Errors
    /// Those of [`Scope::sample`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Latents, Model, Normal, Result, Scope, SiteTable, burn, natural_values};
    /// # use burn::module::Module;
    /// #[derive(Module, Debug)]
    /// struct Twice {}
    ///
    /// impl Model for Twice {
    ///     type Globals = ();
    ///     type Data = ();
    ///     fn global(&self, scope: &mut Scope) -> Result<()> {
    ///         let half = scope.sample_unreported("half", Normal::new(0.0, 1.0).iid([1]))?;
    ///         scope.deterministic("whole", half * 2.0).map(|_| ())
    ///     }
    ///     fn local(&self, _: &mut Scope, _: &(), _: &()) -> Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// let table = SiteTable::of(&Twice {}, &device, &())?;
    /// let found = natural_values(&Twice {}, &device, &table, &(), Latents { globals: &[1.5], locals: &[] })?;
    /// assert_eq!(found.iter().map(|(name, own)| (name.as_str(), own.values[0])).collect::<Vec<_>>(), [("whole", 3.0)]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn sample_unreported<const D: usize, S>(
        &mut self,
        name: &str,
        distribution: Distribution<D, S>,
    ) -> Result<Tensor<D>>
    where
        Distribution<D, S>: Latent,
    {
        let before = std::mem::replace(&mut self.place.reported, false);
        let value = self.sample(name, distribution);
        self.place.reported = before;
        value
    }

    /// Declares an observed site: its log density enters the joint density, or minus its loss in a reading with
    /// [`crate::LogDensity::loss`].
    ///
    /// # Shapes
    /// `value` has exactly the distribution's shape: Partita never broadcasts an observation.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::NotFinite`] and [`Error::Support`] for data that do not fit (with the site's name
    /// and the index), [`Error::NotFiniteMade`] if the log density is not finite, [`Error::DuplicateSite`],
    /// [`Error::Loss`] for a distribution that the loss of the reading is not defined for.
    pub fn observe<const D: usize, S>(
        &mut self,
        name: &str,
        distribution: Distribution<D, S>,
        value: Tensor<D>,
    ) -> Result<()> {
        let mut law = self.fit_to_plate(name, distribution.law)?;
        let handle = Handle::from(self.outcome_of(name, &mut law, value)?);
        law.check_shape(|| self.operation(name), &handle.shape())?;
        self.enter(name, Role::Observed, Some(&law))?;
        if self.is_empty_here() {
            self.observe_no_rows(name, &law);
            return Ok(());
        }
        match &self.reading {
            Reading::SiteTable => law.check(&self.operation(name), &handle.read()?.values),
            Reading::Values | Reading::NaturalValues => Ok(()),
            Reading::Observed => {
                let data = handle.read()?;
                self.observed(name, data);
                Ok(())
            }
            Reading::Simulate(draw) => {
                let draw = law.draw(&mut draw.noise.stream(self.key(Purpose::Predictive, draw.index)));
                let draw = draw.map_err(|error| error.at(|| self.operation(name)))?;
                self.observed(name, draw);
                Ok(())
            }
            Reading::Expected => {
                let mean = law.moment(|density, parameters| density.mean(parameters))?;
                let none = || Array::new(vec![f64::NAN; law.shape().iter().product()], law.shape());
                let mean = mean.map_or_else(none, Ok)?;
                self.observed(name, mean);
                Ok(())
            }
            Reading::Pointwise => {
                let (arrays, data) = (law.arrays()?, handle.read()?);
                let view = law.view(&arrays);
                view.check(&self.operation(name), &data.values)?;
                let values = view.pointwise(&data.values);
                self.observed(name, Array::new(values, law.batch.clone())?);
                Ok(())
            }
            Reading::Density(density) => {
                let loss = density.loss;
                self.score_on_tape(name, law, handle, loss)
            }
            Reading::OnDevice(_) => self.score_on_device(name, law, handle),
        }
    }

    /// Adds the log density of a site on the tape, or minus its loss.
    pub(super) fn score_on_tape(&mut self, name: &str, law: Law, value: Handle, loss: Loss) -> Result<()> {
        match self.score() {
            Score::Skip => {}
            Score::ByRow => {
                let rows = self.row_place().rows;
                let scored = law.score_rows(value, rows).map_err(|error| error.at(|| self.operation(name)))?;
                self.add_by_row(scored.rows, scored.tape);
            }
            Score::Sum(weight) => {
                let scored = law.score_by(loss, value, weight).map_err(|error| error.at(|| self.operation(name)))?;
                self.outcome.add(scored.total, scored.tape);
            }
        }
        Ok(())
    }

    /// Records an observation of a plate without rows, whose log density is zero.
    fn observe_no_rows(&mut self, name: &str, law: &Law) {
        let shape = match &self.reading {
            Reading::Simulate(_) | Reading::Observed | Reading::Expected => law.shape(),
            Reading::Pointwise => law.batch.clone(),
            _ => return,
        };
        self.observed(name, Array { values: Vec::new(), shape });
    }

    /// Records the value of an observed site.
    fn observed(&mut self, name: &str, values: Array) {
        let name = self.full(name).into_owned();
        self.outcome.observed.push((name, values));
    }

    /// Adds the sum of `log_density` (nats) to the joint density.
    ///
    /// A bound that needs log densities row by row reads a factor inside a plate row by row. A factor is not simulated
    /// and is no part of pointwise log likelihoods, since it has no distribution to draw from.
    ///
    /// # Shapes
    /// Inside a plate the first dimension should be the plate's rows (`rows.len()`); a bound with inner draws accepts
    /// no other factor.
    ///
    /// # Errors
    /// [`Error::DuplicateSite`]; [`Error::NotFiniteMade`] if the sum is not finite; [`Error::Plate`] in a bound with
    /// inner draws if the first dimension is not the plate's rows.
    pub fn factor<const D: usize>(&mut self, name: &str, log_density: Tensor<D>) -> Result<()> {
        self.enter(name, Role::Factor, None)?;
        if self.is_empty_here() {
            return Ok(());
        }
        if self.stays_on_device() {
            return self.factor_on_device(name, log_density);
        }
        match self.score() {
            Score::Skip => Ok(()),
            Score::ByRow => self.factor_by_row(name, log_density),
            Score::Sum(weight) => {
                let term = Handle::from(log_density.sum() * weight);
                let found = term.read()?.values[0];
                if !found.is_finite() {
                    return Err(Error::NotFiniteMade { operation: format!("factor `{name}`"), found });
                }
                let tape = term.is_tracked().then_some(term);
                self.outcome.add(found, tape);
                Ok(())
            }
        }
    }

    /// The sums of a factor's numbers in each row of the plate now evaluated.
    pub(super) fn split_by_row<const D: usize>(&self, name: &str, log_density: Tensor<D>) -> Result<Tensor<1>> {
        let rows = self.row_place().rows;
        let shape = log_density.dims();
        if let Some(plate) = self.place.plate.as_ref().filter(|_| shape[0] != rows) {
            return Err(Error::Plate {
                plate: plate.name.clone(),
                problem: format!(
                    "a bound with inner draws cannot split the factor `{name}` of shape {shape:?} by its {rows} rows. Give it one number for each row."
                ),
            });
        }
        let each = shape.iter().product::<usize>() / rows.max(1);
        Ok(log_density.reshape([rows, each]).sum_dim(1).reshape([rows]))
    }

    /// Keeps a factor's numbers row by row.
    fn factor_by_row<const D: usize>(&mut self, name: &str, log_density: Tensor<D>) -> Result<()> {
        let term = Handle::from(self.split_by_row(name, log_density)?);
        let found = term.read()?.values;
        if let Some(found) = found.iter().copied().find(|number| !number.is_finite()) {
            return Err(Error::NotFiniteMade { operation: format!("factor `{name}`"), found });
        }
        let tape = term.is_tracked().then_some(term);
        self.add_by_row(found, tape);
        Ok(())
    }

    /// Records a function of other sites under a name, for reports and predictions, and returns it.
    ///
    /// # Errors
    /// [`Error::DuplicateSite`]; [`Error::Device`] if it cannot be read.
    pub fn deterministic<const D: usize>(&mut self, name: &str, value: Tensor<D>) -> Result<Tensor<D>> {
        self.enter(name, Role::Deterministic, None)?;
        let handle = Handle::from(value);
        self.keep(name, &handle)?;
        Ok(handle.typed())
    }

    /// Prefixes the names of the sites that `body` declares with `name` and a dot, so that one declaration may occur
    /// several times in a model.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn within<T>(&mut self, name: &str, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.place.prefix.len();
        self.place.prefix.push_str(name);
        self.place.prefix.push('.');
        let result = body(self);
        self.place.prefix.truncate(before);
        result
    }

    /// Multiplies every log density that `body` declares by `weight`: a power of a likelihood.
    ///
    /// # Errors
    /// [`Error::Argument`] for a weight that is negative or not finite, and in a bound with inner draws, whose rows
    /// have their own weights; otherwise those of `body`.
    pub fn weighted<T>(&mut self, weight: f64, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let refuse = |found: String, expected| {
            Err(Error::Argument { operation: "scope.weighted".into(), argument: "weight", found, expected })
        };
        if !(weight >= 0.0 && weight.is_finite()) {
            return refuse(weight.to_string(), "a finite number >= 0");
        }
        if self.terms() == Some(Terms::LocalByRow) && self.place.part == Part::Local {
            return refuse(
                "a bound with inner draws".into(),
                "an estimator whose rows have no weights of their own, such as StickingTheLanding",
            );
        }
        let before = self.place.weight;
        self.place.weight *= weight;
        let result = body(self);
        self.place.weight = before;
        result
    }
}
