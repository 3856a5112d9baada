//! Writes a fit as a file for ArviZ: draws of the answer, draws of the round of trust with their densities, and the prior.

use std::path::Path;

use partita_core::{AnyData, AnyModel, Device, Model, SiteTable, theta, with_shared_theta};
use serde_json::{Map, Value, json};

use super::answer::{AnswerDraws, Source};
use super::{Fit, Fitted};
use crate::engine::algorithm::Algorithm;
use crate::engine::arviz::options::ArvizOptions;
use crate::engine::arviz::rows::{OpenSilo, ReadRows, joined};
use crate::engine::arviz::store;
use crate::engine::arviz::tree::{Elements, Group, Labels, sample_axes, statistic};
use crate::engine::error::{Error, Result};
use crate::engine::normal::Normal;
use crate::engine::report::{Report, algorithm_name};
use crate::engine::trust::correction::Wide;
use crate::engine::trust::known::{Known, KnownModel};
use crate::engine::trust::leave_out::check_rows;
use crate::engine::trust::round::first;

/// Independent draws are written as so many chains, which ranks and R-hat compare.
const CHAINS: usize = 4;

impl Fit {
    /// Writes the fit as a Zarr store that ArviZ 1 opens with `arviz.from_zarr`, whole or not at all.
    ///
    /// | group | what it holds |
    /// |---|---|
    /// | `posterior` | draws of every global site on its natural scale, each of equal weight and independent of the others, cut into four chains: the answer of the report ([`crate::Report::answer`]) |
    /// | `sample_stats` | `log_p` at these draws: the log density of prior and all rows, local latents integrated out |
    /// | `prior` | draws of the same sites from their prior, where that is proper |
    /// | `round_of_trust` | the draws of the round of trust in a `posterior` of its own, with `log_p`, and `log_q`, the log density that they were drawn from, in its `sample_stats` |
    ///
    /// Of the silos whose rows leave ([`crate::ArvizRows`]) there are also `observed_data`, `posterior_predictive`, and
    /// `log_likelihood`, in the round of trust too: of each observation, or, where rows have latents, of each outermost row
    /// with its latents integrated out, as `by_` and the name of its plate; where integrals over the rows of a silo are not
    /// resolved, that group is empty, and its attribute `left_out` says of which silo and why. Predictive draws have new local
    /// latents: they are of rows never seen.
    ///
    /// Where the round of trust holds, the answer is its draws resampled by their Pareto-smoothed weights, as many as the
    /// weighted draws are worth. Otherwise it is [`Fit::draws`], and `sample_stats` is not there. `log_p - log_q` of
    /// `round_of_trust` are the ratios behind [`crate::Correction::pareto_k`]. Both densities are on the unconstrained scale.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for a path that is taken, and for labels of no axis; [`crate::Error::File`]; as for
    /// [`Fit::model`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{ArvizOptions, FitOptions, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../doc/mean.md")]
    ///
    /// let device = Device::flex();
    /// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
    /// let fit = fit(&Mean {}, &silos, &device, &FitOptions::default(), None)?;
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("mean.zarr");
    /// fit.write_arviz(&path, &Mean {}, &device, &ArvizOptions::default())?;
    /// // A group has a folder, an array in it one of its own, and a chunk of the draws has 8 bytes a draw.
    /// let draws = std::fs::metadata(path.join("prior/mean/c/0/0"))?.len() / 8;
    /// assert_eq!(draws, 2_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # References
    /// Kumar, Carroll, Hartikainen and Martin (2019), ArviZ, Journal of Open Source Software 4(33).
    pub fn write_arviz<M: Model>(
        &self,
        path: &Path,
        model: &M,
        device: &Device,
        options: &ArvizOptions<'_, M::Data>,
    ) -> Result<()> {
        let silos = AnyData::of_silos(options.silos());
        self.source().write_arviz(path, &AnyModel::new(model), device, &options.over(&silos))
    }
}

impl Fitted {
    /// As [`Fit::write_arviz`], where the silos are elsewhere: `algorithm` is the coordinator that was run.
    ///
    /// # Errors
    /// As for [`Fit::write_arviz`].
    pub fn write_arviz<M: Model>(
        &self,
        path: &Path,
        model: &M,
        algorithm: &dyn Algorithm,
        device: &Device,
        options: &ArvizOptions<'_, M::Data>,
    ) -> Result<()> {
        let silos = AnyData::of_silos(options.silos());
        self.source(algorithm).write_arviz(path, &AnyModel::new(model), device, &options.over(&silos))
    }
}

impl Source<'_> {
    fn write_arviz(
        &self,
        path: &Path,
        model: &AnyModel,
        device: &Device,
        options: &ArvizOptions<'_, AnyData>,
    ) -> Result<()> {
        let table = SiteTable::globals(model, device)?;
        let known = KnownModel::new(model, self.posterior.theta, device, &table)?;
        let labels = options.labels_of(&table)?;
        let own = with_shared_theta(model, self.posterior.theta, device)?;
        let attributes = || options.attributes();
        let answer = self.answer(&known)?.in_chains();
        let chains = answer.chains();
        let mut about = attributes();
        about.insert("draws".into(), json!(answer.about));
        let mut groups = vec![Group::of_draws("posterior", about, labels.variables(&answer.natural, chains))];
        if let Some(log_p) = answer.log_p {
            let log_p = statistic("log_p", chains, Elements::Numbers(log_p));
            groups.push(Group::of_draws("sample_stats", attributes(), vec![log_p]));
        }
        groups.extend(labels.prior(&own, device, self.report.seed, attributes())?);
        let rows = OpenRows::of(self, &own, device, options)?;
        groups.extend(rows.groups(&answer.latents, chains, &attributes)?);
        if let (Some(wide), Some(correction)) = (self.wide, self.report.trust.correction()) {
            let mut inner = wide.groups(&labels, &known, &attributes)?;
            inner.extend(rows.likelihoods(&wide.round.draws, 1, &attributes)?);
            let mut about = attributes();
            about.insert("pareto_k".into(), json!(correction.pareto_k));
            groups.push(Group { groups: inner, ..Group::new("round_of_trust", about, Vec::new()) });
        }
        let algorithm = algorithm_name(&self.report.algorithm).unwrap_or_default();
        let about = options.about(self.report.verdict, algorithm, self.report.seed);
        store::write(&Group { groups, ..Group::new("", about, Vec::new()) }, path, options.existing)
    }
}

impl AnswerDraws {
    /// How many chains the draws are written as: one where they are too few for more.
    fn chains(&self) -> usize {
        if self.latents.len() < CHAINS { 1 } else { CHAINS }
    }

    /// As many draws as make chains of equal length.
    fn in_chains(mut self) -> Self {
        let chains = self.chains();
        let kept = self.latents.len() / chains * chains;
        self.latents.truncate(kept);
        self.natural.iter_mut().for_each(|(_, _, draws)| draws.truncate(kept));
        self.log_p.iter_mut().for_each(|own| own.truncate(kept));
        self
    }
}

type Attributes<'a> = &'a dyn Fn() -> Map<String, Value>;

impl Wide {
    /// All draws as they were drawn, with the densities that tell what they are worth.
    fn groups(&self, labels: &Labels<'_>, known: &dyn Known, attributes: Attributes<'_>) -> Result<Vec<Group>> {
        let places: Vec<usize> = (0..self.round.draws.len()).collect();
        let of = |name, numbers| statistic(name, 1, Elements::Numbers(numbers));
        let statistics = vec![of("log_p", self.round.log_joint()), of("log_q", self.round.log_proposal.clone())];
        let mut about = attributes();
        about.insert(
            "draws".into(),
            json!("around the posterior, with heavier tails: each counts with exp(log_p - log_q)"),
        );
        Ok(vec![
            Group::of_draws("posterior", about, labels.variables(&self.natural(&places, known)?, 1)),
            Group::of_draws("sample_stats", attributes(), statistics),
        ])
    }
}

/// The silos of a fit whose rows leave.
struct OpenRows<'a> {
    silos: Vec<(&'a String, OpenSilo<'a>)>,
    /// Around which row integrals are made, where rows have latents.
    around: Option<Normal>,
    seed: u64,
    threads: usize,
}

impl<'a> OpenRows<'a> {
    fn of(
        fit: &Source<'_>,
        model: &'a AnyModel,
        device: &'a Device,
        options: &'a ArvizOptions<'_, AnyData>,
    ) -> Result<Self> {
        let refuse = |found: String| {
            let expected = "`ArvizRows::Stay`, or a fit whose rows have likelihoods given the globals alone";
            Err(Error::Setting { setting: "rows", found, expected })
        };
        let Report { seed, options: settings, .. } = &fit.report;
        let mut own = Self { silos: Vec::new(), around: None, seed: *seed, threads: settings.silo_threads() };
        for silo in options.silos() {
            own.silos.push((&silo.0, OpenSilo::new(model, silo, &fit.report.silos, device)?));
        }
        if !own.silos.is_empty() && theta(model)?.len() != fit.posterior.theta.len() {
            return refuse("parameters that are private to silos".into());
        }
        for (_, silo) in own.silos.iter().filter(|(_, silo)| silo.has_latents()) {
            check_rows("rows", &silo.table, device)?;
        }
        if own.silos.iter().any(|(_, silo)| silo.has_latents()) {
            own.around = match first(&fit.posterior, *seed) {
                Ok(proposal) => Some(proposal.around),
                Err(none) => return refuse(none.reason),
            };
        }
        Ok(own)
    }

    /// The log likelihoods at draws of the globals: of each observation, or of each outermost row where rows have latents. Where
    /// integrals over the rows of a silo are not resolved the group has none, since the rows of others would stand for all, and
    /// says why as `left_out`.
    fn likelihoods(&self, draws: &[Vec<f64>], chains: usize, attributes: Attributes<'_>) -> Result<Option<Group>> {
        if self.silos.is_empty() {
            return Ok(None);
        }
        let (mut found, mut left_out) = (ReadRows::new(), Vec::new());
        for (name, silo) in &self.silos {
            let own = match &self.around {
                Some(around) => silo.marginal(self.seed, self.threads, around, draws)?,
                None => {
                    let locals = vec![Vec::new(); silo.table.blocks().len()];
                    Ok(silo.pointwise(draws.iter().map(|draw| (draw.as_slice(), locals.clone())))?)
                }
            };
            match own {
                Ok(own) => found.push(((*name).clone(), own)),
                Err(refusal) => left_out.push(format!("silo `{name}`: {}", refusal.words())),
            }
        }
        let mut about = attributes();
        if !left_out.is_empty() {
            found.clear();
            about.insert("left_out".into(), json!(left_out.join("; ")));
        }
        let variables = joined(&found, &sample_axes(chains, draws.len() / chains))?;
        Ok(Some(Group::of_draws("log_likelihood", about, variables)))
    }

    /// Data, log likelihoods and predictive draws.
    fn groups(&self, draws: &[Vec<f64>], chains: usize, attributes: Attributes<'_>) -> Result<Vec<Group>> {
        let Some(likelihoods) = self.likelihoods(draws, chains, attributes)? else { return Ok(Vec::new()) };
        let (mut observed, mut predictive) = (ReadRows::new(), ReadRows::new());
        for (name, silo) in &self.silos {
            observed.push(((*name).clone(), silo.observed()?));
            let at = draws.iter().map(|draw| (draw.as_slice(), None));
            predictive.push(((*name).clone(), silo.predictive(self.seed, at)?));
        }
        let predictive = joined(&predictive, &sample_axes(chains, draws.len() / chains))?;
        Ok(vec![
            Group::new("observed_data", attributes(), joined(&observed, &[])?),
            likelihoods,
            Group::of_draws("posterior_predictive", attributes(), predictive),
        ])
    }
}
