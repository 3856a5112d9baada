//! Tests fits over a real engine on this machine, and the executables; tests skip if the engine is not installed.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod algorithms;
mod asynchronous;
mod bytes;
mod compiled_in;
mod connection;
mod engine;
mod executables;
mod faults;
mod generalised;
mod listed;
mod messages;
mod nodes;
mod operations;
mod own_rows;
mod policies;
mod private;
mod signed;
mod study;
mod trust;
mod vertical;
