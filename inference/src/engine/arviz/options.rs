//! Says what goes into a file for ArviZ: labels, silos whose rows may leave, and what becomes of a file that is there.

use partita_core::{AnyData, SiteTable};
use serde_json::{Map, Value, json};

use super::tree::Labels;
use crate::engine::error::{Error, Result};
use crate::engine::trust::verdict::Verdict;

/// What a file for ArviZ holds beside the draws of the globals; the data of a silo are of type `D`.
#[derive(Debug, Clone)]
pub struct ArvizOptions<'a, D> {
    /// Whose rows leave into the file.
    pub rows: ArvizRows<'a, D>,
    /// Names of axes of global sites, and of the places along them.
    pub labels: Vec<AxisLabels>,
    /// When the file was made, as ISO 8601 has it: it is the attribute `created_at`. Without it equal fits give equal files.
    pub created_at: Option<String>,
    /// What becomes of a file that is there.
    pub existing: ExistingFile,
}

impl<D> Default for ArvizOptions<'_, D> {
    fn default() -> Self {
        Self { rows: ArvizRows::Stay, labels: Vec::new(), created_at: None, existing: ExistingFile::Refuse }
    }
}

/// Whether rows leave into a file for ArviZ.
#[derive(Debug, Clone, Copy)]
pub enum ArvizRows<'a, D> {
    /// No: the file says of data only what a report says.
    Stay,
    /// Those of these silos, by name, whose owners allow it: data, predictive draws, and the log likelihood of each
    /// observation.
    Of(&'a [(String, D)]),
}

/// Names for one axis of a global site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisLabels {
    /// The site.
    pub site: String,
    /// Its axis, from 0.
    pub axis: usize,
    /// The name of the axis; sites may share one.
    pub name: String,
    /// The name of each place along it.
    pub labels: Vec<String>,
}

/// What becomes of a file for ArviZ that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingFile {
    /// It stays, and writing is refused.
    Refuse,
    /// It is replaced, if it is a Zarr store.
    Replace,
}

impl<D> ArvizOptions<'_, D> {
    /// The silos whose rows leave, and their data.
    pub(crate) fn silos(&self) -> &[(String, D)] {
        match self.rows {
            ArvizRows::Stay => &[],
            ArvizRows::Of(silos) => silos,
        }
    }

    /// The same, with the data of those silos whatever their type is.
    pub(crate) fn over<'s>(&self, silos: &'s [(String, AnyData)]) -> ArvizOptions<'s, AnyData> {
        let rows = match self.rows {
            ArvizRows::Stay => ArvizRows::Stay,
            ArvizRows::Of(_) => ArvizRows::Of(silos),
        };
        let Self { labels, created_at, existing, .. } = self;
        ArvizOptions { rows, labels: labels.clone(), created_at: created_at.clone(), existing: *existing }
    }

    /// What every group says of its origin.
    pub(crate) fn attributes(&self) -> Map<String, Value> {
        let mut all = Map::new();
        all.insert("inference_library".into(), json!("partita"));
        all.insert("inference_library_version".into(), json!(env!("CARGO_PKG_VERSION")));
        if let Some(created_at) = &self.created_at {
            all.insert("created_at".into(), json!(created_at));
        }
        all
    }

    /// What the file says of itself.
    pub(crate) fn about(&self, verdict: Verdict, algorithm: &str, seed: u64) -> Map<String, Value> {
        let mut all = self.attributes();
        all.insert("verdict".into(), json!(verdict.to_string()));
        all.insert("algorithm".into(), json!(algorithm));
        all.insert("seed".into(), json!(seed));
        all
    }

    /// The labels of sites of a table.
    ///
    /// # Errors
    /// [`Error::Setting`] for labels of an axis that there is not, or of another length.
    pub(crate) fn labels_of<'b>(&'b self, table: &'b SiteTable) -> Result<Labels<'b>> {
        if let Some(own) = self.labels.iter().find(|own| table.site(&own.name).is_some()) {
            let found = format!("an axis called `{}`, as a site is", own.name);
            return Err(Error::Setting { setting: "labels", found, expected: "a name that no site has" });
        }
        for own in &self.labels {
            let length = table.site(&own.site).and_then(|site| site.shape.get(own.axis));
            if length != Some(&own.labels.len()) {
                let found = format!(
                    "{} labels for axis {} of `{}`, which has {}",
                    own.labels.len(),
                    own.axis,
                    own.site,
                    length.map_or_else(|| "no such axis".into(), |length| format!("length {length}"))
                );
                let expected = "an axis of a global site, and one label for each place along it";
                return Err(Error::Setting { setting: "labels", found, expected });
            }
        }
        Ok(Labels { table, labels: &self.labels })
    }
}
