//! Lists the errors of private releases, each with what was found and what to try.

use std::path::PathBuf;

/// The error of a private release.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A constant of a mechanism outside its range.
    #[error("{operation}: {what} is {found}, expected {expected}. {remedy}")]
    Setting {
        /// The operation.
        operation: &'static str,
        /// The constant.
        what: &'static str,
        /// Its value.
        found: String,
        /// The range.
        expected: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The source of random bits failed, or repeats itself.
    #[error("drawing noise: {problem}. Nothing was released. Check that the operating system gives random numbers.")]
    Entropy {
        /// The problem.
        problem: String,
    },
    /// Contributions of different lengths, or too many numbers.
    #[error("{operation}: found {found} numbers, expected {expected}. Every row and silo gives the same numbers.")]
    Length {
        /// The operation.
        operation: &'static str,
        /// The numbers found.
        found: usize,
        /// The numbers expected.
        expected: usize,
    },
    /// A request beyond the budget of a silo's owner.
    #[error(
        "the owner's privacy budget: with this request epsilon would be {asked:.4} at delta {delta:e}, \
         {budget:.4} is allowed and {spent:.4} is spent, so that {left:.4} is left ({fits} more releases at this \
         noise). Ask for fewer releases or more noise, or have the owner raise the budget."
    )]
    Budget {
        /// Epsilon with the request.
        asked: f64,
        /// Epsilon of everything that was released so far.
        spent: f64,
        /// The budget less what is spent.
        left: f64,
        /// The budget.
        budget: f64,
        /// The delta at which all are stated.
        delta: f64,
        /// How many releases at the noise of this request still fit.
        fits: u64,
    },
    /// A request for more sums than a study may have.
    #[error(
        "the sums of the study: {given} are given, and {sums} are promised in all, whoever asks and however often the study \
         is begun. Nothing was charged. The same requests are answered again; for others make another study, which the \
         owner's budget has to allow."
    )]
    Study {
        /// The sums that it has had.
        given: u64,
        /// The sums that it may have.
        sums: u64,
    },
    /// A ledger that cannot be read, written or believed.
    #[error("the ledger {}: {problem}. {remedy}", path.display())]
    Ledger {
        /// Its file.
        path: PathBuf,
        /// The problem.
        problem: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A key, roster or place of a secure sum that its silo does not accept.
    #[error("a secure sum: {what} is {found}, expected {expected}. {remedy}")]
    Refused {
        /// What was refused.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
        /// The remedy.
        remedy: &'static str,
    },
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
