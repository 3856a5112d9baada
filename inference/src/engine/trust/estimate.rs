//! Estimates the bound at a fitted posterior, with its Monte Carlo standard error and the gradient's variance.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::algorithm::{Algorithm, ElboFollowUp};
use crate::engine::error::Result;
use crate::engine::exchange::Exchange;
use crate::engine::moments::mean_and_variance;
use crate::engine::run::{Counters, counted};
use crate::engine::trust::round::MOST_GLOBALS;
use crate::engine::trust::still_moving::{Movement, StillMoving};
use crate::engine::trust::still_widening::{Gradients, StillWidening};

/// The bound at a posterior.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ElboEstimate {
    /// The mean of the sampled bounds, in nats.
    pub elbo: f64,
    /// Its Monte Carlo standard error, in nats.
    pub standard_error: f64,
    /// The sampled bounds it is a mean of; each is of one draw, or of as many as
    /// [`crate::Estimator::ImportanceWeighted`] averages inside the logarithm.
    pub draws: usize,
    /// The variance of the gradient of one sampled bound by the global parameters, summed over them; `None` where it is
    /// not seen.
    pub gradient_variance: Option<f64>,
    /// How far a mean would still move by these gradients; `None` where they are not seen.
    #[serde(default)]
    pub still_moving: Option<StillMoving>,
    /// By which factor a deviation would still change by these gradients; `None` where they are not seen, for more than 200
    /// globals, and for families without a factor of each deviation.
    #[serde(default)]
    pub still_widening: Option<StillWidening>,
}

impl ElboEstimate {
    /// The mean of sampled bounds.
    pub(super) fn of(elbos: &[f64], gradient_variance: Option<f64>) -> Self {
        let (elbo, variance) = mean_and_variance(elbos);
        let standard_error = (variance / elbos.len().max(1) as f64).sqrt();
        Self { elbo, standard_error, draws: elbos.len(), gradient_variance, still_moving: None, still_widening: None }
    }
}

/// Estimates the bound of `algorithm`'s present posterior from `draws` sampled bounds on all rows; its messages are
/// counted too. It waits for silos as long as the exchange does.
///
/// # Errors
/// As for [`Algorithm::incoming`].
pub fn estimate_elbo(
    algorithm: &dyn Algorithm,
    exchange: &mut dyn Exchange,
    draws: usize,
    counters: &mut Counters,
) -> Result<ElboEstimate> {
    Ok(estimate_elbo_within(algorithm, exchange, draws, None, counters)?.bound)
}

/// The bound at a posterior, and what was drawn for it.
#[derive(Debug)]
pub(crate) struct Estimated {
    pub(crate) bound: ElboEstimate,
    /// The sampled bounds that it is the mean of; none where the round of trust gave it.
    pub(crate) elbos: Vec<f64>,
    /// [`crate::ElboSamples::reweighted`] of all requests.
    pub(crate) reweighted: Vec<Vec<f64>>,
}

impl From<ElboEstimate> for Estimated {
    fn from(bound: ElboEstimate) -> Self {
        Self { bound, elbos: Vec::new(), reweighted: Vec::new() }
    }
}

/// The same with a `deadline` for the silos' answers to each request, as [`crate::FitOptions::deadline`] is.
///
/// # Errors
/// As for [`estimate_elbo`]; [`crate::Error::SiloLost`] for a silo that has not answered by then. Where the algorithm
/// goes on without silos ([`crate::MissingSilo::GoOn`]), the bound is not a number instead.
pub(crate) fn estimate_elbo_within(
    algorithm: &dyn Algorithm,
    exchange: &mut dyn Exchange,
    draws: usize,
    deadline: Option<Duration>,
    counters: &mut Counters,
) -> Result<Estimated> {
    let (mut elbos, mut reweighted) = (Vec::with_capacity(draws), Vec::new());
    let mut sums: Vec<f64> = Vec::new();
    let mut squares: Vec<f64> = Vec::new();
    let mut seen = 0_usize;
    let mut movement = Movement::of(&algorithm.posterior());
    let most = (algorithm.draws_a_request() / algorithm.draws_a_bound()).max(1);
    for offset in 0_u64.. {
        let count = most.min(draws - elbos.len());
        if count == 0 {
            break;
        }
        let outcomes =
            counted(exchange, algorithm.elbo_requests(count, offset), algorithm.manifest(), deadline, counters)?;
        let outcomes = match algorithm.elbo_follow_up(outcomes, count, offset)? {
            ElboFollowUp::Done(outcomes) => outcomes,
            ElboFollowUp::Ask(requests) => counted(exchange, requests, algorithm.manifest(), deadline, counters)?,
        };
        let elbo_samples = algorithm.elbo_samples(outcomes, count, offset)?;
        elbos.extend(elbo_samples.elbos);
        reweighted.extend(elbo_samples.reweighted);
        for gradient in elbo_samples.gradients {
            seen += 1;
            if let Some(movement) = &mut movement {
                movement.add(&gradient);
            }
            sums.resize(gradient.len(), 0.0);
            squares.resize(gradient.len(), 0.0);
            for ((sum, square), g) in sums.iter_mut().zip(&mut squares).zip(gradient) {
                *sum += g;
                *square += g * g;
            }
        }
    }
    let count = seen as f64;
    let spread = |(sum, square): (&f64, &f64)| (square - sum * sum / count) / (count - 1.0);
    let gradient_variance = (seen > 1 && !sums.is_empty()).then(|| sums.iter().zip(&squares).map(spread).sum());
    let still_moving = movement.as_ref().and_then(Movement::farthest);
    let gradients = Gradients { count, sums: &sums, squares: &squares };
    let still_widening = StillWidening::of(&algorithm.posterior(), MOST_GLOBALS, gradients);
    let bound = ElboEstimate { still_moving, still_widening, ..ElboEstimate::of(&elbos, gradient_variance) };
    Ok(Estimated { bound, elbos, reweighted })
}
