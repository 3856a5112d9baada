//! Holds one callable law suite for each trait of Partita, so that a new implementation adds one row to a test.
//!
//! | of | suites |
//! |---|---|
//! | models and their parts | [`model()`], [`density()`], [`bijector()`], [`operation()`], and the same on a device |
//! | families | [`family()`], [`row_family()`], [`exponential_family()`] |
//! | plugs of a fit | [`averaging()`], [`divergence()`], [`generator()`], [`local_solver()`], [`server_rule()`], [`update_rule()`] |
//! | what is between silos | [`exchange()`], [`message()`] |

mod averaging;
mod bijector;
mod density;
mod device;
mod difference;
mod divergence;
mod exchange;
mod exponential_family;
mod family;
mod family_violation;
mod gaussian;
mod generator;
mod local_problem;
mod local_solver;
mod message;
mod model;
mod moments;
mod operation;
mod row_family;
mod server_rule;
mod update_rule;
mod violation;

pub use averaging::{AveragingLaw, averaging};
pub use bijector::{BijectorViolation, bijector};
pub use density::{DensityCase, DensityLaw, density};
pub use device::{DeviceViolation, bijector_on_device, density_on_device};
pub use difference::derivative;
pub use divergence::{DivergenceLaw, divergence};
pub use exchange::{ExchangeViolation, exchange};
pub use exponential_family::{ExponentialFamilyLaw, exponential_family};
pub use family::family;
pub use family_violation::FamilyLaw;
pub use generator::{GeneratorLaw, generator};
pub use local_problem::{LocalProblemViolation, local_problem};
pub use local_solver::{LocalSolverLaw, SolverCheck, local_solver};
pub use message::{MessageLaw, message};
pub use model::{ModelViolation, model};
pub use operation::{OperationViolation, custom_operation, operation};
pub use row_family::{RowFamily, row_family};
pub use server_rule::{ServerRuleLaw, server_rule};
pub use update_rule::{UpdateRuleLaw, adam, update_rule};
pub use violation::Violation;
