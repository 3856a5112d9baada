//! Samples the posterior of any declared model with the no-U-turn sampler: the gold standard on data in one place.

#[cfg(feature = "arviz")]
mod arviz;
mod chain;
mod chart;
mod diagnostics;
mod report;
mod result;
mod target;
mod walk;

use std::collections::BTreeSet;
use std::time::Instant;

use partita_core::{AnyData, AnyModel, Device, Model, Part, Role, SiteTable, Support};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use result::NutsFit;

use crate::engine::error::{Error, Result};
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::summary;
use crate::engine::report::summary::NaturalDraws;
use crate::engine::trust::chains::{ChainDiagnostics, Convergence};
use crate::engine::trust::verdict::Verdict;
use crate::fit::pool;
use crate::fit::whitening::whitening;
use chain::{ChainStart, Sampled};
use diagnostics::converged;
use target::{Layout, Target};
use walk::Walk;

/// The no-U-turn sampler: draws from the posterior of all latents of a model given the data of all silos, on one
/// machine.
///
/// It is what other fits are held to, not a federated algorithm: every silo's data and every local latent are in this
/// process. Its target is
///
/// ```math
/// \log p(Z_G) + \sum_j \log p(y_j, Z_{L_j} \mid Z_G)
/// ```
/// on unconstrained latents, with the log-determinants of the maps; parameters that the model trains stay as they are.
/// The trajectories and the adaptation of step size and diagonal metric are those of the crate nuts-rs. Where
/// [`crate::FewRounds`] serve the model, chains walk in coordinates in which their posterior is standard normal: a dense
/// metric of the globals, and each row's own scale ([`Coordinates`]). Each chain has its own keyed stream of noise: the
/// draws have the same bits for any number of threads.
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, burn};
/// use partita_inference::Nuts;
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../doc/mean.md")]
///
/// let device = Device::flex();
/// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
/// let fit = Nuts { warmup: 300, draws: 500, ..Nuts::default() }.sample(&Mean {}, &silos, &device)?;
/// // The posterior is N(6/4, 1/4); 2,000 draws of which at least 500 are effective give the mean to 5 x 0.5 / 22.
/// assert!((fit.sites[0].mean - 1.5).abs() < 0.12);
/// assert!(fit.diagnostics.worst_r_hat() < 1.05 && fit.diagnostics.divergences() == 0);
/// # Ok::<(), partita_inference::Error>(())
/// ```
///
/// # References
/// Hoffman and Gelman (2014), The no-U-turn sampler, Journal of Machine Learning Research 15, 1593-1623; Betancourt
/// (2017), arXiv:1701.02434; <https://github.com/pymc-devs/nuts-rs>.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nuts {
    /// Draws of each chain that adapt step size and metric and are not kept.
    pub warmup: usize,
    /// Draws of each chain that are kept.
    pub draws: usize,
    /// Chains.
    pub chains: usize,
    /// The seed of all randomness.
    pub seed: u64,
    /// Threads; chains run side by side, and the result does not depend on them.
    pub threads: usize,
    /// The mean acceptance probability that the step size is adapted to; nearer to 1 means smaller steps.
    pub target_accept: f64,
    /// The largest depth of a tree: a trajectory has fewer than 2 to this power steps.
    pub max_depth: u32,
    /// Chains start this far at most from the model's own start, number by number on the unconstrained scale, in units
    /// of the start scale of a site that has one. In whitened coordinates every second chain starts so, unless that is
    /// more than 1,000 nats less probable; the others start this far at most from the posterior of few rounds, in its
    /// standard deviations.
    pub start_radius: f64,
    /// What chains walk in.
    pub coordinates: Coordinates,
}

/// The coordinates that chains walk in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Coordinates {
    /// Those in which the posterior of few rounds is standard normal; the unconstrained latents where there is none.
    #[default]
    Whitened,
    /// The unconstrained latents.
    Unconstrained,
}

impl Default for Nuts {
    fn default() -> Self {
        Self {
            warmup: 1_000,
            draws: 1_000,
            chains: 4,
            seed: 1,
            threads: 1,
            target_accept: 0.8,
            max_depth: 10,
            start_radius: 2.0,
            coordinates: Coordinates::default(),
        }
    }
}

/// A draw that a chain has just made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainStep {
    /// The chain.
    pub chain: usize,
    /// The draw, warm-up included.
    pub draw: usize,
    /// Whether it is part of the warm-up.
    pub warming_up: bool,
    /// Whether its trajectory diverged.
    pub divergent: bool,
    /// The step size.
    pub step_size: f64,
}

impl Nuts {
    /// Draws from the posterior of `model` given the data of all `silos`; one silo holds pooled data.
    ///
    /// # Errors
    /// [`Error::NoSilos`], [`Error::DuplicateSilo`], [`Error::Setting`]; [`Error::NoStart`] where the log density is
    /// nowhere finite; what the model refuses, as [`Error::Model`] or [`Error::InSilo`]. Places that the model refuses
    /// because of a number there are divergences and no errors.
    pub fn sample<M: Model>(&self, model: &M, silos: &[(String, M::Data)], device: &Device) -> Result<NutsFit> {
        self.sample_watched(model, silos, device, &|_| {})
    }

    /// As [`Nuts::sample`], and tells `watch` of every draw, from the thread of its chain.
    ///
    /// # Errors
    /// As for [`Nuts::sample`].
    pub fn sample_watched<M: Model>(
        &self,
        model: &M,
        silos: &[(String, M::Data)],
        device: &Device,
        watch: &(dyn Fn(&ChainStep) + Sync),
    ) -> Result<NutsFit> {
        self.sample_any(&AnyModel::new(model), &AnyData::of_silos(silos), device, watch)
    }

    fn sample_any(
        &self,
        model: &AnyModel,
        silos: &[(String, AnyData)],
        device: &Device,
        watch: &(dyn Fn(&ChainStep) + Sync),
    ) -> Result<NutsFit> {
        self.check()?;
        let began = Instant::now();
        let mut tables = Vec::with_capacity(silos.len());
        for (place, (name, data)) in silos.iter().enumerate() {
            if silos[..place].iter().any(|(other, _)| other == name) {
                return Err(Error::DuplicateSilo { name: name.clone() });
            }
            let table = caught(name, || Ok(SiteTable::of(model, device, data)?));
            tables.push(table.map_err(|error| error.in_silo(name, 0))?);
        }
        let Some(first) = tables.first() else { return Err(Error::NoSilos) };
        let layout = Layout::of(&tables);
        Error::unless(layout.len() > 0, "model", "a model without latents", "at least one latent to sample")?;
        let mut around = ChainStart { center: first.start(), scale: vec![1.0; layout.globals] };
        if let Some(scales) = first.start_scales(1.0) {
            around.scale = scales;
        }
        for table in &tables {
            for block in 0..table.blocks().len() {
                let [means, scales] = table.local_start(block, 1.0);
                around.center.extend(means);
                around.scale.extend(scales);
            }
        }
        let chart = match self.coordinates {
            Coordinates::Whitened => whitening(model, silos, device, self.seed, self.threads)?,
            Coordinates::Unconstrained => None,
        };
        let chart = chart.filter(|chart| chart.len() == layout.len());
        // Chains of different threads share neither model nor data.
        let data = || silos.iter().map(|(_, data)| data.clone()).collect();
        let numbers = 0..u32::try_from(self.chains).unwrap_or(u32::MAX);
        let chains: Vec<_> = numbers.map(|number| (number, model.clone(), data())).collect();
        let one = |(number, model, data): (u32, AnyModel, Vec<AnyData>)| {
            caught(COORDINATOR, || {
                let target = Target::new(model, data, device, &tables, &layout);
                chain::sample(self, number, Walk { target, chart: chart.as_ref() }, &around, watch)
            })
        };
        let threads = pool(self.threads)?;
        let sampled: Vec<Result<Sampled>> = threads.install(|| chains.into_par_iter().map(one).collect());
        let sampled = sampled.into_iter().collect::<Result<Vec<Sampled>>>()?;
        let mut draws: NaturalDraws = Vec::new();
        for draw in sampled.iter().flat_map(|chain| chain.draws.chunks_exact(layout.len())) {
            let globals = &draw[..layout.globals];
            summary::append(caught(COORDINATOR, || Ok(first.natural_globals(model, device, globals)?))?, &mut draws);
        }
        let names: Vec<&str> = silos.iter().map(|(name, _)| name.as_str()).collect();
        let diagnostics = threads.install(|| self.diagnose(&sampled, &draws, &names, &tables, &layout));
        let statistics = sampled.iter().flat_map(|chain| chain.statistics.iter().copied()).collect();
        Ok(NutsFit {
            verdict: Verdict::of(&diagnostics.warnings),
            sites: summary::summarise(&draws),
            draws,
            diagnostics,
            options: self.clone(),
            silos: names.into_iter().map(str::to_owned).collect(),
            seconds: began.elapsed().as_secs_f64(),
            device: format!("{:?}", device.burn()),
            statistics,
            unconstrained: sampled.into_iter().map(|chain| chain.draws).collect(),
            layout,
        })
    }

    fn check(&self) -> Result<()> {
        let Self {
            warmup, draws, chains, threads, target_accept: accept, max_depth: depth, start_radius: radius, ..
        } = *self;
        Error::unless(warmup >= 20, "warmup", warmup, "at least 20 draws to find a step size and a metric")?;
        Error::unless(draws >= 4, "draws", draws, "at least 4, two in each half of a chain")?;
        Error::unless(chains > 0, "chains", chains, "at least 1; four or more tell whether they agree")?;
        Error::unless(threads > 0, "threads", threads, "at least 1")?;
        let is_share = accept > 0.0 && accept < 1.0;
        Error::unless(is_share, "target_accept", accept, "a probability such as 0.8 or 0.95")?;
        Error::unless((1..=20).contains(&depth), "max_depth", depth, "a depth from 1 to 20, such as 10")?;
        let is_radius = radius > 0.0 && radius.is_finite();
        Error::unless(is_radius, "start_radius", radius, "a finite number above 0, such as 2")
    }

    /// Agreement of chains on every number: of the globals on their natural scale, of the locals on the unconstrained
    /// one.
    fn diagnose(
        &self,
        sampled: &[Sampled],
        draws: &NaturalDraws,
        names: &[&str],
        tables: &[SiteTable],
        layout: &Layout,
    ) -> ChainDiagnostics {
        let latent = |site: &str| tables[0].site(site).is_some_and(|site| site.role == Role::Latent);
        let globals = draws.par_iter().map(|(site, label, draws)| {
            let chains: Vec<&[f64]> = draws.chunks_exact(self.draws).collect();
            (latent(site), converged(label, None, &chains))
        });
        let globals: Vec<(bool, Convergence)> = globals.collect();
        // A deterministic site may well be a constant, and so may a number of a latent whose others move: an element of a
        // triangle that is always zero.
        let is_constant = |draws: &[f64]| draws.iter().all(|draw| draw.total_cmp(&draws[0]).is_eq());
        let moving: BTreeSet<&str> =
            draws.iter().filter(|(_, _, draws)| !is_constant(draws)).map(|(site, _, _)| site.as_str()).collect();
        let globals = globals.into_iter().zip(draws).filter(|((latent, one), (site, _, own))| {
            !one.r_hat.is_nan() || (*latent && !(is_constant(own) && moving.contains(site.as_str())))
        });
        let globals = globals.map(|(own, _)| own);
        let mut convergence: Vec<Convergence> = globals.map(|(_, one)| one).collect();
        for (silo, (name, table)) in names.iter().zip(tables).enumerate() {
            for site in table.latents(Part::Local) {
                let shape = &table.blocks()[site.block()];
                let start = layout.start(silo, site.block()) + site.offset();
                let places = (0..shape.rows * site.width()).into_par_iter();
                let places = places.map(|at| start + at / site.width() * shape.width + at % site.width());
                let all = places.map(|place| {
                    let column = |chain: &Sampled| -> Vec<f64> {
                        chain.draws.iter().skip(place).step_by(layout.len()).copied().collect()
                    };
                    let columns: Vec<Vec<f64>> = sampled.iter().map(column).collect();
                    converged(&site.name, Some(name), &columns.iter().map(Vec::as_slice).collect::<Vec<_>>())
                });
                convergence.extend(all.collect::<Vec<_>>().into_iter().reduce(Convergence::worse));
            }
        }
        let chains = sampled.iter().map(|chain| chain.summary).collect();
        let (draws, warmup) = (self.draws, self.warmup);
        let mut diagnostics = ChainDiagnostics { convergence, chains, draws, warmup, warnings: Vec::new() };
        let mut locals = tables.iter().flat_map(|table| table.latents(Part::Local));
        let centred = locals.find(|site| !site.non_centred && site.support == Some(Support::Real));
        diagnostics.complain(centred.map(|site| site.name.as_str()));
        diagnostics
    }
}
