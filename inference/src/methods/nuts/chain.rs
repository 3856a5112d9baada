//! Runs one Markov chain of the crate nuts-rs on the log density of a model.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use nuts_rand as generator;
use nuts_rs::{Chain, CpuLogpFunc, CpuMath, CpuMathError, DiagGradNutsSettings, HasDims, LogpError, Settings};
use partita_core::{Key, Noise, NoiseStream, Purpose};

use super::walk::Walk;
use super::{ChainStep, Nuts};
use crate::engine::error::{Error, Result, is_outside};
use crate::engine::trust::chains::ChainSummary;

/// How many starts are tried before a chain gives up.
const TRIES: usize = 100;

/// The nats by which a declared start may be less probable than a place around the posterior.
const REMOTE: f64 = 1_000.0;

/// The draws of a chain, one after another, and how it went.
#[derive(Debug)]
pub(super) struct Sampled {
    pub(super) draws: Vec<f64>,
    pub(super) summary: ChainSummary,
    pub(super) statistics: Vec<DrawStatistics>,
}

/// What the sampler says of one draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawStatistics {
    /// The log density of all latents.
    pub(super) log_p: f64,
    pub(super) energy: f64,
    pub(super) acceptance_rate: f64,
    pub(super) step_size: f64,
    pub(super) n_steps: u64,
    pub(super) tree_depth: u64,
    pub(super) diverging: bool,
}

/// Where chains start: around a place, in units of a scale, number by number.
#[derive(Debug)]
pub(super) struct ChainStart {
    pub(super) center: Vec<f64>,
    pub(super) scale: Vec<f64>,
}

/// Runs chain `number` of `nuts` from the first of its starts that will do.
pub(super) fn sample(
    nuts: &Nuts,
    number: u32,
    mut walk: Walk<'_>,
    start: &ChainStart,
    watch: &(dyn Fn(&ChainStep) + Sync),
) -> Result<Sampled> {
    let chain = number as usize;
    let position = first_position(nuts, number, &mut walk, start)?;
    let mut settings = DiagGradNutsSettings {
        num_tune: nuts.warmup as u64,
        num_draws: nuts.draws as u64,
        maxdepth: u64::from(nuts.max_depth),
        ..DiagGradNutsSettings::default()
    };
    settings.adapt_options.step_size_settings.target_accept = nuts.target_accept;
    let fault = Rc::new(RefCell::new(None));
    let shown = walk.chart;
    let density = Density { dimension: start.center.len(), walk, fault: Rc::clone(&fault) };
    let mut stream = Keyed(Noise::new(nuts.seed).stream(Key::new(Purpose::Sampling, 0).particle(number)));
    let mut sampler = settings.new_chain(u64::from(number), CpuMath::new(density), &mut stream);
    let failed = |draw: usize, reason: &dyn fmt::Display| match fault.borrow_mut().take() {
        Some(error) => Error::Model(error),
        None => Error::Sampler { chain, draw, reason: reason.to_string() },
    };
    sampler.set_position(&position).map_err(|error| failed(0, &error))?;
    let mut draws = Vec::with_capacity(nuts.draws * start.center.len());
    let (mut summary, mut statistics) = (ChainSummary::default(), Vec::with_capacity(nuts.draws));
    let (mut steps, mut depths) = (0_u64, 0.0);
    for draw in 0..nuts.warmup + nuts.draws {
        let (values, _, own, info) = sampler.expanded_draw().map_err(|error| failed(draw, &error))?;
        let warming_up = draw < nuts.warmup;
        watch(&ChainStep { chain, draw, warming_up, divergent: info.diverging, step_size: info.step_size });
        if warming_up {
            summary.warmup_gradients += info.num_steps;
            continue;
        }
        match shown {
            Some(chart) => draws.extend(chart.latents(&values)),
            None => draws.extend_from_slice(&values),
        }
        steps += info.num_steps;
        // A tree of depth d has at most 2^d - 1 steps.
        let depth = u64::BITS - info.num_steps.leading_zeros();
        depths += f64::from(depth);
        summary.divergences += usize::from(info.diverging);
        summary.at_max_depth += usize::from(!info.diverging && depth >= nuts.max_depth);
        summary.step_size += info.step_size;
        statistics.push(DrawStatistics {
            log_p: own.logp,
            energy: own.energy,
            acceptance_rate: own.adapt.step_size.mean_tree_accept,
            step_size: info.step_size,
            n_steps: info.num_steps,
            tree_depth: own.depth,
            diverging: info.diverging,
        });
    }
    let count = nuts.draws as f64;
    summary.gradients = steps;
    summary.mean_depth = depths / count;
    summary.step_size /= count;
    Ok(Sampled { draws, summary, statistics })
}

/// A start around `start` at which the log density is finite, and its gradient finite and nowhere zero.
fn first_position(nuts: &Nuts, number: u32, walk: &mut Walk<'_>, start: &ChainStart) -> Result<Vec<f64>> {
    let mut stream = Noise::new(nuts.seed).stream(Key::new(Purpose::Initial, 0).block(1).particle(number));
    let mut gradient = vec![0.0; start.center.len()];
    let mut last = (String::new(), String::new());
    for _ in 0..TRIES {
        let mut off = || nuts.start_radius * (2.0 * stream.uniform() - 1.0);
        let declared = start.center.iter().zip(&start.scale).map(|(center, scale)| center + scale * off()).collect();
        let position = if walk.chart.is_none() {
            declared
        } else {
            let around: Vec<f64> = start.center.iter().map(|_| off()).collect();
            if number.is_multiple_of(2) { around } else { nearer(walk, around, declared, &mut gradient) }
        };
        let value = walk.value_and_gradient(&position, &mut gradient);
        match &value {
            Ok(value) if value.is_finite() && gradient.iter().all(|slope| slope.is_finite() && *slope != 0.0) => {
                return Ok(position);
            }
            Err(error) if !is_outside(error) => return Err(error.clone().into()),
            found => {
                let found = found.as_ref().map(|value| (*value, gradient.as_slice()));
                last = walk.target.blame(&walk.latents(&position), found);
            }
        }
    }
    Err(Error::NoStart { chain: number as usize, tries: TRIES, site: last.0, problem: last.1 })
}

/// The place of the declared start, unless it is so improbable that a warm-up would be spent on the way from it: a place
/// around the posterior of few rounds then.
fn nearer(walk: &mut Walk<'_>, around: Vec<f64>, declared: Vec<f64>, gradient: &mut [f64]) -> Vec<f64> {
    let declared = walk.place(declared);
    let mut value = |place: &[f64]| walk.value_and_gradient(place, gradient).unwrap_or(f64::NEG_INFINITY);
    if value(&declared) < value(&around) - REMOTE { around } else { declared }
}

/// A keyed stream as a generator of the sampler's version of the traits.
struct Keyed(NoiseStream);

impl generator::RngCore for Keyed {
    fn next_u32(&mut self) -> u32 {
        (self.0.word() >> 32) as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0.word()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.0.word().to_le_bytes()[..part.len()]);
        }
    }
}

/// The log density as the sampler calls it.
struct Density<'a> {
    dimension: usize,
    walk: Walk<'a>,
    /// The error that ended the chain, which the sampler would turn into words.
    fault: Rc<RefCell<Option<partita_core::Error>>>,
}

/// Why a log density has no value.
#[derive(Debug)]
enum NoValue {
    Outside,
    Failed,
}

impl fmt::Display for NoValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Outside => "the log density is not finite here",
            Self::Failed => "the model failed",
        })
    }
}

impl std::error::Error for NoValue {}

impl LogpError for NoValue {
    fn is_recoverable(&self) -> bool {
        matches!(self, Self::Outside)
    }
}

impl HasDims for Density<'_> {
    fn dim_sizes(&self) -> HashMap<String, u64> {
        HashMap::from([("unconstrained_parameter".to_owned(), self.dimension as u64)])
    }
}

impl CpuLogpFunc for Density<'_> {
    type LogpError = NoValue;
    type FlowParameters = ();
    type ExpandedVector = Vec<f64>;

    fn dim(&self) -> usize {
        self.dimension
    }

    fn logp(&mut self, position: &[f64], gradient: &mut [f64]) -> std::result::Result<f64, NoValue> {
        match self.walk.value_and_gradient(position, gradient) {
            Ok(value) if value.is_finite() && gradient.iter().all(|slope| slope.is_finite()) => Ok(value),
            Ok(_) => Err(NoValue::Outside),
            Err(error) if is_outside(&error) => Err(NoValue::Outside),
            Err(error) => {
                *self.fault.borrow_mut() = Some(error);
                Err(NoValue::Failed)
            }
        }
    }

    fn expand_vector<R: generator::Rng + ?Sized>(
        &mut self,
        _: &mut R,
        position: &[f64],
    ) -> std::result::Result<Vec<f64>, CpuMathError> {
        Ok(position.to_vec())
    }
}
