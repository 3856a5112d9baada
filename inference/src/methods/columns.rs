//! Says how parties that hold different columns of the same rows fit one model, and with which auxiliary variables.

mod amortised;
mod augmented;
mod auxiliary;
mod coordinator;
pub(crate) mod messages;
mod party;
mod party_answer;
mod party_state;
mod power_likelihood;
mod terms;
mod unknowns;

pub use coordinator::VerticalCoordinator;
pub use party::VerticalParty;

use partita_core::vertical::Augmentation;
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::settings::Settings;

/// The plate of all rows: [`Settings::minibatch`] names it for steps with some of them.
pub(crate) const PLATE: &str = "row";

/// The family of the auxiliary variables $`q(z_j \mid \theta_j)`$ of each party.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AuxiliaryFamily {
    /// $`q(z_{ij}) = N(m_{ij}, s_{ij}^2)`$: two parameters for each row and output in each party.
    MeanField,
    /// $`z_{ij} = \mu_{\psi_j}(u_{ij}) + \sigma_{\psi_j}(u_{ij})\,\tau_{ij}`$ with one small network $`\psi_j`$ a party
    /// and $`u_{ij} = g_{ij}`$: its size does not depend on the number of rows.
    Amortised {
        /// Hidden units of the network.
        hidden: usize,
        /// Whether $`u_{ij}`$ has the labels too, as their standardised score at a predictor of zero: for labels that
        /// the parties know. [`Augmentation::PowerLikelihood`] always has them.
        labels: bool,
    },
    /// $`z_{ij} = g_{ij} + \sigma_{\psi_j}(g_{ij})\,\tau_{ij}`$: as before, with the contribution itself as mean.
    ///
    /// Of a network that sees contributions alone, the mean has nothing to say that the coefficients could not: at the
    /// optimum the labels' pull on rows of one contribution averages to zero. It can only undo them, $`z \approx c\,g`$
    /// with contributions that are too small by $`c`$, along a valley that is narrow where labels say much.
    AmortisedScale {
        /// Hidden units of the network.
        hidden: usize,
        /// The first scale as a share of $`\rho`$: 1 for most heads, less for a log rate, of whose exponential the
        /// first draws would otherwise make what no step size suits. It hides as much less at the first steps.
        start: f64,
    },
}

/// How a vertical model is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VerticalOptions {
    /// Which model the auxiliary variables make.
    pub augmentation: Augmentation,
    /// Their family; [`Augmentation::None`] has none.
    pub auxiliary: AuxiliaryFamily,
    /// Steps of each party's own posterior and point parameters between two exchanges. With
    /// [`AuxiliaryFamily::MeanField`] the augmented model makes every one a step up the same bound, since labels reach
    /// a party's unknowns through $`q(z_j)`$ only; elsewhere it is 1.
    pub local_steps: u64,
}

impl VerticalOptions {
    /// The augmented-variable model with amortised auxiliary variables of standard deviation `rho`.
    #[must_use]
    pub fn augmented(rho: f64) -> Self {
        let auxiliary = AuxiliaryFamily::AmortisedScale { hidden: 8, start: 1.0 };
        Self { augmentation: Augmentation::Auxiliary { rho }, auxiliary, local_steps: 1 }
    }

    /// The power-likelihood model with amortised auxiliary variables of standard deviation `rho`.
    #[must_use]
    pub fn power_likelihood(rho: f64) -> Self {
        let auxiliary = AuxiliaryFamily::Amortised { hidden: 8, labels: true };
        Self { augmentation: Augmentation::PowerLikelihood { rho }, auxiliary, local_steps: 1 }
    }

    /// The model as declared: parties send their contributions themselves, and nothing hides them.
    ///
    /// With contributions of point parameters only, this is a split network trained by maximum likelihood.
    #[must_use]
    pub fn direct() -> Self {
        Self { augmentation: Augmentation::None, auxiliary: AuxiliaryFamily::MeanField, local_steps: 1 }
    }

    /// The same with mean-field auxiliary variables.
    #[must_use]
    pub fn mean_field(self) -> Self {
        Self { auxiliary: AuxiliaryFamily::MeanField, ..self }
    }

    /// The same with so many steps of each party between two exchanges.
    #[must_use]
    pub fn local_steps(self, local_steps: u64) -> Self {
        Self { local_steps, ..self }
    }

    /// Whether parties need the labels.
    #[must_use]
    pub fn shares_labels(&self) -> bool {
        match (self.augmentation, self.auxiliary) {
            (Augmentation::PowerLikelihood { .. }, _) => true,
            (Augmentation::Auxiliary { .. }, AuxiliaryFamily::Amortised { labels, .. }) => labels,
            _ => false,
        }
    }

    /// The exchanges of a step: one, or two where parties need the sum of all auxiliary variables.
    #[must_use]
    pub fn exchanges_a_step(&self) -> u64 {
        1 + u64::from(matches!(self.augmentation, Augmentation::PowerLikelihood { .. }))
    }

    /// What messages of such a fit reveal, in sentences, beside the fields that the manifest lists: of what parties
    /// send, of the gradient that comes back, and of the seed. The book's page on columns at different parties has the
    /// reasons.
    ///
    /// # Example
    /// ```
    /// use partita_inference::VerticalOptions;
    /// assert!(VerticalOptions::direct().reveals().iter().any(|sentence| sentence.contains("as they are")));
    /// ```
    #[must_use]
    pub fn reveals(&self) -> Vec<&'static str> {
        let gradient = "The gradient that comes back shows residuals: with a Bernoulli head its sign is the label of the row, for every party.";
        let seed = "Whoever has the seed of a party's noise can take the noise off what it sends; parties that do not trust each other draw from seeds of their own.";
        let average = "Averages over many steps tell the mean contribution of every row, whatever rho.";
        match self.augmentation {
            Augmentation::None => {
                vec!["Contributions at draws of a party's unknowns are sent as they are.", gradient, seed]
            }
            Augmentation::Auxiliary { .. } => vec![
                "z of one step hides each row's contribution behind noise of a scale of about rho or less.",
                average,
                gradient,
                seed,
            ],
            Augmentation::PowerLikelihood { .. } => vec![
                "The gradient h tells whoever knows the labels the contribution of every row at every step, whatever rho.",
                average,
                "Every party has the labels.",
                seed,
            ],
        }
    }

    /// Refuses what does not go together.
    ///
    /// # Errors
    /// [`Error::Setting`]; [`Error::Model`] for a standard deviation that is not positive.
    pub fn check(&self, settings: &Settings) -> Result<()> {
        settings.check()?;
        self.augmentation.check()?;
        let is_served = matches!(
            settings.estimator,
            Estimator::StickingTheLanding | Estimator::Total | Estimator::ClosedFormEntropy
        );
        let found = format_args!("{:?}", settings.estimator);
        let expected = "StickingTheLanding, Total or ClosedFormEntropy for columns at different parties";
        Error::unless(is_served, "estimator", found, expected)?;
        let (loss, expected) = (settings.loss, "the negative log likelihood for vertical models");
        Error::unless(loss.is_log(), "loss", loss, expected)?;
        if let Some(plate) = settings.minibatch.keys().find(|plate| *plate != PLATE) {
            let (found, expected) = (format!("`{plate}`"), "rows of the plate `row`, the only one of a vertical model");
            return Err(Error::Setting { setting: "minibatch", found, expected });
        }
        let is_empty = matches!(
            self.auxiliary,
            AuxiliaryFamily::Amortised { hidden: 0, .. } | AuxiliaryFamily::AmortisedScale { hidden: 0, .. }
        );
        Error::unless(!is_empty, "auxiliary", "no hidden unit", "at least one hidden unit")?;
        if let AuxiliaryFamily::AmortisedScale { start, .. } = self.auxiliary {
            let (is_share, found) = (start > 0.0 && start.is_finite(), format_args!("a first scale of {start}"));
            Error::unless(is_share, "auxiliary", found, "a finite share of rho > 0")?;
        }
        let exact =
            matches!((self.augmentation, self.auxiliary), (Augmentation::Auxiliary { .. }, AuxiliaryFamily::MeanField));
        let found = format_args!("{} with {:?} and {:?}", self.local_steps, self.augmentation, self.auxiliary);
        let expected = "1; more only for the augmented model with mean-field auxiliary variables, where they are exact";
        Error::unless(self.local_steps == 1 || self.local_steps > 1 && exact, "local_steps", found, expected)
    }
}
