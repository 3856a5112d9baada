//! Keeps what a page shows beside the report, so that the same page can be written anew.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::numbers::{Marginal, correlations, marginals};
use super::{HtmlOptions, Page};
use crate::engine::checkpoint::write_atomically;
use crate::engine::error::{Error, Result};
use crate::engine::report::Report;
use crate::engine::report::number::Number;
use crate::engine::report::summary::NaturalDraws;
use crate::engine::wire::manifest::{Field, Manifest};

/// What a page shows beside the report: heading and effects, densities, the course of the bound, and what may leave a silo.
///
/// # Laws
/// The page of a fit and the page that is written from its report and this, both read back from files, are the same bytes
/// (`tests/few_rounds/page.rs`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PageContent {
    /// Its heading, the numbers of its forest plot, and its contrasts.
    #[serde(flatten)]
    pub options: HtmlOptions,
    /// The densities of the first numbers; none of a number without spread.
    pub(super) marginals: Vec<Option<Marginal>>,
    /// How many numbers there are draws of.
    pub(super) numbers: usize,
    /// Whether there are densities of the prior.
    pub(super) has_prior: bool,
    /// The lines of a table.
    pub(super) correlations: Vec<Vec<String>>,
    /// Step and bound.
    pub(super) trace: Vec<(u64, Number)>,
    /// The fields that may leave a silo, as lines of a table.
    pub(super) manifest: Option<Vec<Vec<String>>>,
}

/// A line of the table of what may leave.
pub(super) fn listed(field: &Field) -> Vec<String> {
    let (limit, depends) = (super::words::grouped(field.limit as u64), field.release.words());
    vec![field.name.to_owned(), field.meaning.to_owned(), limit, depends.to_owned()]
}

impl PageContent {
    /// What a fit with this trace and these draws shows.
    pub(crate) fn of(
        options: &HtmlOptions,
        trace: &[(u64, f64)],
        draws: &NaturalDraws,
        manifest: Option<&Manifest>,
    ) -> Self {
        let prior = &options.prior;
        Self {
            options: HtmlOptions { prior: Vec::new(), ..options.clone() },
            marginals: marginals(draws, prior),
            numbers: draws.len(),
            has_prior: !prior.is_empty(),
            correlations: correlations(draws),
            trace: trace.iter().map(|(step, bound)| (*step, Number(*bound))).collect(),
            manifest: manifest.map(|own| own.fields.iter().map(listed).collect()),
        }
    }

    /// Writes the page of this report, atomically.
    ///
    /// # Errors
    /// [`Error::Setting`] for an effect that is no number of the report; [`Error::File`].
    pub fn write_html(&self, report: &Report, path: &Path) -> Result<()> {
        Page { report, content: self }.write(path)
    }

    /// Writes this as JSON, atomically.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let wrong = |reason| Error::File { operation: "writing the content of a page", path: path.to_owned(), reason };
        write_atomically(path, &serde_json::to_vec(self).map_err(|error| wrong(error.to_string()))?)
    }

    /// Reads what [`PageContent::write_json`] wrote.
    ///
    /// # Errors
    /// [`Error::File`] for a file that cannot be read, and one that is no content of a page.
    pub fn read_json(path: &Path) -> Result<Self> {
        let wrong = |reason| Error::File { operation: "reading the content of a page", path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| wrong(format!("it is none of this version ({error})")))
    }
}
