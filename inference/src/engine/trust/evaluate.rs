//! Judges a posterior on rows that stay in their silos: each answers one sum of log densities, and how many rows it is of.

use std::time::Duration;

use partita_core::special::log_sum_exp;
use partita_core::{
    AnyData, AnyModel, Array, Device, Draw, DrawNoise, Model, Noise, Predictive, SiteTable, predictive_draw,
    predictive_log_likelihood, replicated_log_likelihood, theta, with_theta,
};
use serde::{Deserialize, Serialize};

use super::judging::Sizes;
use super::predictive::MOST_DRAWS;
use crate::engine::algorithm::{Algorithm, Posterior, finite, replies};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, Request, SiloProgram};
use crate::engine::family::Family;
use crate::engine::moments::mean_and_variance;
use crate::engine::report::number;
use crate::engine::run::{Counters, counted};
use crate::engine::settings::Settings;
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::message;

message! {
    /// Asks a silo to judge a posterior.
    struct Judge = "evaluate.rows", sizes: &Sizes {
        /// how many draws
        draws: u64 = Request <= MOST_DRAWS,
        /// how many replicates of the rows
        replicates: u64 = Request <= MOST_REPLICATES,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
    }
}

message! {
    /// What a silo says of it.
    struct Judgement = "evaluate.answer", sizes: &u64 {
        /// sum over the held-out rows of their log posterior-predictive densities
        log_density: f64 = Data <= 1,
        /// the number of held-out rows
        rows: u64 = Data <= LARGEST_COUNT,
        /// the same sum for replicates of the rows that the posterior predicts
        replicated: Option<Vec<f64>> = Data <= *sizes,
    }
}

/// All that may leave a silo that is asked to judge a posterior.
pub(crate) fn judgement_fields() -> Vec<Field> {
    Judgement::fields(&MOST_REPLICATES)
}

/// The fewest replicates that have a standard deviation to speak of.
const LEAST_REPLICATES: usize = 8;
/// The most replicates of the rows.
const MOST_REPLICATES: u64 = 256;

/// What one silo says of a posterior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiloEvaluation {
    /// The silo.
    pub silo: String,
    /// The sum over its rows of $`\log \frac1S \sum_s p(y_i \mid Z^s)`$, in nats.
    #[serde(with = "number")]
    pub log_density: f64,
    /// Its rows.
    pub rows: u64,
    /// The same sum for each replicate of the rows, drawn from what the posterior predicts; empty where none was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "number::list")]
    pub replicated: Vec<f64>,
}

/// How well a posterior expects rows that it was not fitted to, silo by silo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// What each silo says, in their order.
    pub silos: Vec<SiloEvaluation>,
    /// Draws $`S`$ from the posterior.
    pub draws: u64,
}

impl Evaluation {
    /// How many rows there are over all silos.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.silos.iter().map(|silo| silo.rows).sum()
    }

    /// How far the held-out rows are from what the posterior says of its own predictions:
    ///
    /// ```math
    /// \frac{T(y) - \mathrm{mean}_r T(y^r)}{\mathrm{sd}_r T(y^r)}, \qquad T(y) = \sum_i \log \frac1S \sum_s p(y_i \mid Z^s)
    /// ```
    /// with replicates $`y^r`$ of the rows, each from one more draw of the posterior. It is about standard normal where
    /// predictions are calibrated, far below zero where they are surer than they should be, and far above where they are
    /// less sure. `None` for fewer than eight replicates, and where these do not differ.
    ///
    /// # References
    /// Spiegelhalter (1986), Probabilistic prediction in patient management and clinical trials, Statistics in Medicine 5;
    /// Dawid and Musio (2014), Theory and applications of proper scoring rules, METRON 72.
    #[must_use]
    pub fn calibration(&self) -> Option<f64> {
        let count = self.silos.iter().map(|silo| silo.replicated.len()).min()?;
        if count < LEAST_REPLICATES {
            return None;
        }
        let total = |replicate: usize| self.silos.iter().map(|silo| silo.replicated[replicate]).sum::<f64>();
        let totals: Vec<f64> = (0..count).map(total).collect();
        let (mean, variance) = mean_and_variance(&totals);
        let deviation = variance.sqrt();
        let found = self.silos.iter().map(|silo| silo.log_density).sum::<f64>();
        (deviation > 0.0).then(|| (found - mean) / deviation)
    }

    /// The mean log posterior-predictive density of a row over all silos, in nats; not a number without rows.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.silos.iter().map(|silo| silo.log_density).sum::<f64>() / self.rows() as f64
    }
}

/// Asks every silo how probable its held-out rows are under the posterior of `algorithm`.
///
/// ```math
/// \sum_{i} \log \frac1S \sum_{s=1}^S p_\theta(y_i \mid Z_G^s, Z_{L_i}^s), \qquad
/// Z_G^s \sim q(Z_G),\quad Z_{L_i}^s \sim p_\theta(Z_{L_i} \mid Z_G^s)
/// ```
/// with $`S`$ = `draws` and the noise of `seed`, that of the fit. Local latents come from their prior, since rows never
/// seen have no posterior of their own. A row is a row of a plate with all that is observed in it; what is observed
/// outside plates is one row. Silos are [`EvaluatingSilo`]s; of a silo with a single row the answer is that row's. Each
/// has until the `deadline`, if there is one.
///
/// # Errors
/// [`Error::Setting`] for no draw; [`Error::SiloLost`] for a silo that has not answered by the deadline; otherwise what
/// silos report, and [`Error::Message`] for one that has no such rows.
pub fn evaluate(
    algorithm: &dyn Algorithm,
    exchange: &mut dyn Exchange,
    draws: u64,
    seed: u64,
    deadline: Option<Duration>,
    counters: &mut Counters,
) -> Result<Evaluation> {
    evaluate_with_replicates(algorithm, exchange, Replicating { draws, replicates: 0 }, seed, deadline, counters)
}

/// Draws from a posterior, and replicates of held-out rows that it predicts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replicating {
    pub(crate) draws: u64,
    pub(crate) replicates: u64,
}

/// The same with replicates of the rows, of which [`Evaluation::calibration`] tells.
///
/// # Errors
/// As for [`evaluate`].
pub(crate) fn evaluate_with_replicates(
    algorithm: &dyn Algorithm,
    exchange: &mut dyn Exchange,
    Replicating { draws, replicates }: Replicating,
    seed: u64,
    deadline: Option<Duration>,
    counters: &mut Counters,
) -> Result<Evaluation> {
    Error::unless(draws > 0, "draws", draws, "at least 1")?;
    let (names, posterior) = (exchange.silos().to_vec(), algorithm.posterior());
    let (global, theta) = (posterior.parameters.to_vec(), posterior.theta.to_vec());
    let message = Judge { draws, replicates, seed, global, theta }.write();
    let requests = Request::to_all(names.len(), &message);
    // All that may leave a silo that is asked to judge a posterior.
    let manifest = Manifest { fields: Judgement::fields(&replicates) };
    let outcomes = counted(exchange, requests, &manifest, deadline, counters)?;
    let replies = replies(outcomes, &names, counters.gradient_steps)?;
    let read = |(reply, name): (&Message, &String)| {
        let in_silo = |error: Error| error.in_silo(name, counters.gradient_steps);
        let Judgement { log_density, rows, replicated } = Judgement::read(reply, &replicates).map_err(in_silo)?;
        finite(name, counters.gradient_steps, |_| "its log density".into(), &[log_density])?;
        let replicated = replicated.unwrap_or_default();
        finite(name, counters.gradient_steps, |_| "the log density of a replicate".into(), &replicated)?;
        let problem = format_args!("{} replicates, expected {replicates}", replicated.len());
        Error::well_formed(replicated.len() as u64 == replicates, &reply.kind, problem).map_err(in_silo)?;
        let problem = format_args!("a log density of {log_density} nats over 0 rows, expected 0 or some rows");
        Error::well_formed(rows > 0 || log_density == 0.0, &reply.kind, problem).map_err(in_silo)?;
        Ok(SiloEvaluation { silo: name.clone(), log_density, rows, replicated })
    };
    let silos = replies.iter().zip(&names).map(read).collect::<Result<_>>()?;
    Ok(Evaluation { silos, draws })
}

/// A silo of any algorithm that can also judge a posterior on rows of its own that it is not fitted to.
pub struct EvaluatingSilo {
    program: Box<dyn SiloProgram>,
    index: u32,
    model: AnyModel,
    rows: AnyData,
    device: Device,
    table: SiteTable,
    family: Box<dyn Family>,
}

impl std::fmt::Debug for EvaluatingSilo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EvaluatingSilo").field("name", &self.program.name()).finish_non_exhaustive()
    }
}

impl EvaluatingSilo {
    /// Gives `program`, the `index`-th silo of a run of `model` with `settings`, the rows that it judges by.
    ///
    /// # Errors
    /// What the model refuses of the rows; [`Error::Setting`], [`Error::UnknownSite`] for a family.
    pub fn new<M: Model>(
        program: Box<dyn SiloProgram>,
        index: u32,
        model: &M,
        rows: &M::Data,
        device: &Device,
        settings: &Settings,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        let rows = &AnyData::new(rows);
        let table = SiteTable::of(model, device, rows)?;
        let family = settings.family.global_family(&table)?;
        let (model, rows, device) = (with_theta(model, &theta(model)?, device)?, rows.clone(), device.clone());
        Ok(Self { program, index, model, rows, device, table, family })
    }

    fn evaluate(&self, request: &Message) -> Result<Message> {
        let private = self.program.private_theta();
        let shared = theta(&self.model)?.len().saturating_sub(private.len());
        let sizes = Sizes { parameters: self.family.parameter_len() as u64, theta: shared as u64 };
        let Judge { draws, replicates, seed, global, theta: shared } = Judge::read(request, &sizes)?;
        let problem = format_args!("it asks for 0 draws, expected 1 to {MOST_DRAWS}");
        Error::well_formed(draws > 0, &request.kind, problem)?;
        let all = [shared, private].concat();
        let model = with_theta(&self.model, &all, &self.device)?;
        let posterior = Posterior { family: &*self.family, parameters: &global, theta: &[] };
        let judged = Judged { silo: self, model, posterior, noise: Noise::new(seed), draws };
        let sums = judged.by_row(None)?;
        let log_density = sums.iter().sum();
        finite(self.program.name(), 0, |_| "the log density of its held-out rows".into(), &[log_density])?;
        // Replicates are of draws that the densities are not of.
        let replicated = (draws..draws + replicates).map(|draw| {
            let replicate =
                judged.at(draw, |at| Ok(predictive_draw(&judged.model, &self.device, &self.table, &self.rows, at)?))?;
            Ok(judged.by_row(Some(&replicate))?.iter().sum())
        });
        let replicated = replicated.collect::<Result<Vec<f64>>>()?;
        finite(self.program.name(), 0, |_| "the log density of a replicate".into(), &replicated)?;
        let replicated = (replicates > 0).then_some(replicated);
        Ok(Judgement { log_density, rows: sums.len() as u64, replicated }.write())
    }
}

/// A posterior with the rows that judge it.
struct Judged<'a> {
    silo: &'a EvaluatingSilo,
    model: AnyModel,
    posterior: Posterior<'a>,
    noise: Noise,
    draws: u64,
}

impl Judged<'_> {
    /// What `read` gives at one draw of the posterior.
    fn at<T>(&self, draw: u64, read: impl FnOnce(Predictive<'_>) -> Result<T>) -> Result<T> {
        let globals = self.posterior.draw(&self.noise, draw);
        let noise = DrawNoise { noise: self.noise, index: draw | u64::from(self.silo.index) << 32 };
        read(Predictive { globals: &globals, locals: None, noise })
    }

    /// The log posterior-predictive density of each row, or of its replicate.
    fn by_row(&self, replicate: Option<&Draw>) -> Result<Vec<f64>> {
        let EvaluatingSilo { device, table, rows, .. } = self.silo;
        // Row by row the logarithm of the sum of densities so far: however many draws are asked for, they take no
        // memory.
        let mut sums: Vec<f64> = Vec::new();
        for draw in 0..self.draws {
            let observed: Vec<(String, Array)> = self.at(draw, |at| {
                Ok(match replicate {
                    None => predictive_log_likelihood(&self.model, device, table, rows, at)?,
                    Some(own) => replicated_log_likelihood(&self.model, device, table, rows, own, at)?,
                })
            })?;
            let densities = by_row(table, &observed);
            sums.resize(densities.len(), f64::NEG_INFINITY);
            sums.iter_mut().zip(densities).for_each(|(sum, density)| *sum = log_sum_exp(&[*sum, density]));
        }
        let count = self.draws as f64;
        sums.iter_mut().for_each(|sum| *sum -= count.ln());
        Ok(sums)
    }
}

/// The log density of each row: the sum of all that is observed in it, plate after plate; outside plates all is one
/// row.
pub(crate) fn by_row(table: &SiteTable, observed: &[(String, Array)]) -> Vec<f64> {
    let mut plates: Vec<(Option<&String>, Vec<f64>)> = Vec::new();
    for (name, array) in observed {
        let plate = table.site(name).and_then(|site| site.plate.as_ref());
        let rows = if plate.is_some() { array.shape.first().copied().unwrap_or(1).max(1) } else { 1 };
        let place = plates.iter().position(|(known, _)| *known == plate).unwrap_or(plates.len());
        if place == plates.len() {
            plates.push((plate, vec![0.0; rows]));
        }
        let width = (array.values.len() / rows).max(1);
        for (sum, values) in plates[place].1.iter_mut().zip(array.values.chunks(width)) {
            *sum += values.iter().sum::<f64>();
        }
    }
    plates.into_iter().flat_map(|(_, sums)| sums).collect()
}

impl SiloProgram for EvaluatingSilo {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.program)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            Judge::KIND => self.evaluate(request),
            _ => self.program.answer(request),
        }
    }
}
