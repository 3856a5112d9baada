//! Draws a data set from the prior, or at given numbers, for the rows of the files: one file a silo, with other outcomes.

use partita_core::{Array, Device, Noise, SiloNoise, SimulatedData};
use partita_formula::{Columns, Design, Outcome};

use super::{Prepared, StudyError};

/// A data set that was drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The global numbers it was drawn at, by their names.
    pub truth: Vec<(String, f64)>,
    /// For each silo its name and its file.
    pub files: Vec<(String, String)>,
}

impl Prepared {
    /// The design of each silo.
    pub(crate) fn designs(&self) -> Result<Vec<Design>, StudyError> {
        let of = |table| self.study.design(&self.study.columns(table)?, &self.agreement);
        self.tables.iter().map(of).collect()
    }

    /// Draws globals from their priors, effects of groups given them, and an outcome for each row: silos share the globals.
    ///
    /// Covariates and groups are those of the files; a file has the columns of the study's formulas. A prior of
    /// [`super::StatedPrior::parse_value`] holds its number at a value. A time that is censored in the file is censored at the
    /// same time again, unless its event is drawn before; a time with an event has no end of observation.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for an outcome that is no column, such as `log(y)`, and for a status of several columns;
    /// [`StudyError::Model`] where priors are so wide that an outcome is no number.
    pub fn simulate(&self, seed: u64, device: &Device) -> Result<Simulated, StudyError> {
        let Some(column) = self.study.formula.outcome_column() else {
            let found = format!("`{}`", self.study.outcome());
            return Err(unfit(found, "an outcome that is a column", "Let the file hold what stands before `~`."));
        };
        let columns: Vec<Columns> = self.tables.iter().map(|own| self.study.columns(own)).collect::<Result<_, _>>()?;
        let designs = columns.iter().map(|own| self.study.design(own, &self.agreement));
        let designs: Vec<Design> = designs.collect::<Result<_, _>>()?;
        let happened = self.happened(&columns, &designs)?;
        let (noise, mut truth, mut files) = (Noise::new(seed), Vec::new(), Vec::new());
        let silos = self.silos.iter().zip(columns.iter().zip(&designs));
        for (place, ((name, rows), (columns, design))) in (0..).zip(silos) {
            let drawn = SimulatedData::draw(&self.plan.model, device, rows, SiloNoise { noise, draw: 0, silo: place })?;
            let outcomes: Vec<f64> = drawn.outcomes().iter().flat_map(|(_, own)| own.values.clone()).collect();
            if outcomes.len() != design.rows {
                let found = format!("{} outcomes of {} rows", outcomes.len(), design.rows);
                return Err(unfit(found, "an outcome for each row", "Take another family."));
            }
            let mut changed = Vec::new();
            let outcomes = match (&happened, &design.status, &design.outcome) {
                (Some(Happened { column, cell }), Some(status), Some(Outcome::Numbers(ends))) => {
                    let mut cells = columns.cells(column);
                    let ends =
                        status.iter().zip(ends).map(|(status, end)| if *status > 0.0 { f64::INFINITY } else { *end });
                    let ends: Vec<f64> = ends.collect();
                    let before = outcomes.iter().zip(&ends).map(|(time, end)| time < end);
                    cells
                        .iter_mut()
                        .zip(before)
                        .filter(|(_, before)| *before)
                        .for_each(|(own, _)| own.clone_from(cell));
                    changed.push((column.as_str(), cells));
                    outcomes.iter().zip(&ends).map(|(time, end)| time.min(*end)).collect()
                }
                _ => outcomes,
            };
            changed.push((column, outcomes.iter().map(|value| written(*value, design)).collect()));
            files.push((name.clone(), columns.csv_with(&changed)));
            truth = drawn.globals().iter().flat_map(numbers).collect();
        }
        Ok(Simulated { truth, files })
    }

    /// How a row with an event is written; `None` where no time is censored.
    fn happened(&self, columns: &[Columns], designs: &[Design]) -> Result<Option<Happened>, StudyError> {
        if designs.iter().all(|own| own.status.is_none()) {
            return Ok(None);
        }
        let names = self.study.formula.status_columns();
        let [column] = names.as_slice() else {
            let found = format!("a status of {}", names.join(" and "));
            return Err(unfit(found, "a status of one column", "Let the file hold the status."));
        };
        let of_silo = |(columns, design): (&Columns, &Design)| {
            let row = design.status.iter().flatten().position(|status| *status > 0.0)?;
            columns.cells(column).into_iter().nth(row)
        };
        match columns.iter().zip(designs).find_map(of_silo) {
            Some(cell) => Ok(Some(Happened { column: column.clone(), cell })),
            None => {
                Err(unfit("no event in any file".into(), "a row with an event, to write others like it", "Add one."))
            }
        }
    }
}

/// How a row says that its event has happened.
struct Happened {
    column: String,
    cell: String,
}

/// An outcome as the file has it.
fn written(value: f64, design: &Design) -> String {
    match &design.outcome {
        Some(Outcome::Levels { levels, .. }) => {
            let level = levels.iter().zip(0_u32..).find(|(_, place)| (f64::from(*place) - value).abs() < 0.5);
            level.map_or_else(|| value.to_string(), |(level, _)| level.clone())
        }
        _ => value.to_string(),
    }
}

/// The numbers of a site.
fn numbers((site, array): &(String, Array)) -> Vec<(String, f64)> {
    match array.values.as_slice() {
        [one] => vec![(site.clone(), *one)],
        all => all.iter().enumerate().map(|(place, own)| (format!("{site}[{place}]"), *own)).collect(),
    }
}

fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "simulation", found, expected: expected.into(), remedy: remedy.into() }
}
