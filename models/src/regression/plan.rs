//! Says what a regression is made of: coefficients with priors, effects of groups, and a response.

use burn::tensor::Tensor;
use partita_core::{Error, LkjCholesky, Normal, Result, Scope, taped};

use super::{Family, Lkj, Prior, Response};

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
    /// The name and the prior of each parameter of the response that is one number, in the order of
    /// [`Response::priors`].
    pub parameters: Vec<(String, Prior)>,
    /// The parameters of the response that columns move.
    pub linear: Vec<LinearParameter>,
    /// What a response has in place of an intercept: thresholds, or log hazards.
    pub baseline: Option<Baseline>,
}

/// A parameter of the response that is linear on the log scale, or on that of log odds for `zi` and `hu`.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearParameter {
    /// Its name.
    pub name: String,
    /// The name of the site and the prior of each coefficient.
    pub coefficients: Vec<(String, Prior)>,
}

/// Numbers that stand in place of an intercept, with one prior; those of a cumulative response increase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Baseline {
    /// How many there are.
    pub count: usize,
    /// The prior of each.
    pub prior: Prior,
}

impl RegressionPlan {
    /// The name of the site of the baseline.
    #[must_use]
    pub fn baseline_name(&self) -> &'static str {
        if self.baseline_increases() { "threshold" } else { "log_hazard" }
    }

    /// Whether each number of the baseline is above the one before.
    #[must_use]
    pub fn baseline_increases(&self) -> bool {
        matches!(self.response.family, Family::Cumulative { .. })
    }

    pub(super) fn sample_baseline(&self, scope: &mut Scope<'_>) -> Result<Option<Tensor<1>>> {
        let Some(Baseline { count, prior }) = self.baseline else { return Ok(None) };
        let each = prior.distribution().iid([count]);
        let each = if self.baseline_increases() { each.ordered() } else { each };
        scope.sample(self.baseline_name(), each).map(Some)
    }
}

impl RegressionPlan {
    /// Samples the coefficients; `None` where there are none.
    pub(super) fn sample_coefficients(&self, scope: &mut Scope<'_>) -> Result<Option<Tensor<1>>> {
        sampled(&self.coefficients, scope)
    }
}

impl LinearParameter {
    /// Samples the coefficients; `None` where there are none.
    pub(super) fn sample(&self, scope: &mut Scope<'_>) -> Result<Option<Tensor<1>>> {
        sampled(&self.coefficients, scope)
    }
}

fn sampled(coefficients: &[(String, Prior)], scope: &mut Scope<'_>) -> Result<Option<Tensor<1>>> {
    let each = coefficients.iter().map(|(name, prior)| prior.sample(scope, name));
    let each = each.collect::<Result<Vec<_>>>()?;
    Ok(if each.is_empty() { None } else { Some(taped::joined(each, 0)) })
}

/// Effects of groups that all silos know: globals, each with a name.
///
/// A column of the design is the indicator of a group times a column whose coefficient varies, so that the effects stand after
/// the coefficients: for each column the groups in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct AcrossEffects {
    /// The effects, each by itself: $b_{gk} \sim N(0, \sigma_k^2)$.
    pub effects: Effects,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// In which numbers the effects are fitted.
    pub latents: EffectLatents,
}

/// In which numbers effects that are globals are fitted: those whose posterior is nearer to normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectLatents {
    /// The effects themselves, of groups with rows enough that these are known better than from $\sigma_k$ alone.
    Effects,
    /// $b_{gk} / \sigma_k$, of groups with few rows: where $\sigma_k$ may be near zero, so may all effects at once.
    Standardised,
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
            let deviation = taped::reshaped(taped::part(factor.clone(), 1, place, 1), [1]);
            for name in &self.groups {
                let effect = Normal::new(0.0, deviation.clone());
                let effect = if self.latents == EffectLatents::Effects { effect } else { effect.non_centred() };
                all.push(scope.sample(&format!("effect({column} | {group} = {name})"), effect)?);
            }
        }
        Ok(taped::joined(all, 0))
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
        let baseline =
            ("thresholds or log hazards", self.baseline.map_or(0, |own| own.count), self.response.baseline());
        let sets = self.response.predictors().max(1);
        let whole = ("coefficients of categories", self.coefficients.len() % sets, 0);
        let several = if sets > 1 { self.effects().count() } else { 0 };
        let effects_of_categories = ("effects of groups on the predictors of categories", several, 0);
        match of_effects.chain([baseline, whole, effects_of_categories]).find(|(_, found, expected)| found != expected)
        {
            None if !self.response.takes_zeros() => Err(Error::Argument {
                operation: "plan of a regression".into(),
                argument: "zeros",
                found: format!("{:?} zeros of {:?}", self.response.zeros, self.response.family),
                expected: "Zeros::Own, or a family of counts, or a hurdle of a gamma or log-normal one",
            }),
            None => self.check_parameters(),
            Some((operation, found, expected)) => Err(Error::Length {
                operation: operation.into(),
                found,
                expected,
                remedy: "State one prior a number; those of a response are `Response::priors`.".into(),
            }),
        }
    }

    /// Refuses a plan that does not say what each parameter of its response is.
    fn check_parameters(&self) -> Result<()> {
        let linear = |name: &&str| self.linear.iter().any(|own| own.name == *name);
        let all = self.response.parameters();
        let expected: Vec<&str> = all.iter().copied().filter(|name| !linear(name)).collect();
        let found: Vec<&str> = self.parameters.iter().map(|(name, _)| name.as_str()).collect();
        if found == expected && self.linear.iter().all(|own| all.contains(&own.name.as_str())) {
            return Ok(());
        }
        Err(Error::Argument {
            operation: "plan of a regression".into(),
            argument: "parameters",
            found: format!("the parameters {}", found.join(", ")),
            expected: "those of `Response::priors` in their order, less those that columns move",
        })
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

    /// The name of the correlation of every two effects; none of effects without.
    #[must_use]
    pub fn correlation_names(&self) -> Vec<String> {
        let pairs = self.columns.iter().enumerate().flat_map(|(place, one)| {
            self.columns[place + 1..].iter().map(move |two| format!("cor({one}, {two} | {})", self.group))
        });
        if self.dependence == Dependence::Independent { Vec::new() } else { pairs.collect() }
    }

    /// The name of all correlations together, which have one prior: that of the correlation of two effects.
    #[must_use]
    pub fn correlation_name(&self) -> Option<String> {
        let mut names = self.correlation_names();
        if names.len() > 1 { Some(format!("correlation({})", self.group)) } else { names.pop() }
    }

    /// Samples the standard deviations and correlations; their factor $F$, `[K, K]`, or $\sigma$, `[1, K]`, of
    /// independent ones.
    pub(super) fn factor(&self, scope: &mut Scope<'_>) -> Result<Tensor<2>> {
        let count = self.columns.len();
        let names = self.deviation_names().zip(&self.deviations);
        let deviations = names.map(|(name, prior)| prior.sample(scope, &name)).collect::<Result<_>>()?;
        let deviations: Tensor<1> = taped::joined(deviations, 0);
        let (Dependence::Correlated(prior), 2..) = (&self.dependence, count) else {
            return Ok(taped::reshaped(deviations, [1, count]));
        };
        let factor = LkjCholesky::new(prior.concentration, count);
        let factor = scope.sample_unreported(&format!("correlation({})", self.group), factor)?;
        self.say_correlations(scope, &factor)?;
        Ok(taped::times(taped::reshaped(deviations, [count, 1]), factor))
    }

    /// Reports the correlation of every two effects, given the Cholesky factor of all.
    fn say_correlations(&self, scope: &mut Scope<'_>, factor: &Tensor<2>) -> Result<()> {
        let factor = taped::constant(factor.clone());
        let all = factor.clone().matmul(factor.transpose());
        let count = self.columns.len();
        let pairs = (0..count).flat_map(|row| (row + 1..count).map(move |column| (row, column)));
        for ((row, column), name) in pairs.zip(self.correlation_names()) {
            let correlation: Tensor<1> = all.clone().narrow(0, row, 1).narrow(1, column, 1).reshape([1]);
            scope.deterministic(&name, correlation)?;
        }
        Ok(())
    }

    /// One row of effects for each of so many groups.
    pub(super) fn draw(&self, scope: &mut Scope<'_>, factor: &Tensor<2>, groups: usize) -> Result<Tensor<2>> {
        let count = self.columns.len();
        let name = format!("effects({})", self.name());
        if count == 1 {
            let effects = Normal::new(0.0, taped::reshaped(factor.clone(), [1]));
            let effects = scope.sample(&name, effects.non_centred())?;
            let drawn = effects.dims()[0];
            return Ok(taped::reshaped(effects, [drawn, 1]));
        }
        let standard = scope.sample(&name, Normal::new(0.0, 1.0).iid([groups, count]))?;
        Ok(if matches!(self.dependence, Dependence::Correlated(_)) {
            taped::product(standard, taped::transposed(factor.clone()))
        } else {
            taped::times(standard, factor.clone())
        })
    }

    /// What tells it from other effects of the same grouping.
    fn name(&self) -> String {
        format!("{} | {}", self.columns.join(" + "), self.group)
    }
}
