//! Claims how tables are read, partitioned and aligned, and the contents of public data.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod alignment;
mod groups;
mod partitions;
mod six_cities;
mod tables;
mod uci;
