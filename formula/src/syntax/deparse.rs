//! Writes a tree back as R does, so that terms and columns have the names that R gives them.

use std::fmt::{Display, Formatter};

use super::{Expression, Node};

impl Display for Expression {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.node {
            Node::Number(number) => out.write_str(&number_text(*number)),
            Node::Text(text) => write!(out, "{text:?}"),
            Node::Name(name) => out.write_str(&quoted_name(name)),
            Node::Group(inner) => write!(out, "({inner})"),
            Node::Sign(operator, operand) => write!(out, "{}{operand}", operator.written().trim()),
            Node::Pair(operator, left, right) => write!(out, "{left}{}{right}", operator.written()),
            Node::Call { function, arguments } => {
                write!(out, "{function}(")?;
                for (index, argument) in arguments.iter().enumerate() {
                    out.write_str(if index > 0 { ", " } else { "" })?;
                    if let Some(name) = &argument.name {
                        write!(out, "{name} = ")?;
                    }
                    write!(out, "{}", argument.value)?;
                }
                out.write_str(")")
            }
        }
    }
}

/// A name as a formula writes it: between backquotes unless R reads it as a name without them.
pub(crate) fn quoted_name(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|c| c.is_alphabetic() || c == '.');
    let number = name.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if first && !number && characters.all(is_name_character) { name.into() } else { format!("`{name}`") }
}

pub(crate) fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '.' || c == '_'
}

/// A number with up to fifteen significant digits, with an exponent where R's `as.character` writes one: where it is shorter.
pub(crate) fn number_text(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return if number == 0.0 { "0".into() } else { format!("{number}") };
    }
    let scientific = format!("{number:.14e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    let short = format!("{mantissa}e{sign}{:02}", exponent.abs());
    let decimals = (mantissa.trim_start_matches('-').replace('.', "").len() as i32 - 1 - exponent).max(0);
    let fixed = format!("{number:.*}", decimals.unsigned_abs() as usize);
    if fixed.len() <= short.len() { fixed } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_written_as_r_writes_them() {
        let numbers =
            [(2.0, "2"), (0.5, "0.5"), (1e5, "1e+05"), (123_456.0, "123456"), (1e-4, "1e-04"), (0.1 + 0.2, "0.3")];
        for (number, expected) in numbers {
            assert_eq!(number_text(number), expected);
        }
        assert_eq!(number_text(-1234.5), "-1234.5");
        assert_eq!([quoted_name("age"), quoted_name("my age"), quoted_name(".2a")], ["age", "`my age`", "`.2a`"]);
    }
}
