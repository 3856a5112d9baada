//! Defines regressions with effects of nested groups and outcomes of many families: what a formula declares.

mod plan;
mod prior;
mod response;
mod rows;

pub use plan::{AcrossEffects, Dependence, Effects, RegressionPlan};
pub use prior::{DEGREES, Lkj, Prior};
pub use response::Response;
pub use rows::{EffectRows, Level, RegressionRows};

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Result, Rows, Scope};

use plan::LevelEffects;

/// A generalised linear model with effects of groups inside groups:
///
/// $$ \eta_i = x_i^\top \beta + o_i + \sum_l z_{il}^\top b_{l, g_l(i)}, \qquad b_{lg} \sim N(0, F_l F_l^\top),
///    \qquad y_i \sim \text{response}(\eta_i) $$
/// with the columns $x_i$, the offset $o_i$, the group $g_l(i)$ of row $i$ at level $l$, and $F_l$ the standard deviations
/// of that level times the Cholesky factor of its correlations.
///
/// # Shapes
/// Globals: one site `[1]` for each coefficient, named as its column; for effects of grouping `g` a site
/// `sd(COLUMN | g)` `[1]` for each column and, where they are correlated, `cor(A, B | g)` `[1]` of two columns or the
/// Cholesky factor `correlation(g)` `[K, K]` of more; `effect(COLUMN | g = GROUP)` `[1]` of each group that all silos know;
/// the parameters of the response. Locals: `effects(g)` `[groups, K]` in the plate `g`, levels inside one another. Data: `y` `[rows]` in the
/// plate `row`.
///
/// # Example
/// ```
/// use partita_core::{Device, Groups, SiteTable};
/// use partita_models::regression::{Dependence, Effects, EffectRows, Level, Prior, Regression, RegressionPlan, RegressionRows, Response};
/// let effects = Effects { group: "child".into(), columns: vec!["(Intercept)".into()], dependence: Dependence::Independent, deviations: vec![Prior::HalfNormal { scale: 2.5 }] };
/// let plan = RegressionPlan {
///     response: Response::Bernoulli,
///     coefficients: ["(Intercept)", "age"].map(|name| (name.to_owned(), Prior::Normal { mean: 0.0, sd: 2.5 })).to_vec(),
///     silo: Vec::new(),
///     levels: vec![vec![effects]],
///     across: Vec::new(),
///     parameters: Response::Bernoulli.priors(),
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
    coefficients: Tensor<1>,
    /// Of the silo's own effects.
    silo: Vec<Tensor<2>>,
    /// Of each level, for each of its effects, the factor of their covariance.
    levels: Vec<Vec<Tensor<2>>>,
    response: Vec<Tensor<1>>,
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
                all.push(Carried { effects: plan.draw(scope, factor, Some(rows.len()))?, rows: rows_of });
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
        let fixed = data.fixed.take(rows)?;
        let beta = globals.coefficients.clone();
        // The intercepts of the innermost groups, where there are such, are a part of the same node.
        let fused = carried.iter().rposition(|own| matches!(own.rows, EffectRows::Intercepts));
        let mut predictor = match fused {
            Some(place) => fixed.predictor_by_group(beta, carried[place].effects.clone().reshape([-1]))?,
            None => fixed.predictor(beta, None)?,
        };
        for (place, Carried { effects, rows: own }) in carried.iter().enumerate() {
            if Some(place) == fused {
                continue;
            }
            let effects = rows.expand(effects)?;
            let each = match own {
                EffectRows::Intercepts => effects,
                EffectRows::Columns(columns) => (effects * rows.take::<2>(columns)?).sum_dim(1),
            };
            predictor = predictor + each.reshape([-1]);
        }
        if let Some(offset) = &data.offset {
            predictor = predictor + rows.take(offset)?;
        }
        self.plan.response.observe(scope, predictor, &globals.response, data, rows)
    }
}

impl partita_core::Model for Regression {
    type Globals = RegressionGlobals;
    type Data = RegressionRows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<RegressionGlobals> {
        self.plan.check()?;
        let coefficients = self.plan.coefficients.iter().map(|(name, prior)| prior.sample(scope, name));
        let mut coefficients = coefficients.collect::<Result<Vec<_>>>()?;
        let factors =
            |scope: &mut Scope<'_>, all: &LevelEffects| all.iter().map(|own| own.factor(scope)).collect::<Result<_>>();
        let silo = factors(scope, &self.plan.silo)?;
        let levels = self.plan.levels.iter().map(|level| factors(scope, level)).collect::<Result<_>>()?;
        for own in &self.plan.across {
            coefficients.push(own.sample(scope)?);
        }
        let coefficients = Tensor::cat(coefficients, 0);
        let response = self.plan.parameters.iter().map(|(name, prior)| prior.sample(scope, name));
        let response = response.collect::<Result<_>>()?;
        Ok(RegressionGlobals { coefficients, silo, levels, response })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &RegressionGlobals, data: &RegressionRows) -> Result<()> {
        data.check(&self.plan)?;
        let mut carried = Vec::new();
        for ((plan, factor), rows) in self.plan.silo.iter().zip(&globals.silo).zip(&data.silo) {
            carried.push(Carried { effects: plan.draw(scope, factor, None)?, rows });
        }
        self.descend(scope, globals, data, 0, carried)
    }
}
