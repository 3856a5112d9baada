//! Fits a clutter model over silos by partitioned inference with a loss, and compares the posteriors.

use partita::core::NoiseKind;
use partita::inference::{
    Counters, Divergence, Error, GradientDescent, Plug, Renyi, RunOptions, Silent, StartFrom, parties, run,
};
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, Loss, PviOptions, Schedule, Settings};

use serde::Serialize;

use super::Options;
use crate::harness::{Failure, Result};
use crate::misspecification::Clutter;

/// A normal posterior of the signal's mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posterior {
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    /// The cost of the fit; `None` if it is computed from all numbers in one place.
    pub(crate) cost: Option<Cost>,
}

/// The cost of a fit.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cost {
    /// Exchanges.
    rounds: u64,
    /// Messages both ways.
    messages: u64,
    /// Gradient steps of all silos together.
    gradient_steps: u64,
}

/// The three counters of a fit, for the last columns of a table; dashes without a fit.
pub(crate) fn counters(cost: Option<Cost>) -> [String; 3] {
    match cost {
        Some(cost) => [cost.rounds, cost.messages, cost.gradient_steps].map(|count| count.to_string()),
        None => ["-"; 3].map(str::to_owned),
    }
}

/// A fit, or `None` if a silo met a cavity that is not a density.
pub(crate) fn settled(fit: Result<Posterior>) -> Result<Option<Posterior>> {
    let is_refused = |failure: &Failure| match failure.downcast_ref() {
        Some(Error::InSilo { source, .. }) => matches!(**source, Error::Improper { .. }),
        _ => false,
    };
    match fit {
        Err(failure) if is_refused(&failure) => Ok(None),
        other => other.map(Some),
    }
}

/// The method of a fit.
#[derive(Debug, Clone)]
pub(crate) struct Method {
    rounds: u64,
    local_steps: u64,
    damping: f64,
    divergence: Plug<dyn Divergence>,
    settings: Settings,
}

/// The thesis' α of section 4.5.2.
pub(crate) const RENYI: f64 = 0.75;

impl Method {
    /// Sequential partitioned inference with `loss` and the Kullback-Leibler divergence.
    pub(crate) fn pvi(options: &Options, loss: Loss) -> Self {
        Self::generalised(options, loss, None)
    }

    /// Sequential partitioned generalised inference, with Rényi's divergence of this index where there is one.
    pub(crate) fn generalised(options: &Options, loss: Loss, renyi: Option<f64>) -> Self {
        let settings = Settings {
            seed: options.shared.seed,
            particles: options.particles,
            noise: NoiseKind::Sobol,
            schedule: Schedule::Cosine { initial: options.rate, last: 0.0 },
            // As wide as the prior, so that the first silos do not overstate the information in one number.
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(3.0),
            loss,
            start: StartFrom::Declared,
            ..Settings::default()
        };
        Self {
            rounds: options.rounds,
            local_steps: options.local_steps,
            damping: options.damping,
            divergence: renyi.map_or_else(Plug::default, |alpha| Renyi { alpha }.into()),
            settings,
        }
    }

    /// The same with damped answers of silos.
    pub(crate) fn damped(self, damping: f64) -> Self {
        Self { damping, ..self }
    }

    pub(crate) fn fit(&self, model: &Clutter, silos: &[Vec<f64>]) -> Result<Posterior> {
        let device = Device::flex();
        let named = |(index, numbers): (usize, &Vec<f64>)| {
            (format!("silo-{index}"), device.tensor(numbers.clone(), [numbers.len()]))
        };
        let data: Vec<_> = silos.iter().enumerate().map(named).collect();
        // Few silos take as many steps in a round as many silos do, so that all fits have equal costs.
        let local_steps = self.local_steps * (40 / silos.len().max(1) as u64).max(1);
        let steps = self.rounds * local_steps * silos.len() as u64;
        let solver = GradientDescent { keep_optimiser: true, ..GradientDescent::default() }.into();
        let options = FitOptions {
            algorithm: AlgorithmChoice::Pvi(PviOptions {
                solver,
                damping: Some(self.damping),
                divergence: self.divergence.clone(),
                ..PviOptions::new(local_steps)
            }),
            settings: Settings { steps, ..self.settings.clone() },
            threads: 1,
            ..FitOptions::default()
        };
        let (mut algorithm, mut exchange) = parties(model, &data, &device, &options)?;
        let how = RunOptions { steps, ..RunOptions::default() };
        let Counters { rounds, messages, silo_steps, .. } =
            run(&mut *algorithm, &mut exchange, &how, &mut Silent)?.counters;
        let posterior = algorithm.posterior();
        let mean = posterior.family.mean(posterior.parameters)[0];
        let sd = posterior.family.covariance_matrix(posterior.parameters).deviations()[0];
        let cost = Cost { rounds, messages, gradient_steps: silo_steps };
        Ok(Posterior { mean, sd, cost: Some(cost) })
    }
}
