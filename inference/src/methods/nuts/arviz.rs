//! Writes what a sampler has drawn as a file for ArviZ.

use std::path::Path;

use partita_core::{AnyData, AnyModel, Device, Model, SiteTable};

use super::chain::DrawStatistics;
use super::{Nuts, NutsFit};
use crate::engine::arviz::options::ArvizOptions;
use crate::engine::arviz::rows::{OpenSilo, ReadRows, joined};
use crate::engine::arviz::store;
use crate::engine::arviz::tree::{Elements, Group, Variable, sample_axes, statistic};
use crate::engine::error::Result;
use crate::engine::trust::verdict::Verdict;

impl NutsFit {
    /// Writes draws, prior and what the sampler says of each draw as a Zarr store that ArviZ 1 opens with
    /// `arviz.from_zarr`, whole or not at all.
    ///
    /// | group | what it holds |
    /// |---|---|
    /// | `posterior` | draws of every global site on its natural scale, chain by chain |
    /// | `sample_stats` | `lp`, `energy`, `acceptance_rate`, `step_size`, `n_steps`, `tree_depth` and `diverging` of each draw |
    /// | `prior` | draws of the same sites from their prior, where that is proper |
    /// | `observed_data`, `log_likelihood`, `posterior_predictive` | of the silos whose rows leave ([`crate::ArvizRows`]): data, and the log likelihood of each observation and new data, both given globals and local latents |
    ///
    /// The file has the `verdict` of the report that it lies beside, which predictive checks may have made another than that of
    /// the draws.
    ///
    /// # Errors
    /// As for [`crate::Fit::write_arviz`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{ArvizOptions, Nuts};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../../doc/mean.md")]
    ///
    /// let device = Device::flex();
    /// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2]))];
    /// let fit = Nuts { warmup: 100, draws: 50, ..Nuts::default() }.sample(&Mean {}, &silos, &device)?;
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("mean.zarr");
    /// fit.write_arviz(&path, &Mean {}, &device, &ArvizOptions::default(), fit.verdict)?;
    /// // Four chains of 50 draws of 8 bytes.
    /// assert_eq!(std::fs::metadata(path.join("posterior/mean/c/0/0"))?.len(), 4 * 50 * 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_arviz<M: Model>(
        &self,
        path: &Path,
        model: &M,
        device: &Device,
        options: &ArvizOptions<'_, M::Data>,
        verdict: Verdict,
    ) -> Result<()> {
        let silos = AnyData::of_silos(options.silos());
        let (model, options) = (&AnyModel::new(model), &options.over(&silos));
        let table = SiteTable::globals(model, device)?;
        let labels = options.labels_of(&table)?;
        let Nuts { chains, seed, .. } = self.options;
        let attributes = || options.attributes();
        let mut groups = vec![
            Group::of_draws("posterior", attributes(), labels.variables(&self.draws, chains)),
            Group::of_draws("sample_stats", attributes(), self.sample_stats()),
        ];
        groups.extend(self.rows(model, device, options)?);
        groups.extend(labels.prior(model, device, seed, attributes())?);
        let about = options.about(verdict, "nuts", seed);
        store::write(&Group { groups, ..Group::new("", about, Vec::new()) }, path, options.existing)
    }

    /// Data, log likelihoods and predictive draws of the silos whose rows leave.
    fn rows(&self, model: &AnyModel, device: &Device, options: &ArvizOptions<'_, AnyData>) -> Result<Vec<Group>> {
        let (mut observed, mut likelihood, mut predictive) = (ReadRows::new(), ReadRows::new(), ReadRows::new());
        for own in options.silos() {
            let silo = OpenSilo::new(model, own, &self.silos, device)?;
            let draws =
                || self.every_draw().map(|draw| (&draw[..self.layout.globals], self.layout.locals(silo.place, draw)));
            let name = || own.0.clone();
            observed.push((name(), silo.observed()?));
            likelihood.push((name(), silo.pointwise(draws())?));
            let given = draws().map(|(globals, locals)| (globals, Some(locals)));
            predictive.push((name(), silo.predictive(self.options.seed, given)?));
        }
        if observed.is_empty() {
            return Ok(Vec::new());
        }
        let samples = sample_axes(self.options.chains, self.options.draws);
        Ok(vec![
            Group::new("observed_data", options.attributes(), joined(&observed, &[])?),
            Group::of_draws("log_likelihood", options.attributes(), joined(&likelihood, &samples)?),
            Group::of_draws("posterior_predictive", options.attributes(), joined(&predictive, &samples)?),
        ])
    }

    /// What the sampler says of each draw, by the names of ArviZ.
    fn sample_stats(&self) -> Vec<Variable> {
        let numbers = |of: fn(&DrawStatistics) -> f64| Elements::Numbers(self.statistics.iter().map(of).collect());
        #[expect(clippy::cast_possible_wrap, reason = "steps of a trajectory are far fewer than 2^63")]
        let counts = |of: fn(&DrawStatistics) -> u64| {
            Elements::Counts(self.statistics.iter().map(|own| of(own) as i64).collect())
        };
        let all = [
            ("lp", numbers(|own| own.log_p)),
            ("energy", numbers(|own| own.energy)),
            ("acceptance_rate", numbers(|own| own.acceptance_rate)),
            ("step_size", numbers(|own| own.step_size)),
            ("n_steps", counts(|own| own.n_steps)),
            ("tree_depth", counts(|own| own.tree_depth)),
            ("diverging", Elements::Marks(self.statistics.iter().map(|own| own.diverging).collect())),
        ];
        all.into_iter().map(|(name, elements)| statistic(name, self.options.chains, elements)).collect()
    }
}
