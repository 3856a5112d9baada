//! Evaluates the device form of a density on a batch: tensor operations only, without reads from the device.

use burn::tensor::Tensor;

use super::Term;
use super::law::{Law, Parameter};
use crate::handle::Handle;

impl Law {
    /// The terms of the log density of the values of some draws, one below the other, that have the same parameters; `None`
    /// if the density has no device form.
    pub(crate) fn on_device(self, value: Handle, draws: usize) -> Option<Vec<Term>> {
        let (widths, event) = (self.widths(), self.event_len());
        let term = |(parameter, width): (Parameter, &usize)| match parameter.term(*width) {
            Term::Tensor(own) if draws > 1 && own.dims()[0] > 1 => Term::Tensor(own.repeat_dim(0, draws)),
            own => own,
        };
        let parameters = self.parameters.into_iter().zip(&*widths).map(term).collect();
        self.density.on_device(Term::Tensor(value.by_event(event)), parameters)
    }
}

impl Parameter {
    /// The parameter as a term, with `width` numbers an event.
    pub(crate) fn term(self, width: usize) -> Term {
        match self {
            Self::Number(value) => Term::Number(value),
            Self::Tensor(handle) => Term::Tensor(handle.by_event(width)),
        }
    }
}

impl Handle {
    /// The tensor with one row an event of `width` numbers.
    pub(crate) fn by_event(self, width: usize) -> Tensor<2> {
        let numbers: usize = self.shape().iter().product();
        self.typed::<1>().reshape([numbers / width.max(1), width])
    }
}
