//! Declares the mixed models as a user would: groups of unequal size, each with an intercept of its own.

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::{Bernoulli, Binomial, Design, Groups, HalfNormal, Model, Normal, Poisson, Result, Scope};

/// The standard deviation of a coefficient in the prior, and the scale of the half-normal of a standard deviation.
const PRIOR: f64 = 5.0;

/// What a row's outcome is, given its linear predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Binary,
    /// Of as many trials as the data say.
    Successes,
    Count,
    /// Normal with an unknown standard deviation.
    Number,
}

/// A generalised linear mixed model with a random intercept of each group.
#[derive(Module, Debug)]
pub(super) struct Mixed {
    #[module(skip)]
    pub(super) outcome: Outcome,
    #[module(skip)]
    pub(super) columns: usize,
}

pub(super) struct Globals {
    beta: Tensor<1>,
    sd: Tensor<1>,
    sigma: Option<Tensor<1>>,
}

/// The groups of one silo, and their rows.
#[derive(Debug, Clone)]
pub(super) struct Silo {
    pub(super) groups: Groups,
    /// `[rows, 1, columns]`.
    pub(super) design: Design,
    /// `[rows, 1]`, as is `trials`.
    pub(super) y: Tensor<2>,
    pub(super) trials: Tensor<2>,
}

impl Model for Mixed {
    type Globals = Globals;
    type Data = Silo;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, PRIOR).iid([self.columns]))?;
        let sd = scope.sample("sd", HalfNormal::new(PRIOR))?;
        let sigma = match self.outcome {
            Outcome::Number => Some(scope.sample("sigma", HalfNormal::new(PRIOR))?),
            _ => None,
        };
        Ok(Globals { beta, sd, sigma })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Globals, data: &Silo) -> Result<()> {
        scope.plate("group", data.groups.groups(), |scope, _| {
            let b = scope.sample("b", Normal::new(0.0, globals.sd.clone()).non_centred())?;
            scope.plate("row", &data.groups, |scope, rows| {
                let eta = data.design.take(rows)?.predictor(globals.beta.clone(), Some(rows.expand(&b)?))?;
                let y = rows.take(&data.y)?;
                match (self.outcome, &globals.sigma) {
                    (Outcome::Successes, _) => scope.observe("y", Binomial::logits(rows.take(&data.trials)?, eta), y),
                    (Outcome::Count, _) => scope.observe("y", Poisson::log_rate(eta), y),
                    (Outcome::Number, Some(sigma)) => scope.observe("y", Normal::new(eta, sigma.clone()), y),
                    _ => scope.observe("y", Bernoulli::logits(eta), y),
                }
            })
        })
    }
}
