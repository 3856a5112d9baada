//! Draws how a fit went and what it found, traces and marginal densities, as SVG.

pub mod canvas;
mod marginals;
mod trace;

use std::path::PathBuf;

pub use marginals::{Panel, marginals};
pub use trace::trace;

pub use super::density::Density;

/// What went wrong while a picture was drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// There is nothing that could be drawn.
    #[error("drawing {}: found {found}, expected {expected}. Draw it after the first step, from a fit that has not failed.", path.display())]
    Empty {
        /// The picture.
        path: PathBuf,
        /// What was given.
        found: String,
        /// What can be drawn.
        expected: &'static str,
    },
    /// The drawing library refused.
    #[error("drawing {}: found {reason}, expected a finished picture. Check the range of the values.", path.display())]
    Draw {
        /// The picture.
        path: PathBuf,
        /// The library's own words.
        reason: String,
    },
    /// The finished picture could not be put in place.
    #[error("writing {}: found {reason}, expected it to succeed. Check that the folder may be written and has room.", path.display())]
    Write {
        /// The picture.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
}
