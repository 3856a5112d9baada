//! Claims how tables are read, partitioned and aligned, and what public data hold.

mod alignment;
mod partitions;
mod six_cities;
mod tables;
mod uci;
