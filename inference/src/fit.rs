//! Fits a model over silos in this process in one call, from data to report.

mod answer;
#[cfg(feature = "arviz")]
mod arviz;
pub(crate) mod calibrate;
pub(crate) mod check;
mod choice;
pub mod columns;
mod convergence;
mod elsewhere;
mod held_out;
mod judged;
mod leave_one_out;
pub(crate) mod local_report;
mod own_checks;
mod page;
mod party;
mod precision;
mod several;
mod start;
mod trust;
mod warning;
#[cfg(feature = "sampler")]
pub(crate) mod whitening;

pub use answer::AnswerDraws;
pub use elsewhere::{Fitted, evaluating_silo, fit_asynchronous, fit_parties};
pub use start::{Run, start};
pub use warning::LocalLatents;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use partita_core::{AnyData, AnyModel, Device, Model, Part, SiteTable, theta, with_shared_theta, with_theta};
use serde::{Deserialize, Serialize};

use crate::engine::algorithm::{Algorithm, Posterior};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, InProcess, SiloProgram};
use crate::engine::family::{Family, NamedFamily};
use crate::engine::listed_party::ListedParty;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::{Report, Warning, algorithm_name};
use crate::engine::run::{Counters, Progress, RunOptions, RunRecord, Tolerance, run};
use crate::engine::settings::{Settings, StartFrom};
use crate::engine::trust::correction::Wide;
use crate::engine::trust::estimate::{Estimated, estimate_elbo_within};
use crate::engine::trust::statistic::PredictiveCheck;
use crate::methods::columns::VerticalOptions;
use crate::methods::few_rounds::{FewRoundsOptions, PrivateRoundsOptions};
use crate::methods::pvi::PviOptions;
use crate::methods::rounds::{FedOptOptions, RoundOptions};
use crate::methods::sfvi::PrivateSfviOptions;
use choice::choose;
use elsewhere::Asked;
use several::{Begun, begin};

/// Which algorithm fits the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AlgorithmChoice {
    /// [`AlgorithmChoice::FewRounds`] where it serves the model, else [`AlgorithmChoice::Sfvi`]; the report says which,
    /// and why ([`Report::choice`]).
    ///
    /// Few rounds serve models of 1 to 200 globals, without trained parameters, whose rows have at most three latents,
    /// in 64 bits, with the negative log likelihood on all rows. Options that are for stochastic steps alone (such as
    /// steps, an estimator, a family or a schedule) ask for SFVI, which finds its learning rate and its end by itself
    /// ([`crate::Schedule::Adaptive`]): without such options in at most 30,000 steps, or 10,000 with minibatches or trained
    /// parameters. Parties that are made one by one, which know the data of one silo at most, take SFVI.
    #[default]
    Automatic,
    /// Structured federated variational inference over any number of silos.
    Sfvi,
    /// Rows integrated out in their silos and natural-gradient steps of the globals: a handful of rounds.
    FewRounds(FewRoundsOptions),
    /// Few rounds of noised sums over clipped rows. A silo of them is a [`crate::PrivateRoundsSilo`] with the mechanism of
    /// its owner; the facade's `private::fit` makes all parties.
    PrivateRounds(PrivateRoundsOptions),
    /// SFVI over noised sums of clipped rows. A silo of it is a [`crate::PrivateSfviSilo`] with the mechanism of its owner;
    /// the facade's `private::fit` makes all parties.
    PrivateSfvi(PrivateSfviOptions),
    /// Structured variational inference on pooled data: exactly one silo.
    Central,
    /// SFVI with averaging: rounds of many local steps.
    SfviAvg(RoundOptions),
    /// Federated point estimation: FedAvg and its kin.
    FedOpt(FedOptOptions),
    /// Partitioned variational inference: one approximate factor a silo.
    Pvi(PviOptions),
    /// The steps of [`AlgorithmChoice::Central`] with data, posterior and optimiser on the device: exactly one silo.
    ///
    /// Traces, stop rules and checkpoints see the ends of intervals only: let checkpoints be a multiple of them.
    OnDevice {
        /// Steps between two reads of bound and posterior: the host knows nothing of what happens between them.
        interval: u64,
    },
    /// Parties that hold different columns of the same rows; [`crate::fit::columns::fit`] takes it.
    Vertical(VerticalOptions),
}

/// How a fit in this process is carried out.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// Which algorithm.
    pub algorithm: AlgorithmChoice,
    /// What all parties agree on.
    pub settings: Settings,
    /// Short fits from overdispersed starts, of which the best goes on: 1 for none but the one start.
    ///
    /// The first begins where every fit does; the others have their global means scattered around it by ten times the
    /// starting standard deviations, on the unconstrained scale, by noise of the seed. After a tenth of the steps the
    /// bounds are compared, and the fit with the highest goes on to the last step. The report has all bounds
    /// ([`Report::starts`]) and warns where they differ by more than their errors. Local latents start alike.
    /// [`fit()`] and [`start()`] take several; parties that are elsewhere have one.
    pub starts: u32,
    /// Threads for silos and particles together; the result does not depend on them.
    pub threads: usize,
    /// Sampled bounds whose mean is reported; few rounds take their bound from the round of trust where there is one.
    /// Under [`crate::Estimator::ImportanceWeighted`] the posterior is described by one draw of each.
    pub elbo_draws: usize,
    /// Draws around the posterior at which silos are asked for the log marginal likelihood of their rows, so that the
    /// report can correct it and say whether to trust it: 0 for none, at most 4,096, and `None` for as many as the
    /// method calls for, 2,048 unless there are many rows; rounded up to a multiple of 256. Where their weights call for it, as many more are drawn, up to seven times.
    pub trust_draws: Option<usize>,
    /// Draws from the posterior at which silos leave their rows out one at a time, so that the report has the sum over all
    /// rows ([`Report::leave_one_out`]); 0 for none, and 1,000 or more serve.
    pub leave_one_out_draws: u64,
    /// Posterior predictive checks that each silo makes of its rows ([`Report::checks`]).
    pub checks: Vec<PredictiveCheck>,
    /// Replicates for these checks; `None` for as many as their number calls for, 1,000 or 100 a check and silo.
    pub check_draws: Option<u64>,
    /// Draws for the summary of the posterior; 0 for no summary, as a network with many weights wants.
    pub summary_draws: u32,
    /// Where checkpoints go, and every how many steps.
    pub checkpoint: Option<(PathBuf, u64)>,
    /// Go on from the latest checkpoint.
    pub resume: bool,
    /// Stop early when the posterior no longer moves.
    pub tolerance: Option<Tolerance>,
    /// Set from outside to end the run cleanly.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// How long to wait for a silo, in the run and for the bound at its end.
    pub deadline: Option<Duration>,
    /// The seed of a silo's local noise and minibatches, which no other party knows; `None` for that of the run, by which a
    /// simulation can be repeated and whoever has it knows this noise. Few rounds have no such noise, and `Central` and `OnDevice` no
    /// other party.
    pub private_seed: Option<u64>,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            algorithm: AlgorithmChoice::default(),
            settings: Settings::default(),
            starts: 1,
            threads: 1,
            elbo_draws: 1_000,
            trust_draws: None,
            leave_one_out_draws: 0,
            checks: Vec::new(),
            check_draws: None,
            summary_draws: 4_000,
            checkpoint: None,
            resume: false,
            tolerance: None,
            interrupt: None,
            deadline: None,
            private_seed: None,
        }
    }
}

impl FitOptions {
    /// How a run of so many steps is carried out.
    pub(crate) fn run_options(&self, steps: u64) -> RunOptions {
        RunOptions {
            steps,
            checkpoint: self.checkpoint.clone(),
            resume: self.resume,
            tolerance: self.tolerance,
            deadline: self.deadline,
            interrupt: self.interrupt.clone(),
        }
    }
}

/// A fitted model: the report, the posterior, and the parties for further questions.
pub struct Fit {
    /// What was found.
    pub report: Report,
    /// How the run went.
    pub record: RunRecord,
    /// Draws of every global number on its natural scale: site, label, draws.
    pub draws: Vec<(String, String, Vec<f64>)>,
    /// The draws of the round of trust, with their weights.
    pub(crate) wide: Option<Wide>,
    /// The draws on the unconstrained scale, where they are of the reweighted posterior.
    pub(crate) reweighted: Vec<Vec<f64>>,
    /// The coordinator.
    pub algorithm: Box<dyn Algorithm>,
    /// The silos.
    pub exchange: InProcess,
}

impl std::fmt::Debug for Fit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Fit").field("report", &self.report).finish_non_exhaustive()
    }
}

impl Fit {
    /// The posterior of the globals.
    #[must_use]
    pub fn posterior(&self) -> Posterior<'_> {
        self.algorithm.posterior()
    }

    /// `model` with the trained parameters θ of this fit; those that silos keep private stay as they are in `model`.
    ///
    /// # Errors
    /// [`Error::Model`] if it is not the model that was fitted.
    pub fn model<M: Model>(&self, model: &M, device: &Device) -> Result<M> {
        Ok(with_shared_theta(model, self.algorithm.posterior().theta, device)?)
    }

    /// `model` as the `silo`-th silo has it: with the trained parameters θ, those private to the silo too.
    ///
    /// # Errors
    /// [`Error::Setting`] for a silo there is not; [`Error::Model`] if it is not the model that was fitted.
    pub fn model_in<M: Model>(&mut self, silo: usize, model: &M, device: &Device) -> Result<M> {
        let silos = self.exchange.programs();
        let Some(program) = silos.get(silo) else {
            let found = format!("{silo} of {}", silos.len());
            return Err(Error::Setting { setting: "silo", found, expected: "the place of a silo of the fit" });
        };
        let private = program.private_theta();
        let shared = theta(&self.model(model, device)?)?;
        let start = shared.len() - private.len().min(shared.len());
        Ok(with_theta(model, &[&shared[..start], &private].concat(), device)?)
    }
}

/// Fits `model` to the data of `silos`.
///
/// # Errors
/// [`Error::NoSilos`], [`Error::Setting`], whatever the model refuses, and what the run reports.
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, burn};
/// use partita_inference::{FitOptions, Settings, fit};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../doc/mean.md")]
///
/// let device = Device::flex();
/// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
/// let options = FitOptions { settings: Settings { steps: 1_500, ..Settings::default() }, ..FitOptions::default() };
/// let fit = fit(&Mean {}, &silos, &device, &options, None)?;
/// // The posterior is N(6/4, 1/4).
/// let mean = fit.posterior().family.mean(fit.posterior().parameters)[0];
/// assert!((mean - 1.5).abs() < 0.01);
/// # Ok::<(), partita_inference::Error>(())
/// ```
pub fn fit<M: Model>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
    progress: Option<&mut dyn Progress>,
) -> Result<Fit> {
    fit_any(&AnyModel::new(model), &AnyData::of_silos(silos), device, options, progress)
}

/// [`fit`] of a model of any type.
pub(crate) fn fit_any(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    options: &FitOptions,
    progress: Option<&mut dyn Progress>,
) -> Result<Fit> {
    let Begun { mut algorithm, mut exchange, options, bounds, spent, choice } = begin(model, silos, device, options)?;
    let asked = Asked { run, options: &FitOptions { starts: 1, ..options.clone() }, device };
    let fitted = asked.of_model(model, &mut *algorithm, &mut exchange, progress)?;
    let Fitted { mut report, mut record, draws, elbos, wide, reweighted, .. } = fitted;
    // Here the data are at hand that say what was unknown to the coordinator.
    let unknown = Warning::of(&options.algorithm, LocalLatents::Unknown, silos.len());
    if !unknown.is_empty() {
        let locals = LocalLatents::of(exchange.programs())?;
        report.warnings.retain(|warning| !unknown.contains(warning));
        report.warn(Warning::of(&options.algorithm, locals, silos.len()));
    }
    if let (true, [(_, data), ..]) = (warning::stays_on_device(&options.algorithm), silos) {
        report.warn(Warning::of_host_operations(model, data, device)?);
    }
    report.begun(bounds, spent, &mut record);
    report.choice = choice;
    precision::compare(&options, device, &mut *algorithm, &mut exchange, &elbos, &mut report)?;
    Ok(Fit { report, record, draws, wide, reweighted, algorithm, exchange })
}

/// Sampled bounds for the report: at least one.
fn bounds_of(options: &FitOptions) -> Result<usize> {
    match (options.elbo_draws, &options.algorithm) {
        (0, _) => Err(Error::Setting { setting: "elbo_draws", found: "0".into(), expected: "at least 1" }),
        // All draws of a point mass are alike: one stands for all.
        (_, AlgorithmChoice::FedOpt(_)) => Ok(1),
        // The posterior is described by one draw a bound then, which has a standard deviation from two on.
        (1, _) if options.settings.estimator.weighs_draws() => Ok(2),
        (count, _) => Ok(count),
    }
}

/// Refuses several starts of parties that are made once.
pub(crate) fn one_start(options: &FitOptions) -> Result<()> {
    let expected = "1 for parties that are made once; `fit` and `start` take several over silos in this process";
    Error::unless(options.starts == 1, "starts", options.starts, expected)
}

/// The algorithm with its options, as a report holds it; of a method of a user's own its name.
pub(crate) fn described(options: &FitOptions, algorithm: &dyn Algorithm) -> Result<serde_json::Value> {
    let choice = serde_json::to_value(&options.algorithm).map_err(|error| Error::Setting {
        setting: "algorithm",
        found: format!("{:?} ({error})", options.algorithm),
        expected: "options that can be written into a report",
    })?;
    let chosen = algorithm_name(&choice);
    Ok(if chosen == Some(algorithm.name()) { choice } else { algorithm.name().into() })
}

/// The families of the global sites: those of the settings, or the one that a method of a user's own has instead.
fn families(settings: &Settings, table: &SiteTable, own: &dyn Family) -> Result<Vec<NamedFamily>> {
    let family = format!("{own:?}");
    if format!("{:?}", settings.family.global_family(table)?) == family {
        return Ok(settings.family.named(table));
    }
    let sites = table.latents(Part::Global).map(|site| site.name.clone()).collect();
    Ok(vec![NamedFamily { sites, family, numbers: own.len() }])
}

/// The bound at the present posterior, from as many sampled bounds as the options say.
fn bound_of(
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    counters: &mut Counters,
) -> Result<Estimated> {
    let (draws, deadline) = (bounds_of(options)?, options.deadline);
    caught(COORDINATOR, || estimate_elbo_within(algorithm, exchange, draws, deadline, counters))
}

/// The coordinator and the silos of a fit before its first step, for those who want to look in between:
/// [`crate::run()`] takes both, and goes on from where the algorithm is.
///
/// # Errors
/// As for [`fit`].
pub fn parties<M: Model>(
    model: &M,
    silos: &[(String, M::Data)],
    device: &Device,
    options: &FitOptions,
) -> Result<(Box<dyn Algorithm>, InProcess)> {
    parties_any(&AnyModel::new(model), &AnyData::of_silos(silos), device, options)
}

fn parties_any(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    options: &FitOptions,
) -> Result<(Box<dyn Algorithm>, InProcess)> {
    one_start(options)?;
    let options = &choose(model, silos, device, options)?.options;
    let mut settings = settled(options, silos.len());
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    if let AlgorithmChoice::Central | AlgorithmChoice::OnDevice { .. } = options.algorithm {
        party::only(&names)?;
    }
    // What is wrong with the globals is the coordinator's to say, before any silo reads its data.
    caught(COORDINATOR, || Ok(SiteTable::globals(model, device)?))?;
    let (mut programs, mut rows) = (Vec::new(), Vec::new());
    for ((name, data), index) in silos.iter().zip(0_u32..) {
        let (program, own) = party::silo(model, name, index, data, device, options, &settings)?;
        programs.push(program);
        rows.push(own);
    }
    // Local latents rule out a climb to the mode: here the programs say whether there are any.
    let can_climb = matches!(options.algorithm, AlgorithmChoice::Sfvi | AlgorithmChoice::SfviAvg(_));
    let climbs = settings.start == StartFrom::Mode && can_climb;
    if climbs && LocalLatents::of(&programs)? == LocalLatents::Some {
        settings.start = StartFrom::Declared;
    }
    let algorithm = party::coordinator(model, &names, &rows, device, &options.algorithm, &settings)?;
    Ok((algorithm, InProcess::new(programs, options.threads)?))
}

/// The coordinator of a fit whose silos are elsewhere: the one that [`fit`] would make.
///
/// `names` are those of the silos, `rows` how many rows each has, as its own [`silo_program`] says.
///
/// # Errors
/// As for [`fit`].
pub fn coordinator<M: Model>(
    model: &M,
    names: &[String],
    rows: &[usize],
    device: &Device,
    options: &FitOptions,
) -> Result<Box<dyn Algorithm>> {
    one_start(options)?;
    let settings = settled(options, names.len());
    party::coordinator(&AnyModel::new(model), names, rows, device, &options.algorithm, &settings)
}

/// One silo of a fit whose other parties are elsewhere, the `index`-th of `silos`: the one that [`fit`] would make,
/// with the number of its rows.
///
/// # Errors
/// As for [`fit`].
pub fn silo_program<M: Model>(
    model: &M,
    silos: &[String],
    index: u32,
    data: &M::Data,
    device: &Device,
    options: &FitOptions,
) -> Result<(Box<dyn SiloProgram>, usize)> {
    silo_program_any(&AnyModel::new(model), silos, index, &AnyData::new(data), device, options)
}

fn silo_program_any(
    model: &AnyModel,
    silos: &[String],
    index: u32,
    data: &AnyData,
    device: &Device,
    options: &FitOptions,
) -> Result<(Box<dyn SiloProgram>, usize)> {
    let settings = settled(options, silos.len());
    let Some(name) = silos.get(index as usize) else {
        let found = format!("{index} of {}", silos.len());
        return Err(Error::Setting { setting: "silo", found, expected: "the place of a silo of the fit" });
    };
    let (program, rows) = party::silo(model, name, index, data, device, options, &settings)?;
    // What the coordinator of this run may be told, whoever asks.
    let sizes = vec![rows.max(1); silos.len()];
    let coordinator = party::coordinator(model, silos, &sizes, device, &options.algorithm, &settings)?;
    let manifest = coordinator.manifest().clone();
    Ok((Box::new(ListedParty::new(program, manifest)), rows))
}

/// The silos a thread from which on they keep all threads busy by themselves.
const MANY_SILOS: usize = 8;

/// The settings that parties are given.
pub(crate) fn settled(options: &FitOptions, silos: usize) -> Settings {
    // Silos side by side take the threads first; what is left over serves the particles inside each, unless the
    // settings say otherwise. Zero stays zero, to be refused.
    let left_over = (options.threads / silos.max(1)).max(options.threads.min(1));
    // A few silos of few rounds differ in their rows: a thread whose silo is done takes draws of another.
    let is_shared = matches!(options.algorithm, AlgorithmChoice::FewRounds(_)) && silos < MANY_SILOS * options.threads;
    let threads = options.settings.threads.or(Some(if is_shared { options.threads } else { left_over }));
    let start = match options.settings.start {
        StartFrom::Chosen => StartFrom::Mode,
        asked => asked,
    };
    let asked = options.settings.schedule;
    let schedule = if options.algorithm.adapts() { asked } else { asked.of_steps() };
    let settings = Settings { threads, start, schedule, ..options.settings.clone() };
    match &options.algorithm {
        AlgorithmChoice::FedOpt(how) => how.settings(settings),
        // Its posterior has one family, by which held-out rows are judged too.
        AlgorithmChoice::FewRounds(_) => Settings { family: settings.family.full_rank_globals(), ..settings },
        _ => settings,
    }
}

pub(crate) fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| Error::Setting {
        setting: "threads",
        found: format!("{threads} ({error})"),
        expected: "a number of threads the machine can start",
    })
}
