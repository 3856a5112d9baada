//! Takes global latents of single precision as they are: their tensors, and the gradient by their prior, are in it too.

use burn::tensor::Tensor;

use super::latent::{Entered, made};
use super::{Leaf, Origin, Quantity, Reading, RowPlace, Scope, Score, Tape};
use crate::declare::site::Part;
use crate::device::{Precision, widened};
use crate::distribution::Support;
use crate::error::Result;
use crate::handle::Handle;
use crate::math::operation::own_tape;
use crate::number::Numbers;

impl<'a> Scope<'a> {
    /// The numbers of a latent where nothing needs them in double precision: given in single, on all real numbers, under a prior of
    /// constants, to tensors of single precision.
    pub(super) fn single(&self, entered: &Entered<'_>) -> Option<&'a [f32]> {
        let site = &self.table().sites[entered.index];
        let (Part::Global, Some(Support::Real), Origin::Given(given)) =
            (self.place.part, &site.support, self.source.globals)
        else {
            return None;
        };
        let is_plain = self.device.precision() == Precision::Single && entered.law.constant_parameters();
        match given.part(site.offset..site.offset + site.width) {
            Numbers::Single(numbers) if is_plain => Some(numbers),
            _ => None,
        }
    }

    /// Scores such numbers, if the reading asks for log densities, and keeps them as a leaf.
    pub(super) fn scored_single<const D: usize>(
        &mut self,
        entered: &Entered<'_>,
        numbers: &[f32],
        shape: [usize; D],
    ) -> Result<Handle> {
        let Reading::Density(density) = &self.reading else {
            return Ok(Handle::from(self.device.single(numbers, shape)));
        };
        let tape = density.latents;
        let score = self.score();
        if let Score::Sum(weight) = score {
            self.score_single(entered, numbers, weight)?;
        }
        let value: Tensor<D> = match tape {
            Tape::Leaves => self.device.unregistered_single(numbers, shape).require_grad(),
            Tape::Own => self.device.unregistered_single(numbers, shape),
            Tape::Constants | Tape::Fixed => self.device.single(numbers, shape),
        };
        let handle = Handle::from(value);
        if tape == Tape::Own {
            own_tape::note(&handle);
        }
        self.outcome.leaves.push(Leaf {
            site: entered.index,
            quantity: Quantity::Value,
            handle: handle.clone(),
            unconstrained: Vec::new(),
            constrained: Vec::new(),
            host_gradient: Vec::new(),
            score,
            place: RowPlace::default(),
        });
        Ok(handle)
    }

    /// Adds the log density of such numbers, and its gradient by them.
    fn score_single(&mut self, entered: &Entered<'_>, numbers: &[f32], weight: f64) -> Result<()> {
        let arrays = entered.law.arrays()?;
        let view = entered.law.view(&arrays);
        let [start, length] = [self.table().sites[entered.index].offset, self.table().global_len];
        let gradient = &mut self.outcome.by_single;
        gradient.reserve_exact(length - gradient.len());
        gradient.resize(start, 0.0);
        let total = view.evaluate_single(numbers, weight, gradient);
        if !total.is_finite() {
            let finite = view.finite(&widened(numbers), total);
            finite.map_err(|error| made(error).at(|| self.operation(entered.name)))?;
        }
        self.outcome.total += total;
        Ok(())
    }
}
