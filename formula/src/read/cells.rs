//! Types the cells of one column: numbers with a point or a comma, logicals, dates, text.

use super::error::{CellPlace, FrameProblem, LISTED};
use super::frame::Decimal;

/// The cells of a column and what they turned out to be.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    pub(super) kind: CellKind,
    /// `None` where the cell is missing.
    pub(super) text: Vec<Option<&'a str>>,
    /// Numbers, and logicals as 0 and 1; not a number where the cell is missing or is text.
    pub(super) numbers: Vec<f64>,
}

#[derive(Debug)]
pub(super) enum CellKind {
    Number,
    Logical,
    Text,
    /// Every cell is a date.
    Dates(CellPlace),
    /// At least half of the cells are numbers or written nearly as such, and not all are numbers.
    Mixed {
        numbers: usize,
        count: usize,
        cells: Vec<CellPlace>,
    },
}

/// What a column is read with.
pub(super) struct Reading<'a> {
    pub(super) column: &'a str,
    pub(super) decimal: Decimal,
    /// Whether semicolons stand between columns, as where commas stand before decimals: then a point may be that of thousands.
    pub(super) semicolons: bool,
    pub(super) missing: &'a [String],
}

impl Reading<'_> {
    /// Types `cells`; `lines` are the lines of the file that they are in.
    pub(super) fn of<'c>(&self, cells: Vec<&'c str>, lines: &[u64]) -> Result<Cells<'c>, FrameProblem> {
        let is_missing = |cell: &&str| self.missing.iter().any(|word| word == cell);
        let (mut broken, mut commas) = (None, false);
        let read = |(at, cell): (usize, &'c str)| {
            let present = Some(cell).filter(|cell| !is_missing(cell))?;
            for byte in present.bytes() {
                commas |= byte == b',';
                broken = if byte == b'\n' { broken.or(Some(at)) } else { broken };
            }
            Some(present)
        };
        let text: Vec<Option<&str>> = cells.into_iter().enumerate().map(read).collect();
        let place = |at: usize| {
            let found = text.get(at).copied().flatten().unwrap_or_default();
            CellPlace { line: lines.get(at).copied().unwrap_or_default(), found: found.into() }
        };
        if let Some(at) = broken {
            return Err(FrameProblem::Quote { line: place(at).line });
        }
        let comma = match self.decimal {
            Decimal::AsFound => {
                let comma = commas && text.iter().flatten().all(|cell| with_comma(cell).is_some());
                if comma {
                    self.refuse_thousands(&text, ',', place)?;
                } else if self.semicolons && text.iter().flatten().all(|cell| cell.parse::<f64>().is_ok()) {
                    self.refuse_thousands(&text, '.', place)?;
                }
                comma
            }
            said => said == Decimal::Comma,
        };
        let number =
            |cell: &str| if comma { with_comma(cell) } else { cell.parse().ok().filter(|x: &f64| x.is_finite()) };
        let numbers: Vec<f64> = text.iter().map(|cell| cell.and_then(number).unwrap_or(f64::NAN)).collect();
        let present = text.iter().flatten().count();
        let found = numbers.iter().filter(|number| !number.is_nan()).count();
        if found == present {
            return Ok(Cells { kind: CellKind::Number, text, numbers });
        }
        if text.iter().flatten().all(|cell| logical(cell).is_some()) {
            let numbers =
                text.iter().map(|cell| cell.and_then(logical).map_or(f64::NAN, |yes| f64::from(u8::from(yes))));
            return Ok(Cells { kind: CellKind::Logical, numbers: numbers.collect(), text });
        }
        let meant = text.iter().zip(&numbers).filter(|(cell, number)| is_meant_as(**cell, **number)).count();
        let others = || (0..text.len()).filter(|at| text[*at].is_some() && numbers[*at].is_nan());
        let kind = if found == 0 && text.iter().flatten().all(|cell| is_date(cell)) {
            CellKind::Dates(others().next().map_or(place(0), place))
        } else if 2 * meant >= present {
            let cells = others().take(LISTED).map(place).collect();
            CellKind::Mixed { numbers: found, count: present - found, cells }
        } else {
            CellKind::Text
        };
        Ok(Cells { kind, text, numbers })
    }

    /// Refuses a column of numbers whose marks may all be those of thousands: 1,500 may be one and a half, or fifteen hundred.
    fn refuse_thousands(
        &self,
        text: &[Option<&str>],
        mark: char,
        place: impl Fn(usize) -> CellPlace,
    ) -> Result<(), FrameProblem> {
        let thousands = |cell: &str| {
            let mut groups = cell.trim_start_matches(['-', '+']).split(mark);
            let first = groups.next().is_some_and(|first| (1..=3).contains(&first.len()) && !first.starts_with('0'));
            first && groups.all(|group| group.len() == 3)
        };
        let mut with = (0..text.len()).filter(|at| text[*at].is_some_and(|cell| cell.contains(mark))).peekable();
        let Some(first) = with.peek().copied() else { return Ok(()) };
        if !with.all(|at| text[at].is_some_and(thousands)) {
            return Ok(());
        }
        let mark = if mark == ',' { "comma" } else { "point" };
        Err(FrameProblem::Thousands { mark, column: self.column.into(), cell: place(first) })
    }
}

/// The number that `cell` is with a comma before its decimals, if it has no point.
pub(super) fn with_comma(cell: &str) -> Option<f64> {
    let plain = !cell.contains('.') && cell.matches(',').count() <= 1;
    Some(cell).filter(|_| plain).and_then(|cell| cell.replace(',', ".").parse().ok()).filter(|x: &f64| x.is_finite())
}

pub(super) fn logical(cell: &str) -> Option<bool> {
    match cell {
        "TRUE" | "True" | "true" => Some(true),
        "FALSE" | "False" | "false" => Some(false),
        _ => None,
    }
}

/// Whether a cell that was read as `number` is one, or is written nearly as one: `1.234,5`, `1 000`, `−3`.
fn is_meant_as(cell: Option<&str>, number: f64) -> bool {
    let nearly = |cell: &str| {
        let parts = cell.trim_start_matches(['-', '+', '\u{2212}']);
        let marks = |own: char| matches!(own, '.' | ',' | '\'' | ' ' | '_' | '\u{a0}' | '\u{202f}' | '\u{2019}');
        parts.starts_with(|own: char| own.is_ascii_digit())
            && parts.chars().all(|own| own.is_ascii_digit() || marks(own))
    };
    cell.is_some_and(|cell| !number.is_nan() || (nearly(cell) && !is_date(cell)))
}

/// Whether `cell` is a date in numbers, as 2024-05-31, 31.05.2024 or 5/31/24, with or without a time.
fn is_date(cell: &str) -> bool {
    let date = cell.split([' ', 'T']).next().unwrap_or_default();
    ['-', '.', '/'].into_iter().any(|mark| {
        let parts: Vec<&str> = date.split(mark).collect();
        let digits = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        parts.len() == 3 && parts.iter().all(digits)
    })
}
