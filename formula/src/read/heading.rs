//! Refuses a first line that does not name the columns of the lines below it, with the line to write in its place.

use super::cells::with_comma;
use super::delimiter::{CANDIDATES, lines};
use super::error::FrameProblem;

/// The most lines above the names of columns that are looked for.
const MOST_TITLES: usize = 5;

/// Refuses a title above the names of columns, names with another character between them than the cells below have, names
/// that lack the one of row names, and columns without names; `delimiter` is the one that an owner has stated.
pub(super) fn check_heading(text: &str, delimiter: Option<u8>) -> Result<(), FrameProblem> {
    let lines = lines(text);
    let stated = delimiter.map(|byte| vec![char::from(byte)]);
    let candidates = stated.as_deref().unwrap_or(&CANDIDATES);
    let Some((first, below)) = lines.split_first() else { return Ok(()) };
    let is_table = candidates.iter().any(|mark| {
        let names = cells(first, *mark);
        names.len() > 1 && names.iter().all(|name| !name.is_empty()) && width(below, *mark) == Some(names.len())
    });
    let title = || candidates.iter().find_map(|mark| titled(&lines, *mark));
    if let Some(names) = (!is_table).then(title).flatten() {
        return Err(FrameProblem::Title { found: first.trim_end().into(), names: names.trim_end().into() });
    }
    if delimiter.is_none()
        && let Some((found, expected)) = candidates.iter().find_map(|mark| other_mark(first, below, *mark))
    {
        let names = cells(first, found).join(&expected.to_string());
        return Err(FrameProblem::OtherDelimiter { found, expected, below: below[0].trim_end().into(), names });
    }
    if is_table {
        return Ok(());
    }
    for mark in candidates {
        let names = cells(first, *mark);
        if width(below, *mark) == Some(names.len() + 1) {
            let (found, names) = (names.len(), format!("row{mark}{}", first.trim_end()));
            return Err(FrameProblem::RowNames { found, names });
        }
        let unnamed: Vec<usize> = (0..names.len()).filter(|at| names[*at].is_empty()).map(|at| at + 1).collect();
        if unnamed.len() > 1 {
            return Err(FrameProblem::Unnamed { unnamed });
        }
    }
    Ok(())
}

/// The line of names under a title: all its cells are text, the lines from it on have as many, some of them numbers, and
/// those above it have fewer.
fn titled<'a>(lines: &[&'a str], mark: char) -> Option<&'a str> {
    let is_number = |cell: &&str| with_comma(&cell.replace('.', ",")).is_some();
    (1..lines.len().min(MOST_TITLES + 1)).find_map(|at| {
        let (above, rest) = lines.split_at(at);
        let (names, rows) = rest.split_first()?;
        let count = width(rest, mark).filter(|count| *count > 1)?;
        let few = |line: &&str| cells(line, mark).iter().filter(|cell| !cell.is_empty()).count() < count;
        let is_names = cells(names, mark).iter().all(|name| !name.is_empty() && !is_number(name));
        let has_numbers = rows.iter().any(|row| cells(row, mark).iter().any(is_number));
        (above.iter().all(few) && is_names && has_numbers).then_some(*names)
    })
}

/// The character between the names of columns, and `mark` where that is between the cells of all lines below.
fn other_mark(first: &str, below: &[&str], mark: char) -> Option<(char, char)> {
    let count = width(below, mark).filter(|count| *count > 1 && cells(first, mark).len() == 1)?;
    let found = CANDIDATES.into_iter().find(|own| *own != mark && cells(first, *own).len() == count)?;
    // A comma in a cell is one before decimals, or `mark` may be within cells.
    let is_whole = |cell: &str| !cell.contains(found) || (found == ',' && with_comma(cell).is_some());
    below.iter().all(|line| cells(line, mark).iter().all(|cell| is_whole(cell))).then_some((found, mark))
}

/// The number of cells of each line, if it is the same of all.
fn width(lines: &[&str], mark: char) -> Option<usize> {
    let count = cells(lines.first()?, mark).len();
    lines.iter().all(|line| cells(line, mark).len() == count).then_some(count)
}

/// The cells of a line, without their quotes.
fn cells(line: &str, mark: char) -> Vec<&str> {
    let mut quoted = false;
    let is_mark = |letter: char| {
        quoted ^= letter == '"';
        !quoted && letter == mark
    };
    line.split(is_mark).map(|cell| cell.trim().trim_matches('"').trim()).collect()
}
