//! Scores latents at further values by the laws that a reading has declared, without the model.

use super::{Entered, Values};
use crate::declare::scope::{Leaf, Quantity, RowPlace, Scope, Score, Table, Tape};
use crate::distribution::{Law, Parameter, Support};
use crate::error::Result;
use crate::handle::Handle;

/// A latent as a reading declared it, by a law whose parameters are numbers.
#[derive(Debug)]
pub(crate) struct Declared<'n> {
    entered: Entered<'n>,
    score: Score,
}

impl Declared<'_> {
    /// Whether both are declared by the same numbers; name, family and shape are those of the table.
    pub(crate) fn is_same(&self, other: &Declared<'_>) -> bool {
        let one = (self.entered.index, self.score);
        one == (other.entered.index, other.score) && numbers(&self.entered.law).eq(numbers(&other.entered.law))
    }
}

/// The bits of the parameters of a law; `None` for a tensor.
fn numbers(law: &Law) -> impl Iterator<Item = Option<u64>> {
    law.parameters.iter().map(|own| match own {
        Parameter::Number(number) => Some(number.to_bits()),
        Parameter::Tensor(_) => None,
    })
}

impl<'a> Scope<'a> {
    /// Notes from here on the latents that are declared, as long as all have laws of numbers.
    pub(crate) fn note_declared(&mut self) {
        self.declared = Some(Vec::new());
    }

    /// What was noted; nothing if some law was another.
    pub(crate) fn take_declared(&mut self) -> Vec<Declared<'a>> {
        self.declared.take().unwrap_or_default()
    }

    /// Notes a latent, if such are noted.
    pub(super) fn note_law(&mut self, index: usize, law: &Law, score: Score) {
        let Some(declared) = &mut self.declared else { return };
        let is_of_numbers = law.density.leaf().is_some() && numbers(law).all(|own| own.is_some());
        match self.table {
            Table::Known(table) if is_of_numbers => {
                let entered = Entered { name: &table.sites[index].name, index, law: law.clone() };
                declared.push(Declared { entered, score });
            }
            _ => self.declared = None,
        }
    }

    /// Scores latents that another reading has declared, at the values of this one; `handles` are the other's leaves.
    pub(crate) fn score_declared(&mut self, declared: &[Declared<'_>], handles: &[Handle]) -> Result<()> {
        for (Declared { entered, score }, handle) in declared.iter().zip(handles) {
            let Values { unconstrained, constrained, log_dets } = self.value(entered)?;
            if let Score::Sum(weight) = score {
                self.outcome.total += weight * log_dets.iter().sum::<f64>();
            }
            let host_gradient = self.score_on_host(entered, &constrained, *score, Tape::Constants)?;
            let is_real = self.table().sites[entered.index].support == Some(Support::Real);
            self.outcome.leaves.push(Leaf {
                site: entered.index,
                quantity: Quantity::Value,
                handle: handle.clone(),
                unconstrained: if is_real { Vec::new() } else { unconstrained.into_owned() },
                constrained: if is_real { Vec::new() } else { constrained.into_owned() },
                host_gradient,
                score: *score,
                place: RowPlace::default(),
            });
        }
        Ok(())
    }
}
