//! Lists the families of an outcome, with the link and the prior of each parameter.

use burn::tensor::Tensor;
use partita_core::{
    Bernoulli, Beta, BetaBinomial, Binomial, Censoring, Gamma, LogNormal, NegativeBinomial, Normal, Poisson, Result,
    Rows, Scope, StudentT, Weibull,
};

use super::RegressionRows;

/// What is observed given the linear predictor $\eta$.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Response {
    /// $N(\eta, \sigma^2)$; `sigma` is half Student-t with this scale.
    Gaussian {
        /// The scale of the prior of `sigma`.
        scale: f64,
    },
    /// Student's t with location $\eta$, scale `sigma` and `nu` degrees of freedom, $\nu \sim \Gamma(2, 0.1)$.
    Student {
        /// The scale of the prior of `sigma`.
        scale: f64,
    },
    /// 0 or 1 with the log odds $\eta$.
    Bernoulli,
    /// Successes in trials with the log odds $\eta$.
    Binomial,
    /// Successes in trials whose probability is beta with mean $\operatorname{logit}^{-1}\eta$ and precision `phi`.
    BetaBinomial,
    /// Counts with the mean $e^\eta$.
    Poisson,
    /// Counts with the mean $\mu = e^\eta$ and the variance $\mu + \mu^2 / \text{shape}$.
    NegativeBinomial,
    /// Positive numbers with the mean $e^\eta$ and the variance $\mu^2 / \text{shape}$.
    Gamma,
    /// Positive numbers whose logarithm is $N(\eta, \sigma^2)$.
    LogNormal {
        /// The scale of the prior of `sigma`.
        scale: f64,
    },
    /// Parts with the mean $\operatorname{logit}^{-1}\eta$ and the precision `phi`.
    Beta,
    /// Times with the scale $e^\eta$, censored on the right where there is a status: larger $\eta$ is a longer time.
    Weibull,
}

impl Response {
    /// Observes the rows of a plate.
    pub(super) fn observe(
        self,
        scope: &mut Scope<'_>,
        predictor: Tensor<1>,
        parameters: &[Tensor<1>],
        data: &RegressionRows,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let outcome = rows.take(&data.outcome)?;
        let own = |place: usize| parameters[place].clone();
        let trials = || match &data.trials {
            Some(trials) => rows.take(trials),
            None => Ok(outcome.clone().ones_like()),
        };
        match self {
            Self::Gaussian { .. } => scope.observe("y", Normal::new(predictor, own(0)), outcome),
            Self::Student { .. } => scope.observe("y", StudentT::new(own(1), predictor, own(0)), outcome),
            Self::Bernoulli => scope.observe("y", Bernoulli::logits(predictor), outcome),
            Self::Binomial => scope.observe("y", Binomial::logits(trials()?, predictor), outcome),
            Self::BetaBinomial => {
                let [one, zero] = concentrations(predictor, own(0));
                scope.observe("y", BetaBinomial::new(trials()?, one, zero), outcome)
            }
            Self::Poisson => scope.observe("y", Poisson::log_rate(predictor), outcome),
            Self::NegativeBinomial => {
                let logits = predictor - own(0).log();
                scope.observe("y", NegativeBinomial::logits(own(0), logits), outcome)
            }
            Self::Gamma => {
                let rate = (predictor.neg() + own(0).log()).exp();
                scope.observe("y", Gamma::new(own(0), rate), outcome)
            }
            Self::LogNormal { .. } => scope.observe("y", LogNormal::new(predictor, own(0)), outcome),
            Self::Beta => {
                let [one, zero] = concentrations(predictor, own(0));
                scope.observe("y", Beta::new(one, zero), outcome)
            }
            Self::Weibull => {
                let time = Weibull::new(own(0), predictor.exp());
                match &data.status {
                    Some(status) => scope.observe("y", time.censored(Censoring::right(rows.take(status)?)), outcome),
                    None => scope.observe("y", time, outcome),
                }
            }
        }
    }
}

/// The concentrations of a beta distribution with a mean on the logit scale, and a precision.
fn concentrations(logits: Tensor<1>, precision: Tensor<1>) -> [Tensor<1>; 2] {
    let of = |logits: Tensor<1>| burn::tensor::activation::sigmoid(logits) * precision.clone();
    [of(logits.clone()), of(logits.neg())]
}
