//! Reads the prior of the globals at several draws, with two readings of the model where its laws are numbers.

use std::sync::atomic::Ordering::Relaxed;

use burn::module::Module;

use super::density::LogDensity;
use super::gradient::ValueAndGradient;
use crate::declare::model::Model;
use crate::declare::scope::{Declared, Density, Source, Tape, Terms};
use crate::declare::site::{Part, Role};
use crate::error::Result;
use crate::handle::Handle;

/// What the model declares at one draw of the globals.
struct DeclaredPrior<'s> {
    found: ValueAndGradient,
    laws: Vec<Declared<'s>>,
    handles: Vec<Handle>,
}

impl<M: Model> LogDensity<'_, M> {
    /// [`LogDensity::global`] at several vectors.
    ///
    /// A prior of which every parameter is a number is declared at the first vector and at the last. Where both declare the
    /// same numbers, they are those of the vectors between, and the model is not asked again. A model whose numbers differ,
    /// because it reads values of globals on the host, is asked at every vector from then on.
    ///
    /// # Errors
    /// As for [`LogDensity::global`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, LogDensity, Model, Normal, Result, Scope, SiteTable, burn};
    /// use burn::{module::Module, tensor::Tensor};
    /// # #[derive(Module, Debug)]
    /// # struct Mean {}
    /// # impl Model for Mean {
    /// #     type Globals = Tensor<1>;
    /// #     type Data = ();
    /// #     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
    /// #     fn local(&self, _: &mut Scope, _: &Tensor<1>, _: &()) -> Result<()> { Ok(()) }
    /// # }
    /// let device = Device::flex();
    /// let table = SiteTable::globals(&Mean {}, &device)?;
    /// let found = LogDensity::new(&Mean {}, &device, &table).global_each(&[&[0.5], &[-1.0], &[2.0]])?;
    /// assert!((found[1].globals[0] - 1.0).abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn global_each(&self, draws: &[&[f64]]) -> Result<Vec<ValueAndGradient>> {
        let (first, between, last) = match draws {
            [first, between @ .., last] if !between.is_empty() && self.may_declare_once() => (first, between, last),
            _ => return draws.iter().map(|draw| self.global(draw)).collect(),
        };
        let (first, last) = (self.declare(first)?, self.declare(last)?);
        let latents = self.table.latents(Part::Global).count();
        let are_complete = [&first, &last].iter().all(|own| [own.laws.len(), own.handles.len()] == [latents; 2]);
        let are_same = are_complete && first.laws.iter().zip(&last.laws).all(|(one, other)| one.is_same(other));
        if !are_same {
            self.table.declares_anew.store(true, Relaxed);
        }
        let mut found = Vec::with_capacity(draws.len());
        let DeclaredPrior { found: at_first, laws, handles } = first;
        found.push(at_first);
        for draw in between {
            found.push(if are_same { self.by_laws(draw, &laws, &handles)? } else { self.global(draw)? });
        }
        found.push(last.found);
        Ok(found)
    }

    /// Whether the global part is latents alone, with constant laws as far as is known.
    fn may_declare_once(&self) -> bool {
        let mut globals = self.table.sites.iter().filter(|site| site.part == Part::Global);
        !self.table.global_tape
            && !self.table.declares_anew.load(Relaxed)
            && globals.all(|site| matches!(site.role, Role::Latent | Role::Deterministic))
            && Module::num_params(self.model) == 0
    }

    fn declare<'s>(&'s self, globals: &'s [f64]) -> Result<DeclaredPrior<'s>> {
        self.table.check_latents(globals, None, |_| 0)?;
        let reading = Density { latents: Tape::Constants, ..self.reading(Terms::Joint) };
        let mut scope = self.scope(Source::globals(globals), reading);
        scope.note_declared();
        scope.run(|scope| self.model.global(scope))?;
        scope.ended()?;
        let laws = scope.take_declared();
        let handles = scope.outcome.leaves.iter().map(|leaf| leaf.handle.clone()).collect();
        let found = self.finish(scope.outcome, ValueAndGradient::default(), &[])?;
        Ok(DeclaredPrior { found, laws, handles })
    }

    fn by_laws(&self, globals: &[f64], laws: &[Declared<'_>], handles: &[Handle]) -> Result<ValueAndGradient> {
        self.table.check_latents(globals, None, |_| 0)?;
        let reading = Density { latents: Tape::Constants, ..self.reading(Terms::Joint) };
        let mut scope = self.scope(Source::globals(globals), reading);
        scope.score_declared(laws, handles)?;
        self.finish(scope.outcome, ValueAndGradient::default(), &[])
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::math::kernel::testing::{bits, scattered};
    use crate::{Beta, Device, Error, HalfNormal, Normal, Scope, SiteTable};

    thread_local! {
        /// How often the model was asked for its globals on this thread.
        static ASKED: Cell<usize> = const { Cell::new(0) };
    }

    /// How the level depends on the scale.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Kind {
        Apart,
        Standardised,
        Read,
        OnTape,
        Factor,
    }

    #[derive(Module, Debug)]
    struct Tested {
        #[module(skip)]
        kind: Kind,
    }

    impl Model for Tested {
        type Globals = ();
        type Data = ();

        fn global(&self, scope: &mut Scope<'_>) -> Result<()> {
            ASKED.set(ASKED.get() + 1);
            scope.sample("beta", Normal::new(0.5, 2.0).iid([2]))?;
            let scale = scope.sample("scale", HalfNormal::new(1.5))?;
            let level = match self.kind {
                Kind::Apart | Kind::Factor => Normal::new(0.0, 1.0),
                Kind::Standardised => Normal::new(0.0, scale.clone()).non_centred(),
                Kind::Read => Normal::new(0.0, Handle::from(scale.clone()).read()?.values[0]),
                Kind::OnTape => Normal::new(0.0, scale.clone()),
            };
            scope.sample("level", level)?;
            scope.sample("cuts", Normal::new(0.0, 1.0).iid([3]).ordered())?;
            let share = scope.sample("share", Beta::new(2.0, 3.0))?;
            scope.deterministic("twice", share * 2.0)?;
            if self.kind == Kind::Factor { scope.factor("bend", scale.square()) } else { Ok(()) }
        }

        fn local(&self, _: &mut Scope<'_>, (): &(), (): &()) -> Result<()> {
            Ok(())
        }
    }

    fn all_bits(found: &[ValueAndGradient]) -> Vec<Vec<u64>> {
        found.iter().map(|own| bits(&[&[own.value], own.globals.as_slice()].concat())).collect()
    }

    #[test]
    fn the_prior_at_several_draws_is_that_at_each_and_asks_the_model_twice_where_its_laws_are_numbers() {
        let device = Device::flex();
        let asked = [
            (Kind::Apart, [2, 2]),
            (Kind::Standardised, [2, 2]),
            (Kind::Read, [5, 5]),
            (Kind::OnTape, [5, 5]),
            (Kind::Factor, [5, 5]),
        ];
        for (kind, expected) in asked {
            let table = SiteTable::globals(&Tested { kind }, &device).unwrap();
            let length = table.global_len();
            let draws: Vec<Vec<f64>> = (0..5).map(|draw| scattered(length, f64::from(draw) - 3.0, 1.5)).collect();
            let draws: Vec<&[f64]> = draws.iter().map(Vec::as_slice).collect();
            let density = LogDensity::new(&Tested { kind }, &device, &table);
            let each: Vec<_> = draws.iter().map(|draw| density.global(draw).unwrap()).collect();
            for expected in expected {
                ASKED.set(0);
                let found = density.global_each(&draws).unwrap();
                assert_eq!(all_bits(&found), all_bits(&each), "{kind:?}");
                assert_eq!(ASKED.get(), expected, "{kind:?}");
            }
            assert_eq!(table.declares_anew.load(Relaxed), kind == Kind::Read, "{kind:?}");
        }
    }

    #[test]
    fn few_draws_are_read_one_by_one() {
        let device = Device::flex();
        let model = Tested { kind: Kind::Apart };
        let table = SiteTable::globals(&model, &device).unwrap();
        let density = LogDensity::new(&model, &device, &table);
        let draw = scattered(table.global_len(), -1.0, 1.0);
        for count in 0..=2 {
            let draws = vec![draw.as_slice(); count];
            assert_eq!(density.global_each(&draws).unwrap(), vec![density.global(&draw).unwrap(); count]);
        }
        let wrong = density.global_each(&[&draw, &[0.0], &draw]).unwrap_err();
        assert!(matches!(wrong, Error::Length { found: 1, .. }), "{wrong}");
    }
}
