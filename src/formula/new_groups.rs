//! Draws the effects of new groups of groupings that lie over silos, from their distribution given a draw of the globals.

use std::collections::HashMap;

use partita_core::{Device, NoiseStream, SiteTable};
use partita_formula::Design;
use partita_models::regression::{Regression, RegressionRows};

use super::StudyError;
use super::groups::Chain;

/// The groups of new rows that no silo has, of groupings whose groups all silos know.
///
/// The effect of a known group is a global of the model. That of a new one is $b \sim N(0, \sigma^2)$ with the standard
/// deviation $\sigma$ of the draw, and its rows have $x_i b$ as a part of their offsets.
#[derive(Debug)]
pub(crate) struct NewGroups {
    /// What the rows have as offset without them.
    offset: Vec<f64>,
    effects: Vec<NewEffects>,
}

/// The effects of one column.
#[derive(Debug)]
struct NewEffects {
    /// The site of the standard deviation.
    deviation: String,
    groups: usize,
    /// The new group of each row, with the number of the row in the column.
    of_rows: Vec<Option<(usize, f64)>>,
}

impl NewGroups {
    /// Those of a design of new rows; `None` where silos have all its groups.
    pub(super) fn of(design: &Design, chain: &Chain) -> Option<Self> {
        let terms = chain.across.iter().map(|place| &design.random[*place]);
        let effects = terms.filter(|term| term.levels.len() > term.agreed).flat_map(|term| {
            let width = term.columns.names.len();
            term.columns.names.iter().enumerate().map(move |(place, column)| {
                let of_row = |(row, group): (usize, &usize)| {
                    Some((group.checked_sub(term.agreed)?, term.columns.values[row * width + place]))
                };
                NewEffects {
                    deviation: format!("sd({column} | {})", term.grouping),
                    groups: term.levels.len() - term.agreed,
                    of_rows: term.group.iter().enumerate().map(of_row).collect(),
                }
            })
        });
        let effects: Vec<NewEffects> = effects.collect();
        let offset = || design.offset.clone().unwrap_or_else(|| vec![0.0; design.rows]);
        (!effects.is_empty()).then(|| Self { offset: offset(), effects })
    }

    /// The same rows with effects drawn at these globals.
    pub(super) fn put(
        &self,
        rows: &RegressionRows,
        at: Globals<'_>,
        noise: &mut NoiseStream,
    ) -> Result<RegressionRows, StudyError> {
        let Globals { model, device, table, globals } = at;
        let natural = table.natural_globals(model, device, globals)?;
        let natural: HashMap<&str, f64> =
            natural.iter().filter_map(|(name, own)| Some((name.as_str(), *own.values.first()?))).collect();
        let mut offset = self.offset.clone();
        for NewEffects { deviation, groups, of_rows } in &self.effects {
            let sd = natural.get(deviation.as_str()).copied().ok_or_else(|| StudyError::Unfit {
                operation: "prediction of new groups",
                found: format!("no `{deviation}` among the numbers of the model"),
                expected: "the standard deviation of their effects".into(),
                remedy: "Report this as a fault.".into(),
            })?;
            let mut effects = vec![0.0; *groups];
            noise.normal(&mut effects);
            let of_rows = offset.iter_mut().zip(of_rows).filter_map(|(own, of_row)| Some((own, (*of_row)?)));
            of_rows.for_each(|(own, (group, x))| *own += x * sd * effects[group]);
        }
        let count = offset.len();
        Ok(rows.clone().with_offset(device.tensor(offset, [count])))
    }
}

/// Where effects are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Globals<'a> {
    pub(super) model: &'a Regression,
    pub(super) device: &'a Device,
    pub(super) table: &'a SiteTable,
    pub(super) globals: &'a [f64],
}
