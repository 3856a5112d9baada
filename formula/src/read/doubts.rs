//! Says what looks wrong in columns that are read without an error: numbers with a unit, and codes for missing cells.

use super::columns::{ColumnKind, Columns};
use crate::formula::Formula;

/// Numbers that files have in the place of a missing one.
const CODES: [f64; 8] = [-9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99_999.0];

/// What to do with a code for missing cells.
pub(super) fn remedy(code: f64) -> String {
    format!(
        "If it stands for a missing value, name it in `missing` under `[read]` of the silo's file (of a command \
         `--missing-cells NA,{code}`)"
    )
}

/// A code for missing cells at one end of numbers: below zero where all others are not, or farther from the others than these
/// are from one another, and than half its own size.
pub(super) fn code(numbers: &[f64]) -> Option<f64> {
    let known = || numbers.iter().copied().filter(|own| own.is_finite());
    let ends = [known().min_by(f64::total_cmp)?, known().max_by(f64::total_cmp)?];
    let is_apart = |end: &f64| {
        let others = || known().filter(|own| own.total_cmp(end).is_ne());
        let (low, high) = (others().fold(f64::INFINITY, f64::min), others().fold(f64::NEG_INFINITY, f64::max));
        let gap = (low - end).max(end - high);
        let is_far = low < high && gap > (high - low).max(end.abs() / 2.0);
        low <= high && (is_far || (*end < 0.0 && low >= 0.0))
    };
    ends.into_iter().find(|end| CODES.contains(end) && is_apart(end))
}

impl Columns {
    /// What the owner of the file should look at before a fit, a sentence each.
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Formula, Frame, MissingCells, ReadOptions};
    /// let text = b"y,dose,age\n1,2 mg,40\n0,4 mg,-999\n1,2.5 mg,61\n";
    /// let frame = Frame::from_bytes("all.csv", text, ReadOptions::default())?;
    /// let formula = Formula::parse("y ~ dose + age")?;
    /// let columns = frame.columns("all", &[&formula], MissingCells::Refuse)?;
    /// let [codes, units] = columns.doubts(&[&formula]).try_into().map_err(|_| "two")?;
    /// assert!(codes.contains("`age` is -999 in 1 row (the first is line 3)") && units.contains("`dose` has \"2 mg\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn doubts(&self, formulas: &[&Formula]) -> Vec<String> {
        let is_plain = |name: &&String| formulas.iter().any(|formula| formula.uses_plainly(name));
        self.columns.keys().filter(is_plain).filter_map(|name| self.code(name).or_else(|| self.unit(name))).collect()
    }

    /// A code for missing cells among numbers that lie far from it.
    fn code(&self, name: &str) -> Option<String> {
        let numbers = &self.columns.get(name)?.numbers;
        let code = code(numbers)?;
        let is_code = |own: &f64| own.total_cmp(&code).is_eq();
        let rows = numbers.iter().filter(|own| is_code(own)).count();
        let line = self.lines.get(numbers.iter().position(is_code)?)?;
        let plural = if rows == 1 { "" } else { "s" };
        Some(format!(
            "{}: `{name}` is {code} in {rows} row{plural} (the first is line {line}), apart from all others. {}",
            self.silo,
            remedy(code)
        ))
    }

    /// Numbers with the same word behind each, which are read as levels.
    fn unit(&self, name: &str) -> Option<String> {
        let column = self.columns.get(name).filter(|own| own.kind == ColumnKind::Text)?;
        let levels = &column.factor.as_ref()?.levels;
        let parts = levels.iter().map(|level| {
            let unit = level.trim_start_matches(|own: char| own.is_ascii_digit() || [' ', '.'].contains(&own));
            let number = level.strip_suffix(unit)?.trim();
            number.parse::<f64>().ok().filter(|own| own.is_finite()).map(|_| unit)
        });
        let units = parts.collect::<Option<Vec<&str>>>()?;
        let ([first, ..], true) = (units.as_slice(), units.len() > 1) else { return None };
        (!first.is_empty() && units.iter().all(|own| own == first)).then(|| {
            format!(
                "{}: `{name}` has {:?} and others like it, which are taken as levels and not as numbers. If they are numbers, \
                 take {first:?} out of the file",
                self.silo, levels[0]
            )
        })
    }
}
