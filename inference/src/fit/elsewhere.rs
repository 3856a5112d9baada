//! Fits parties that exist already, behind any exchange, in rounds or as they answer.

use std::time::Instant;

use partita_core::{AnyModel, Device, Key, Loss, Model, Noise, Purpose, SiteTable};

use super::convergence::Convergence;
use super::judged::{Judged, OfPosterior};
use super::trust::Looking;
use super::{FitOptions, LocalLatents, bound_of, bounds_of, described, families, one_start, pool, settled};
use crate::engine::algorithm::{Algorithm, Ending, Posterior};
use crate::engine::error::Result;
use crate::engine::estimator::Estimator;
use crate::engine::exchange::{Exchange, SiloProgram};
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::summary::{NaturalDraws, append, natural_draws_of, summarise};
use crate::engine::report::{Found, Report, Warning};
use crate::engine::run::{Judging, Progress, RunOptions, RunRecord, Silent, run, run_asynchronous};
use crate::engine::settings::Settings;
use crate::engine::trust::correction::{Correction, Wide};
use crate::engine::trust::estimate::Estimated;
use crate::engine::trust::evaluate::EvaluatingSilo;
use crate::engine::trust::known::{Known, KnownModel};
use crate::engine::trust::objective::Objective;
use crate::engine::trust::round::Round;
use crate::engine::trust::verdict::Trust;
use crate::engine::wire::manifest::Manifest;

/// What [`fit_parties`] gives of parties that exist already.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// What was found.
    pub report: Report,
    /// How the run went.
    pub record: RunRecord,
    /// Draws of every global number on its natural scale: site, label, draws.
    pub draws: Vec<(String, String, Vec<f64>)>,
    /// What may have left a silo.
    pub manifest: Manifest,
    /// The sampled bounds whose mean is reported; none where the round of trust gave the bound.
    pub(crate) elbos: Vec<f64>,
    /// The draws of the round of trust, with their weights.
    pub(crate) wide: Option<Wide>,
    /// The draws on the unconstrained scale, where they are of the reweighted posterior.
    pub(crate) reweighted: Vec<Vec<f64>>,
}

/// The run, the bound and the summary of [`super::fit()`] with parties that exist already: a [`super::coordinator`], and
/// silos behind any exchange.
///
/// `options` are those that the parties were made of, and the report has their settings. Where `algorithm` is a method
/// of a user's own it has the name of that ([`Algorithm::name`]) in place of options, and the family of its posterior.
///
/// # Errors
/// As for [`super::fit()`].
pub fn fit_parties<M: Model>(
    model: &M,
    device: &Device,
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    progress: Option<&mut dyn Progress>,
) -> Result<Fitted> {
    let asked = Asked { run, options, device };
    asked.of_model(&AnyModel::new(model), algorithm, exchange, progress)
}

/// [`fit_parties`] with silos that are asked again as soon as they have answered, by [`run_asynchronous`]; for the bound
/// all are asked at once.
///
/// # Errors
/// As for [`fit_parties`] and [`run_asynchronous`].
pub fn fit_asynchronous<M: Model>(
    model: &M,
    device: &Device,
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    progress: Option<&mut dyn Progress>,
) -> Result<Fitted> {
    let asked = Asked { run: run_asynchronous, options, device };
    asked.of_model(&AnyModel::new(model), algorithm, exchange, progress)
}

/// [`run`] or [`run_asynchronous`].
type Loop = fn(&mut dyn Algorithm, &mut dyn Exchange, &RunOptions, &mut dyn Progress) -> Result<RunRecord>;

/// What is known of globals at some trained parameters.
type KnownAt<'a> = &'a dyn Fn(&[f64]) -> Result<Box<dyn Known + 'a>>;

/// What is asked of parties that exist already.
pub(super) struct Asked<'a> {
    pub(super) run: Loop,
    pub(super) options: &'a FitOptions,
    pub(super) device: &'a Device,
}

/// What a report says of the globals beside their posterior.
pub(super) struct Globals<'a> {
    pub(super) settings: &'a Settings,
    pub(super) table: &'a SiteTable,
    pub(super) known: KnownAt<'a>,
    /// Why parties cannot integrate their rows out; `None` where they can.
    pub(super) no_rows: Option<&'static str>,
}

impl Asked<'_> {
    pub(super) fn of_model(
        &self,
        model: &AnyModel,
        algorithm: &mut dyn Algorithm,
        exchange: &mut dyn Exchange,
        progress: Option<&mut dyn Progress>,
    ) -> Result<Fitted> {
        let settings = &settled(self.options, exchange.silos().len());
        let table = &caught(COORDINATOR, || Ok(SiteTable::globals(model, self.device)?))?;
        let known = &|theta: &[f64]| Ok(Box::new(KnownModel::new(model, theta, self.device, table)?) as Box<dyn Known>);
        self.fit(Globals { settings, table, known, no_rows: None }, algorithm, exchange, progress)
    }

    /// The run, the bound and the summary.
    pub(super) fn fit(
        &self,
        globals: Globals<'_>,
        algorithm: &mut dyn Algorithm,
        exchange: &mut dyn Exchange,
        progress: Option<&mut dyn Progress>,
    ) -> Result<Fitted> {
        let (options, Globals { settings, table, known, no_rows }) = (self.options, globals);
        let mut silent = Silent;
        let progress: &mut dyn Progress = match progress {
            Some(progress) => progress,
            None => &mut silent,
        };
        bounds_of(options)?;
        one_start(options)?;
        let run_options = options.run_options(settings.steps);
        let silos = exchange.silos().to_vec();
        let pool = pool(options.threads)?;
        let mut record = pool.install(|| (self.run)(algorithm, exchange, &run_options, progress))?;
        let (judging, is_interrupted) = (Instant::now(), record.ending == Ending::Interrupted);
        let counters = &mut record.counters;
        let asking = options.asking(algorithm, settings.seed);
        let answered = caught(COORDINATOR, || {
            let known = &*known(algorithm.posterior().theta)?;
            let mut looking = Looking { pool: &pool, asking, known, progress: &mut *progress };
            let round = match no_rows {
                _ if is_interrupted => Err(INTERRUPTED.to_owned().into()),
                Some(reason) => Err(reason.to_owned().into()),
                None => looking.round(algorithm, exchange, counters)?,
            };
            let own = round.as_ref().ok().filter(|_| algorithm.bounds_marginals()).and_then(Round::bound);
            let mut bound = match own {
                Some(bound) => Estimated::from(bound),
                None => pool.install(|| bound_of(options, algorithm, exchange, counters))?,
            };
            let draws = match options.summary_draws {
                0 => NaturalDraws::new(),
                _ if !bound.reweighted.is_empty() => natural_of(&bound.reweighted, known)?,
                count => draws_of(algorithm.posterior(), settings.seed, count.max(2), known)?,
            };
            let (trust, wide) = match round {
                Ok(mut round) => {
                    if !bound.reweighted.is_empty() {
                        round.log_posterior = None;
                    }
                    let wide = looking.further(round, &draws, algorithm, exchange, counters)?;
                    if let Some(own) = wide.round.bound().filter(|_| algorithm.bounds_marginals()) {
                        bound = Estimated::from(own);
                    }
                    (Trust::Checked(Correction::of(&wide, &silos, &draws)), Some(wide))
                }
                Err(none) => (Trust::from(none), None),
            };
            let judged = match no_rows {
                _ if is_interrupted => Judged::impossible(options, INTERRUPTED),
                Some(reason) => Judged::impossible(options, reason),
                None => {
                    let Posterior { parameters, theta, .. } = algorithm.posterior();
                    let asked = OfPosterior { seed: settings.seed, global: parameters.to_vec(), theta: theta.to_vec() };
                    pool.install(|| Judged::ask(options, asked, exchange, counters))?
                }
            };
            Ok((bound, trust, wide, draws, judged))
        });
        progress.judging(Judging::Over);
        let (Estimated { bound, elbos, reweighted }, trust, wide, draws, judged) = answered?;
        record.seconds += judging.elapsed().as_secs_f64();
        let posterior = algorithm.posterior();
        let mut warnings = Warning::of(&options.algorithm, LocalLatents::Unknown, silos.len());
        let (counts, privacy) = (algorithm.counts(), algorithm.privacy());
        let convergence = Convergence {
            algorithm: &options.algorithm,
            settings,
            record: &record,
            bound: &bound,
            counts: counts.as_ref(),
            table,
            trained: posterior.parameters.len() + posterior.theta.len(),
            tells_bound: privacy.is_none(),
            knows_noise: privacy.as_ref().is_some_and(|own| !own.last_step.is_empty()),
        };
        let trust = convergence.judged(trust);
        warnings.extend(convergence.warnings(&trust));
        let settled = convergence.settled();
        warnings.extend(judged.warnings);
        let report = Report::new(Found {
            sites: summarise(&draws),
            families: families(settings, table, posterior.family)?,
            warnings,
            objective: objective_of(settings, algorithm),
            trust,
            bound,
            record: &record,
            counts,
            privacy,
            algorithm: described(options, algorithm)?,
            settings,
            device: format!("{:?}", self.device.burn()),
            silos,
            theta: posterior.theta.to_vec(),
            settled,
            leave_one_out: judged.leave_one_out,
            checks: judged.checks,
        });
        progress.found(report.gradient_steps, report.elbo);
        Ok(Fitted { report, record, draws, manifest: algorithm.manifest().clone(), elbos, wide, reweighted })
    }
}

/// What the number is that a method with these settings maximises.
fn objective_of(settings: &Settings, algorithm: &dyn Algorithm) -> Objective {
    let Posterior { family, parameters, .. } = algorithm.posterior();
    let deviations = family.deviations(parameters);
    let is_point = !deviations.is_empty() && deviations.iter().all(|deviation| *deviation <= 0.0);
    match (algorithm.objective(), settings.estimator) {
        (Objective::Elbo, _) if settings.loss != Loss::NegativeLogLikelihood => Objective::Generalised,
        (Objective::Elbo, _) if is_point => Objective::LogJoint,
        (Objective::Elbo, Estimator::ImportanceWeighted { .. }) => {
            Objective::ImportanceWeighted { draws: settings.particles }
        }
        (own, _) => own,
    }
}

/// Why an answer is not judged that is not finished.
const INTERRUPTED: &str = "the run was interrupted";

/// The noise of draws of the posterior. Block 1: apart from the draws that estimate the bound, which use block 0.
pub(super) const DRAWS: Key = Key { purpose: Purpose::Report, step: 0, silo: Key::COORDINATOR, block: 1, particle: 0 };

/// Draws `count` times from the global posterior and maps each draw to the natural scale.
fn draws_of(posterior: Posterior<'_>, seed: u64, count: u32, known: &dyn Known) -> Result<NaturalDraws> {
    natural_draws_of(posterior, Noise::new(seed), DRAWS, count, |latent| known.natural(latent))
}

/// Draws on the natural scale.
fn natural_of(latents: &[Vec<f64>], known: &dyn Known) -> Result<NaturalDraws> {
    let mut all = NaturalDraws::new();
    latents.iter().try_for_each(|latent| known.natural(latent).map(|values| append(values, &mut all)))?;
    Ok(all)
}

/// A silo of a fit, made by [`super::silo_program`] as the `index`-th, that can also judge a posterior by rows of its
/// own.
///
/// # Errors
/// As for [`EvaluatingSilo::new`].
pub fn evaluating_silo<M: Model>(
    program: Box<dyn SiloProgram>,
    index: u32,
    model: &M,
    rows: &M::Data,
    device: &Device,
    options: &FitOptions,
) -> Result<EvaluatingSilo> {
    EvaluatingSilo::new(program, index, model, rows, device, &settled(options, 1))
}
