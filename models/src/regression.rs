//! Defines regressions with effects of nested groups and outcomes of many families: what a formula declares.

mod link;
mod plan;
mod prior;
mod response;
mod rows;
#[cfg(all(test, feature = "flex"))]
mod tapes;

pub use link::Link;
pub use plan::{AcrossEffects, Baseline, Dependence, EffectLatents, Effects, LinearParameter, RegressionPlan};
pub use prior::{DEGREES, Lkj, Prior};
pub use response::{Family, Response, Zeros};
pub use rows::{EffectRows, Level, RegressionRows};

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Result, Rows, Scope, taped};

use plan::LevelEffects;
use response::{Observed, Parameter};

/// A generalised linear model with effects of groups inside groups:
///
/// $$ \eta_i = x_i^\top \beta + o_i + \sum_l z_{il}^\top b_{l, g_l(i)}, \qquad b_{lg} \sim N(0, F_l F_l^\top),
///    \qquad y_i \sim \text{response}(\eta_i) $$
/// with the columns $x_i$, the offset $o_i$, the group $g_l(i)$ of row $i$ at level $l$, and $F_l$ the standard deviations
/// of that level times the Cholesky factor of its correlations.
///
/// # Shapes
/// Globals: one site `[1]` for each coefficient, named as its column; for effects of grouping `g` a site
/// `sd(COLUMN | g)` `[1]` for each column and, where they are correlated, the Cholesky factor `correlation(g)` `[K, K]`, of which
/// reports have every `cor(A, B | g)` `[1]`; `effect(COLUMN | g = GROUP)`
/// `[1]` of each group that all silos know; the parameters of the response. Locals: `effects(g)` `[groups, K]` in the plate `g`, levels inside one another, those of the silo
/// outermost in the plate `silo` of one row. Data: `y` `[rows]` in the
/// plate `row`.
///
/// # Example
/// ```
/// use partita_core::{Device, Groups, SiteTable};
/// use partita_models::regression::{Dependence, Effects, EffectRows, Level, Family, Prior, Regression, RegressionPlan, RegressionRows, Response};
/// let effects = Effects { group: "child".into(), columns: vec!["(Intercept)".into()], dependence: Dependence::Independent, deviations: vec![Prior::HalfNormal { scale: 2.5 }] };
/// let plan = RegressionPlan {
///     response: Response::from(Family::Bernoulli),
///     coefficients: ["(Intercept)", "age"].map(|name| (name.to_owned(), Prior::Normal { mean: 0.0, sd: 2.5 })).to_vec(),
///     silo: Vec::new(),
///     levels: vec![vec![effects]],
///     across: Vec::new(),
///     parameters: Vec::new(),
///     linear: Vec::new(),
///     baseline: None,
/// };
/// let device = Device::flex();
/// let child = Level { name: "child".into(), groups: 2, outer: None, effects: vec![EffectRows::Intercepts] };
/// let visits = Some(Groups::new(vec![0, 0, 1], 2)?);
/// let rows = RegressionRows::new(vec![1.0, 7.0, 1.0, 8.0, 1.0, 7.0], 2, vec![0.0, 1.0, 1.0], &device)?;
/// let rows = rows.in_groups(vec![child], visits);
/// let table = SiteTable::of(&Regression::new(plan), &device, &rows)?;
/// assert_eq!(table.global_len(), 3);
/// assert_eq!((table.blocks()[0].rows, table.blocks()[1].rows), (2, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Bates, Mächler, Bolker and Walker (2015), Fitting linear mixed-effects models using lme4, Journal of Statistical
/// Software 67.
#[derive(Module, Debug)]
pub struct Regression {
    #[module(skip)]
    plan: RegressionPlan,
}

/// The globals of [`Regression`].
#[derive(Debug, Clone)]
pub struct RegressionGlobals {
    /// `None` where there is no column.
    coefficients: Option<Tensor<1>>,
    /// Of the silo's own effects.
    silo: Vec<Tensor<2>>,
    /// Of each level, for each of its effects, the factor of their covariance.
    levels: Vec<Vec<Tensor<2>>>,
    /// In the order of [`Response::parameters`].
    response: Vec<Sampled>,
    baseline: Option<Tensor<1>>,
}

/// A parameter of the response.
#[derive(Debug, Clone)]
enum Sampled {
    Number(Tensor<1>),
    /// The coefficients of the columns at this place.
    Coefficients(usize, Option<Tensor<1>>),
}

/// Effects of groups on their way to the rows inside.
struct Carried<'d> {
    /// One row of effects for each row of the plate that is open.
    effects: Tensor<2>,
    rows: &'d EffectRows,
}

impl Regression {
    /// The model that a plan describes.
    #[must_use]
    pub fn new(plan: RegressionPlan) -> Self {
        Self { plan }
    }

    /// What it is made of.
    #[must_use]
    pub fn plan(&self) -> &RegressionPlan {
        &self.plan
    }

    /// Opens the plate of a level, or that of rows after the last one.
    fn descend<'d>(
        &self,
        scope: &mut Scope<'_>,
        globals: &RegressionGlobals,
        data: &'d RegressionRows,
        depth: usize,
        carried: Vec<Carried<'d>>,
    ) -> Result<()> {
        let Some(level) = data.levels.get(depth) else {
            let body = |scope: &mut Scope<'_>, rows: &Rows<'_>| self.observe(scope, globals, data, rows, &carried);
            return match &data.visits {
                Some(visits) => scope.plate("row", visits, body),
                None => scope.plate("row", data.len(), body),
            };
        };
        let (plans, factors) = (&self.plan.levels[depth], &globals.levels[depth]);
        let inside = |scope: &mut Scope<'_>, rows: &Rows<'_>| {
            let mut all = Vec::with_capacity(carried.len() + plans.len());
            for own in carried {
                all.push(Carried { effects: rows.expand(&own.effects)?, rows: own.rows });
            }
            for ((plan, factor), rows_of) in plans.iter().zip(factors).zip(&level.effects) {
                all.push(Carried { effects: plan.draw(scope, factor, rows.len())?, rows: rows_of });
            }
            self.descend(scope, globals, data, depth + 1, all)
        };
        match &level.outer {
            Some(groups) => scope.plate(&level.name, groups, inside),
            None => scope.plate(&level.name, level.groups, inside),
        }
    }

    fn observe(
        &self,
        scope: &mut Scope<'_>,
        globals: &RegressionGlobals,
        data: &RegressionRows,
        rows: &Rows<'_>,
        carried: &[Carried<'_>],
    ) -> Result<()> {
        let mut predictors = self.fixed_predictors(scope, globals, data, rows, carried)?;
        if let [predictor] = predictors.as_mut_slice() {
            self.add_effects(predictor, rows, carried)?;
            if let Some(offset) = &data.offset {
                *predictor = taped::plus(predictor.clone(), rows.take(offset)?);
            }
        }
        let parameters = globals.response.iter().map(|own| own.at_rows(scope, data, rows));
        let parameters = parameters.collect::<Result<_>>()?;
        let (zeros, baseline) = (self.plan.response.zeros, globals.baseline.clone());
        self.plan.response.observe(Observed { scope, data, rows, zeros, parameters, baseline }, predictors)
    }

    /// The linear predictors of the columns, with the effects that are intercepts of the innermost groups.
    fn fixed_predictors(
        &self,
        scope: &Scope<'_>,
        globals: &RegressionGlobals,
        data: &RegressionRows,
        rows: &Rows<'_>,
        carried: &[Carried<'_>],
    ) -> Result<Vec<Tensor<1>>> {
        let fixed = data.fixed.take(rows)?;
        let Some(beta) = globals.coefficients.clone() else { return Ok(vec![nothing(scope, rows)]) };
        if let Some(place) = fused(carried) {
            return Ok(vec![fixed.predictor_by_group(beta, flat(carried[place].effects.clone()))?]);
        }
        let width = fixed.shape()[1];
        let each = (0..self.plan.response.predictors()).map(|set| taped::part(beta.clone(), 0, set * width, width));
        each.map(|own| fixed.predictor(own, None)).collect()
    }

    /// Adds the effects of groups, but for those that the fixed predictor has.
    fn add_effects(&self, predictor: &mut Tensor<1>, rows: &Rows<'_>, carried: &[Carried<'_>]) -> Result<()> {
        let fused = fused(carried).filter(|_| self.plan.width() > 0);
        for (place, Carried { effects, rows: own }) in carried.iter().enumerate() {
            if Some(place) == fused {
                continue;
            }
            let each = match own {
                EffectRows::Intercepts => flat(rows.expand(effects)?),
                EffectRows::Columns(columns) => rows.inner_products(effects, columns)?,
            };
            *predictor = taped::plus(predictor.clone(), each);
        }
        Ok(())
    }
}

/// The intercepts of the innermost groups, where there are such: they are a part of the node of the columns.
fn fused(carried: &[Carried<'_>]) -> Option<usize> {
    carried.iter().rposition(|own| matches!(own.rows, EffectRows::Intercepts))
}

/// The effects of one column, as a vector.
fn flat(effects: Tensor<2>) -> Tensor<1> {
    let count = effects.dims()[0];
    taped::reshaped(effects, [count])
}

/// A predictor of zeros.
fn nothing(scope: &Scope<'_>, rows: &Rows<'_>) -> Tensor<1> {
    scope.device().tensor(vec![0.0; rows.len()], [rows.len()])
}

impl Sampled {
    fn at_rows(&self, scope: &Scope<'_>, data: &RegressionRows, rows: &Rows<'_>) -> Result<Parameter> {
        match self {
            Self::Number(value) => Ok(Parameter::Shared(value.clone())),
            Self::Coefficients(_, None) => Ok(Parameter::OfRows(nothing(scope, rows))),
            Self::Coefficients(place, Some(beta)) => {
                Ok(Parameter::OfRows(data.parameters[*place].take(rows)?.predictor(beta.clone(), None)?))
            }
        }
    }
}

impl partita_core::Model for Regression {
    type Globals = RegressionGlobals;
    type Data = RegressionRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<RegressionGlobals> {
        self.plan.check()?;
        let coefficients = self.plan.sample_coefficients(scope)?;
        let baseline = self.plan.sample_baseline(scope)?;
        let factors =
            |scope: &mut Scope<'_>, all: &LevelEffects| all.iter().map(|own| own.factor(scope)).collect::<Result<_>>();
        let silo = factors(scope, &self.plan.silo)?;
        let levels = self.plan.levels.iter().map(|level| factors(scope, level)).collect::<Result<_>>()?;
        let across = self.plan.across.iter().map(|own| own.sample(scope)).collect::<Result<Vec<_>>>()?;
        let all: Vec<Tensor<1>> = coefficients.into_iter().chain(across).collect();
        let coefficients = if all.is_empty() { None } else { Some(taped::joined(all, 0)) };
        // A plan that was checked has the number of each parameter that is not linear.
        let mut numbers = self.plan.parameters.iter();
        let mut response = Vec::new();
        for name in self.plan.response.parameters() {
            if let Some(place) = self.plan.linear.iter().position(|own| own.name == name) {
                response.push(Sampled::Coefficients(place, self.plan.linear[place].sample(scope)?));
            } else if let Some((name, prior)) = numbers.next() {
                response.push(Sampled::Number(prior.sample(scope, name)?));
            }
        }
        Ok(RegressionGlobals { coefficients, silo, levels, response, baseline })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &RegressionGlobals, data: &RegressionRows) -> Result<()> {
        data.check(&self.plan)?;
        if self.plan.silo.is_empty() {
            return self.descend(scope, globals, data, 0, Vec::new());
        }
        // A plate of one row, which an integral evaluates at several nodes together.
        scope.plate("silo", 1, |scope, rows| {
            let all = self.plan.silo.iter().zip(&globals.silo).zip(&data.silo);
            let one = all
                .map(|((plan, factor), own)| Ok(Carried { effects: plan.draw(scope, factor, rows.len())?, rows: own }));
            let carried = one.collect::<Result<Vec<_>>>()?;
            self.descend(scope, globals, data, 0, carried)
        })
    }
}
