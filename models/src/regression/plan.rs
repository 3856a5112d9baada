//! Says what a regression is made of: coefficients with priors, effects of groups, and a response.

use burn::tensor::Tensor;
use partita_core::{Error, LkjCholesky, Normal, Result, Scope, Uniform, elementwise};

use super::{Lkj, Prior, Response};

/// What a regression is made of, the same at all parties.
#[derive(Debug, Clone, PartialEq)]
pub struct RegressionPlan {
    /// What is observed given the linear predictor.
    pub response: Response,
    /// The name and the prior of each coefficient.
    pub coefficients: Vec<(String, Prior)>,
    /// Effects of the silo itself.
    pub silo: LevelEffects,
    /// Effects of groups, outermost grouping first.
    pub levels: Vec<LevelEffects>,
    /// Effects of groups that have rows in several silos.
    pub across: Vec<AcrossEffects>,
    /// The name and the prior of each parameter of the response, in the order of [`Response::priors`].
    pub parameters: Vec<(String, Prior)>,
}

/// Effects of groups that all silos know: globals, each with a name.
///
/// A column of the design is the indicator of a group times a column whose coefficient varies, so that the effects stand after
/// the coefficients: for each column the groups in their order. They are centred: such groups have rows enough that their
/// effects are known better than from $\sigma_k$ alone, and then the posterior of both is nearly normal.
#[derive(Debug, Clone, PartialEq)]
pub struct AcrossEffects {
    /// The effects, each by itself: $b_{gk} \sim N(0, \sigma_k^2)$.
    pub effects: Effects,
    /// The names of the groups.
    pub groups: Vec<String>,
}

impl AcrossEffects {
    /// The columns of the design that it has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.effects.columns.len() * self.groups.len()
    }

    /// Samples standard deviations and effects, `[width]`.
    pub(super) fn sample(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        let Effects { group, columns, .. } = &self.effects;
        let factor = self.effects.factor(scope)?;
        let mut all = Vec::with_capacity(self.width());
        for (place, column) in columns.iter().enumerate() {
            let deviation: Tensor<1> = factor.clone().narrow(1, place, 1).reshape([1]);
            for name in &self.groups {
                let effect = Normal::new(0.0, deviation.clone());
                all.push(scope.sample(&format!("effect({column} | {group} = {name})"), effect)?);
            }
        }
        Ok(Tensor::cat(all, 0))
    }
}

impl RegressionPlan {
    /// The columns that rows have: those of coefficients, and of effects that all silos know.
    #[must_use]
    pub fn width(&self) -> usize {
        self.coefficients.len() + self.across.iter().map(AcrossEffects::width).sum::<usize>()
    }

    /// All effects of groups.
    pub fn effects(&self) -> impl Iterator<Item = &Effects> {
        self.silo.iter().chain(self.levels.iter().flatten()).chain(self.across.iter().map(|own| &own.effects))
    }

    /// The same, to change their priors.
    pub fn effects_mut(&mut self) -> impl Iterator<Item = &mut Effects> {
        let across = self.across.iter_mut().map(|own| &mut own.effects);
        self.silo.iter_mut().chain(self.levels.iter_mut().flatten()).chain(across)
    }

    /// Refuses priors that are not one for each number.
    pub(super) fn check(&self) -> Result<()> {
        let of_response =
            ("priors of the parameters of a response", self.parameters.len(), self.response.priors().len());
        let of_effects =
            self.effects().map(|own| ("priors of standard deviations", own.deviations.len(), own.columns.len()));
        if let Some(own) = self.across.iter().find(|own| own.effects.correlation_name().is_some()) {
            return Err(Error::Argument {
                operation: format!("effects of `{}` over silos", own.effects.group),
                argument: "dependence",
                found: "correlated".into(),
                expected: "`Dependence::Independent`: effects that all silos know are each by themselves",
            });
        }
        match of_effects.chain([of_response]).find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((operation, found, expected)) => Err(Error::Length {
                operation: operation.into(),
                found,
                expected,
                remedy: "State one prior a number; those of a response are `Response::priors`.".into(),
            }),
        }
    }
}

/// The effects of one grouping: several terms of a formula may have the same.
pub(super) type LevelEffects = Vec<Effects>;

/// Effects of the groups of one grouping, $b_g \sim N(0, FF^\top)$ with $F = \operatorname{diag}(\sigma) L$.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// The grouping.
    pub group: String,
    /// The names of the columns whose coefficients vary.
    pub columns: Vec<String>,
    /// Whether they are correlated.
    pub dependence: Dependence,
    /// The prior of each standard deviation $\sigma_k$, one a column.
    pub deviations: Vec<Prior>,
}

/// Whether the effects of a group hang together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Dependence {
    /// Each by itself.
    Independent,
    /// With correlations of this prior.
    Correlated(Lkj),
}

impl Effects {
    /// The name of each standard deviation.
    pub fn deviation_names(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|column| format!("sd({column} | {})", self.group))
    }

    /// The name of the correlation of two effects, or of the factor of more; `None` of those without.
    ///
    /// Of two effects LKJ(1) is the uniform distribution of their correlation, a number that people read.
    #[must_use]
    pub fn correlation_name(&self) -> Option<String> {
        match (&self.dependence, self.columns.as_slice()) {
            (Dependence::Independent, _) | (_, [] | [_]) => None,
            (Dependence::Correlated(prior), [one, two]) if prior.is_uniform() => {
                Some(format!("cor({one}, {two} | {})", self.group))
            }
            _ => Some(format!("correlation({})", self.group)),
        }
    }

    /// Samples the standard deviations and correlations; their factor $F$, `[K, K]`, or $\sigma$, `[1, K]`, of
    /// independent ones.
    pub(super) fn factor(&self, scope: &mut Scope<'_>) -> Result<Tensor<2>> {
        let count = self.columns.len();
        let names = self.deviation_names().zip(&self.deviations);
        let deviations = names.map(|(name, prior)| prior.sample(scope, &name)).collect::<Result<_>>()?;
        let deviations: Tensor<1> = Tensor::cat(deviations, 0);
        let (Dependence::Correlated(prior), Some(name)) = (&self.dependence, self.correlation_name()) else {
            return Ok(deviations.reshape([1, count]));
        };
        if count > 2 || !prior.is_uniform() {
            let correlation = scope.sample(&name, LkjCholesky::new(prior.concentration, count))?;
            return Ok(deviations.reshape([count, 1]) * correlation);
        }
        let correlation = scope.sample(&name, Uniform::new(-1.0, 1.0))?;
        let [first, second] = [0, 1].map(|place| deviations.clone().narrow(0, place, 1));
        let rest = elementwise(correlation.clone(), |r| (1.0 - r * r).sqrt(), |r| -r / (1.0 - r * r).sqrt());
        let zero = first.clone().zeros_like();
        let all = vec![first, zero, second.clone() * correlation, second * rest];
        Ok(Tensor::cat(all, 0).reshape([2, 2]))
    }

    /// One row of effects for each of so many groups; for `None` those of the silo, `[1, K]`.
    pub(super) fn draw(&self, scope: &mut Scope<'_>, factor: &Tensor<2>, groups: Option<usize>) -> Result<Tensor<2>> {
        let count = self.columns.len();
        let name = format!("effects({})", self.name());
        if count == 1 {
            let effects = Normal::new(0.0, factor.clone().reshape([1]));
            return Ok(scope.sample(&name, effects.non_centred())?.reshape([-1, 1]));
        }
        let standard = scope.sample(&name, Normal::new(0.0, 1.0).iid([groups.unwrap_or(1), count]))?;
        Ok(if matches!(self.dependence, Dependence::Correlated(_)) {
            standard.matmul(factor.clone().transpose())
        } else {
            standard * factor.clone()
        })
    }

    /// What tells it from other effects of the same grouping.
    fn name(&self) -> String {
        format!("{} | {}", self.columns.join(" + "), self.group)
    }
}
