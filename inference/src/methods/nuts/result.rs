//! Keeps what a sampler has drawn: draws by site and label, their summary, and whether they may be believed.

use std::fmt;

use partita_core::{AnyData, AnyModel, Device, Latents, Model, SiteTable, natural_values};

use super::Nuts;
use super::chain::DrawStatistics;
use super::target::Layout;
use crate::engine::error::{Error, Result};
use crate::engine::report::summary::NaturalDraws;
use crate::engine::report::{SiteSummary, summary};
use crate::engine::trust::chains::ChainDiagnostics;
use crate::engine::trust::verdict::Verdict;

/// Draws from a posterior, with their summary and their diagnostics.
#[derive(Debug, Clone)]
pub struct NutsFit {
    /// Whether to trust the draws.
    pub verdict: Verdict,
    /// Draws of every global number on its natural scale: site, label, draws, chain after chain.
    pub draws: Vec<(String, String, Vec<f64>)>,
    /// Every number of every global site, on its natural scale.
    pub sites: Vec<SiteSummary>,
    /// Whether the draws may be believed.
    pub diagnostics: ChainDiagnostics,
    /// The sampler that made them.
    pub options: Nuts,
    /// The silos.
    pub silos: Vec<String>,
    /// Wall time in seconds, diagnostics included.
    pub seconds: f64,
    pub(super) device: String,
    pub(super) unconstrained: Vec<Vec<f64>>,
    #[cfg_attr(not(feature = "arviz"), expect(dead_code, reason = "files for ArviZ hold them"))]
    pub(super) statistics: Vec<DrawStatistics>,
    pub(super) layout: Layout,
}

impl NutsFit {
    /// The summary of one number of a site.
    #[must_use]
    pub fn site(&self, label: &str) -> Option<&SiteSummary> {
        self.sites.iter().find(|summary| summary.label == label)
    }

    /// The draws of a chain on the unconstrained scale, one after another: the globals, then the local blocks of each
    /// silo in their order; `None` for a chain there is not.
    pub fn unconstrained(&self, chain: usize) -> Option<impl Iterator<Item = &[f64]>> {
        Some(self.unconstrained.get(chain)?.chunks_exact(self.layout.len()))
    }

    /// The globals of every draw on the unconstrained scale, chain after chain.
    pub fn globals(&self) -> impl Iterator<Item = &[f64]> {
        self.every_draw().map(|draw| &draw[..self.layout.globals])
    }

    /// Every draw on the unconstrained scale, chain after chain.
    pub(super) fn every_draw(&self) -> impl Iterator<Item = &[f64]> {
        self.unconstrained.iter().flat_map(|chain| chain.chunks_exact(self.layout.len()))
    }

    /// Means and standard deviations of the local latents of the silo at this place on the unconstrained scale, block by
    /// block; none for a silo there is not.
    #[must_use]
    pub fn local_moments(&self, silo: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
        let Some(blocks) = self.layout.blocks.get(silo) else { return Vec::new() };
        let draws = || self.every_draw();
        let count = draws().count() as f64;
        let of = |(block, length): (usize, &usize)| {
            let start = self.layout.start(silo, block);
            let moments = (start..start + length).map(|place| {
                let mean = draws().map(|draw| draw[place]).sum::<f64>() / count;
                (mean, (draws().map(|draw| (draw[place] - mean).powi(2)).sum::<f64>() / count).sqrt())
            });
            moments.unzip()
        };
        blocks.iter().enumerate().map(of).collect()
    }

    /// Draws of every number of the local and deterministic sites of one silo on their natural scale: site, label,
    /// draws, chain after chain. `model` and `data` are those of the fit.
    ///
    /// # Errors
    /// [`Error::Setting`] for a silo there is not; [`Error::Model`] if they are not those of the fit.
    pub fn locals<M: Model>(
        &self,
        model: &M,
        silo: &str,
        data: &M::Data,
        device: &Device,
    ) -> Result<Vec<(String, String, Vec<f64>)>> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        let Some(place) = self.silos.iter().position(|name| name == silo) else {
            let found = format!("{silo}, which is none of {}", self.silos.join(", "));
            return Err(Error::Setting { setting: "silo", found, expected: "the name of a silo of the fit" });
        };
        let table = SiteTable::of(model, device, data)?;
        let mut all: NaturalDraws = Vec::new();
        for draw in self.every_draw() {
            let locals = self.layout.locals(place, draw);
            let latents = Latents { globals: &draw[..self.layout.globals], locals: &locals };
            summary::append(natural_values(model, device, &table, data, latents)?, &mut all);
        }
        all.retain(|(site, _, _)| self.draws.iter().all(|(global, _, _)| global != site));
        Ok(all)
    }
}

impl fmt::Display for NutsFit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unchecked().fmt(formatter)
    }
}
