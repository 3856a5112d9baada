//! Names every way in which declaring or evaluating a model can fail, with what to try.

use std::borrow::Cow;
use std::fmt::Display;

/// The result of declaring or evaluating a model.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of declaring or evaluating a model.
///
/// Every variant carries the operation, what was found, what was expected, and its message ends with what to try.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two shapes that had to agree did not.
    #[error("{operation}: found shape {found:?}, expected {expected:?}. {remedy}")]
    Shape {
        /// The operation, with the site if there is one.
        operation: String,
        /// The shape found.
        found: Vec<usize>,
        /// The shape expected.
        expected: Vec<usize>,
        /// The remedy.
        remedy: String,
    },
    /// A parameter lies outside its domain.
    #[error(
        "{distribution}: parameter `{parameter}` is {found} at index {index}, expected {expected}. Check the expression that makes it, or put it through a positive map such as exp or softplus; where a fit ran well up to some step, lower the learning rate."
    )]
    Parameter {
        /// The distribution.
        distribution: Cow<'static, str>,
        /// The parameter.
        parameter: &'static str,
        /// The value found.
        found: f64,
        /// Its flat index.
        index: usize,
        /// The domain, in words.
        expected: &'static str,
    },
    /// A value lies outside the support of its distribution.
    #[error(
        "{operation}: value {found} at index {index} is outside the support of {distribution} ({support}). Check the data and its coding."
    )]
    Support {
        /// The operation, with the site.
        operation: String,
        /// The distribution.
        distribution: Cow<'static, str>,
        /// The value found.
        found: f64,
        /// Its flat index.
        index: usize,
        /// The support, in words.
        support: String,
    },
    /// A value was NaN or infinite on entry.
    #[error(
        "{operation}: value {found} at index {index} is not finite. Remove or impute it before fitting; Partita never skips rows silently."
    )]
    NotFinite {
        /// The operation, with the site.
        operation: String,
        /// The value found.
        found: f64,
        /// Its flat index.
        index: usize,
    },
    /// A computation made a NaN or infinite value from finite ones.
    #[error(
        "{operation}: the result is {found} although every input was finite. Lower the learning rate, tighten the priors, or start from a smaller initial scale."
    )]
    NotFiniteMade {
        /// The operation, with the site.
        operation: String,
        /// The value made.
        found: f64,
    },
    /// A matrix that had to be positive definite was not.
    #[error(
        "{operation}: pivot {index} is {pivot:e}, expected > 0. Make the matrix symmetric positive definite, for example by adding a small multiple of the identity."
    )]
    NotPositiveDefinite {
        /// The operation.
        operation: String,
        /// The row of the offending pivot.
        index: usize,
        /// Its value.
        pivot: f64,
    },
    /// A site name was used twice.
    #[error("site `{site}` is declared twice. Give each site its own name. Sites so far: {table}")]
    DuplicateSite {
        /// The name.
        site: String,
        /// The sites declared so far.
        table: String,
    },
    /// The model declared other sites than those of its site table.
    #[error(
        "the model declares `{found}` where its site table has `{expected}`. A model must declare the same sites in the same order at every evaluation; move the choice into data or into a distribution."
    )]
    ChangingStructure {
        /// The site declared, or a note that there is none.
        found: String,
        /// The site of the table, or a note that there is none.
        expected: String,
    },
    /// A plate was used where it has no meaning.
    #[error("plate `{plate}`: {problem}")]
    Plate {
        /// The plate.
        plate: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// A vector had the wrong length.
    #[error("{operation}: found {found} numbers, expected {expected}. {remedy}")]
    Length {
        /// The operation.
        operation: String,
        /// The length found.
        found: usize,
        /// The length expected.
        expected: usize,
        /// The remedy.
        remedy: String,
    },
    /// An argument is out of its domain.
    #[error("{operation}: {argument} is {found}, expected {expected}.")]
    Argument {
        /// The operation.
        operation: String,
        /// The argument.
        argument: &'static str,
        /// The value found.
        found: String,
        /// The value expected, and the remedy.
        expected: &'static str,
    },
    /// A draw was asked of an improper distribution.
    #[error(
        "{operation}: {distribution} is improper, since its integral is infinite, and nothing can be drawn from it. Give the latent a proper prior to draw from it; fits and draws of the posterior need none."
    )]
    Improper {
        /// The operation, with the site.
        operation: String,
        /// The distribution.
        distribution: Cow<'static, str>,
    },
    /// A function of the model panicked.
    #[error(
        "the model panicked {place}: {reason}. This is usually an index or a shape that is wrong in an operation of the model there; compare them with the rows of the plate."
    )]
    Panicked {
        /// The site declared last, in words.
        place: String,
        /// The panic's message, with its place in the source.
        reason: String,
    },
    /// A statement cannot be evaluated without the host.
    #[error(
        "{operation}: {what} has no device form, so that a fit which stays on the device cannot evaluate it. Fit with another algorithm than `OnDevice`: the host path takes every model, on every device."
    )]
    NoDeviceForm {
        /// The operation, with the site.
        operation: String,
        /// The distribution or the map.
        what: String,
    },
    /// A loss is not defined for an observation.
    #[error("{operation}: the {loss} of {distribution} cannot be evaluated, since {problem}")]
    Loss {
        /// The operation, with the site.
        operation: String,
        /// The loss, with its index.
        loss: String,
        /// The distribution.
        distribution: Cow<'static, str>,
        /// The reason and the remedy.
        problem: &'static str,
    },
    /// A function of a user's own, or a solver, could not give its value.
    #[error("{operation}: {problem}")]
    Operation {
        /// The operation, by name.
        operation: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// Burn could not do what was asked.
    #[error(
        "{operation}: the device reported: {reason}. Check the device's memory and that it supports the data type."
    )]
    Device {
        /// The operation.
        operation: String,
        /// Burn's message.
        reason: String,
    },
}

impl Error {
    /// Refuses another shape than the expected one; the operation is put into words for the error alone.
    ///
    /// # Errors
    /// [`Error::Shape`], with what to try.
    ///
    /// # Example
    /// ```
    /// use partita_core::Error;
    /// let rows = |found: &[usize]| Error::same_shape("rows of data", found, &[2, 3], "Give two rows of three numbers.");
    /// assert!(rows(&[2, 3]).is_ok());
    /// assert!(matches!(rows(&[3, 2]), Err(Error::Shape { expected, .. }) if expected == [2, 3]));
    /// ```
    pub fn same_shape(
        operation: impl Display,
        found: &[usize],
        expected: &[usize],
        remedy: impl Display,
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let (operation, remedy) = (operation.to_string(), remedy.to_string());
        Err(Self::Shape { operation, found: found.to_vec(), expected: expected.to_vec(), remedy })
    }

    /// The same for how many numbers there are.
    ///
    /// # Errors
    /// [`Error::Length`], with what to try.
    pub fn same_length(operation: impl Display, found: usize, expected: usize, remedy: impl Display) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Self::Length { operation: operation.to_string(), found, expected, remedy: remedy.to_string() })
    }

    /// [`Error::Argument`] of these words.
    pub fn argument(
        operation: impl Display,
        argument: &'static str,
        found: impl Display,
        expected: &'static str,
    ) -> Self {
        Self::Argument { operation: operation.to_string(), argument, found: found.to_string(), expected }
    }

    /// Names the operation of an error that was found in numbers alone.
    pub(crate) fn at(self, named: impl FnOnce() -> String) -> Self {
        match self {
            Self::Support { distribution, found, index, support, .. } => {
                Self::Support { operation: named(), distribution, found, index, support }
            }
            Self::Improper { distribution, .. } => Self::Improper { operation: named(), distribution },
            Self::NotFinite { found, index, .. } => Self::NotFinite { operation: named(), found, index },
            Self::NotFiniteMade { found, .. } => Self::NotFiniteMade { operation: named(), found },
            Self::Loss { loss, distribution, problem, .. } => {
                Self::Loss { operation: named(), loss, distribution, problem }
            }
            other => other,
        }
    }
}
