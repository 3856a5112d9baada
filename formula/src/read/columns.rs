//! Takes the columns that formulas use from a file, typed, without the rows that have missing cells.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

use super::cells::{CellKind, Cells, Reading, logical};
use super::error::{CellPlace, FrameError, FrameProblem};
use super::frame::{Delimiter, Frame};
use crate::error::nearest;
use crate::formula::Formula;
use crate::syntax::number_text;
use crate::variable::{Variable, VariableKind};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnKind {
    /// Numbers.
    Number,
    /// Text, which formulas read as levels.
    Text,
    /// TRUE and FALSE: levels as a term, 1 and 0 in arithmetic.
    Logical,
}

impl Display for ColumnKind {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Number => "numbers",
            Self::Text => "text",
            Self::Logical => "TRUE and FALSE",
        })
    }
}

/// What to do with rows that have a missing cell in a column that a formula uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingCells {
    /// Refuse the file, with the count in each column.
    #[default]
    Refuse,
    /// Leave these rows out, and say how many.
    Drop,
}

/// The columns of one silo that formulas use, without missing cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    pub(crate) silo: String,
    pub(crate) file: String,
    pub(crate) lines: Vec<u64>,
    /// The place of each row in the file, the first of which is 1: rows that are left out count.
    pub(crate) numbers: Vec<usize>,
    pub(crate) columns: BTreeMap<String, Column>,
    dropped: usize,
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) kind: ColumnKind,
    /// Numbers, or logicals as 0 and 1; empty for text.
    pub(crate) numbers: Vec<f64>,
    /// The levels, where the formula may need them.
    pub(crate) factor: Option<Factor>,
}

/// A column as levels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Factor {
    pub(crate) levels: Vec<String>,
    pub(crate) codes: Vec<usize>,
}

/// The name that stands for the silo itself where the file has no column of it.
pub(crate) const SILO: &str = "silo";

impl Columns {
    /// The number of rows that are used.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// The number of rows left out for missing cells.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// What the column `name` holds, if a formula uses it.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<ColumnKind> {
        self.columns.get(name).map(|column| column.kind)
    }

    /// The same rows with `value` in every cell of the column `name`; `None` for a value that is none of such a column, and
    /// for a column that no formula uses.
    ///
    /// # Example
    /// ```
    /// use partita_formula::{Formula, Frame, MissingCells, ReadOptions};
    /// let frame = Frame::from_bytes("all.csv", b"y,x\n1,2\n3,4\n", ReadOptions::default())?;
    /// let columns = frame.columns("all", &[&Formula::parse("y ~ x")?], MissingCells::Refuse)?;
    /// assert!(columns.held("x", "7").is_some_and(|own| own != columns));
    /// assert!(columns.held("x", "seven").is_none());
    /// let frame = Frame::from_bytes("all.csv", b"y,x\n1,TRUE\n3,FALSE\n", ReadOptions::default())?;
    /// let columns = frame.columns("all", &[&Formula::parse("y ~ x")?], MissingCells::Refuse)?;
    /// assert!(columns.held("x", "true").is_some() && columns.held("x", "1").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn held(&self, name: &str, value: &str) -> Option<Self> {
        let mut held = self.clone();
        let rows = self.rows();
        let column = held.columns.get_mut(name)?;
        let number = match column.kind {
            ColumnKind::Number => Some(value.parse::<f64>().ok().filter(|own| own.is_finite())?),
            ColumnKind::Logical => Some(f64::from(u8::from(logical(value)?))),
            ColumnKind::Text => None,
        };
        column.numbers = number.map_or_else(Vec::new, |own| vec![own; rows]);
        if let Some(factor) = &mut column.factor {
            let as_written = !is_exact(value) || factor.levels.iter().any(|level| level == value);
            let level = match (column.kind, number) {
                (ColumnKind::Number, Some(number)) if !as_written => number_text(number),
                (ColumnKind::Logical, _) => value.to_uppercase(),
                _ => value.to_owned(),
            };
            *factor = Factor { levels: vec![level], codes: vec![0; rows] };
        }
        Some(held)
    }

    /// The name of the silo.
    #[must_use]
    pub fn silo(&self) -> &str {
        &self.silo
    }
}

impl Frame {
    /// The columns that `formulas` use, typed, of the silo called `silo`.
    ///
    /// # Errors
    /// [`FrameError`]: a column that the file lacks, text where the formula needs numbers, dates, numbers mixed with
    /// text, missing cells.
    pub fn columns(&self, silo: &str, formulas: &[&Formula], missing: MissingCells) -> Result<Columns, FrameError> {
        self.columns_as(&BTreeMap::new(), silo, formulas, missing)
    }

    /// The same, where columns that are text by `kinds` hold levels, whatever a few rows of them look like.
    ///
    /// # Errors
    /// As [`Frame::columns`].
    ///
    /// # Example
    /// ```
    /// use partita_formula::{ColumnKind, Formula, Frame, MissingCells, ReadOptions};
    /// let frame = Frame::from_bytes("new.csv", b"visits\n0\n0\n", ReadOptions::default())?;
    /// let (formula, kinds) = (Formula::parse("~ visits")?, [("visits".to_owned(), ColumnKind::Text)].into());
    /// let columns = frame.columns_as(&kinds, "new", &[&formula], MissingCells::Refuse)?;
    /// assert_eq!(columns.kind("visits"), Some(ColumnKind::Text));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn columns_as(
        &self,
        kinds: &BTreeMap<String, ColumnKind>,
        silo: &str,
        formulas: &[&Formula],
        missing: MissingCells,
    ) -> Result<Columns, FrameError> {
        let refused = |problem: FrameProblem| FrameError::of(self.table.file(), problem);
        let all: Vec<u64> = self.table.lines().collect();
        let mut columns: BTreeMap<String, Column> = BTreeMap::new();
        let mut absent = vec![false; all.len()];
        let mut counts: Vec<(String, usize, u64)> = Vec::new();
        for formula in formulas {
            let mut constants = formula.variables().flat_map(Variable::constants);
            if let Some((name, span)) = constants.find(|(name, _)| self.names().contains(name)) {
                return Err(refused(FrameProblem::Constant { name, place: Box::new(formula.place(&span)) }));
            }
            for (name, span) in formula.places() {
                if columns.contains_key(&name) {
                    continue;
                }
                if name == SILO && !self.names().contains(&name) {
                    let factor = Factor { levels: vec![silo.into()], codes: vec![0; all.len()] };
                    let column = Column { kind: ColumnKind::Text, numbers: Vec::new(), factor: Some(factor) };
                    columns.insert(name, column);
                    continue;
                }
                let unknown = || FrameProblem::UnknownColumn {
                    suggestion: nearest(&name, self.names().iter().map(String::as_str)),
                    column: name.clone(),
                    present: self.names().to_vec(),
                    place: Box::new(formula.place(&span)),
                };
                let found = self.cells(&name, &all).and_then(|cells| cells.ok_or_else(unknown));
                let mut cells = found.map_err(refused)?;
                if kinds.get(&name) == Some(&ColumnKind::Text) {
                    cells.kind = CellKind::Text;
                }
                let missing = || (0..all.len()).filter(|at| cells.text[*at].is_none());
                if let Some(first) = missing().next() {
                    counts.push((name.clone(), missing().count(), all[first]));
                    missing().for_each(|at| absent[at] = true);
                }
                let column = typed(&name, cells, formulas, &all).map_err(refused)?;
                columns.insert(name, column);
            }
        }
        let numbers: Vec<usize> = (0..all.len()).filter(|at| !absent[*at]).map(|at| at + 1).collect();
        let lines: Vec<u64> = numbers.iter().map(|number| all[number - 1]).collect();
        let (file, dropped) = (self.table.file().to_owned(), all.len() - lines.len());
        if dropped > 0 && missing == MissingCells::Refuse {
            return Err(refused(FrameProblem::Missing { rows: dropped, all: all.len(), columns: counts }));
        }
        if lines.is_empty() {
            let columns = counts.into_iter().map(|(name, ..)| name).collect();
            return Err(refused(FrameProblem::NothingLeft { rows: all.len(), columns }));
        }
        if dropped > 0 {
            columns.values_mut().for_each(|column| column.keep(&absent));
        }
        Ok(Columns { silo: silo.into(), file, lines, numbers, columns, dropped })
    }

    /// The cells of the column `name`; `None` where the file has no such column.
    pub(super) fn cells(&self, name: &str, lines: &[u64]) -> Result<Option<Cells<'_>>, FrameProblem> {
        let Ok(text) = self.table.text(name) else { return Ok(None) };
        let (decimal, missing) = (self.options.decimal, self.options.missing.as_slice());
        let semicolons = self.options.delimiter == Delimiter::Byte(b';');
        let reading = Reading { column: name, decimal, semicolons, missing };
        reading.of(text, lines).map(Some)
    }
}

/// The column `name` as `formulas` read it: computed with, or as levels.
fn typed(name: &str, cells: Cells<'_>, formulas: &[&Formula], lines: &[u64]) -> Result<Column, FrameProblem> {
    let computed = formulas.iter().find_map(|formula| Some((formula, formula.computes_with(name)?)));
    let plain = formulas.iter().any(|formula| formula.uses_plainly(name));
    let column = name.to_owned();
    let kind = match cells.kind {
        CellKind::Number => ColumnKind::Number,
        CellKind::Logical => ColumnKind::Logical,
        CellKind::Dates(cell) if plain || computed.is_some() => {
            return Err(FrameProblem::Dates { column, cell });
        }
        CellKind::Mixed { numbers, count, cells } if plain || computed.is_some() => {
            return Err(FrameProblem::Mixed { column, numbers, count, cells });
        }
        _ => ColumnKind::Text,
    };
    if let (ColumnKind::Text, Some((formula, span))) = (kind, computed) {
        let at = cells.text.iter().position(Option::is_some).unwrap_or_default();
        let found = cells.text.get(at).copied().flatten().unwrap_or_default().into();
        let cell = CellPlace { line: lines.get(at).copied().unwrap_or_default(), found };
        return Err(FrameProblem::NotNumbers { column, cell, place: Box::new(formula.place(&span)) });
    }
    let levels = kind != ColumnKind::Number || formulas.iter().any(|formula| formula.reads_levels(name));
    let factor = levels.then(|| Factor::of(kind, &cells));
    let numbers = if kind == ColumnKind::Text { Vec::new() } else { cells.numbers };
    Ok(Column { kind, numbers, factor })
}

impl Column {
    fn keep(&mut self, absent: &[bool]) {
        let mut rows = absent.iter();
        self.numbers.retain(|_| rows.next() == Some(&false));
        if let Some(factor) = &mut self.factor {
            let mut rows = absent.iter();
            factor.codes.retain(|_| rows.next() == Some(&false));
            factor.drop_unused();
        }
    }
}

/// Whether a number has no zeros before it and no more digits than a number keeps.
fn is_exact(cell: &str) -> bool {
    let digits = cell.trim_start_matches(['-', '+']);
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.") && !digits.starts_with("0,");
    !padded && digits.bytes().filter(u8::is_ascii_digit).count() <= 15
}

impl Factor {
    /// The levels of a column, sorted: numbers by size, text by its bytes, FALSE before TRUE.
    ///
    /// Numbers are written as R writes them, unless one has a leading zero or more digits than a number keeps: then the
    /// cells are levels as they stand, since `007` and `7` are two children.
    fn of(kind: ColumnKind, cells: &Cells<'_>) -> Self {
        if kind == ColumnKind::Number && cells.text.iter().flatten().all(|cell| is_exact(cell)) {
            // One zero alone: of minus zero and zero, the sum with zero is zero.
            let numbers = || cells.numbers.iter().map(|number| number + 0.0);
            let mut sorted: Vec<f64> = numbers().filter(|number| !number.is_nan()).collect();
            sorted.sort_by(f64::total_cmp);
            sorted.dedup();
            let place = |number: f64| sorted.binary_search_by(|other| other.total_cmp(&number)).unwrap_or_default();
            let codes = numbers().map(place).collect();
            return Self { levels: sorted.iter().map(|number| number_text(*number)).collect(), codes };
        }
        let text = |row: usize| match kind {
            ColumnKind::Logical => cells.numbers.get(row).map(|yes| if *yes > 0.0 { "TRUE" } else { "FALSE" }),
            _ => cells.text.get(row).copied().flatten(),
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        let rows = 0..cells.text.len();
        if kind == ColumnKind::Logical {
            places.extend([("FALSE", 0), ("TRUE", 1)]);
        }
        rows.clone().filter(|row| cells.text[*row].is_some()).filter_map(text).for_each(|level| {
            places.entry(level).or_default();
        });
        let mut levels: Vec<&str> = places.keys().copied().collect();
        levels.sort_unstable();
        levels.iter().enumerate().for_each(|(at, level)| {
            places.insert(level, at);
        });
        let codes =
            rows.map(|row| text(row).and_then(|level| places.get(level)).copied().unwrap_or_default()).collect();
        Self { levels: levels.into_iter().map(String::from).collect(), codes }
    }

    /// Takes out levels that no row has.
    fn drop_unused(&mut self) {
        let mut used = vec![false; self.levels.len()];
        self.codes.iter().for_each(|code| used[*code] = true);
        let new: Vec<usize> = used.iter().scan(0, |next, used| Some((*next, *next += usize::from(*used)).0)).collect();
        self.codes.iter_mut().for_each(|code| *code = new[*code]);
        let mut rows = used.iter();
        self.levels.retain(|_| rows.next() == Some(&true));
    }
}

impl Formula {
    /// Where the formula computes with the column `name`, if it does.
    pub(crate) fn computes_with(&self, name: &str) -> Option<std::ops::Range<usize>> {
        let computed = self.variables().flat_map(Variable::computed);
        computed.into_iter().find(|(column, _)| column == name).map(|(_, span)| span)
    }

    /// Whether the column `name` stands as a term or an outcome of its own.
    pub(crate) fn uses_plainly(&self, name: &str) -> bool {
        self.variables().any(|variable| matches!(&variable.kind, VariableKind::Column(column) if column == name))
    }
}
