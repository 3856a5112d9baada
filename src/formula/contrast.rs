//! Compares two values of a variable: by the linear predictor, by chances of levels, or by expected outcomes averaged over all rows.

use std::fmt;

use partita_core::{Device, DrawNoise, Noise, Predictive, SiteTable, expected_values};
use partita_formula::{
    ColumnKind, Columns, Decimal, Delimiter, Design, Formula, Frame, MissingCells, ReadOptions, nearest,
};
use partita_inference::{AnswerDraws, Scale, ShownContrast, SiteSummary, in_places};
use partita_models::regression::RegressionRows;

use super::contrast_text::Contrast;
use super::csv::{cells, quoted};
use super::family::{Kind, reading_of_parameter};
use super::predict::globals;
use super::shared_model::{SharedModel, spread};
use super::{Prepared, Study, StudyError};

/// What a contrast is, by the posterior.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrasted {
    /// The contrast.
    pub contrast: Contrast,
    /// The level whose chance differs, of an outcome whose levels are compared.
    pub level: Option<String>,
    /// The difference of the linear predictor, of the chance of the level, or of the mean expected outcome of an averaged one.
    pub difference: SiteSummary,
    /// The probability that the difference is above 0.
    pub above: f64,
    /// What the exponential of the difference is read as, such as an odds ratio; `None` where the difference itself is read.
    pub ratio: Option<&'static str>,
}

/// Draws that expected outcomes are averaged with.
const AVERAGED_DRAWS: usize = 500;
/// The seed of their new groups.
const AVERAGED_SEED: u64 = 1;

/// A contrast that was found to be one of the study.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) contrast: Contrast,
    by: Compared,
}

/// What a contrast compares.
#[derive(Debug, Clone)]
enum Compared {
    /// A linear predictor, by how much it differs.
    Predictor(Apart),
    /// The chances of levels in two rows: the first has the value, the second the reference.
    Chances(Box<RegressionRows>),
    /// Expected outcomes, or chances of levels, over the rows of silos.
    Averages,
}

/// The difference of a linear predictor between two values.
#[derive(Debug, Clone)]
struct Apart {
    /// How often it has each coefficient.
    columns: Vec<(String, f64)>,
    /// What it has of offsets.
    offset: f64,
    /// What the exponential of the difference is read as, where that is read.
    ratio: Option<&'static str>,
}

/// What a silo says for an averaged contrast.
#[derive(Debug, Clone)]
pub(crate) struct Averaged {
    /// Of the expected outcome, or of the chance of each level, for each draw the sum of its differences over the rows, each as
    /// often as its weight says.
    pub(crate) sums: Vec<Vec<f64>>,
    /// The sum of the weights: the number of rows where they have none.
    pub(crate) weight: f64,
}

/// The rows of a silo over which expected outcomes are summed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AveragedRows<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) place: u64,
}

/// Asks all silos, in their order, for what an averaged contrast is at these draws of the globals.
pub(crate) type AskSilos<'a> = &'a mut dyn FnMut(&Contrast, &[Vec<f64>]) -> Result<Vec<Averaged>, StudyError>;

impl Study {
    /// What the posterior says of a contrast, one difference or one for each level; of effects of groups it says nothing: the
    /// coefficients are those of all groups.
    ///
    /// With $x_1$ and $x_0$ the columns and $o_1$ and $o_0$ the offsets of a row with the variable at its two values it is
    /// $(x_1 - x_0)^\top\beta + o_1 - o_0$, which needs the values of those variables alone that stand in a term or an offset
    /// with it. Of a variable that the formula of one parameter
    /// alone has, such as `zi`, it is that of the linear predictor of this parameter. An averaged one is
    /// $\frac1n\sum_i E(y_i \mid x_{i1}, \theta) - E(y_i \mid x_{i0}, \theta)$ over the rows of all silos, each as often as its
    /// weight says, with the effects of groups drawn anew.
    ///
    /// Of a categorical outcome it is for each level $k$ the difference of its chance
    /// $p(y = k \mid x_1, \theta) - p(y = k \mid x_0, \theta)$, which needs the values of all variables; an averaged one of an outcome
    /// of levels has the means of these differences. They sum to 0 over the levels.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for an unknown variable, a variable whose value is missing, and what [`Design::of`] refuses.
    pub fn contrast(
        &self,
        contrast: &Contrast,
        answer: &AnswerDraws,
        prepared: &Prepared,
        device: &Device,
    ) -> Result<Vec<Contrasted>, StudyError> {
        let comparison = prepared.shared().comparison(contrast, device)?;
        prepared.contrasted(comparison, answer, device)
    }
}

impl Prepared {
    pub(crate) fn contrasted(
        &self,
        comparison: Comparison,
        answer: &AnswerDraws,
        device: &Device,
    ) -> Result<Vec<Contrasted>, StudyError> {
        let shared = self.shared();
        let mut silos = |contrast: &Contrast, globals: &[Vec<f64>]| {
            let each = (0_u64..).zip(&self.tables).map(|(place, table)| {
                let columns = self.study.columns(table)?;
                shared.averaged(contrast, AveragedRows { columns: &columns, place }, globals, device)
            });
            each.collect()
        };
        shared.contrasted(comparison, answer, device, &mut silos)
    }
}

impl SharedModel<'_> {
    /// Finds what a contrast compares, before there is an answer.
    pub(crate) fn comparison(&self, contrast: &Contrast, device: &Device) -> Result<Comparison, StudyError> {
        let formula = self.formula_of(contrast)?;
        let part = formula.terms_with(&contrast.variable).ok_or_else(|| unknown(&contrast.variable, formula))?;
        let is_known = |name: &String| formula.terms_with(name).is_some() || part.columns().contains(name);
        if let Some((name, _)) = contrast.at.iter().find(|(name, _)| !is_known(name)) {
            return Err(unknown(name, formula));
        }
        let by = match self.study.family.kind {
            _ if contrast.is_averaged => Compared::Averages,
            Kind::Categorical => {
                let columns = self.two_rows(contrast, &formula.clone().without_outcome())?;
                Compared::Chances(Box::new(self.without_outcome(&columns, device)?.into_rows()?))
            }
            _ => Compared::Predictor(self.apart(contrast, formula, &part)?),
        };
        Ok(Comparison { contrast: contrast.clone(), by })
    }

    /// The formula that a contrast is of: that of the outcome, else the one of a parameter that alone has the variable.
    fn formula_of(&self, contrast: &Contrast) -> Result<&Formula, StudyError> {
        let Contrast { text, variable, is_averaged, .. } = contrast;
        let Study { formula, parameters, family, .. } = self.study;
        if formula.terms_with(variable).is_some() {
            return Ok(formula);
        }
        let having: Vec<&Formula> = parameters.iter().filter(|own| own.terms_with(variable).is_some()).collect();
        let named = |own: &&Formula| own.parameter().unwrap_or_default().to_owned();
        let names = || having.iter().map(named).collect::<Vec<_>>().join(", ");
        let moves = |own: &&Formula| own.parameter().is_some_and(|name| family.kind.mean_depends_on(name));
        match having.as_slice() {
            [] => Err(unknown(variable, formula)),
            all if *is_averaged && !all.iter().any(moves) => Err(unfit(
                format!("`{text}`, where `{variable}` is in the formula of {} alone", names()),
                "a variable that the expected outcome depends on",
                &format!("Leave `averaged` out: `{variable}: {} - {}`.", contrast.value, contrast.reference),
            )),
            [one] => Ok(one),
            [one, ..] if *is_averaged => Ok(one),
            _ => Err(unfit(
                format!("`{text}`, where `{variable}` is in the formulas of {}", names()),
                "a variable of one linear predictor",
                "Read the coefficients of each in the table, or compare expected outcomes: `averaged`.",
            )),
        }
    }

    /// What the posterior says of it.
    pub(crate) fn contrasted(
        &self,
        comparison: Comparison,
        answer: &AnswerDraws,
        device: &Device,
        silos: AskSilos<'_>,
    ) -> Result<Vec<Contrasted>, StudyError> {
        let Comparison { contrast, by } = comparison;
        let differences: Vec<Vec<f64>> = match by {
            Compared::Predictor(Apart { columns, offset, ratio }) => {
                let found = answer.combination(&contrast.text, &columns, offset);
                let (difference, above) = found.ok_or_else(|| {
                    let labels: Vec<&str> = columns.iter().map(|(label, _)| label.as_str()).collect();
                    let found = format!("no coefficient of some of {}", labels.join(", "));
                    unfit(found, "a coefficient of each column", "Report this as a fault.")
                })?;
                return Ok(vec![Contrasted { contrast, level: None, difference, above, ratio }]);
            }
            Compared::Chances(rows) => self.differences_of_chances(&rows, answer, device)?,
            Compared::Averages => {
                let globals: Vec<Vec<f64>> = spread(&answer.latents, AVERAGED_DRAWS).cloned().collect();
                let silos = silos(&contrast, &globals)?;
                let weight: f64 = silos.iter().map(|own| own.weight).sum();
                let total = |place: usize, draw: usize| silos.iter().map(|own| own.sums[place][draw]).sum::<f64>();
                let mean = |place: usize| (0..globals.len()).map(|draw| total(place, draw) / weight).collect();
                (0..self.compared()).map(mean).collect()
            }
        };
        let of_one = |(place, all): (usize, Vec<f64>)| {
            let level = self.plan.levels.get(place).cloned();
            let chance = level.as_ref().map(|own| format!(", chance of \"{own}\"")).unwrap_or_default();
            let name = format!("{}{chance}", contrast.text);
            let above = all.iter().filter(|own| **own > 0.0).count() as f64 / all.len() as f64;
            let difference = SiteSummary::of(name.clone(), name, &all);
            Contrasted { contrast: contrast.clone(), level, difference, above, ratio: None }
        };
        Ok(differences.into_iter().enumerate().map(of_one).collect())
    }

    /// How many numbers of a row are compared where outcomes are: the expected one, or the chance of each level.
    pub(crate) fn compared(&self) -> usize {
        self.plan.levels.len().max(1)
    }

    /// For each level the difference of its chances in two rows, draw by draw.
    fn differences_of_chances(
        &self,
        rows: &RegressionRows,
        answer: &AnswerDraws,
        device: &Device,
    ) -> Result<Vec<Vec<f64>>, StudyError> {
        let at = SiteTable::of(&self.plan.model, device, rows)?;
        let mut all = vec![Vec::new(); self.compared()];
        for (index, globals) in (0_u64..).zip(&globals(answer)) {
            let noise = DrawNoise { noise: Noise::new(AVERAGED_SEED), index };
            let chances = self.chances(&at, rows, Predictive { globals, locals: None, noise }, device)?;
            all.iter_mut().zip(chances).for_each(|(all, own)| all.push(own[0] - own[1]));
        }
        Ok(all)
    }

    /// The expected outcome of each row, or for each level its chance in each row.
    fn outcomes_of(
        &self,
        table: &SiteTable,
        rows: &RegressionRows,
        at: Predictive<'_>,
        device: &Device,
    ) -> Result<Vec<Vec<f64>>, StudyError> {
        if !self.plan.levels.is_empty() {
            return self.chances(table, rows, at, device);
        }
        let means = expected_values(&self.plan.model, device, table, rows, at)?;
        Ok(vec![means.into_iter().flat_map(|(_, own)| own.values).collect()])
    }

    /// What a silo says for an averaged contrast at draws of the globals.
    pub(crate) fn averaged(
        &self,
        contrast: &Contrast,
        of: AveragedRows<'_>,
        globals: &[Vec<f64>],
        device: &Device,
    ) -> Result<Averaged, StudyError> {
        let AveragedRows { columns, place } = of;
        let mut sums = vec![vec![0.0; globals.len()]; self.compared()];
        let weights = Design::of(&self.study.formula, columns, self.agreement)?.weights;
        let weights = weights.unwrap_or_else(|| vec![1.0; columns.rows()]);
        for (sign, value) in [(1.0, &contrast.value), (-1.0, &contrast.reference)] {
            let held = columns.held(&contrast.variable, value).ok_or_else(|| {
                let kind = columns.kind(&contrast.variable).unwrap_or(ColumnKind::Number);
                let found = format!("`{value}` as a value of `{}`", contrast.variable);
                unfit(found, &format!("{kind}, as the column has"), "Write one of its values.")
            })?;
            let rows = self.without_outcome(&held, device)?.into_rows()?;
            let table = SiteTable::of(&self.plan.model, device, &rows)?;
            for (draw, globals) in globals.iter().enumerate() {
                // The same new groups at both values.
                let noise = DrawNoise { noise: Noise::new(AVERAGED_SEED), index: draw as u64 | place << 32 };
                let at = Predictive { globals, locals: None, noise };
                for (sums, own) in sums.iter_mut().zip(self.outcomes_of(&table, &rows, at, device)?) {
                    sums[draw] += sign * own.iter().zip(&weights).map(|(own, weight)| own * weight).sum::<f64>();
                }
            }
        }
        Ok(Averaged { sums, weight: weights.iter().sum() })
    }

    /// By how much the linear predictor of a part of a formula differs between both values.
    fn apart(&self, contrast: &Contrast, formula: &Formula, part: &Formula) -> Result<Apart, StudyError> {
        let columns = self.two_rows(contrast, part)?;
        let Design { fixed, offset, .. } = Design::of(part, &columns, self.agreement)?;
        let (before, ratio) = match formula.parameter() {
            Some(name) => (format!("{name}_"), Some(reading_of_parameter(name))),
            None => {
                let reading = self.study.family.reading(&self.study.parameters);
                (String::new(), Some(reading).filter(|own| own.1 == Scale::Exponential).map(|own| own.0))
            }
        };
        let (one, two) = fixed.values.split_at(fixed.names.len());
        let columns = fixed.names.iter().zip(one.iter().zip(two));
        let columns = columns.map(|(name, (one, two))| (format!("{before}{name}"), one - two)).collect();
        Ok(Apart { columns, offset: offset.map_or(0.0, |own| own[0] - own[1]), ratio })
    }

    /// Two rows of a part of a formula: the first has the value of the variable, the second the reference.
    fn two_rows(&self, contrast: &Contrast, part: &Formula) -> Result<Columns, StudyError> {
        let mut table = [Vec::new(), Vec::new(), Vec::new()];
        let mut missing = Vec::new();
        for name in part.columns() {
            let held = contrast.at.iter().find(|(own, _)| *own == name).map(|(_, value)| value);
            let values = match held {
                _ if name == contrast.variable => [&contrast.value, &contrast.reference],
                Some(value) => [value, value],
                None => {
                    missing.push(name);
                    continue;
                }
            };
            for (line, cell) in table.iter_mut().zip([&name, values[0], values[1]]) {
                line.push(quoted(cell));
            }
        }
        if !missing.is_empty() {
            return Err(self.needs(contrast, &missing));
        }
        let text = table.map(|line| line.join(",")).join("\n") + "\n";
        let read = ReadOptions { delimiter: Delimiter::Byte(b','), decimal: Decimal::Point, ..ReadOptions::default() };
        let frame = Frame::from_bytes("the contrast", text.as_bytes(), read)?;
        let columns = frame.columns_as(&self.agreement.kinds, "contrast", &[part], MissingCells::Refuse)?;
        self.same_kinds(&columns, "the contrast")?;
        Ok(columns)
    }

    /// The error that a contrast holds no values of some variables that it depends on.
    fn needs(&self, contrast: &Contrast, missing: &[String]) -> StudyError {
        let Contrast { text, variable, value, reference, at, .. } = contrast;
        let values: Vec<String> = missing.iter().map(|name| format!("{name} = VALUE")).collect();
        let write = format!("Write `{text}{} {}`", if at.is_empty() { " at" } else { "," }, values.join(", "));
        let names = missing.join("`, `");
        let (why, remedy) = match self.study.family.kind {
            Kind::Categorical => (
                format!("`{text}` of chances of categories, which depend on `{names}` too"),
                format!(
                    "{write}, or `{variable}: {value} - {reference} averaged` for the mean over the rows of silos."
                ),
            ),
            _ => (
                format!("`{text}`, and `{variable}` stands in a term or an offset with `{names}`"),
                format!("{write}."),
            ),
        };
        unfit(why, &format!("a value of `{names}`"), &remedy)
    }
}

fn unknown(name: &str, formula: &Formula) -> StudyError {
    let columns = formula.clone().without_outcome().columns();
    let terms: Vec<&str> = columns.iter().map(String::as_str).filter(|own| formula.terms_with(own).is_some()).collect();
    let suggestion = nearest(name, terms.iter().copied()).map(|own| format!(" Did you mean `{own}`?"));
    unfit(
        format!("`{name}`, which no fixed term of the formula has"),
        &format!("one of {}", terms.join(", ")),
        &format!(
            "Write a column of a fixed term: a contrast is of coefficients, which all groups have.{}",
            suggestion.unwrap_or_default()
        ),
    )
}

impl Contrasted {
    /// As a page shows it.
    #[must_use]
    pub fn shown(&self) -> ShownContrast {
        let Self { contrast, level, difference, above, ratio } = self;
        let (unit, scale) = match (ratio, level) {
            (Some(unit), _) => (*unit, Scale::Exponential),
            (None, Some(_)) => ("difference of chances", Scale::Identity),
            (None, None) if contrast.is_averaged => ("difference of expected outcomes", Scale::Identity),
            (None, None) => ("difference", Scale::Identity),
        };
        let name = difference.label.clone();
        ShownContrast { name, unit: unit.to_owned(), scale, difference: difference.quantiles, above: *above }
    }

    /// Contrasts as comma-separated values, one a line.
    #[must_use]
    pub fn csv(all: &[Self]) -> String {
        let mut text =
            "contrast,mean,sd,p2_5,p50,p97_5,probability_above_0,read_as,read_p50,read_p2_5,read_p97_5\n".to_owned();
        for Self { difference, above, ratio, .. } in all {
            let SiteSummary { label, mean, sd, quantiles: q, .. } = difference;
            let reading = |own: f64| if ratio.is_some() { own.exp() } else { own };
            let [middle, low, high] = [q.p50, q.p2_5, q.p97_5].map(reading);
            let name = ratio.unwrap_or("difference");
            let apart = cells([*mean, *sd, q.p2_5, q.p50, q.p97_5, *above]);
            text += &format!("{},{apart},{name},{}\n", quoted(label), cells([middle, low, high]));
        }
        text
    }
}

impl fmt::Display for Contrasted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { difference, above, ratio, .. } = self;
        let SiteSummary { label, mean, sd, quantiles: q, .. } = difference;
        let [mean, spread, low, high] = [*mean, *sd, q.p2_5, q.p97_5].map(|own| in_places(own, *sd));
        write!(
            out,
            "contrast {label}: {mean}, sd {spread}, 95 % from {low} to {high}, above 0 with probability {above:.3}"
        )?;
        match ratio {
            None => Ok(()),
            Some(unit) => {
                let [middle, low, high] = difference.interval_on(Scale::Exponential);
                write!(out, "; {unit} {middle}, 95 % from {low} to {high}")
            }
        }
    }
}

pub(super) fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "contrast", found, expected: expected.into(), remedy: remedy.into() }
}
