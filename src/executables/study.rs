//! Fits a study, a formula over the CSV files of silos, with every party on its own machine.

mod agree;
mod asks;
mod coordinator;
mod declared_rows;
mod file;
mod owner;
mod privacy;
mod program;
mod promise;
mod saved_rows;
mod silo;

pub use coordinator::{StudyQuestions, StudyResult, run_study_coordinator};
pub use file::StudyFile;
pub(crate) use file::{MOST_STEPS, problem};
pub use privacy::SiloPrivacy;
pub(super) use privacy::write_privacy;
pub use promise::{ProtectedUnit, StudyPrivacy};
pub use silo::{Stay, run_study_silo};
