//! Gives the statements of a model: sample, observe, plate, factor, deterministic, module.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;

use super::{Observing, Plate, Scope, Table};
use crate::array::Array;
use crate::declare::rows::Rows;
use crate::declare::site::{LocalBlock, Part, Role, Site, SiteTable};
use crate::distribution::{Distribution, Latent, Law, Support};
use crate::error::{Error, Result};
use crate::handle::Handle;

impl<'a> Scope<'a> {
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

    /// Declares an observed site: the log density of `value` enters the joint density, or minus its loss in a reading
    /// with [`crate::LogDensity::loss`].
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
        let law = self.fit_to_plate(name, distribution.law)?;
        let handle = Handle::from(value);
        law.check_shape(|| self.operation(name), &handle.shape())?;
        if self.enter(name, Role::Observed, Some(&law))?.is_none() {
            return law.check(&self.operation(name), &handle.read()?.values);
        }
        if self.resident.is_some() {
            return self.score_on_device(name, law, handle);
        }
        match self.observing {
            Observing::Score => {
                if self.scoring && !self.quiet && self.by_row() {
                    let rows = law.shape()[0];
                    let scored = law.score_rows(handle, rows).map_err(|error| error.at(|| self.operation(name)))?;
                    self.add_rows(&scored.rows, scored.tape);
                } else if self.scoring && !self.quiet {
                    let scored = law.score_by(self.loss, handle, self.weight_here());
                    let scored = scored.map_err(|error| error.at(|| self.operation(name)))?;
                    self.add(scored.total, scored.tape);
                }
            }
            Observing::Simulate(noise, index) => {
                let draw = law.draw(&mut noise.stream(self.key(crate::noise::Purpose::Predictive, index)))?;
                self.outcome.observed.push((self.full(name).into_owned(), draw));
            }
            Observing::Pointwise => {
                let (arrays, data) = (law.arrays()?, handle.read()?);
                let view = law.view(&arrays);
                view.check(&self.operation(name), &data.values)?;
                let values = view.pointwise(&data.values);
                self.outcome.observed.push((self.full(name).into_owned(), Array::new(values, law.batch.clone())?));
            }
        }
        Ok(())
    }

    /// Declares rows that are independent given the globals, and evaluates `body` on the rows of this evaluation.
    ///
    /// The framework chooses the rows (all, or a minibatch of B out of N) and multiplies every log density inside by
    /// N/B, of latents and of observations alike.
    ///
    /// # Errors
    /// [`Error::Plate`] in the global function, inside another plate, with no row, or with a minibatch of none; otherwise
    /// what `body` refuses.
    pub fn plate<T>(
        &mut self,
        name: &str,
        rows: usize,
        body: impl FnOnce(&mut Self, &Rows<'a>) -> Result<T>,
    ) -> Result<T> {
        let refuse = |problem: &str| Err(Error::Plate { plate: name.into(), problem: problem.into() });
        if self.part == Part::Global {
            return refuse(
                "a plate stands in the global function, but its rows belong to silos. Declare it in `local`; for a global vector use `.iid([n])`.",
            );
        }
        if self.plate.is_some() {
            return refuse(
                "plates cannot be nested. Flatten the two into one plate whose rows are the inner rows, and index the outer level.",
            );
        }
        if rows == 0 {
            return refuse(
                "the plate has no rows: this silo is empty. Leave the silo out, or check how its data were selected.",
            );
        }
        self.block(Some(name), rows)?;
        let minibatch: &'a [super::Minibatch] = self.minibatch;
        let batch = minibatch.iter().find(|batch| batch.plate == name);
        let chosen = batch.map(|batch| batch.rows.as_slice());
        if chosen.is_some_and(<[usize]>::is_empty) {
            return refuse("the minibatch has no rows. Give at least one, or leave the plate out of the minibatch.");
        }
        if let Some(&outside) = chosen.and_then(|chosen| chosen.iter().find(|&&row| row >= rows)) {
            return refuse(&format!("the minibatch asks for row {outside}, but there are {rows} rows."));
        }
        #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
        let scale = batch.map_or(1.0, |batch| rows as f64 * batch.repeats as f64 / batch.rows.len() as f64);
        self.plate = Some(Plate { name: name.to_owned(), total: rows, chosen, scale });
        let on_device = self.resident.is_some();
        let gathered = batch.map(|batch| &batch.gathered);
        let result = body(self, &Rows { total: rows, chosen, gathered, on_device });
        self.plate = None;
        result
    }

    /// Adds the sum of `log_density` (nats) to the joint density.
    ///
    /// Where bounds need log densities row by row, a factor inside a plate gives each row its own numbers. A factor
    /// cannot be simulated and is no part of pointwise log likelihoods: there is nothing to draw.
    ///
    /// # Shapes
    /// Inside a plate the first dimension should be the plate's rows (`rows.len()`); only then does a bound with inner
    /// draws take the factor.
    ///
    /// # Errors
    /// [`Error::DuplicateSite`]; [`Error::NotFiniteMade`] if the sum is not finite; [`Error::Plate`] in a bound with inner
    /// draws if the first dimension is not the plate's rows.
    pub fn factor<const D: usize>(&mut self, name: &str, log_density: Tensor<D>) -> Result<()> {
        if self.enter(name, Role::Factor, None)?.is_none() || !self.scoring || self.quiet {
            return Ok(());
        }
        if self.by_row() {
            return self.factor_by_row(name, log_density);
        }
        let term = Handle::from(log_density.sum() * self.weight_here());
        if self.resident.is_some() {
            self.add(0.0, Some(term));
            return Ok(());
        }
        let found = term.read()?.values[0];
        if !found.is_finite() {
            return Err(Error::NotFiniteMade { operation: format!("factor `{name}`"), found });
        }
        let tape = term.is_tracked().then_some(term);
        self.add(found, tape);
        Ok(())
    }

    /// Keeps a factor's numbers row by row.
    fn factor_by_row<const D: usize>(&mut self, name: &str, log_density: Tensor<D>) -> Result<()> {
        let Some(plate) = &self.plate else { unreachable!("invariant: only a plate has rows") };
        let rows = plate.chosen.map_or(plate.total, <[usize]>::len);
        let shape = log_density.dims();
        if shape[0] != rows {
            return Err(Error::Plate {
                plate: plate.name.clone(),
                problem: format!(
                    "a bound with inner draws cannot split the factor `{name}` of shape {shape:?} by its {rows} rows. Give it one number for each row."
                ),
            });
        }
        let each = shape.iter().product::<usize>() / rows.max(1);
        let term: Tensor<1> = log_density.reshape([rows, each]).sum_dim(1).reshape([rows]);
        let term = Handle::from(term);
        let found = term.read()?.values;
        if let Some(found) = found.iter().copied().find(|number| !number.is_finite()) {
            return Err(Error::NotFiniteMade { operation: format!("factor `{name}`"), found });
        }
        let tape = term.is_tracked().then_some(term);
        self.add_rows(&found, tape);
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

    /// Makes a Burn module Bayesian: every float parameter becomes a latent with the prior `prior`, the same for all where it
    /// is of one number, or one for each in the order Burn visits them.
    ///
    /// Returns the module with its parameters drawn; sites are named `name.0`, `name.1`, ... in the order Burn visits them.
    /// Under a prior on all real numbers their posterior means start at the values that `module` has: give it the
    /// starting values of a network, the same for every party. The module is to be no part of θ: mark its field
    /// `#[module(skip)]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for a prior of another number of numbers, [`Error::Plate`] inside a plate; otherwise as for
    /// [`Scope::sample`].
    pub fn module<M: Module>(&mut self, name: &str, module: &M, prior: Distribution<1>) -> Result<M> {
        prior.law.sound()?;
        let count = Module::num_params(module);
        if !prior.law.is_single() && (prior.law.batch != [count] || !prior.law.event.is_empty()) {
            return Err(Error::Shape {
                operation: format!("prior of module `{name}`"),
                found: prior.shape(),
                expected: vec![1],
                remedy: format!(
                    "Give a prior of one number, of which every parameter of the module gets a copy, or of {count} numbers, one for each."
                ),
            });
        }
        if let Some(plate) = &self.plate {
            return Err(Error::Plate {
                plate: plate.name.clone(),
                problem: format!(
                    "module `{name}` stands in it, but the parameters of a module have no rows. Declare it outside the plate."
                ),
            });
        }
        let mut lift = Lift { scope: self, name, law: prior.law, next: 0, taken: 0, error: None };
        let lifted = module.clone().map(&mut lift);
        lift.error.map_or(Ok(lifted), Err)
    }

    /// Lets the names of the sites that `body` declares begin with `name` and a dot, so that one declaration may stand
    /// several times in a model.
    ///
    /// # Errors
    /// What `body` refuses.
    pub fn within<T>(&mut self, name: &str, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        let result = body(self);
        self.prefix.truncate(before);
        result
    }

    /// Multiplies every log density that `body` declares by `weight`: a power of a likelihood.
    ///
    /// # Errors
    /// [`Error::Argument`] for a weight that is negative or not finite, and in a bound with inner draws, whose rows have
    /// weights of their own; otherwise what `body` refuses.
    pub fn weighted<T>(&mut self, weight: f64, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let refuse = |found: String, expected| {
            Err(Error::Argument { operation: "scope.weighted".into(), argument: "weight", found, expected })
        };
        if !(weight >= 0.0 && weight.is_finite()) {
            return refuse(weight.to_string(), "a finite number >= 0");
        }
        if self.rowwise {
            return refuse(
                "a bound with inner draws".into(),
                "an estimator whose rows have no weights of their own, such as StickingTheLanding",
            );
        }
        let before = self.weight;
        self.weight *= weight;
        let result = body(self);
        self.weight = before;
        result
    }

    /// Gives a distribution of one number as many copies as the plate has rows; refuses other row counts.
    fn fit_to_plate(&self, name: &str, mut law: Law) -> Result<Law> {
        law.sound()?;
        let Some(plate) = &self.plate else { return Ok(law) };
        let rows = plate.chosen.map_or(plate.total, <[usize]>::len);
        if law.batch == [1] && law.event.is_empty() {
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

    /// Registers a site while the table is built (returns `None`), or finds it in the known table.
    pub(super) fn enter(&mut self, name: &str, role: Role, law: Option<&Law>) -> Result<Option<usize>> {
        let full = self.full(name);
        let name = &*full;
        let plate = self.plate.as_ref().map(|plate| plate.name.as_str());
        let shape = law.map(Law::shape).unwrap_or_default();
        let distribution = law.map_or("", |law| law.density.name());
        let non_centred = law.is_some_and(|law| law.non_centred);
        match &mut self.table {
            Table::Known(table) => {
                let index = self.next;
                self.next += 1;
                let same = |site: &&Site| {
                    site.name == name
                        && site.role == role
                        && site.plate.as_deref() == plate
                        && (site.distribution, site.non_centred) == (distribution, non_centred)
                        && same_shape(site, &shape)
                };
                let known = table.sites.get(index);
                if known.filter(same).is_some() {
                    return Ok(Some(index));
                }
                Err(Error::ChangingStructure {
                    found: describe(name, distribution, &shape),
                    expected: known.map_or_else(|| NO_SITE.to_owned(), describe_site),
                })
            }
            Table::Building(table) => {
                if table.site(name).is_some() {
                    return Err(Error::DuplicateSite { site: name.into(), table: table.names() });
                }
                table.sites.push(Site {
                    name: name.to_owned(),
                    role,
                    part: self.part,
                    plate: plate.map(str::to_owned),
                    distribution,
                    support: None,
                    shape,
                    non_centred,
                    event: law.map_or(0, Law::event_len),
                    block: 0,
                    offset: 0,
                    width: 0,
                    bijector: None,
                    start: Vec::new(),
                    layer: false,
                });
                Ok(None)
            }
        }
    }

    /// Lets the posterior mean of the global site just registered start at a parameter's values.
    fn start_at<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) -> Result<()> {
        let Table::Building(SiteTable { sites, .. }) = &mut self.table else { return Ok(()) };
        if let Some(site) = sites.last_mut().filter(|site| site.support == Some(Support::Real)) {
            site.start = Handle::from(parameter.val()).read()?.values;
        }
        Ok(())
    }

    /// Refuses a model that ended before the last site of the table: what it leaves out would be missing silently.
    pub(crate) fn ended(&self) -> Result<()> {
        let Table::Known(table) = &self.table else { return Ok(()) };
        let left = table.sites.iter().skip(self.next).find(|site| site.part == self.part);
        match left {
            None => Ok(()),
            Some(site) => Err(Error::ChangingStructure { found: NO_SITE.to_owned(), expected: describe_site(site) }),
        }
    }

    /// The local block of a plate (or of no plate), made while the table is built.
    pub(super) fn block(&mut self, plate: Option<&str>, rows: usize) -> Result<usize> {
        let known = self.table.get().blocks.iter().position(|block| block.plate.as_deref() == plate);
        match (known, &mut self.table) {
            (Some(block), table) => {
                let found = table.get().blocks[block].rows;
                if found != rows {
                    return Err(Error::Plate {
                        plate: plate.unwrap_or_default().into(),
                        problem: format!(
                            "it has {rows} rows here and {found} elsewhere. Use one plate name for one set of rows."
                        ),
                    });
                }
                Ok(block)
            }
            (None, Table::Building(table)) => {
                table.blocks.push(LocalBlock { plate: plate.map(str::to_owned), rows, width: 0 });
                Ok(table.blocks.len() - 1)
            }
            (None, Table::Known(table)) => Err(Error::ChangingStructure {
                found: format!("plate {}", plate.unwrap_or_default()),
                expected: format!("the plates of the site table ({})", table.names()),
            }),
        }
    }
}

/// What is said where one reading of a model has a site and another has none.
const NO_SITE: &str = "no further site";

fn describe_site(site: &Site) -> String {
    describe(&site.name, site.distribution, &site.shape)
}

fn describe(name: &str, distribution: &str, shape: &[usize]) -> String {
    if distribution.is_empty() { name.to_owned() } else { format!("{name} {distribution} {shape:?}") }
}

/// Whether a site's shape is that of the table, up to the rows of a minibatch.
fn same_shape(site: &Site, shape: &[usize]) -> bool {
    match site.plate {
        Some(_) => site.shape.len() == shape.len() && site.shape.iter().skip(1).eq(shape.iter().skip(1)),
        None => site.shape == shape,
    }
}

/// Replaces a module's parameters by latents, in the order Burn visits them.
struct Lift<'s, 'a> {
    scope: &'s mut Scope<'a>,
    name: &'s str,
    law: Law,
    next: usize,
    /// Parameters lifted so far.
    taken: usize,
    error: Option<Error>,
}

impl ModuleMapper for Lift<'_, '_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shape = parameter.val().dims();
        let own = self.taken..self.taken + shape.iter().product::<usize>();
        self.taken = own.end;
        let law = if self.law.is_single() {
            Law { batch: shape.to_vec(), ..self.law.clone() }
        } else {
            self.law.part(own, shape)
        };
        let site = format!("{}.{}", self.name, self.next);
        self.next += 1;
        if self.error.is_some() {
            return parameter;
        }
        let latent = self.scope.latent(&site, law).and_then(|value| {
            self.scope.start_at(&parameter)?;
            Ok(value)
        });
        match latent {
            Ok(value) => Param::initialized(parameter.id, value),
            Err(error) => {
                self.error = Some(error);
                parameter
            }
        }
    }
}
