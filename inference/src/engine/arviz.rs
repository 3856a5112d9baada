//! Writes draws as a Zarr store whose groups and names are those that ArviZ opens.

pub(crate) mod options;
pub(crate) mod rows;
pub(crate) mod store;
pub(crate) mod tree;
