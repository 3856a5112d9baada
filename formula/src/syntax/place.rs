//! Shows a place in the text of a formula as two lines: the text, and carets under the place.

use std::fmt::{Display, Formatter};

use super::Span;

/// A place in a formula: the text, and the bytes meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The text of the formula.
    pub text: String,
    /// The first byte meant.
    pub start: usize,
    /// The byte after the last one meant; the place is between two characters if it equals `start`.
    pub end: usize,
}

impl Place {
    pub(crate) fn new(text: &str, span: &Span) -> Self {
        Self { text: text.into(), start: span.start, end: span.end }
    }

    /// The characters before the place, from which a column counted from 1 is one more.
    #[must_use]
    pub fn characters_before(&self) -> usize {
        self.text.get(..self.start).unwrap_or(&self.text).chars().count()
    }
}

impl Display for Place {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let shown: String = self.text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        let width = self.text.get(self.start..self.end).map_or(1, |meant| meant.chars().count().max(1));
        write!(out, "  {shown}\n  {}{}", " ".repeat(self.characters_before()), "^".repeat(width))
    }
}
