//! Names every way in which a formula cannot be read, with the place in its text, and what to write instead.

use crate::syntax::Place;

/// The error of reading a formula.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    /// The text does not follow the grammar.
    #[error("reading the formula: found {found}, expected {expected}.\n{place}")]
    Syntax {
        /// Where.
        place: Place,
        /// The word or sign there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// The formula is longer, or its parentheses are deeper, than any that is meant.
    #[error(
        "reading the formula: found {bytes} bytes, expected at most {longest}, with at most {deepest} parentheses inside one another and signs in a row, and at most {most} operators besides `+` and `-` of the outermost sum. Make columns in the file."
    )]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        longest: usize,
        /// The deepest allowed.
        deepest: usize,
        /// The most operators.
        most: usize,
    },
    /// The formula expands to more terms than any that is meant.
    #[error("expanding the formula: found more than {most} terms. Lower the power or take interactions out.\n{place}")]
    TooManyTerms {
        /// Where.
        place: Place,
        /// The most allowed.
        most: usize,
    },
    /// A function that formulas do not have.
    #[error(
        "reading the formula: found the function `{function}`, expected one of {}.{}\n{place}",
        known.join(", "),
        hint(function).map_or_else(|| did_you_mean(suggestion), |hint| format!(" {hint}"))
    )]
    UnknownFunction {
        /// Where.
        place: Place,
        /// Its name.
        function: String,
        /// Those that may stand there.
        known: Vec<&'static str>,
        /// The nearest of them, if any is near.
        suggestion: Option<String>,
    },
    /// Something that the grammar allows and that means nothing where it stands.
    #[error("reading the formula: found {found}, expected {expected}. {remedy}\n{place}")]
    Meaning {
        /// Where.
        place: Place,
        /// What is there.
        found: String,
        /// What may stand there.
        expected: String,
        /// What to write instead.
        remedy: String,
    },
}

/// What to write in place of a function that R has.
fn hint(function: &str) -> Option<&'static str> {
    Some(match function {
        "s" | "te" | "t2" | "ti" | "ns" | "lo" => "Write `bs(x, df = 6)`: a smooth curve here is a B-spline.",
        "cbind" => "Write `successes | trials(n)`, with a column `n` of successes and failures together.",
        "cens" => {
            "Write `surv(time, status)`, with 1 where the event happened: of brms's `time | cens(c)` it is `surv(time, 1 - c)`."
        }
        "strata" => "Write `factor(x)`: levels that each have a coefficient.",
        "mi" | "me" | "mo" | "gp" => "No such term of brms is here: write a column, or `factor(x)` for levels.",
        _ => return None,
    })
}

/// The sentence that proposes `suggestion`, or nothing.
pub(crate) fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!(" Did you mean `{name}`?")).unwrap_or_default()
}

/// The nearest of `names` to `name`, if it is near enough to be meant.
///
/// # Example
/// ```
/// assert_eq!(partita_formula::nearest("smok", ["age", "smoke"]).as_deref(), Some("smoke"));
/// assert_eq!(partita_formula::nearest("dose", ["age", "smoke"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = |other: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
    let most = (name.chars().count() / 3).max(1);
    // Of one letter any other is as near, and none is meant.
    let is_near = |other: &&str| near(other) <= most && near(other) < name.chars().count().max(other.chars().count());
    names.into_iter().filter(is_near).min_by_key(near).map(String::from)
}
