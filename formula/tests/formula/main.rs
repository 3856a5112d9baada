//! Holds formulas, files, agreements and designs to what R makes of them, and bad inputs to messages that help.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod designs;
mod files;
mod golden;
mod grammar;
mod silos;
mod terms;
