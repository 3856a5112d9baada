//! Reads a model as log densities by rows and levels, at several latents of rows, and sums them with weights given later.

use std::sync::atomic::Ordering::Relaxed;

use burn::tensor::Tensor;

use super::density::LogDensity;
use super::draw::observed_at;
use super::gradient::{ValueAndGradient, collect_own};
use super::latents::Latents;
use crate::array::Array;
use crate::declare::model::Model;
use crate::declare::scope::{Density, Level, Outcome, Reading, RowTape, Scope, Tape, Terms};
use crate::declare::site::Part;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::{linear_form, own_tape};

/// Log densities of the local part, by rows and levels, in several passes: what integrals over the latents of rows are
/// made of.
///
/// A level is a block of the site table with latents, or the silo (`None`). What stands in a plate without latents
/// counts to the level around it.
#[derive(Debug)]
pub struct Levels<'d, M: Model> {
    density: &'d LogDensity<'d, M>,
    outcome: Outcome,
    /// Partita's own tape, where all of it is on that.
    tape: Option<own_tape::OwnTape>,
}

impl<M: Model> LogDensity<'_, M> {
    /// $\log p_\theta(y_r, u_r \mid u_{\text{outer}}, Z_G)$ for the rows $r$ of every level, where pass $k$ has the
    /// latents $u$ = `passes[k]`.
    ///
    /// All passes are on one tape: what depends on the globals alone is computed once. Latents of rows are constants.
    ///
    /// # Shapes
    /// `passes`: one vector a block, of the rows evaluated, as [`crate::Latents::locals`] has them.
    ///
    /// # Errors
    /// As for [`LogDensity::global`]; [`Error::Argument`] for a loss that is not the negative log likelihood.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, LogDensity, Model, Normal, Result, Scope, SiteTable, burn};
    /// use burn::{module::Module, tensor::Tensor};
    /// # #[derive(Module, Debug)]
    /// # struct Effects {}
    /// # impl Model for Effects {
    /// #     type Globals = Tensor<1>;
    /// #     type Data = Tensor<1>;
    /// #     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
    /// #     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
    /// #         scope.plate("row", data.dims()[0], |s, rows| {
    /// #             let effect = s.sample("effect", Normal::new(mean.clone(), 1.0))?;
    /// #             s.observe("y", Normal::new(effect, 1.0), rows.take(data)?)
    /// #         })
    /// #     }
    /// # }
    /// let (device, data) = (Device::flex(), Device::flex().tensor(vec![0.5, 2.0], [2]));
    /// let table = SiteTable::of(&Effects {}, &device, &data)?;
    /// let density = LogDensity::new(&Effects {}, &device, &table);
    /// let levels = density.levels(&[0.0], &[vec![vec![0.5, 1.0]]], &data)?;
    /// // Squares of 0.5 and of 0 in the first row, of 1 and of 1 in the second.
    /// let constant = (2.0 * std::f64::consts::PI).ln();
    /// assert!((levels.rows(0, Some(0))[1] - (-1.0 - constant)).abs() < 1e-12);
    /// // The gradient by the mean of the first row less twice that of the second: 0.5 - 2 * 1.
    /// let gradient = levels.gradient(|_, _| vec![1.0, -2.0])?;
    /// assert!((gradient.globals[0] + 1.5).abs() < 1e-12);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn levels(&self, globals: &[f64], passes: &[Vec<Vec<f64>>], data: &M::Data) -> Result<Levels<'_, M>> {
        if self.tries_own_tape(Part::Local) {
            let (levels, tape) = own_tape::during(|| self.by_level(globals, passes, data, Tape::Own));
            let levels = levels?;
            let is_known = |tensor: &Tensor<1>| tape.knows(&Handle::from(tensor.clone()));
            let Outcome { row_tapes, tape: others, .. } = &levels.outcome;
            if row_tapes.iter().map(|own| &own.tape).chain(others).all(is_known) {
                own_tape::sweep(self.device);
                return Ok(Levels { tape: Some(tape), ..levels });
            }
            self.table.needs_burn_tape(Part::Local).store(true, Relaxed);
        }
        self.by_level(globals, passes, data, Tape::Leaves)
    }

    /// The same without a tape: its rows can be read, and its gradient is zero.
    ///
    /// # Errors
    /// As for [`LogDensity::levels`].
    pub fn level_values(&self, globals: &[f64], passes: &[Vec<Vec<f64>>], data: &M::Data) -> Result<Levels<'_, M>> {
        self.by_level(globals, passes, data, Tape::Fixed)
    }

    /// For every row evaluated of each block, the first of them that takes the same of the data, with all rows inside.
    ///
    /// The log densities of such rows are the same function of globals and their latents, so that an integral over these
    /// latents is the same number. A row that takes what depends on latents, or reads [`crate::Rows::indices`], is alike to
    /// itself alone. A model that reads data without [`crate::Rows::take`] says nothing of it here.
    ///
    /// # Shapes
    /// Places among the rows evaluated, one vector a block.
    ///
    /// # Errors
    /// As for [`LogDensity::levels`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, LogDensity, Model, Normal, Result, Scope, SiteTable, burn};
    /// use burn::{module::Module, tensor::Tensor};
    /// # #[derive(Module, Debug)]
    /// # struct Effects {}
    /// # impl Model for Effects {
    /// #     type Globals = Tensor<1>;
    /// #     type Data = Tensor<1>;
    /// #     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
    /// #     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
    /// #         scope.plate("row", data.dims()[0], |s, rows| {
    /// #             let effect = s.sample("effect", Normal::new(mean.clone(), 1.0))?;
    /// #             s.observe("y", Normal::new(effect, 1.0), rows.take(data)?)
    /// #         })
    /// #     }
    /// # }
    /// let (device, data) = (Device::flex(), Device::flex().tensor(vec![0.5, 2.0, 0.5], [3]));
    /// let table = SiteTable::of(&Effects {}, &device, &data)?;
    /// let density = LogDensity::new(&Effects {}, &device, &table);
    /// assert_eq!(density.rows_alike(&[0.0], &data)?, [[0, 1, 0]]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn rows_alike(&self, globals: &[f64], data: &M::Data) -> Result<Vec<Vec<usize>>> {
        self.table.check_minibatch(self.minibatch)?;
        self.table.check_latents(globals, None, |_| 0)?;
        let rows = |block: usize| self.rows(block);
        let blocks = 0..self.table.blocks.len();
        let locals: Vec<Vec<f64>> = blocks.map(|at| vec![0.0; rows(at) * self.table.blocks[at].width]).collect();
        let reading = Density { latents: Tape::Leaves, ..self.reading(Terms::LocalByLevel) };
        let mut scope = self.scope(Latents { globals, locals: &locals }.source(), reading);
        let values = scope.run(|scope| self.model.global(scope))?;
        let takes = scope.note_takes();
        scope.begin_local(self.local_part());
        scope.run(|scope| self.model.local(scope, &values, data))?;
        scope.ended()?;
        let outer = |block: usize| {
            let around = self.table.blocks[block].parent.as_ref().map(|parent| parent.block);
            let around = around.filter(|around| self.table.blocks[*around].plate.is_some());
            Ok(around.zip(self.table.outer_places(block, self.minibatch)?))
        };
        takes.alike(self.table, outer, rows)
    }

    /// The log likelihood (nats) of every observation in the rows evaluated, unscaled, by observed site.
    ///
    /// # Shapes
    /// That of the data of each site, with one entry along its first axis for each row evaluated of its plate.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Latents, LogDensity, Minibatch, Model, Normal, Result, Scope, SiteTable, burn};
    /// use burn::{module::Module, tensor::Tensor};
    /// # #[derive(Module, Debug)]
    /// # struct Mean {}
    /// # impl Model for Mean {
    /// #     type Globals = Tensor<1>;
    /// #     type Data = Tensor<1>;
    /// #     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
    /// #     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
    /// #         scope.plate("row", data.dims()[0], |s, rows| {
    /// #             s.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?)
    /// #         })
    /// #     }
    /// # }
    /// let (device, data) = (Device::flex(), Device::flex().tensor(vec![0.5, 2.0], [2]));
    /// let (table, last) = (SiteTable::of(&Mean {}, &device, &data)?, [Minibatch::new("row", vec![1])]);
    /// let density = LogDensity::new(&Mean {}, &device, &table).minibatch(&last);
    /// let found = density.pointwise(Latents { globals: &[1.0], locals: &[vec![]] }, &data)?;
    /// // A square of 1 in the second row, which alone is evaluated, and not weighted by 2.
    /// assert!((found[0].1.values[0] + 0.5 + 0.5 * (2.0 * std::f64::consts::PI).ln()).abs() < 1e-12);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn pointwise(&self, latents: Latents<'_>, data: &M::Data) -> Result<Vec<(String, Array)>> {
        self.table.check_minibatch(self.minibatch)?;
        self.table.check_latents(latents.globals, Some(latents.locals), |block| self.rows(block))?;
        let scope = Scope::new(self.device, self.table, latents.source(), Reading::Pointwise);
        observed_at(self.model, data, self.local_part(), scope)
    }

    fn by_level(
        &self,
        globals: &[f64],
        passes: &[Vec<Vec<f64>>],
        data: &M::Data,
        latents: Tape,
    ) -> Result<Levels<'_, M>> {
        self.table.check_minibatch(self.minibatch)?;
        self.table.check_latents(globals, None, |_| 0)?;
        for locals in passes {
            self.table.check_latents(globals, Some(locals), |block| self.rows(block))?;
        }
        let (Some(first), true) = (passes.first(), self.loss.is_log()) else {
            return Err(Error::Argument {
                operation: "log densities by levels".into(),
                argument: if self.loss.is_log() { "passes" } else { "loss" },
                found: if self.loss.is_log() { "none".into() } else { self.loss.to_string() },
                expected: "at least one pass, and the negative log likelihood",
            });
        };
        let reading = Density { latents, ..self.reading(Terms::LocalByLevel) };
        let source = Latents { globals, locals: first }.source();
        let mut scope = self.scope(source, reading);
        let values = scope.run(|scope| self.model.global(scope))?;
        scope.keep_products();
        scope.begin_local(self.local_part());
        let start = scope.next_site();
        for (pass, locals) in passes.iter().enumerate() {
            scope.begin_pass(start, pass, locals);
            scope.run(|scope| self.model.local(scope, &values, data))?;
            scope.ended()?;
        }
        Ok(Levels { density: self, outcome: scope.outcome, tape: None })
    }
}

impl<M: Model> Levels<'_, M> {
    /// The log densities of the rows of a level in one pass; empty where the model declares nothing there.
    #[must_use]
    pub fn rows(&self, pass: usize, block: Option<usize>) -> &[f64] {
        let level = Level { pass, block };
        self.outcome.levels.iter().find(|own| own.level == level).map_or(&[], |own| own.rows.as_slice())
    }

    /// The sum over passes, levels and rows of `weights` times log densities, and its gradient by globals and θ.
    ///
    /// `weights` gives one number for each row of a level in a pass.
    ///
    /// # Errors
    /// [`Error::Device`] if a gradient cannot be read.
    pub fn gradient(self, weights: impl Fn(usize, Option<usize>) -> Vec<f64>) -> Result<ValueAndGradient> {
        let Self { density, mut outcome, tape } = self;
        let known: Vec<(Level, Vec<f64>)> =
            outcome.levels.iter().map(|own| (own.level, weights(own.level.pass, own.level.block))).collect();
        outcome.total = 0.0;
        for (own, (_, weights)) in outcome.levels.iter().zip(&known) {
            outcome.total += own.rows.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>();
        }
        let sum = |outcome: &mut Outcome| {
            for RowTape { place, tape } in std::mem::take(&mut outcome.row_tapes) {
                let Some((_, weights)) = known.iter().find(|(level, _)| *level == place.level) else { continue };
                if weights.iter().any(|weight| *weight != 0.0) {
                    outcome.add_tape(linear_form(Handle::from(tape), place.spread(weights)).typed());
                }
            }
        };
        let Some(tape) = tape else {
            sum(&mut outcome);
            return density.finish(outcome, ValueAndGradient::default(), &[]);
        };
        let ((), tape) = own_tape::resume(tape, || sum(&mut outcome));
        let root = outcome.tape.take().map(Handle::from);
        let gradients = root.map(|root| {
            let gradients = tape.backward(&root);
            gradients.unwrap_or_else(|| unreachable!("invariant: a sum over rows that are on a tape is on it"))
        });
        collect_own(outcome, density.table, ValueAndGradient::default(), gradients)
    }
}
