//! Claims how tables are read, partitioned and aligned, and the contents of public data.

mod alignment;
mod groups;
mod partitions;
mod six_cities;
mod tables;
mod uci;
