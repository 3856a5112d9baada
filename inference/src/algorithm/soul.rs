//! Fits auxiliary variables as points by stochastic ascent, with the parties' latents drawn by unadjusted Langevin steps.

mod coordinator;
mod party;

pub use coordinator::SoulCoordinator;
pub use party::SoulParty;

use partita_core::Device;
use partita_core::vertical::{Labels, Party};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::exchange::{InProcess, SiloProgram};
use crate::settings::Settings;

/// Stochastic optimisation by unadjusted Langevin (SOUL): $`z`$ as hyperparameters, $`\theta_j`$ drawn in each party.
///
/// The augmented-variable model $`p(y \mid \sum_j z_j, \gamma) \prod_j N(z_j \mid g_j(\theta_j), \rho^2) p_j(\theta_j)`$. In a round
/// each party moves $`z_j`$ up
/// ```math
/// \hat\nabla_{z_j} = a + \frac1M \sum_m \frac{g_j(\theta_j^{(m)}) - z_j}{\rho^2}, \qquad
/// a = \frac{\partial}{\partial s} \log p\Big(y \,\Big|\, s = \sum_k z_k, \gamma\Big),
/// ```
/// by the optimiser and the schedule of the settings, then takes $`M`$ steps
/// $`\theta_j \leftarrow \theta_j + h \nabla \log p(\theta_j \mid z_j) + \sqrt{2h}\,\varepsilon`$ at the new $`z_j`$, and sends $`z_j`$. The gradient
/// $`a`$ comes from the holder of the labels ([`SoulCoordinator`]), so that these need not be shared. Point parameters of a
/// contribution move up the mean of their gradient over the draws.
///
/// # Numerics
/// **Its posteriors are too narrow.** $`z`$ ends at its posterior mode $`\hat z`$ and the draws are of
/// $`p(\theta \mid \hat z)`$, not of the posterior, which averages over $`z`$. Use it where a point for $`z`$ is what is wanted, and
/// the augmented-variable algorithm for anything that depends on how uncertain $`\theta`$ is. Langevin steps are not corrected: see
/// [`Soul::langevin_step`].
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
    /// largest curvature of the log density of a party's latents, and the variances found are too large by a share of about
    /// $`h/2`$ times the curvature.
    pub langevin_step: f64,
    /// Rounds whose draws do not enter the moments.
    pub burn_in: u64,
}

impl Soul {
    /// The coordinator and the parties before the first round, for [`crate::run()`]; [`Settings::steps`] counts rounds.
    ///
    /// # Errors
    /// [`Error::Setting`] for options out of their domain, and for minibatches, which it does not have; [`Error::NoSilos`],
    /// [`Error::DuplicateSilo`]; [`Error::InSilo`] for a party with other rows than the labels, or what a declaration refuses.
    pub fn parties(
        self,
        parties: Vec<Party>,
        labels: Labels,
        device: &Device,
        (settings, threads): (&Settings, usize),
    ) -> Result<(SoulCoordinator, InProcess)> {
        self.check(settings)?;
        let coordinator = SoulCoordinator::new((&parties, labels), device, settings)?;
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for (party, index) in parties.into_iter().zip(0..) {
            programs.push(Box::new(SoulParty::new(self, (party, index), device, settings)?));
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
        if !settings.minibatch.is_empty() {
            return refuse(
                "minibatch",
                format!("{:?}", settings.minibatch),
                "none: Soul moves z of all rows in a round",
            );
        }
        Ok(())
    }
}
