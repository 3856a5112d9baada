//! Refuses a model of which two numbers would have one name, with what to write into the formula.

use partita_formula::GroupScope;
use partita_models::regression::RegressionPlan;

use super::prepare::unfit;
use super::priors::INTERCEPT;
use super::summary::RandomSummary;
use super::{Study, StudyError};

/// What the model calls the outcome.
pub(super) const OUTCOME: &str = "y";
/// What it calls rows.
const ROWS: &str = "row";

impl Study {
    /// Refuses a plan with a name that stands for two numbers, and two effects of a grouping that are of one column.
    pub(super) fn check_names(&self, plan: &RegressionPlan, random: &[RandomSummary]) -> Result<(), StudyError> {
        self.check_effects(random)?;
        let baseline = plan.baseline.map(|_| (plan.baseline_name(), "what stands in place of the intercept"));
        let parameters = plan.parameters.iter().map(|(name, _)| (name.as_str(), "a parameter of the family"));
        let linear = plan.linear.iter().flat_map(|own| &own.coefficients);
        let linear = linear.map(|(name, _)| (name.as_str(), "a coefficient of another column"));
        let outcome = [(OUTCOME, "the outcome of the model")].into_iter();
        let mut taken: Vec<(&str, &str)> = outcome.chain(baseline).chain(parameters).chain(linear).collect();
        for (name, _) in &plan.coefficients {
            if let Some((_, what)) = taken.iter().find(|(own, _)| own == name) {
                return Err(unfit(
                    format!("`{name}`, the name of a column and of {what}"),
                    "a name for each number of the model",
                    &format!("Write `I({name})` for a column of numbers of this name, or rename it in the files."),
                ));
            }
            taken.push((name, "another column"));
        }
        Ok(())
    }

    /// Refuses terms of one grouping with effects of one column, which no row tells apart, or with correlations each.
    fn check_effects(&self, random: &[RandomSummary]) -> Result<(), StudyError> {
        if random.iter().any(|own| own.grouping == ROWS && own.scope == GroupScope::WithinSilo) {
            let remedy = "Rename the column of the groups in the files.";
            return Err(unfit(format!("groups called `{ROWS}`, as the model calls rows"), "another name", remedy));
        }
        let labels = self.formula.random_labels();
        for (place, two) in random.iter().enumerate() {
            for (before, one) in random[..place].iter().enumerate().filter(|(_, own)| own.grouping == two.grouping) {
                let is_block = |own: &RandomSummary| own.correlated && own.columns.len() > 1;
                let smaller = if one.columns.len() < two.columns.len() { before } else { place };
                let (effects, remedy) = match two.columns.iter().find(|own| one.columns.contains(own)) {
                    None if is_block(one) && is_block(two) => {
                        ("sets of correlations".into(), "Write one term, or one of the two with `||`.".into())
                    }
                    None => continue,
                    Some(column) => {
                        let slopes = || format!("slopes of `{column}`");
                        let remedy = match random[smaller].columns.len() {
                            1 => format!("Leave `({})` out.", labels[smaller]),
                            _ => "Write `0 +` into one of them, or take the column out of it.".into(),
                        };
                        (if column == INTERCEPT { "intercepts".into() } else { slopes() }, remedy)
                    }
                };
                let [one, two] = [before, place].map(|own| format!("`({})`", labels[own]));
                let found = format!("two {effects} for the groups of `{}`, in {one} and {two}", random[place].grouping);
                return Err(unfit(found, "one", &remedy));
            }
        }
        Ok(())
    }
}
