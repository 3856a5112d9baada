//! Finds the character that separates the columns of a file, and a quote that nothing closes.

use super::error::FrameProblem;

pub(super) const CANDIDATES: [char; 4] = [',', ';', '\t', '|'];

/// The lines that decide where the first one has several candidates.
const LINES: usize = 20;

/// The character that separates the columns of `text`; a comma where there is one column.
pub(super) fn delimiter(text: &str) -> Result<u8, FrameProblem> {
    let lines = lines(text);
    let count =
        |line: &str, c: char| line.split('"').step_by(2).map(|outside| outside.matches(c).count()).sum::<usize>();
    let first = lines.first().copied().unwrap_or_default();
    let mut candidates: Vec<char> = CANDIDATES.into_iter().filter(|c| count(first, *c) > 0).collect();
    if candidates.len() > 1 {
        let steady = |c: &char| lines.iter().all(|line| count(line, *c) == count(first, *c));
        let found: Vec<char> = candidates.iter().copied().filter(steady).collect();
        candidates = if found.is_empty() { candidates } else { found };
    }
    match candidates.as_slice() {
        [] => Ok(b','),
        [one] => Ok(*one as u8),
        _ => Err(FrameProblem::Delimiter { candidates }),
    }
}

/// The first lines that hold something; a line ends outside of quotes.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let (mut lines, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        quoted ^= byte == b'"';
        if !quoted && (byte == b'\n' || byte == b'\r') {
            lines.extend(text.get(start..at).filter(|line| !line.trim().is_empty()));
            start = at + 1;
            if lines.len() == LINES {
                return lines;
            }
        }
    }
    lines.extend(text.get(start..).filter(|line| !line.trim().is_empty()));
    lines
}

/// The line of a quote that is open at the end of `text`.
pub(super) fn open_quote(text: &str, delimiter: u8) -> Option<u64> {
    let (mut line, mut opened, mut start) = (1, None, true);
    for byte in text.bytes() {
        line += u64::from(byte == b'\n');
        if opened.is_some() {
            // Of two quotes in a cell the first closes it, and the second opens it again.
            opened = opened.filter(|_| byte != b'"');
            start = true;
        } else {
            opened = (start && byte == b'"').then_some(line);
            start = byte == delimiter || byte == b'\n' || byte == b'\r';
        }
    }
    opened
}
