//! Reads a vertical model as an ordinary model of pooled data: the true, the augmented or the power-likelihood one.

use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::labels::{PLATE, Stated};
use super::party::ElboTerm;
use super::party::Party;
use crate::declare::model::Model;
use crate::declare::scope::Scope;
use crate::distribution::Normal;
use crate::error::{Error, Result};

/// Which model the auxiliary variables make of a vertical model; $`\rho`$ is a standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Augmentation {
    /// The model as declared, $`p(y \mid \sum_j g_j, \gamma)`$, without auxiliary variables.
    None,
    /// $`p(y \mid \sum_j z_j, \gamma) \prod_j N(z_j \mid g_j, \rho^2)`$.
    Auxiliary {
        /// The standard deviation of the auxiliary variables.
        rho: f64,
    },
    /// $`\prod_j p(y \mid g_j + \sum_{k \ne j} z_k, \gamma)^{1/J} N(z_j \mid g_j, \rho^2)`$.
    PowerLikelihood {
        /// The standard deviation of the auxiliary variables.
        rho: f64,
    },
}

impl Augmentation {
    /// The standard deviation of the auxiliary variables; 0 without any.
    #[must_use]
    pub fn rho(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Auxiliary { rho } | Self::PowerLikelihood { rho } => rho,
        }
    }

    /// Refuses a standard deviation that is not positive.
    ///
    /// # Errors
    /// [`Error::Argument`].
    pub fn check(self) -> Result<()> {
        match self {
            Self::Auxiliary { rho } | Self::PowerLikelihood { rho } if !(rho > 0.0 && rho.is_finite()) => {
                let expected = "a finite standard deviation > 0; `Augmentation::None` is the model as declared";
                Err(Error::argument("augmentation of a vertical model", "rho", rho, expected))
            }
            _ => Ok(()),
        }
    }
}

/// All parties of a vertical model in one place, as a [`Model`]: what gold standards and checks are run on.
///
/// Point parameters of contributions are constants here. Sites of a party's prior are called `party.site`; auxiliary
/// variables are local latents `party.z` `[rows, outputs]` in the plate `row`. The observed site is the head's, once
/// for each party in the power-likelihood model (`party.site`).
///
/// # Shapes
/// Data: none, everything is inside.
#[derive(Module, Debug)]
pub struct Pooled {
    #[module(skip)]
    parties: Vec<Party>,
    #[module(skip)]
    labels: Labels,
    #[module(skip)]
    augmentation: Augmentation,
    #[module(skip)]
    centred: bool,
}

/// What [`Pooled`] knows given the latents: the contribution of every party, and the head.
pub struct PooledGlobals {
    shares: Vec<ElboTerm>,
    head: Box<dyn Stated>,
}

impl std::fmt::Debug for PooledGlobals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PooledGlobals").field("parties", &self.shares.len()).finish_non_exhaustive()
    }
}

impl Pooled {
    /// The pooled model of these parties and labels.
    ///
    /// # Errors
    /// [`Error::Shape`] for a party with other rows than the labels, [`Error::DuplicateSite`] for two parties of one
    /// name, [`Error::Length`] for no party, and [`Augmentation::check`].
    pub fn new(parties: Vec<Party>, labels: Labels, augmentation: Augmentation) -> Result<Self> {
        augmentation.check()?;
        if parties.is_empty() {
            return Err(Error::Length {
                operation: "parties of a vertical model".into(),
                found: 0,
                expected: 1,
                remedy: "Give at least one party.".into(),
            });
        }
        for (index, party) in parties.iter().enumerate() {
            if parties[..index].iter().any(|other| other.name() == party.name()) {
                let table = parties.iter().map(Party::name).collect::<Vec<_>>().join(", ");
                return Err(Error::DuplicateSite { site: party.name().into(), table });
            }
            let operation = format_args!("rows of party `{}`", party.name());
            let remedy = "Align the rows of all parties by a shared key first.";
            Error::same_shape(operation, &[party.rows()], &[labels.rows()], remedy)?;
        }
        Ok(Self { parties, labels, augmentation, centred: true })
    }

    /// The same model with standardised auxiliary variables as latents, $`z_j = g_j + \rho\,\zeta_j`$: easier for
    /// samplers where $`\rho`$ is small beside what the labels say of a row.
    #[must_use]
    pub fn non_centred(self) -> Self {
        Self { centred: false, ..self }
    }

    /// The parties.
    #[must_use]
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    /// The labels and their head.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Which model it is.
    #[must_use]
    pub fn augmentation(&self) -> Augmentation {
        self.augmentation
    }

    /// The auxiliary variable of a party.
    fn auxiliary(&self, scope: &mut Scope<'_>, name: &str, contribution: Tensor<2>) -> Result<Tensor<2>> {
        let normal = Normal::new(contribution, self.augmentation.rho());
        let normal = if self.centred { normal } else { normal.non_centred() };
        scope.within(name, |scope| scope.sample("z", normal))
    }
}

impl Model for Pooled {
    type Globals = PooledGlobals;
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> Result<PooledGlobals> {
        let mut shares = Vec::with_capacity(self.parties.len());
        for party in &self.parties {
            shares.push(scope.within(party.name(), |scope| party.declare(scope))?);
        }
        Ok(PooledGlobals { shares, head: self.labels.declare(scope)? })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &PooledGlobals, (): &()) -> Result<()> {
        scope.plate(PLATE, self.labels.rows(), |scope, rows| {
            let mut contributions = Vec::with_capacity(self.parties.len());
            for share in &globals.shares {
                contributions.push(share(rows)?);
            }
            if self.augmentation == Augmentation::None {
                return sum(contributions).map_or(Ok(()), |eta| globals.head.observe(scope, eta, rows));
            }
            let mut auxiliaries = Vec::with_capacity(self.parties.len());
            for (party, contribution) in self.parties.iter().zip(&contributions) {
                auxiliaries.push(self.auxiliary(scope, party.name(), contribution.clone())?);
            }
            let Some(all) = sum(auxiliaries.clone()) else { return Ok(()) };
            if let Augmentation::Auxiliary { .. } = self.augmentation {
                return globals.head.observe(scope, all, rows);
            }
            let share = 1.0 / self.parties.len() as f64;
            for ((party, own), auxiliary) in self.parties.iter().zip(contributions).zip(auxiliaries) {
                let eta = all.clone() - auxiliary + own;
                scope.weighted(share, |scope| {
                    scope.within(party.name(), |scope| globals.head.observe(scope, eta, rows))
                })?;
            }
            Ok(())
        })
    }
}

fn sum(terms: Vec<Tensor<2>>) -> Option<Tensor<2>> {
    terms.into_iter().reduce(|sum, term| sum + term)
}
