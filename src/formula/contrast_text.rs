//! Reads the text of a contrast: `smoke: 1 - 0 at age = 0`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::StudyError;

/// A comparison of two values of a variable, with others held.
///
/// `NAME: VALUE - VALUE`, then `at NAME = VALUE, NAME = VALUE` for the variables that interact with it, or `averaged`. Spaces
/// stand around `-`; a name or value with spaces, commas or other signs stands in quotation marks.
///
/// # Example
/// ```
/// use partita::formula::Contrast;
/// let contrast: Contrast = "smoke: 1 - 0 at age = -1, sex = \"not known\"".parse()?;
/// assert_eq!((contrast.variable.as_str(), contrast.value.as_str(), contrast.reference.as_str()), ("smoke", "1", "0"));
/// assert_eq!(contrast.at[1], ("sex".to_owned(), "not known".to_owned()));
/// # Ok::<(), partita::formula::StudyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Contrast {
    /// The text.
    pub text: String,
    /// The variable, a column of the files.
    pub variable: String,
    /// The value that is compared.
    pub value: String,
    /// The value that it is compared with.
    pub reference: String,
    /// Values of other variables.
    pub at: Vec<(String, String)>,
    /// Whether other variables are as in the rows of all silos, over which expected outcomes are averaged.
    pub is_averaged: bool,
}

/// A word, or a sign that stands between words.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(char),
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let end = rest[1..].find('"')?;
                all.push(Token::Quoted(rest[1..=end].to_owned()));
                end + 2
            }
            ':' | '=' | ',' => {
                all.push(Token::Sign(first));
                1
            }
            _ => {
                let end = rest.find(|own: char| own.is_whitespace() || ":=,\"".contains(own)).unwrap_or(rest.len());
                let word = &rest[..end];
                all.push(if word == "-" { Token::Sign('-') } else { Token::Word(word.to_owned()) });
                end
            }
        };
        rest = rest[length..].trim_start();
    }
    Some(all)
}

/// Tokens that are left.
struct Left<'a>(&'a [Token]);

impl Left<'_> {
    fn word(&mut self) -> Option<String> {
        let (Token::Word(word) | Token::Quoted(word)) = self.0.first()? else { return None };
        self.0 = &self.0[1..];
        Some(word.clone())
    }

    fn takes(&mut self, token: &Token) -> bool {
        let is_next = self.0.first() == Some(token);
        if is_next {
            self.0 = &self.0[1..];
        }
        is_next
    }

    fn sign(&mut self, sign: char) -> Option<()> {
        self.takes(&Token::Sign(sign)).then_some(())
    }

    fn contrast(&mut self, text: &str) -> Option<Contrast> {
        let variable = self.word()?;
        self.sign(':')?;
        let value = self.word()?;
        self.sign('-')?;
        let reference = self.word()?;
        let mut at = Vec::new();
        let is_averaged = self.takes(&Token::Word("averaged".into()));
        if !is_averaged && self.takes(&Token::Word("at".into())) {
            loop {
                let name = self.word()?;
                self.sign('=')?;
                at.push((name, self.word()?));
                if self.sign(',').is_none() {
                    break;
                }
            }
        }
        let text = text.trim().to_owned();
        self.0.is_empty().then_some(Contrast { text, variable, value, reference, at, is_averaged })
    }
}

impl From<Contrast> for String {
    fn from(contrast: Contrast) -> Self {
        contrast.text
    }
}

impl TryFrom<String> for Contrast {
    type Error = StudyError;

    fn try_from(text: String) -> Result<Self, StudyError> {
        text.parse()
    }
}

impl FromStr for Contrast {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Self, StudyError> {
        tokens(text).and_then(|all| Left(&all).contrast(text)).ok_or_else(|| StudyError::Unfit {
            operation: "contrast",
            found: format!("`{text}`"),
            expected: "`NAME: VALUE - VALUE`, then `at NAME = VALUE` or `averaged`, as in `smoke: 1 - 0 at age = 0`"
                .into(),
            remedy: "Write spaces around `-`, and names or values with spaces in quotation marks.".into(),
        })
    }
}
