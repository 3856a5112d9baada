//! Draws a data set from the prior, or at given numbers, for the rows of the files: one file a silo, with other outcomes.

use partita_core::{Array, Device, Noise, SiloNoise, SimulatedData};
use partita_formula::{Design, Outcome};

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
    /// [`super::StatedPrior::parse_value`] holds its number at a value.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for an outcome that is no column, such as `log(y)`, or that is censored; [`StudyError::Model`] where
    /// priors are so wide that an outcome is no number.
    pub fn simulate(&self, seed: u64, device: &Device) -> Result<Simulated, StudyError> {
        let Some(column) = self.study.formula.outcome_column() else {
            let found = format!("`{}`", self.study.outcome());
            return Err(unfit(found, "an outcome that is a column", "Let the file hold what stands before `~`."));
        };
        let noise = Noise::new(seed);
        let (mut truth, mut files) = (Vec::new(), Vec::new());
        let silos = self.tables.iter().zip(&self.silos).zip(self.designs()?);
        for (place, ((table, (name, rows)), design)) in (0..).zip(silos) {
            let drawn = SimulatedData::draw(&self.plan.model, device, rows, SiloNoise { noise, draw: 0, silo: place })?;
            let outcomes: Vec<f64> = drawn.outcomes().iter().flat_map(|(_, own)| own.values.clone()).collect();
            let cell = |value: &f64| match &design.outcome {
                Some(Outcome::Levels { levels, .. }) => {
                    let level = levels.iter().zip(0_u32..).find(|(_, place)| (f64::from(*place) - value).abs() < 0.5);
                    level.map_or_else(|| value.to_string(), |(level, _)| level.clone())
                }
                _ => value.to_string(),
            };
            let cells: Vec<String> = outcomes.iter().map(cell).collect();
            if cells.len() != design.rows || design.status.is_some() {
                let found = format!("{} outcomes of {} rows", cells.len(), design.rows);
                return Err(unfit(
                    found,
                    "an outcome for each row",
                    "Take a family of outcomes that are not censored.",
                ));
            }
            files.push((name.clone(), self.study.columns(table)?.csv_with(column, &cells)));
            truth = drawn.globals().iter().flat_map(numbers).collect();
        }
        Ok(Simulated { truth, files })
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
