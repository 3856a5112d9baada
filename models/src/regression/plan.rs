//! Says what a regression is made of: coefficients with priors, effects of groups, and a response.

use burn::tensor::Tensor;
use partita_core::{HalfStudentT, LkjCholesky, Normal, Result, Scope, Uniform, elementwise};

use super::Response;

/// The mean and standard deviation of a normal prior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub sd: f64,
}

/// What a regression is made of, the same at all parties.
#[derive(Debug, Clone, PartialEq)]
pub struct RegressionPlan {
    /// What is observed given the linear predictor.
    pub response: Response,
    /// The name and the normal prior of each coefficient.
    pub coefficients: Vec<(String, Scale)>,
    /// Effects of the silo itself.
    pub silo: LevelEffects,
    /// Effects of groups, outermost grouping first.
    pub levels: Vec<LevelEffects>,
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
    /// The scale of the half Student-t prior of each standard deviation $\sigma_k$, with 3 degrees of freedom.
    pub scale: f64,
}

/// Whether the effects of a group hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependence {
    /// Each by itself.
    Independent,
    /// With correlations, every correlation matrix as probable as any other before the data: LKJ(1).
    Correlated,
}

/// Degrees of freedom of the priors of standard deviations.
pub(super) const DEGREES: f64 = 3.0;

impl Scale {
    pub(super) fn sample(&self, scope: &mut Scope<'_>, name: &str) -> Result<Tensor<1>> {
        scope.sample(name, Normal::new(self.mean, self.sd))
    }
}

impl Effects {
    /// Samples the standard deviations and correlations; their factor $F$, `[K, K]`, or $\sigma$, `[1, K]`, of
    /// independent ones.
    pub(super) fn factor(&self, scope: &mut Scope<'_>) -> Result<Tensor<2>> {
        let Self { group, columns, dependence, scale } = self;
        let count = columns.len();
        let deviations = columns
            .iter()
            .map(|column| scope.sample(&format!("sd({column} | {group})"), HalfStudentT::new(DEGREES, *scale)));
        let deviations = Tensor::cat(deviations.collect::<Result<_>>()?, 0);
        match (dependence, count) {
            (Dependence::Independent, _) | (_, 1) => Ok(deviations.reshape([1, count])),
            // Of two effects LKJ(1) is the uniform distribution of their correlation, a number that people read.
            (Dependence::Correlated, 2) => {
                let name = format!("cor({}, {} | {group})", columns[0], columns[1]);
                let correlation = scope.sample(&name, Uniform::new(-1.0, 1.0))?;
                let [first, second] = [0, 1].map(|place| deviations.clone().narrow(0, place, 1));
                let rest = elementwise(correlation.clone(), |r| (1.0 - r * r).sqrt(), |r| -r / (1.0 - r * r).sqrt());
                let zero = first.clone().zeros_like();
                let all = vec![first, zero, second.clone() * correlation, second * rest];
                Ok(Tensor::cat(all, 0).reshape([2, 2]))
            }
            (Dependence::Correlated, _) => {
                let correlation = scope.sample(&format!("correlation({group})"), LkjCholesky::new(1.0, count))?;
                Ok(deviations.reshape([count, 1]) * correlation)
            }
        }
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
        Ok(if self.dependence == Dependence::Correlated {
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
