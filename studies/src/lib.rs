//! Repeats the tables and figures of papers, each by one command, and holds what is found to what they claim.
#![allow(clippy::print_stdout, reason = "a study prints its tables")]

mod command;
mod framework_thesis;
pub mod harness;

pub use command::main;
pub use framework_thesis::gaussian_mean_silos;
