//! Records the few operations of one step on a small tape: reverse mode, whatever the number of parameters.

use std::cell::RefCell;

use super::{Real, operators};

/// An operation: where its operands stand, and its derivatives by them.
#[derive(Debug, Clone, Copy)]
struct Entry {
    operands: [u32; 2],
    derivatives: [f64; 2],
}

/// The operations of one step in the order of their execution; kept and emptied for the next step.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    entries: RefCell<Vec<Entry>>,
}

/// A number on a tape, or a constant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taped<'t> {
    value: f64,
    place: Option<(&'t Tape, u32)>,
}

impl Tape {
    /// Forgets all operations but the first `kept`.
    pub(crate) fn truncate(&self, kept: usize) {
        self.entries.borrow_mut().truncate(kept);
    }

    /// How many operations and inputs are recorded.
    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// A number to differentiate by.
    pub(crate) fn input(&self, value: f64) -> Taped<'_> {
        self.push(value, Entry { operands: [0, 0], derivatives: [0.0, 0.0] })
    }

    #[inline]
    fn push(&self, value: f64, entry: Entry) -> Taped<'_> {
        let mut entries = self.entries.borrow_mut();
        // Four thousand million operations in one step would have filled the memory long before.
        #[expect(clippy::cast_possible_truncation, reason = "a step has far fewer than 2^32 operations")]
        let place = entries.len() as u32;
        entries.push(entry);
        Taped { value, place: Some((self, place)) }
    }

    /// Goes back over all operations but the first `kept`, which are inputs, and completes `adjoints`: one number for
    /// each operation, those of the outputs as [`Taped::seed`] put them there.
    pub(crate) fn sweep(&self, kept: usize, adjoints: &mut [f64]) {
        for (place, entry) in self.entries.borrow().iter().enumerate().skip(kept).rev() {
            let adjoint = adjoints[place];
            for (operand, derivative) in entry.operands.into_iter().zip(entry.derivatives) {
                // A derivative of zero stands where there is no operand; one that is no number is to be seen.
                if derivative != 0.0 {
                    adjoints[operand as usize] += derivative * adjoint;
                }
            }
        }
    }
}

impl Taped<'_> {
    /// Adds the gradient of an output to its place among `adjoints`.
    pub(crate) fn seed(self, gradient: f64, adjoints: &mut [f64]) {
        if let Some((_, place)) = self.place {
            adjoints[place as usize] += gradient;
        }
    }
}

impl From<f64> for Taped<'_> {
    #[inline]
    fn from(value: f64) -> Self {
        Self { value, place: None }
    }
}

impl Real for Taped<'_> {
    #[inline]
    fn value(self) -> f64 {
        self.value
    }

    #[inline]
    fn chain(self, value: f64, derivative: f64) -> Self {
        match self.place {
            Some((tape, own)) => tape.push(value, Entry { operands: [own, 0], derivatives: [derivative, 0.0] }),
            None => value.into(),
        }
    }

    #[inline]
    fn chain_two(self, other: Self, value: f64, derivatives: [f64; 2]) -> Self {
        match (self.place, other.place) {
            (Some((tape, own)), Some((_, others))) => tape.push(value, Entry { operands: [own, others], derivatives }),
            (Some(_), None) => self.chain(value, derivatives[0]),
            (None, Some(_)) => other.chain(value, derivatives[1]),
            (None, None) => value.into(),
        }
    }
}

operators!(['t] Taped<'t>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derivative_that_is_no_number_is_not_lost() {
        let tape = Tape::default();
        let (x, y) = (tape.input(2.0), tape.input(3.0));
        let output = x.chain(1.0, f64::NAN).chain_two(y, 1.0, [1.0, 4.0]);
        let mut adjoints = vec![0.0; tape.len()];
        output.seed(1.0, &mut adjoints);
        tape.sweep(2, &mut adjoints);
        assert!(adjoints[0].is_nan(), "{adjoints:?}");
        assert!((adjoints[1] - 4.0).abs() < 1e-15, "{adjoints:?}");
    }
}
