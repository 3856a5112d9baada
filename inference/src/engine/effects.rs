//! Declares a logistic model of rows with effects, single or nested, for tests of what rows give each by itself.

use partita_core::burn::module::Module;
use partita_core::burn::tensor::Tensor;
use partita_core::{Bernoulli, Groups, Model, Normal, Result, Scope};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Rows with some effects each, in which others stand with one of their own where they are nested.
#[derive(Module, Debug)]
pub(crate) struct Effects {
    /// At most four.
    #[module(skip)]
    pub(crate) latents: usize,
    #[module(skip)]
    pub(crate) nested: Option<Groups>,
}

impl Model for Effects {
    type Globals = [Tensor<1>; 2];
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<[Tensor<1>; 2]> {
        Ok([scope.sample("mean", Normal::new(0.0, 1.0))?, scope.sample("omega", Normal::new(0.0, 1.0))?])
    }

    fn local(&self, scope: &mut Scope<'_>, [mean, omega]: &[Tensor<1>; 2], y: &Tensor<1>) -> Result<()> {
        let effect = || Normal::new(mean.clone(), omega.clone().exp());
        let Some(groups) = &self.nested else {
            return scope.plate("row", y.dims()[0], |scope, rows| {
                let mut logit = scope.sample(NAMES[0], effect())?;
                for name in &NAMES[1..self.latents] {
                    logit = logit + scope.sample(name, effect())?;
                }
                scope.observe("y", Bernoulli::logits(logit), rows.take(y)?)
            });
        };
        scope.plate("row", groups.groups(), |scope, _| {
            let outer = scope.sample("u", effect())?;
            scope.plate("inner", groups, |scope, inner| {
                let own = scope.sample("v", Normal::new(inner.expand(&outer)?, 0.5))?;
                scope.observe("y", Bernoulli::logits(own), inner.take(y)?)
            })
        })
    }
}
