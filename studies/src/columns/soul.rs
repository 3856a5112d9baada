//! Fits auxiliary variables as points by stochastic ascent, with the parties' latents drawn by unadjusted Langevin steps.

mod coordinator;
mod party;

pub use coordinator::SoulCoordinator;
pub use party::SoulParty;

use partita::inference::{DataType, Error, InProcess, Message, NamedVectors, Result, SiloProgram, UpdateRule};
use partita::vertical::{Labels, Party};
use partita::{Device, Schedule, Settings};
use serde::{Deserialize, Serialize};

/// The most steps that a message or a saved state may count.
const MOST_STEPS: u64 = 1 << 40;

/// Stochastic optimisation by unadjusted Langevin (SOUL): $`z`$ as hyperparameters, $`\theta_j`$ drawn in each party.
///
/// The augmented-variable model $`p(y \mid \sum_j z_j, \gamma) \prod_j N(z_j \mid g_j(\theta_j), \rho^2)
/// p_j(\theta_j)`$. In a round each party moves $`z_j`$ up
/// ```math
/// \hat\nabla_{z_j} = a + \frac1M \sum_m \frac{g_j(\theta_j^{(m)}) - z_j}{\rho^2}, \qquad
/// a = \frac{\partial}{\partial s} \log p\Big(y \,\Big|\, s = \sum_k z_k, \gamma\Big),
/// ```
/// by the optimiser and the schedule of the settings, then takes $`M`$ steps $`\theta_j \leftarrow \theta_j + h \nabla
/// \log p(\theta_j \mid z_j) + \sqrt{2h}\,\varepsilon`$ at the new $`z_j`$, and sends $`z_j`$. The gradient $`a`$ comes
/// from the holder of the labels ([`SoulCoordinator`]), so that these need not be shared. Point parameters of a
/// contribution move up the mean of their gradient over the draws.
///
/// # Numerics
/// **Its posteriors are too narrow.** $`z`$ ends at its posterior mode $`\hat z`$ and the draws are of $`p(\theta \mid
/// \hat z)`$, not of the posterior, which averages over $`z`$. Use it where a point for $`z`$ is what is wanted, and
/// the augmented-variable algorithm for anything that depends on how uncertain $`\theta`$ is. Langevin steps are not
/// corrected: see [`Soul::langevin_step`].
///
/// # Example
/// ```
/// # use partita::burn::{self, module::Module, tensor::Tensor};
/// # use partita::inference::{RunOptions, Silent, run};
/// # use partita::vertical::{Contribution, Head};
/// # use partita::{Normal, Result, Rows, Scope, Settings};
/// use partita::{Design, Device, vertical::{Labels, Party}};
/// use partita_studies::Soul;
/// # #[derive(Module, Debug)]
/// # struct Slope {}
/// # impl Contribution for Slope {
/// #     type Latents = Tensor<1>;
/// #     type Data = Design;
/// #     fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> { scope.sample("beta", Normal::new(0.0, 1.0)) }
/// #     fn contribute(&self, beta: &Tensor<1>, rows: &Rows<'_>, data: &Design) -> Result<Tensor<2>> {
/// #         data.take(rows)?.predictor(beta.clone(), None)
/// #     }
/// # }
/// # #[derive(Module, Debug)]
/// # struct Measured {}
/// # impl Head for Measured {
/// #     type Latents = ();
/// #     type Data = Tensor<2>;
/// #     fn outputs(&self) -> usize { 1 }
/// #     fn prior(&self, _: &mut Scope<'_>) -> Result<()> { Ok(()) }
/// #     fn observe(&self, scope: &mut Scope<'_>, _: &(), eta: Tensor<2>, rows: &Rows<'_>, y: &Tensor<2>) -> Result<()> {
/// #         scope.observe("y", Normal::new(eta, 1.0), rows.take(y)?)
/// #     }
/// #     fn mean(&self, _: &(), eta: Tensor<2>, _: &Rows<'_>, _: &Tensor<2>) -> Result<Tensor<2>> { Ok(eta) }
/// # }
/// // `Slope` is one coefficient under N(0, 1), `Measured` a normal head with variance 1.
/// let device = Device::flex();
/// let column = |values: Vec<f64>| Design::new(values, [2, 1, 1]);
/// let clinic = Party::new("clinic", Slope {}, column(vec![1.0, 0.0])?);
/// let registry = Party::new("registry", Slope {}, column(vec![0.0, 1.0])?);
/// let labels = Labels::new(Measured {}, device.tensor(vec![3.0, -3.0], [2, 1]));
/// let soul = Soul { rho: 0.5, draws: 20, langevin_step: 0.05, burn_in: 400 };
/// let settings = Settings { steps: 800, ..Settings::default() };
/// let (mut coordinator, mut exchange) = soul.parties(vec![clinic, registry], labels, &device, &settings, 1)?;
/// run(&mut coordinator, &mut exchange, &RunOptions { steps: 800, ..RunOptions::default() }, &mut Silent)?;
/// // Each row measures one slope with noise of variance 1 + 2 * 0.5^2: the posterior is N(3 / 2.5, 1.5 / 2.5).
/// let (mean, sd) = exchange.programs()[0].local_moments()?.remove(0);
/// assert!((mean[0] - 1.2).abs() < 0.1);
/// assert!(sd[0] < 0.55); // too narrow: that of the posterior is 0.77
/// # Ok::<(), partita::inference::Error>(())
/// ```
///
/// # References
/// De Bortoli, Durmus, Pereyra and Vidal (2021), Efficient stochastic optimisation by unadjusted Langevin Monte Carlo;
/// Hassan, Sutton, Mira and Mengersen (2024), appendix A.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Soul {
    /// $`\rho > 0`$, the standard deviation of the auxiliary variables about the contributions.
    pub rho: f64,
    /// $`M`$: Langevin steps of each party in a round.
    pub draws: u64,
    /// $`h > 0`$, the length of a Langevin step, in units of the variance of the latents: it has to be below 2 over the
    /// largest curvature of the log density of a party's latents, and the variances found are too large by a share of
    /// about $`h/2`$ times the curvature.
    pub langevin_step: f64,
    /// Rounds whose draws do not enter the moments.
    pub burn_in: u64,
}

impl Soul {
    /// The coordinator and the parties before the first round, for [`partita::inference::run()`]; [`Settings::steps`] counts
    /// rounds.
    ///
    /// # Errors
    /// [`Error::Setting`] for options out of their domain, and for settings that it has no use for: minibatches,
    /// another loss than the log likelihood, families, estimators, several particles, joined noise and clipping; leave
    /// these as [`Settings::default`] has them. [`Error::NoSilos`], [`Error::DuplicateSilo`]; [`Error::InSilo`] for a
    /// party with other rows than the labels, or what a declaration refuses.
    pub fn parties(
        self,
        parties: Vec<Party>,
        labels: Labels,
        device: &Device,
        settings: &Settings,
        threads: usize,
    ) -> Result<(SoulCoordinator, InProcess)> {
        self.check(settings)?;
        let coordinator = SoulCoordinator::new(&parties, labels, device, settings)?;
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for (party, index) in parties.into_iter().zip(0..) {
            programs.push(Box::new(SoulParty::new(self, party, index, device, settings)?));
        }
        Ok((coordinator, InProcess::new(programs, threads)?))
    }

    fn check(self, settings: &Settings) -> Result<()> {
        let refuse = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
        for (setting, value) in [("soul.rho", self.rho), ("soul.langevin_step", self.langevin_step)] {
            if !(value > 0.0 && value.is_finite()) {
                return refuse(setting, value.to_string(), "a finite number > 0");
            }
        }
        if self.draws == 0 {
            return refuse("soul.draws", "0".into(), "at least one Langevin step a round");
        }
        let Settings { minibatch, loss, family, estimator, particles, noise, clip, .. } = settings;
        if !minibatch.is_empty() {
            return refuse("minibatch", format!("{minibatch:?}"), "none: Soul moves z of all rows in a round");
        }
        if !loss.is_log() {
            return refuse("loss", loss.to_string(), "the negative log likelihood for Soul");
        }
        let unused = Settings::default();
        if *family != unused.family {
            return refuse("family", format!("{family:?}"), "the default: Soul has draws and points, and no family");
        }
        if *estimator != unused.estimator {
            let expected = "the default: Soul follows gradients of log densities, and estimates no bound";
            return refuse("estimator", format!("{estimator:?}"), expected);
        }
        if *particles != 1 {
            return refuse("particles", particles.to_string(), "1: the draws of a round are `soul.draws`");
        }
        if *noise != unused.noise {
            let expected = "Independent: the draws of a round follow one another";
            return refuse("noise", format!("{noise:?}"), expected);
        }
        if let Some(clip) = clip {
            let expected = "none: a clipped Langevin step draws from something else. Shorten `soul.langevin_step`, or lower the rate of z";
            return refuse("clip", format!("{clip:?}"), expected);
        }
        Ok(())
    }
}

/// An optimiser with the schedule of a run.
struct Rule {
    rule: Box<dyn UpdateRule>,
    schedule: Schedule,
    /// Rounds of the whole run.
    steps: u64,
}

impl Rule {
    fn new(settings: &Settings, device: &Device) -> Self {
        Self { rule: settings.optimiser.start(device), schedule: settings.schedule, steps: settings.steps }
    }

    /// Moves `parameters` down `gradient`; the rate of it.
    fn step(&mut self, step: u64, parameters: &mut [f64], gradient: &[f64]) -> f64 {
        let rate = self.schedule.rate(step, self.steps);
        if !parameters.is_empty() {
            self.rule.step(rate, parameters, gradient);
        }
        rate
    }

    /// The state as vectors whose names begin with `prefix`.
    fn save(&self, prefix: &str) -> NamedVectors {
        self.rule.save().into_iter().map(|(name, values)| (format!("{prefix}{name}"), values)).collect()
    }

    /// Takes it back; false if it is of another rule.
    fn load(&mut self, vectors: &[(String, Vec<f64>)], prefix: &str) -> bool {
        let own = |(name, values): &(String, Vec<f64>)| Some((name.strip_prefix(prefix)?.to_owned(), values.clone()));
        self.rule.load(vectors.iter().filter_map(own).collect())
    }
}

/// All records of floats of a message by their names.
fn vectors(message: &Message) -> Result<NamedVectors> {
    let floats = message.records.iter().filter(|record| record.data_type == DataType::F64);
    floats.map(|record| Ok((record.name.clone(), message.get_floats(&record.name)?))).collect()
}

/// Refuses a number that is not finite, saying whose and what it is.
fn finite(who: &str, step: u64, quantity: impl Fn(usize) -> String, values: &[f64]) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            Err(Error::NotFinite { who: who.to_owned(), step, quantity: quantity(index), found: values[index] })
        }
    }
}
