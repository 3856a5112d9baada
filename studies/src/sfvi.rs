//! Repeats the studies of the SFVI paper: digits over silos, topics, and wheeze in six cities.

pub(crate) mod digits;
pub(crate) mod six_cities;
pub(crate) mod topics;
