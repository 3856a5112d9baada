//! Holds the models of the book's cookbook to posteriors by NumPyro, and their pages to the code that is tested.
#![allow(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    reason = "columns of zeros and ones are exact; counts are small"
)]

mod levels;
mod lines;
mod missing;
mod mixture;
mod ordinal;
mod own_density;
mod own_operation;
mod pages;
mod process;
mod robust;
mod survival;
mod unequal_groups;
mod zeros;

/// Pages that show code of tests.
const PAGES: usize = 12;
