//! Holds the outcome of a claim fixed before the run: its place, whether it was met, and its numbers.

use std::fmt;

use serde::Serialize;

/// The outcome of a claim in one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The claim, or its name in the book.
    pub claim: String,
    /// The place where it was judged; empty if there is only one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Whether it is met; `None` if the run does not decide it.
    pub met: Option<bool>,
    /// The numbers behind it; empty if the table above has them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub found: String,
}

impl Claim {
    /// A claim in its only place, with whether it is met.
    #[must_use]
    pub fn new(claim: impl Into<String>, met: bool) -> Self {
        Self { claim: claim.into(), place: String::new(), met: Some(met), found: String::new() }
    }

    /// The same at this place.
    #[must_use]
    pub fn at(self, place: impl Into<String>) -> Self {
        Self { place: place.into(), ..self }
    }

    /// The same with the numbers behind it.
    #[must_use]
    pub fn by(self, found: impl Into<String>) -> Self {
        Self { found: found.into(), ..self }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.met {
            Some(true) => "met",
            Some(false) => "NOT met",
            None => "not judged",
        };
        write!(formatter, "{verdict:<10} {}", self.claim)?;
        if !self.place.is_empty() {
            write!(formatter, ", {}", self.place)?;
        }
        if !self.found.is_empty() {
            write!(formatter, ": {}", self.found)?;
        }
        Ok(())
    }
}

/// The claims of a study in the order of its tables, each printed once.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Claims {
    judged: Vec<Claim>,
    #[serde(skip)]
    printed: usize,
}

impl Claims {
    /// Adds the outcome of a claim.
    pub fn judge(&mut self, claim: Claim) {
        self.judged.push(claim);
    }

    /// The claims as a table of a page of the book.
    #[must_use]
    pub fn table(&self) -> String {
        let row = |own: &Claim| {
            format!("| {} | {}: {} |\n", own.claim, if own.met == Some(true) { "yes" } else { "no" }, own.found)
        };
        self.judged.iter().fold("| claim | met |\n|---|---|\n".to_owned(), |text, own| text + &row(own))
    }

    /// Prints the claims not printed yet, if any, under a heading.
    pub fn print_new(&mut self, heading: &str) {
        if self.printed < self.judged.len() {
            println!("\n{heading}");
        }
        self.judged[self.printed..].iter().for_each(|claim| println!("{claim}"));
        self.printed = self.judged.len();
    }
}

impl From<Vec<Claim>> for Claims {
    fn from(judged: Vec<Claim>) -> Self {
        Self { judged, printed: 0 }
    }
}
