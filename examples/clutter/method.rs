//! Fits a clutter model over silos by partitioned inference with a loss, and compares the posteriors found.

use partita::inference::{Error, GradientDescent};
use partita::models::Clutter;
use partita::{
    AlgorithmChoice, Device, DivergenceChoice, FamilyPlan, FitOptions, Gaussian, Loss, NoiseKind, PviOptions, Schedule,
    Settings, SolverChoice, fit,
};

use super::{Failure, Options};

/// A normal posterior of the signal's mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posterior {
    pub(crate) mean: f64,
    pub(crate) sd: f64,
}

impl Posterior {
    /// The Fisher-Rao distance of two normal densities.
    pub(crate) fn fisher_rao(&self, other: &Self) -> f64 {
        let between = (self.mean - other.mean).powi(2);
        let near = between + 2.0 * (self.sd - other.sd).powi(2);
        let far = between + 2.0 * (self.sd + other.sd).powi(2);
        8.0_f64.sqrt() * (near / far).sqrt().atanh()
    }
}

/// A fit, or none where a silo met a cavity that is no density.
pub(crate) fn settled(fit: Result<Posterior, Failure>) -> Result<Option<Posterior>, Failure> {
    match fit {
        Ok(found) => Ok(Some(found)),
        Err(failure) => match failure.downcast_ref() {
            Some(Error::InSilo { source, .. }) if matches!(**source, Error::Improper { .. }) => Ok(None),
            _ => Err(failure),
        },
    }
}

/// How a model is fitted.
#[derive(Debug, Clone)]
pub(crate) struct Method {
    rounds: u64,
    local_steps: u64,
    damping: f64,
    divergence: DivergenceChoice,
    settings: Settings,
}

/// The thesis' α of section 4.5.2.
pub(crate) const RENYI: DivergenceChoice = DivergenceChoice::Renyi(0.75);

impl Method {
    /// Sequential partitioned inference with `loss` and the divergence of Kullback and Leibler.
    pub(crate) fn pvi(options: &Options, loss: Loss) -> Self {
        Self::generalised(options, loss, DivergenceChoice::KullbackLeibler)
    }

    /// Sequential partitioned generalised inference.
    pub(crate) fn generalised(options: &Options, loss: Loss, divergence: DivergenceChoice) -> Self {
        let settings = Settings {
            seed: options.seed,
            particles: options.particles,
            noise: NoiseKind::Sobol,
            schedule: Schedule::Cosine { initial: options.rate, last: 0.0 },
            // As wide as the prior, so that the first silos do not claim more than one number can tell.
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(3.0),
            loss,
            ..Settings::default()
        };
        Self {
            rounds: options.rounds,
            local_steps: options.local_steps,
            damping: options.damping,
            divergence,
            settings,
        }
    }

    /// The same, taking only this part of a silo's answer.
    pub(crate) fn damped(self, damping: f64) -> Self {
        Self { damping, ..self }
    }

    pub(crate) fn fit(&self, model: &Clutter, silos: &[Vec<f64>]) -> Result<Posterior, Failure> {
        let device = Device::flex();
        let named = |(index, numbers): (usize, &Vec<f64>)| {
            (format!("silo-{index}"), device.tensor(numbers.clone(), [numbers.len()]))
        };
        let data: Vec<_> = silos.iter().enumerate().map(named).collect();
        // Few silos take as many steps in a round as many do, so that all fits take as many.
        let local_steps = self.local_steps * (40 / silos.len().max(1) as u64).max(1);
        let steps = self.rounds * local_steps * silos.len() as u64;
        let solver = SolverChoice::Gradient(GradientDescent { keep_optimiser: true, ..GradientDescent::default() });
        let options = FitOptions {
            algorithm: AlgorithmChoice::Pvi(PviOptions {
                solver,
                damping: Some(self.damping),
                divergence: self.divergence,
                ..PviOptions::new(local_steps)
            }),
            settings: Settings { steps, ..self.settings.clone() },
            threads: 1,
            summary_draws: 0,
            elbo_draws: 1,
            ..FitOptions::default()
        };
        let fit = fit(model, &data, &device, &options, None)?;
        let posterior = fit.posterior();
        let mean = posterior.family.mean(posterior.parameters)[0];
        Ok(Posterior { mean, sd: posterior.family.spread(posterior.parameters).deviations()[0] })
    }
}
