//! Writes what commands say; where the reader has left, as `head` does, a command goes on and says nothing more.

use std::fmt::Display;
use std::io::{ErrorKind, Result, Write, stderr, stdout};

/// A text in which words of other parties may be, without what moves a terminal: of control characters it has ends of lines and tabs.
fn plain(all: impl Display) -> String {
    let is_kept = |letter: &char| !letter.is_control() || ['\n', '\t'].contains(letter);
    all.to_string().chars().filter(is_kept).collect()
}

/// A line on standard output.
///
/// # Errors
/// Those of the output, such as a full disk, but that its reader has left.
pub(super) fn say(line: impl Display) -> Result<()> {
    text(format_args!("{line}\n"))
}

/// A text on standard output that ends its own lines.
///
/// # Errors
/// As for [`say`].
pub(super) fn text(all: impl Display) -> Result<()> {
    let mut out = stdout().lock();
    match write!(out, "{}", plain(all)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// A line on standard error: whether anyone reads it changes nothing.
pub(super) fn note(line: impl Display) {
    drop(writeln!(stderr().lock(), "{}", plain(line)));
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_name_in_a_line_does_not_move_the_terminal() {
        assert_eq!(plain("level `a\u{1b}[2J\u{9b}1mb\r`:\t0.5\nélan\n"), "level `a[2J1mb`:\t0.5\nélan\n");
    }
}
