//! Puts the designs of all silos into one, to test that silos give what their rows give in one place.

use partita_core::Device;
use partita_formula::{Design, GroupScope, Matrix, Outcome, RandomDesign};
use partita_models::regression::RegressionRows;

use super::{Prepared, StudyError};

impl Prepared {
    /// The rows of all silos as those of one; `None` where the model has effects of silos, which one silo has not.
    pub(crate) fn pooled(&self, device: &Device) -> Result<Option<RegressionRows>, StudyError> {
        let designs = self.designs()?;
        let of_silos = |own: &RandomDesign| own.scope == GroupScope::Silo;
        match designs.into_iter().reduce(joined) {
            Some(design) if !design.random.iter().any(of_silos) => {
                self.study.rows(&design, &self.plan, device).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The rows of both, whose groups are others unless silos agreed on them.
fn joined(mut one: Design, two: Design) -> Design {
    one.rows = one.rows.saturating_add(two.rows);
    one.lines.extend(two.lines);
    one.numbers.extend(two.numbers);
    match (&mut one.outcome, two.outcome) {
        (Some(Outcome::Numbers(all)), Some(Outcome::Numbers(own))) => all.extend(own),
        (Some(Outcome::Levels { codes, .. }), Some(Outcome::Levels { codes: own, .. })) => codes.extend(own),
        _ => {}
    }
    let numbers = [
        (&mut one.trials, two.trials),
        (&mut one.weights, two.weights),
        (&mut one.status, two.status),
        (&mut one.offset, two.offset),
    ];
    for (all, own) in numbers {
        if let (Some(all), Some(own)) = (all, own) {
            all.extend(own);
        }
    }
    append(&mut one.fixed, two.fixed);
    one.parameters.iter_mut().zip(two.parameters).for_each(|((_, all), (_, own))| append(all, own));
    for (all, own) in one.random.iter_mut().zip(two.random) {
        append(&mut all.columns, own.columns);
        if all.scope == GroupScope::AcrossSilos {
            all.group.extend(own.group);
            continue;
        }
        let before = all.levels.len();
        all.group.extend(own.group.into_iter().map(|group| before + group));
        all.levels.extend(own.levels.into_iter().map(|level| format!("{level} of {}", two.silo)));
    }
    one
}

fn append(all: &mut Matrix, own: Matrix) {
    all.values.extend(own.values);
}
