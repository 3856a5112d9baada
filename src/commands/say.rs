//! Writes what commands say; where the reader has left, as `head` does, a command goes on and says nothing more.

use std::fmt::Display;
use std::io::{ErrorKind, Result, Write, stderr, stdout};

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
    match write!(out, "{all}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// A line on standard error: whether anyone reads it changes nothing.
pub(super) fn note(line: impl Display) {
    drop(writeln!(stderr().lock(), "{line}"));
}
