//! Names the precisions in which the globals of a reading are given and gradients by them are returned.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;

use crate::device::{to_single, widened};

/// A number of single or double precision: `f32` or `f64`.
///
/// Globals are given as [`crate::Latents`] of either, and the gradient by them has the same. Log densities are evaluated in
/// double precision; `f32` halves the memory that many globals move through, as the weights of a network on a device of single
/// precision, which rounds them in any case.
///
/// # Laws
/// A log density at globals of either precision is that of the same numbers in `f64`, and its gradient is rounded (tests of
/// `core/src/read/tapes.rs`). There are no other types: [`crate::Latents`] are given in one of these two.
///
/// # Example
/// ```
/// use partita_core::Number;
/// assert_eq!(f32::nearest(0.1), 0.1_f32);
/// ```
pub trait Number: Copy + Default + PartialEq + Debug + Into<f64> + Send + Sync + 'static {
    /// The nearest number to one in double precision.
    fn nearest(number: f64) -> Self;

    /// These numbers, with their precision.
    #[doc(hidden)]
    fn numbers(all: &[Self]) -> Numbers<'_>;

    /// A vector that is in single precision.
    #[doc(hidden)]
    fn as_single(vector: &mut Vec<Self>) -> Option<&mut Vec<f32>>;
}

impl Number for f64 {
    fn nearest(number: f64) -> Self {
        number
    }

    fn numbers(all: &[Self]) -> Numbers<'_> {
        Numbers::Double(all)
    }

    fn as_single(_: &mut Vec<Self>) -> Option<&mut Vec<f32>> {
        None
    }
}

impl Number for f32 {
    fn nearest(number: f64) -> Self {
        to_single(number)
    }

    fn numbers(all: &[Self]) -> Numbers<'_> {
        Numbers::Single(all)
    }

    fn as_single(vector: &mut Vec<Self>) -> Option<&mut Vec<f32>> {
        Some(vector)
    }
}

/// Numbers of one precision.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a> {
    /// Of double precision.
    Double(&'a [f64]),
    /// Of single precision.
    Single(&'a [f32]),
}

impl<'a> Numbers<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Double(all) => all.len(),
            Self::Single(all) => all.len(),
        }
    }

    pub(crate) fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Double(all) => Self::Double(&all[range]),
            Self::Single(all) => Self::Single(&all[range]),
        }
    }

    /// The same numbers in double precision.
    pub(crate) fn wide(self) -> Cow<'a, [f64]> {
        match self {
            Self::Double(all) => Cow::Borrowed(all),
            Self::Single(all) => Cow::Owned(widened(all)),
        }
    }
}
