//! Observes outcomes of many families given the linear predictor, with more zeros and with weights where asked for.

use burn::tensor::Tensor;
use partita_core::{
    Bernoulli, Beta, BetaBinomial, Binomial, Categorical, Censoring, Chance, Continuous, Discrete, Distribution, Error,
    Gamma, LogNormal, NegativeBinomial, Normal, OrderedLogistic, OrderedProbit, PiecewiseExponential, Poisson, Result,
    Rows, Scope, StudentT, Weibull, taped,
};

use super::{Link, RegressionRows};
use crate::sigmoid::sigmoid;

/// What is observed given the linear predictor $\eta$: a family, with the link of its mean $\mu$ and its zeros.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The family.
    pub family: Family,
    /// How $\eta$ gives $\mu$; of no effect where the family has one link alone.
    pub link: Link,
    /// The zeros beyond those of the family.
    pub zeros: Zeros,
}

/// A family of outcomes with the mean $\mu$.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Family {
    /// $N(\mu, \sigma^2)$.
    Gaussian,
    /// Student's t with location $\mu$, scale `sigma` and `nu` degrees of freedom.
    Student,
    /// 0 or 1.
    Bernoulli,
    /// Successes in trials with the probability $\mu$.
    Binomial,
    /// Successes in trials whose probability is beta with mean $\mu$ and precision `phi`.
    BetaBinomial,
    /// Counts.
    Poisson,
    /// Counts with the variance $\mu + \mu^2 / \text{shape}$.
    NegativeBinomial,
    /// Positive numbers with the variance $\mu^2 / \text{shape}$.
    Gamma,
    /// Positive numbers whose logarithm is $N(\eta, \sigma^2)$.
    LogNormal,
    /// Parts with the precision `phi`.
    Beta,
    /// Times with the scale $e^\eta$, censored on the right where there is a status: larger $\eta$ is a longer time.
    Weibull,
    /// Times whose hazard is $e^{\eta + a_k}$ between two cuts, with $a$ = `log_hazard`, censored as those of `Weibull`.
    PiecewiseExponential {
        /// The cuts, one less than there are hazards.
        cuts: Vec<f64>,
    },
    /// Levels $0, \dots, K - 1$ in order, $P(y \le k) = F(c_k - \eta)$ with $c$ = `threshold`: the logistic
    /// distribution function for [`Link::Logit`], the normal one for [`Link::Probit`].
    Cumulative {
        /// $K$.
        levels: usize,
    },
    /// Levels without an order: the probabilities are $e^{\eta_k}$ over their sum, with $\eta_0 = 0$ and a set of
    /// coefficients for each level after the first.
    Categorical {
        /// The levels.
        levels: Vec<String>,
    },
}

/// The zeros that a response has beyond those of its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// None.
    Own,
    /// Zero with the probability `zi`, otherwise an outcome of the family, which may be zero.
    Inflated,
    /// Zero with the probability `hu`, otherwise an outcome of the family that is not zero.
    Hurdle,
}

/// A parameter of a response beside the linear predictor.
#[derive(Debug, Clone)]
pub(super) enum Parameter {
    /// One number, or one vector, for all rows.
    Shared(Tensor<1>),
    /// A linear predictor of each row: of the logarithm, or of the log odds of a probability.
    OfRows(Tensor<1>),
}

impl Parameter {
    /// A number above zero.
    fn positive(&self) -> Tensor<1> {
        match self {
            Self::Shared(value) => value.clone(),
            Self::OfRows(log) => taped::exp(log.clone()),
        }
    }

    fn log(&self) -> Tensor<1> {
        match self {
            Self::Shared(value) => taped::log(value.clone()),
            Self::OfRows(log) => log.clone(),
        }
    }

    fn chance(&self) -> Chance<1> {
        match self {
            Self::Shared(value) => Chance::probability(value.clone()),
            Self::OfRows(logits) => Chance::logits(logits.clone()),
        }
    }
}

impl From<Family> for Response {
    /// The family with its usual link and its own zeros.
    fn from(family: Family) -> Self {
        let link = family.usual_link();
        Self { family, link, zeros: Zeros::Own }
    }
}

impl Family {
    /// The link that is taken where none is named.
    #[must_use]
    pub fn usual_link(&self) -> Link {
        match self {
            Self::Gaussian | Self::Student | Self::LogNormal => Link::Identity,
            Self::Bernoulli | Self::Binomial | Self::BetaBinomial | Self::Beta => Link::Logit,
            Self::Cumulative { .. } | Self::Categorical { .. } => Link::Logit,
            Self::Poisson | Self::NegativeBinomial | Self::Gamma => Link::Log,
            Self::Weibull | Self::PiecewiseExponential { .. } => Link::Log,
        }
    }
}

impl Response {
    /// The names of the parameters beside the linear predictor that are one number, or one of each row.
    #[must_use]
    pub fn parameters(&self) -> Vec<&'static str> {
        let own: &[&str] = match self.family {
            Family::Gaussian | Family::LogNormal => &["sigma"],
            Family::Student => &["sigma", "nu"],
            Family::BetaBinomial | Family::Beta => &["phi"],
            Family::NegativeBinomial | Family::Gamma | Family::Weibull => &["shape"],
            Family::Bernoulli | Family::Binomial | Family::Poisson => &[],
            Family::PiecewiseExponential { .. } | Family::Cumulative { .. } | Family::Categorical { .. } => &[],
        };
        let zero = match self.zeros {
            Zeros::Own => None,
            Zeros::Inflated => Some("zi"),
            Zeros::Hurdle => Some("hu"),
        };
        own.iter().copied().chain(zero).collect()
    }

    /// Whether the family can have the zeros asked for.
    pub(super) fn takes_zeros(&self) -> bool {
        match (self.zeros, &self.family) {
            (Zeros::Own, _) | (Zeros::Hurdle, Family::Gamma | Family::LogNormal) => true,
            (_, own) => matches!(
                own,
                Family::Bernoulli
                    | Family::Binomial
                    | Family::BetaBinomial
                    | Family::Poisson
                    | Family::NegativeBinomial
            ),
        }
    }

    /// The words for what rows bring that the likelihood has no place for.
    pub(super) fn unused(&self, [offset, trials, status]: [bool; 3]) -> Option<&'static str> {
        let takes_trials = matches!(self.family, Family::Binomial | Family::BetaBinomial);
        let takes_status = matches!(self.family, Family::Weibull | Family::PiecewiseExponential { .. });
        match (offset && self.predictors() > 1, trials && !takes_trials, status && !takes_status) {
            (true, ..) => Some("an offset of a categorical outcome, which has several predictors"),
            (_, true, _) => Some("trials of an outcome that is no number of successes"),
            (.., true) => Some("a status of an outcome that is no time"),
            _ => None,
        }
    }

    /// How many thresholds or log hazards it has in place of an intercept.
    #[must_use]
    pub fn baseline(&self) -> usize {
        match &self.family {
            Family::Cumulative { levels } => levels.saturating_sub(1),
            Family::PiecewiseExponential { cuts } => cuts.len() + 1,
            _ => 0,
        }
    }

    /// How many linear predictors a row has.
    #[must_use]
    pub fn predictors(&self) -> usize {
        match &self.family {
            Family::Categorical { levels } => levels.len().saturating_sub(1),
            _ => 1,
        }
    }

    /// Observes the rows of a plate, with one predictor for each level after the first of a categorical outcome.
    pub(super) fn observe(&self, mut row: Observed<'_, '_>, predictors: Vec<Tensor<1>>) -> Result<()> {
        let mut predictors = predictors.into_iter();
        let (Some(predictor), link) = (predictors.next(), self.link) else { return Ok(()) };
        let parameters = row.parameters.clone();
        let own = |place: usize| parameters[place].clone();
        match &self.family {
            Family::Gaussian => row.of(Normal::new(link.mean(predictor), own(0).positive())),
            Family::Student => row.of(StudentT::new(own(1).positive(), link.mean(predictor), own(0).positive())),
            Family::Bernoulli => row.counts(Bernoulli::logits(link.logits(predictor))),
            Family::Binomial => {
                let trials = row.trials()?;
                row.counts(Binomial::logits(trials, link.logits(predictor)))
            }
            Family::BetaBinomial => {
                let [one, zero] = concentrations(link.logits(predictor), own(0).positive());
                let trials = row.trials()?;
                row.counts(BetaBinomial::new(trials, one, zero))
            }
            Family::Poisson => row.counts(Poisson::log_rate(link.log_mean(predictor))),
            Family::NegativeBinomial => {
                let logits = taped::plus(link.log_mean(predictor), taped::negated(own(0).log()));
                row.counts(NegativeBinomial::logits(own(0).positive(), logits))
            }
            Family::Gamma => {
                let rate = taped::exp(taped::plus(taped::negated(link.log_mean(predictor)), own(0).log()));
                row.numbers(Gamma::new(own(0).positive(), rate))
            }
            Family::LogNormal => row.numbers(LogNormal::new(predictor, own(0).positive())),
            Family::Beta => {
                let [one, zero] = concentrations(link.logits(predictor), own(0).positive());
                row.of(Beta::new(one, zero))
            }
            Family::Weibull => row.times(Weibull::new(own(0).positive(), taped::exp(predictor))),
            Family::PiecewiseExponential { cuts } => {
                let cuts = row.scope.device().tensor(cuts.clone(), [cuts.len()]);
                let hazards = row.baseline()?;
                row.times(PiecewiseExponential::new(predictor, hazards, cuts))
            }
            Family::Cumulative { .. } => {
                let thresholds = row.baseline()?;
                match link {
                    Link::Probit => row.of(OrderedProbit::new(predictor, thresholds)),
                    _ => row.of(OrderedLogistic::new(predictor, thresholds)),
                }
            }
            Family::Categorical { .. } => {
                let rows = predictor.dims()[0];
                let first = row.scope.device().tensor(vec![0.0; rows], [rows, 1]);
                let others = [predictor].into_iter().chain(predictors).map(|own| taped::reshaped(own, [rows, 1]));
                let all = std::iter::once(first).chain(others).collect();
                row.of(Categorical::logits(taped::joined(all, 1)))
            }
        }
    }
}

/// The rows of a plate that are to be observed.
pub(super) struct Observed<'s, 'a> {
    pub(super) scope: &'s mut Scope<'a>,
    pub(super) data: &'s RegressionRows,
    pub(super) rows: &'s Rows<'s>,
    pub(super) zeros: Zeros,
    /// In the order of [`Response::parameters`].
    pub(super) parameters: Vec<Parameter>,
    /// Thresholds or log hazards.
    pub(super) baseline: Option<Tensor<1>>,
}

impl Observed<'_, '_> {
    fn baseline(&self) -> Result<Tensor<1>> {
        self.baseline.clone().ok_or_else(|| Error::Argument {
            operation: "response of a regression".into(),
            argument: "baseline",
            found: "none".into(),
            expected: "thresholds of a cumulative response, or log hazards of a piecewise exponential one",
        })
    }

    fn trials(&self) -> Result<Tensor<1>> {
        match &self.data.trials {
            Some(trials) => self.rows.take(trials),
            None => Ok(self.rows.take(&self.data.outcome)?.ones_like()),
        }
    }

    /// The outcome of this distribution, with the weight of each row.
    fn of<S>(&mut self, distribution: Distribution<1, S>) -> Result<()> {
        let outcome = self.rows.take(&self.data.outcome)?;
        match &self.data.weights {
            Some(weights) => self.scope.observe("y", distribution.weighted(self.rows.take(weights)?), outcome),
            None => self.scope.observe("y", distribution, outcome),
        }
    }

    /// The probability of a zero, which is the last parameter.
    fn chance(&self) -> Result<Chance<1>> {
        let found = self.parameters.last().map(Parameter::chance);
        found.ok_or_else(|| self.refused("none", "the parameter `zi` or `hu`"))
    }

    fn refused(&self, found: &str, expected: &'static str) -> Error {
        Error::Argument { operation: "zeros of a response".into(), argument: "zeros", found: found.into(), expected }
    }

    fn counts(&mut self, distribution: Distribution<1, Discrete>) -> Result<()> {
        match self.zeros {
            Zeros::Own => self.of(distribution),
            Zeros::Inflated => {
                let chance = self.chance()?;
                self.of(distribution.zero_inflated(chance))
            }
            Zeros::Hurdle => {
                let chance = self.chance()?;
                self.of(distribution.hurdle(chance))
            }
        }
    }

    fn numbers(&mut self, distribution: Distribution<1, Continuous>) -> Result<()> {
        match self.zeros {
            Zeros::Own => self.of(distribution),
            Zeros::Hurdle => {
                let chance = self.chance()?;
                self.of(distribution.hurdle(chance))
            }
            Zeros::Inflated => Err(self.refused("inflated zeros of positive numbers", "a hurdle")),
        }
    }

    /// Times, censored on the right where there is a status.
    fn times(&mut self, distribution: Distribution<1, Continuous>) -> Result<()> {
        match &self.data.status {
            Some(status) => {
                let status = Censoring::right(self.rows.take(status)?);
                self.of(distribution.censored(status))
            }
            None => self.of(distribution),
        }
    }
}

/// The concentrations of a beta distribution with a mean on the logit scale, and a precision.
fn concentrations(logits: Tensor<1>, precision: Tensor<1>) -> [Tensor<1>; 2] {
    let of = |logits: Tensor<1>| taped::times(sigmoid(logits), precision.clone());
    [of(logits.clone()), of(taped::negated(logits))]
}
