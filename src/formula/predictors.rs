//! Gives every linear predictor of a response its columns and priors: of the mean, of categories, of other parameters.

use partita_formula::{Agreement, Columns, Design, Formula, Matrix, Outcome};
use partita_models::regression::{Baseline, Family, LinearParameter, Prior, RegressionRows, Response};

use super::StudyError;
use super::family::{Kind, Known, OutcomeScale, ResponseFamily};
use super::prepare::{Study, unfit, with_place};
use super::priors::{INTERCEPT, coefficients};
use super::summary::DesignSummary;

/// Pieces of time with about as many events each, where a study does not say where the hazard may change.
const PIECES: usize = 5;

/// The coefficients of a plan with what stands in place of an intercept.
pub(super) struct Predictors {
    pub(super) response: Response,
    pub(super) coefficients: Vec<(String, Prior)>,
    pub(super) linear: Vec<LinearParameter>,
    pub(super) baseline: Option<Baseline>,
}

impl ResponseFamily {
    /// The formula as this family reads it.
    pub(super) fn reads(self, formula: Formula) -> Formula {
        match self.kind {
            Kind::Cumulative | Kind::Categorical => formula.with_levels_of_outcome(),
            Kind::PiecewiseExponential => formula.with_pieces(PIECES),
            _ => formula,
        }
    }

    /// Whether thresholds or log hazards stand in place of the intercept.
    fn has_baseline(self) -> bool {
        matches!(self.kind, Kind::Cumulative | Kind::PiecewiseExponential)
    }
}

impl Study {
    /// All formulas: that of the outcome, then those of parameters.
    pub(super) fn formulas(&self) -> Vec<&Formula> {
        std::iter::once(&self.formula).chain(&self.parameters).collect()
    }

    /// Refuses what the family cannot read, and adds the columns of other parameters.
    pub(super) fn complete(
        &self,
        design: Design,
        columns: &Columns,
        agreement: &Agreement,
    ) -> Result<Design, StudyError> {
        self.check_levels(&design)?;
        if self.family.has_baseline() && !self.formula.has_intercept() {
            return Err(unfit(
                "a formula without intercept".into(),
                "one with it, in whose place are thresholds or log hazards",
                "Take `0 +` or `- 1` out.",
            ));
        }
        if self.family.has_bounded_predictor() && !design.random.is_empty() {
            return Err(unfit(
                format!("effects of groups on the mean of `{}`", self.family),
                "a link under which every group has a mean above 0: effects are normal, and reach below it",
                "Take the link `log`, or `sqrt` where the family has it; or make the groups a fixed factor.",
            ));
        }
        if self.family.kind == Kind::Categorical && (!design.random.is_empty() || design.offset.is_some()) {
            return Err(unfit(
                "effects of groups or an offset for an outcome of categories".into(),
                "fixed terms alone",
                "Take a family with one predictor, or make the groups a fixed factor.",
            ));
        }
        self.with_columns_of_parameters(design, columns, agreement)
    }

    /// The same design with the columns of parameters that have formulas of their own.
    pub(super) fn with_columns_of_parameters(
        &self,
        mut design: Design,
        columns: &Columns,
        agreement: &Agreement,
    ) -> Result<Design, StudyError> {
        for formula in &self.parameters {
            let own = Design::of(formula, columns, agreement)?;
            if !own.random.is_empty() || own.offset.is_some() {
                return Err(unfit(
                    format!("effects of groups or an offset in `{formula}`"),
                    "fixed terms alone in the formula of a parameter",
                    "Take them out.",
                ));
            }
            design.parameters.push((formula.parameter().unwrap_or_default().to_owned(), own.fixed));
        }
        Ok(design)
    }

    /// Refuses levels of text whose order was not stated.
    fn check_levels(&self, design: &Design) -> Result<(), StudyError> {
        let Some(Outcome::Levels { levels, .. }) = &design.outcome else { return Ok(()) };
        let name = self.formula.outcome().unwrap_or_default();
        let stated = self.declared.levels.contains_key(name) || self.formula.states_levels_of_outcome();
        // Those of numbers are in the order of the numbers.
        let numbers = levels.iter().all(|level| level.parse::<f64>().is_ok());
        if self.family.kind != Kind::Cumulative || stated || numbers {
            return Ok(());
        }
        let listed: Vec<String> = levels.iter().map(|level| format!("\"{level}\"")).collect();
        let column = name.strip_prefix("factor(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(name);
        Err(unfit(
            format!("the levels {} of `{name}`, whose order is not stated", levels.join(", ")),
            "levels in order",
            &format!("Write `factor({column}, levels = c({}))` in their order.", listed.join(", ")),
        ))
    }

    /// The predictors of the model, from what all silos say of their columns.
    pub(super) fn predictors(&self, summary: &DesignSummary, scale: &OutcomeScale) -> Result<Predictors, StudyError> {
        let response = self.family.response(Known { levels: &summary.levels, cuts: &summary.cuts });
        let mut all = coefficients(&summary.sums, scale);
        let count = response.baseline();
        let intercept = all.iter().find(|(name, _)| name == INTERCEPT).map(|(_, prior)| *prior);
        let baseline = intercept.filter(|_| count > 0).map(|prior| Baseline { count, prior });
        if baseline.is_some() {
            all.retain(|(name, _)| name != INTERCEPT);
        }
        if let Family::Categorical { levels } = &response.family {
            let named = |level: &String, (name, prior): &(String, Prior)| (format!("mu{level}_{name}"), *prior);
            all = levels
                .iter()
                .skip(1)
                .flat_map(|level| all.iter().map(|own| named(level, own)).collect::<Vec<_>>())
                .collect();
        }
        let has = response.parameters();
        let mut linear = Vec::new();
        for (name, sums) in &summary.parameters {
            if !has.contains(&name.as_str()) || linear.iter().any(|own: &LinearParameter| own.name == *name) {
                let expected = match has.as_slice() {
                    [] => format!("none: {} has no parameter besides the mean that a formula can be of", self.family),
                    has => format!("at most one of each parameter of {}: {}", self.family, has.join(", ")),
                };
                let remedy = "Take it out, or take a family that has it.";
                return Err(unfit(format!("a formula of `{name}`"), &expected, remedy));
            }
            if let Some(own) = sums.collinear().first() {
                let remedy = format!("Take one of them out of the formula of `{name}`.");
                let formula = self.parameters.iter().find(|own| own.parameter() == Some(name.as_str()));
                let remedy = with_place(&remedy, formula.unwrap_or(&self.formula), &own.column);
                return Err(unfit(own.to_string(), "columns of which none is given by others", &remedy));
            }
            // On the log scale, or on that of log odds.
            let middle = if name == "sigma" { scale.spread.ln() } else { 0.0 };
            let own = coefficients(sums, &OutcomeScale { middle, unit: 1.0, spread: 1.0 });
            let named = own.into_iter().map(|(column, prior)| (format!("{name}_{column}"), prior));
            linear.push(LinearParameter { name: name.clone(), coefficients: named.collect() });
        }
        Ok(Predictors { response, coefficients: all, linear, baseline })
    }

    /// The columns that the predictor of the mean has.
    pub(super) fn columns_of_mean(&self, fixed: &Matrix) -> Matrix {
        let place = fixed.names.iter().position(|name| name == INTERCEPT).filter(|_| self.family.has_baseline());
        let Some(place) = place else { return fixed.clone() };
        let width = fixed.names.len();
        let rest = |(at, value): (usize, &f64)| (at % width != place).then_some(*value);
        Matrix {
            names: fixed.names.iter().filter(|name| *name != INTERCEPT).cloned().collect(),
            values: fixed.values.iter().enumerate().filter_map(rest).collect(),
        }
    }
}

/// Adds the weights and the columns of parameters of a design to rows.
pub(super) fn with_parameters(
    mut rows: RegressionRows,
    design: &Design,
    tensor: impl Fn(&Vec<f64>) -> partita_core::burn::tensor::Tensor<1>,
) -> Result<RegressionRows, StudyError> {
    if let Some(weights) = &design.weights {
        rows = rows.with_weights(tensor(weights));
    }
    for (_, columns) in &design.parameters {
        rows = rows.with_parameter(columns.values.clone(), columns.names.len())?;
    }
    Ok(rows)
}
