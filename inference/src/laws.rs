//! Holds one callable law suite for each trait of inference, so that a new implementation adds one row to a test.

mod averaging;
mod divergence;
mod exchange;
mod exponential_family;
mod family;
mod gaussian;
mod generator;
mod local_problem;
mod local_solver;
mod message;
mod row_family;
mod second_moment;
mod server_rule;
mod update_rule;
mod violation;

pub use averaging::{AveragingViolation, averaging};
pub use divergence::{DivergenceViolation, divergence};
pub use exchange::{ExchangeViolation, exchange};
pub use exponential_family::{ExponentialFamilyLaw, ExponentialFamilyViolation, exponential_family};
pub use family::family;
pub use generator::{GeneratorLaw, GeneratorViolation, generator};
pub use local_problem::{LocalProblemViolation, local_problem};
pub use local_solver::{LocalSolverViolation, SolverCheck, local_solver};
pub use message::{MessageLaw, MessageViolation, message};
pub use row_family::row_family;
pub use second_moment::{SecondMomentViolation, second_moment};
pub use server_rule::{ServerRuleViolation, server_rule};
pub use update_rule::{UpdateRuleViolation, adam, update_rule};
pub use violation::FamilyViolation;
