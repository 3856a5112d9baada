//! Gives the frequentist baselines by name: what a fit by federated point estimation is told.

use serde::{Deserialize, Serialize};

use super::server::{FedAdagrad, FedAdam, FedYogi, Mask, Masked, ServerMean, ServerOptimiser, ServerRule};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::optimiser::{Optimiser, Sgd};
use crate::engine::plug::Plug;
use crate::engine::private_steps::PrivateSteps;
use crate::engine::settings::Settings;
use partita_core::NoiseKind;

/// How [`crate::AlgorithmChoice::FedOpt`] estimates a point; see [`crate::FedOpt`] for the objective.
///
/// All global latents become point masses, whatever family the settings name, and the model's own parameters θ are part
/// of the point. Models with local latents are refused. The report says what ran: [`Settings::family`], estimator,
/// particles, noise and optimiser in it are those of a point estimate. The learning rate of local steps, minibatches
/// and clipping are those of [`Settings`].
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, burn};
/// use partita_inference::{AlgorithmChoice, FedOptOptions, FitOptions, Schedule, Settings, fit};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../../doc/mean.md")]
///
/// let device = Device::flex();
/// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
/// let settings = Settings { steps: 300, schedule: Schedule::Constant { rate: 0.3 }, ..Settings::default() };
/// let found = |how: FedOptOptions| {
///     let options = FitOptions { algorithm: AlgorithmChoice::FedOpt(how), settings: settings.clone(), ..FitOptions::default() };
///     Ok::<f64, partita_inference::Error>(fit(&Mean {}, &silos, &device, &options, None)?.posterior().parameters[0])
/// };
/// // The posterior mode is 6/4, the mean of the rows 6/3.
/// assert!((found(FedOptOptions::fed_avg(3))? - 1.5).abs() < 1e-6);
/// assert!((found(FedOptOptions { prior: false, ..FedOptOptions::fed_avg(3) })? - 2.0).abs() < 1e-6);
/// # Ok::<(), partita_inference::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FedOptOptions {
    /// Local steps of each silo in a round; [`Settings::steps`] counts local steps over all rounds.
    pub local_steps: u64,
    /// $\mu$ of the proximal term $`\tfrac\mu2\lVert w - w_t\rVert^2`$ of local steps. Its gradient joins that of the
    /// loss, so that plain gradient steps need a rate below $`2/(\mu + \text{largest curvature})`$.
    pub proximal: f64,
    /// How the silos' points become one.
    pub server: Plug<dyn ServerOptimiser>,
    /// Which numbers of a step are held back.
    pub mask: Option<Mask>,
    /// Silos asked in a round, drawn anew for each from the seed of the run; `None` for all.
    pub silos_a_round: Option<usize>,
    /// Whether the prior is part of the objective: posterior mode with it, maximum likelihood without, as in the
    /// papers.
    pub prior: bool,
    /// How a silo moves in its local steps; started afresh each round.
    pub optimiser: Plug<dyn Optimiser>,
    /// Local steps stay on each silo's device, of which one read a round is made ([`crate::DeviceAveragingSilo`]): with
    /// [`Sgd`] or [`crate::Adam`], without clipping.
    #[serde(default)]
    pub on_device: bool,
    /// Lets the local steps of every silo know its rows by noised sums over clipped ones alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<PrivateSteps>,
}

/// $`\beta_1`$, $`\beta_2`$ and $\tau$ of adaptive rules as their paper sets them.
const MOMENTUM: f64 = 0.9;
const DECAY: f64 = 0.99;
const ADAPTIVITY: f64 = 1e-3;

impl FedOptOptions {
    /// Federated averaging: gradient steps in silos, the mean of their points (McMahan et al., 2017).
    #[must_use]
    pub fn fed_avg(local_steps: u64) -> Self {
        Self {
            local_steps,
            proximal: 0.0,
            server: ServerMean { rate: 1.0 }.into(),
            mask: None,
            silos_a_round: None,
            prior: true,
            optimiser: Sgd { momentum: 0.0 }.into(),
            on_device: false,
            private: None,
        }
    }

    /// Federated gradient descent: [`FedOptOptions::fed_avg`] with one local step.
    #[must_use]
    pub fn fed_sgd() -> Self {
        Self::fed_avg(1)
    }

    /// Federated averaging with a proximal term of weight `mu` (Li et al., 2020).
    #[must_use]
    pub fn fed_prox(local_steps: u64, mu: f64) -> Self {
        Self { proximal: mu, ..Self::fed_avg(local_steps) }
    }

    /// FedAdagrad with server rate `rate` and the constants of its paper (Reddi et al., 2021).
    #[must_use]
    pub fn fed_adagrad(local_steps: u64, rate: f64) -> Self {
        let server = FedAdagrad { rate, momentum: 0.0, adaptivity: ADAPTIVITY }.into();
        Self { server, ..Self::fed_avg(local_steps) }
    }

    /// FedAdam with server rate `rate` and the constants of its paper (Reddi et al., 2021).
    #[must_use]
    pub fn fed_adam(local_steps: u64, rate: f64) -> Self {
        let server = FedAdam { rate, decay: [MOMENTUM, DECAY], adaptivity: ADAPTIVITY }.into();
        Self { server, ..Self::fed_avg(local_steps) }
    }

    /// FedYogi with server rate `rate` and the constants of its paper (Reddi et al., 2021).
    #[must_use]
    pub fn fed_yogi(local_steps: u64, rate: f64) -> Self {
        let server = FedYogi { rate, decay: [MOMENTUM, DECAY], adaptivity: ADAPTIVITY }.into();
        Self { server, ..Self::fed_avg(local_steps) }
    }

    /// Gradient-masked averaging with the soft mask of its paper (Tenison et al., 2023).
    #[must_use]
    pub fn masked(local_steps: u64, threshold: f64) -> Self {
        Self { mask: Some(Mask { threshold, soft: true }), ..Self::fed_avg(local_steps) }
    }

    /// The settings of a point estimate: one draw of a point mass needs no estimator, and silos move as said here.
    #[must_use]
    pub fn settings(&self, settings: Settings) -> Settings {
        Settings {
            family: settings.family.clone().point_masses(),
            estimator: Estimator::StickingTheLanding,
            particles: 1,
            noise: NoiseKind::Independent,
            optimiser: self.optimiser.clone(),
            ..settings
        }
    }

    /// Refuses options that mean nothing over so many silos, and starts the rule that joins points.
    pub(super) fn start(&self, silos: usize) -> Result<Box<dyn ServerRule>> {
        let is_proximal = self.proximal >= 0.0 && self.proximal.is_finite();
        Error::unless(is_proximal, "proximal", self.proximal, "a finite number >= 0, such as 0.1")?;
        let are_there = self.silos_a_round.is_none_or(|count| (1..=silos).contains(&count));
        let found = format_args!("{:?} of {silos}", self.silos_a_round);
        let expected = "at least 1 and at most the number of silos, or None for all";
        Error::unless(are_there, "silos_a_round", found, expected)?;
        let expected = "false: the sums over rows that are clipped and noised are computed on the host";
        let is_served = !self.on_device || self.private.is_none();
        Error::unless(is_served, "on_device", "true with private rounds", expected)?;
        self.server.check()?;
        let Some(mask) = self.mask else { return Ok(self.server.start()) };
        mask.check()?;
        Ok(Box::new(Masked::new(self.server.start(), mask)))
    }
}
