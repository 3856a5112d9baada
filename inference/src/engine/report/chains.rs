//! Puts what is known of the chains of a sampler in words.

use crate::engine::trust::chains::{ChainDiagnostics, Convergence};

impl ChainDiagnostics {
    /// What stands beside each number.
    pub(super) const COLUMNS: [&str; 3] = ["R-hat", "bulk", "tail"];

    /// The same of a number of a global site; dashes of a constant.
    pub(super) fn beside(&self, label: &str) -> [String; 3] {
        let own = self.convergence.iter().find(|own| own.silo.is_none() && own.label == label);
        own.map_or_else(|| ["-"; 3].map(str::to_owned), cells)
    }

    /// The worst numbers of local sites, by the names of site and silo.
    pub(super) fn locals(&self) -> impl Iterator<Item = (String, [String; 3])> {
        let of_silo = |own: &Convergence| Some((format!("{} ({})", own.label, own.silo.as_ref()?), cells(own)));
        self.convergence.iter().filter_map(of_silo)
    }

    /// How the chains went, in a line.
    pub(super) fn line(&self) -> String {
        let Self { chains, draws, warmup, .. } = self;
        let divergences = self.divergences();
        format!("{} chains of {draws} draws after {warmup}, {divergences} divergences", chains.len())
    }
}

/// R-hat and the effective sample sizes of a number.
fn cells(own: &Convergence) -> [String; 3] {
    [format!("{:.4}", own.r_hat), format!("{:.0}", own.bulk), format!("{:.0}", own.tail)]
}
