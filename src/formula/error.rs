//! Names what can be wrong between a formula, the files of silos and a model.

use partita_formula::{AgreementError, DesignError, FormulaError, FrameError};

/// The error of making a model of a formula and files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The formula.
    #[error(transparent)]
    Formula(#[from] FormulaError),
    /// A file.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What silos have to agree on.
    #[error(transparent)]
    Agreement(#[from] AgreementError),
    /// The design of a silo.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// The model refuses what was made of it.
    #[error(transparent)]
    Model(#[from] partita_core::Error),
    /// The fit refuses what was asked of it.
    #[error(transparent)]
    Inference(#[from] partita_inference::Error),
    /// The parts do not fit one another.
    #[error("{operation}: found {found}, expected {expected}. {remedy}")]
    Unfit {
        /// What was being made.
        operation: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
        /// What to try.
        remedy: String,
    },
}
