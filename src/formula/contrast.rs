//! Compares two values of a variable: by the linear predictor, or by expected outcomes averaged over all rows.

use std::fmt;

use partita_core::{Device, DrawNoise, Noise, Predictive, SiteTable, expected_values};
use partita_formula::{
    ColumnKind, Columns, Decimal, Delimiter, Design, Formula, Frame, MissingCells, ReadOptions, nearest,
};
use partita_inference::{AnswerDraws, Scale, ShownContrast, SiteSummary, in_places};

use super::contrast_text::Contrast;
use super::csv::{cells, quoted};
use super::family::{Kind, reading_of_parameter};
use super::shared_model::{SharedModel, spread};
use super::{Prepared, Study, StudyError};

/// What a contrast is, by the posterior.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrasted {
    /// The contrast.
    pub contrast: Contrast,
    /// The difference of the linear predictor, or of the mean expected outcome of an averaged one.
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
    /// Where both values are compared by a linear predictor, by how much it differs.
    apart: Option<Apart>,
    /// What the exponential of the difference is read as, where that is read.
    ratio: Option<&'static str>,
}

/// The difference of a linear predictor between two values.
#[derive(Debug, Clone)]
struct Apart {
    /// How often it has each coefficient.
    columns: Vec<(String, f64)>,
    /// What it has of offsets.
    offset: f64,
}

/// What a silo says for an averaged contrast.
#[derive(Debug, Clone)]
pub(crate) struct Averaged {
    /// For each draw the sum over its rows of the differences of expected outcomes, each as often as its weight says.
    pub(crate) sums: Vec<f64>,
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
    /// What the posterior says of a contrast; of effects of groups it says nothing: the coefficients are those of all groups.
    ///
    /// With $x_1$ and $x_0$ the columns and $o_1$ and $o_0$ the offsets of a row with the variable at its two values it is
    /// $(x_1 - x_0)^\top\beta + o_1 - o_0$, which needs the values of those variables alone that stand in a term or an offset
    /// with it. Of a variable that the formula of one parameter
    /// alone has, such as `zi`, it is that of the linear predictor of this parameter. An averaged one is
    /// $\frac1n\sum_i E(y_i \mid x_{i1}, \theta) - E(y_i \mid x_{i0}, \theta)$ over the rows of all silos, each as often as its
    /// weight says, with the effects of groups drawn anew.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for an unknown variable, a variable whose value is missing, and what [`Design::of`] refuses.
    pub fn contrast(
        &self,
        contrast: &Contrast,
        answer: &AnswerDraws,
        prepared: &Prepared,
        device: &Device,
    ) -> Result<Contrasted, StudyError> {
        let comparison = prepared.shared().comparison(contrast)?;
        prepared.contrasted(comparison, answer, device)
    }
}

impl Prepared {
    pub(crate) fn contrasted(
        &self,
        comparison: Comparison,
        answer: &AnswerDraws,
        device: &Device,
    ) -> Result<Contrasted, StudyError> {
        let shared = self.shared();
        let mut silos = |contrast: &Contrast, globals: &[Vec<f64>]| {
            let each = (0_u64..).zip(&self.tables).map(|(place, table)| {
                let columns = self.study.columns(table)?;
                shared.averaged(contrast, AveragedRows { columns: &columns, place }, globals, device)
            });
            each.collect()
        };
        shared.contrasted(comparison, answer, &mut silos)
    }
}

impl SharedModel<'_> {
    /// Finds what a contrast compares, before there is an answer.
    pub(crate) fn comparison(&self, contrast: &Contrast) -> Result<Comparison, StudyError> {
        let kind = self.study.family.kind;
        if kind == Kind::Categorical || (contrast.is_averaged && kind.has_levels()) {
            return Err(unfit(
                format!("`{}` of `{}`, an outcome of levels", contrast.text, self.study.outcome()),
                "an outcome of numbers; of ordered levels a contrast that is not averaged",
                "Predict two rows that differ in this variable: each level has its probability there (of a command `--predict`).",
            ));
        }
        let formula = self.formula_of(contrast)?;
        let part = formula.terms_with(&contrast.variable).ok_or_else(|| unknown(&contrast.variable, formula))?;
        let is_known = |name: &String| formula.terms_with(name).is_some() || part.columns().contains(name);
        if let Some((name, _)) = contrast.at.iter().find(|(name, _)| !is_known(name)) {
            return Err(unknown(name, formula));
        }
        let contrast = contrast.clone();
        if contrast.is_averaged {
            return Ok(Comparison { contrast, apart: None, ratio: None });
        }
        let mut apart = self.apart(&contrast, &part)?;
        let ratio = match formula.parameter() {
            Some(name) => {
                apart.columns.iter_mut().for_each(|(label, _)| *label = format!("{name}_{label}"));
                Some(reading_of_parameter(name))
            }
            None => {
                let reading = self.study.family.reading(&self.study.parameters);
                Some(reading).filter(|own| own.1 == Scale::Exponential).map(|own| own.0)
            }
        };
        Ok(Comparison { contrast, apart: Some(apart), ratio })
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
        silos: AskSilos<'_>,
    ) -> Result<Contrasted, StudyError> {
        let Comparison { contrast, apart, ratio } = comparison;
        let (difference, above) = match apart {
            Some(Apart { columns, offset }) => {
                answer.combination(&contrast.text, &columns, offset).ok_or_else(|| {
                    let labels: Vec<&str> = columns.iter().map(|(label, _)| label.as_str()).collect();
                    let found = format!("no coefficient of some of {}", labels.join(", "));
                    unfit(found, "a coefficient of each column", "Report this as a fault.")
                })?
            }
            None => {
                let globals: Vec<Vec<f64>> = spread(&answer.latents, AVERAGED_DRAWS).cloned().collect();
                let silos = silos(&contrast, &globals)?;
                let weight: f64 = silos.iter().map(|own| own.weight).sum();
                let total = |draw: usize| silos.iter().map(|own| own.sums[draw]).sum::<f64>();
                let all: Vec<f64> = (0..globals.len()).map(|draw| total(draw) / weight).collect();
                let above = all.iter().filter(|own| **own > 0.0).count() as f64 / all.len() as f64;
                (SiteSummary::of(contrast.text.clone(), contrast.text.clone(), &all), above)
            }
        };
        Ok(Contrasted { above, difference, ratio, contrast })
    }

    /// What a silo says for an averaged contrast at draws of the globals.
    pub(crate) fn averaged(
        &self,
        contrast: &Contrast,
        of: AveragedRows<'_>,
        globals: &[Vec<f64>],
        device: &Device,
    ) -> Result<Averaged, StudyError> {
        let (model, AveragedRows { columns, place }) = (&self.plan.model, of);
        let mut sums = vec![0.0; globals.len()];
        let weights = Design::of(&self.study.formula, columns, self.agreement)?.weights;
        let weights = weights.unwrap_or_else(|| vec![1.0; columns.rows()]);
        for (sign, value) in [(1.0, &contrast.value), (-1.0, &contrast.reference)] {
            let held = columns.held(&contrast.variable, value).ok_or_else(|| {
                let kind = columns.kind(&contrast.variable).unwrap_or(ColumnKind::Number);
                let found = format!("`{value}` as a value of `{}`", contrast.variable);
                unfit(found, &format!("{kind}, as the column has"), "Write one of its values.")
            })?;
            let rows = self.without_outcome(&held, device)?.into_rows()?;
            let at = SiteTable::of(model, device, &rows)?;
            for (draw, (sum, globals)) in (0_u64..).zip(sums.iter_mut().zip(globals)) {
                // The same new groups at both values.
                let noise = DrawNoise { noise: Noise::new(AVERAGED_SEED), index: draw | place << 32 };
                let predictive = Predictive { globals, locals: None, noise };
                let means = expected_values(model, device, &at, &rows, predictive)?;
                let means = means.iter().flat_map(|(_, own)| &own.values);
                *sum += sign * means.zip(&weights).map(|(mean, weight)| mean * weight).sum::<f64>();
            }
        }
        Ok(Averaged { sums, weight: weights.iter().sum() })
    }

    /// By how much the linear predictor of a part of a formula differs between both values.
    fn apart(&self, contrast: &Contrast, part: &Formula) -> Result<Apart, StudyError> {
        let mut table = [Vec::new(), Vec::new(), Vec::new()];
        for name in part.columns() {
            let held = contrast.at.iter().find(|(own, _)| *own == name).map(|(_, value)| value);
            let values = match held {
                _ if name == contrast.variable => [&contrast.value, &contrast.reference],
                Some(value) => [value, value],
                None => {
                    let text = &contrast.text;
                    return Err(unfit(
                        format!("`{text}`, and `{}` stands in a term or an offset with `{name}`", contrast.variable),
                        &format!("a value of `{name}`"),
                        &format!("Write `{text}{} {name} = VALUE`.", if contrast.at.is_empty() { " at" } else { "," }),
                    ));
                }
            };
            for (line, cell) in table.iter_mut().zip([&name, values[0], values[1]]) {
                line.push(quoted(cell));
            }
        }
        let text = table.map(|line| line.join(",")).join("\n") + "\n";
        let read = ReadOptions { delimiter: Delimiter::Byte(b','), decimal: Decimal::Point, ..ReadOptions::default() };
        let frame = Frame::from_bytes("the contrast", text.as_bytes(), read)?;
        let columns = frame.columns_as(&self.agreement.kinds, "contrast", &[part], MissingCells::Refuse)?;
        self.same_kinds(&columns, "the contrast")?;
        let Design { fixed, offset, .. } = Design::of(part, &columns, self.agreement)?;
        let (one, two) = fixed.values.split_at(fixed.names.len());
        let columns = fixed.names.iter().zip(one.iter().zip(two)).map(|(name, (one, two))| (name.clone(), one - two));
        Ok(Apart { columns: columns.collect(), offset: offset.map_or(0.0, |own| own[0] - own[1]) })
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
        let (unit, scale) = match self.ratio {
            Some(unit) => (unit, Scale::Exponential),
            None if self.contrast.is_averaged => ("difference of expected outcomes", Scale::Identity),
            None => ("difference", Scale::Identity),
        };
        let Self { contrast, difference, above, .. } = self;
        let name = contrast.text.clone();
        ShownContrast { name, unit: unit.to_owned(), scale, difference: difference.quantiles, above: *above }
    }

    /// Contrasts as comma-separated values, one a line.
    #[must_use]
    pub fn csv(all: &[Self]) -> String {
        let mut text =
            "contrast,mean,sd,p2_5,p50,p97_5,probability_above_0,read_as,read_p50,read_p2_5,read_p97_5\n".to_owned();
        for Self { contrast, difference, above, ratio } in all {
            let SiteSummary { mean, sd, quantiles: q, .. } = difference;
            let reading = |own: f64| if ratio.is_some() { own.exp() } else { own };
            let [middle, low, high] = [q.p50, q.p2_5, q.p97_5].map(reading);
            let name = ratio.unwrap_or("difference");
            let apart = cells([*mean, *sd, q.p2_5, q.p50, q.p97_5, *above]);
            text += &format!("{},{apart},{name},{}\n", quoted(&contrast.text), cells([middle, low, high]));
        }
        text
    }
}

impl fmt::Display for Contrasted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contrast, difference, above, ratio } = self;
        let SiteSummary { mean, sd, quantiles: q, .. } = difference;
        let [mean, spread, low, high] = [*mean, *sd, q.p2_5, q.p97_5].map(|own| in_places(own, *sd));
        write!(
            out,
            "contrast {}: {mean}, sd {spread}, 95 % from {low} to {high}, above 0 with probability {above:.3}",
            contrast.text
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
