//! Writes numbers with the digits that they have, and tables that a screen reader can walk through.

use maud::{Markup, html};

use crate::engine::report::text::in_places;

/// A number to the second digit of its standard deviation, as on the terminal; a dash where there is none.
pub(super) fn in_digits(value: f64, sd: f64) -> String {
    if value.is_finite() { signed(in_places(value, sd)) } else { "–".into() }
}

/// A written number with the sign that is as wide as a plus.
pub(super) fn signed(number: String) -> String {
    number.replace('-', "\u{2212}")
}

/// A number with as many places as give `like` three digits, or two; a dash where there is none.
pub(super) fn rounded(value: f64, like: f64) -> String {
    in_digits(value, if like.is_finite() && like.abs() > 0.0 { 0.1 * like } else { 0.1 })
}

/// A count with a thin space before every third digit from the right.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let space = |(place, digit): (usize, char)| {
        let breaks = place > 0 && (digits.len() - place).is_multiple_of(3);
        breaks.then_some('\u{202f}').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(space).collect()
}

/// That so many of all these are shown and the rest is not, as a sentence; nothing where all are.
pub(super) fn cut_note(shown: usize, all: usize, what: &str) -> Option<String> {
    let count = |own: usize| grouped(own as u64);
    (shown < all).then(|| format!("These are the first {} of {} {what}.", count(shown), count(all)))
}

/// What follows such a note where it is so.
pub(super) const IN_JSON: &str = " The report's JSON has all.";

/// A name for a picture, cut to `most` letters.
pub(super) fn cut(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A table whose first column names its rows; one that is wide scrolls, by keyboard too.
pub(super) fn table(caption: &str, columns: &[&str], rows: &[Vec<String>]) -> Markup {
    let class = |column: usize, cell: Option<&String>| {
        let is_number =
            cell.is_some_and(|cell| cell.starts_with(|letter: char| "−–".contains(letter) || letter.is_ascii_digit()));
        (column > 0 && is_number).then_some("number")
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (column, name) in columns.iter().enumerate() {
                            th scope="col" class=[class(column, rows.first().and_then(|row| row.get(column)))] { (name) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } }
                                @else { td class=[class(column, Some(cell))] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_of_their_deviation() {
        let written = [(0.46412, 0.288), (-3.1559, 0.2234), (-0.0004, 1.0), (123_456.7, 1_234.0), (1e-9, 1e-9)];
        let found = written.map(|(value, like)| rounded(value, like));
        assert_eq!(found, ["0.464", "−3.156", "0.00", "123457", "1.00e−9"]);
        let found = written.map(|(value, sd)| in_digits(value, sd));
        assert_eq!(found, ["0.46", "−3.16", "0.0", "123457", "1.0e−9"]);
        assert_eq!(rounded(f64::NAN, 1.0), "–");
        assert_eq!(rounded(2.0, 0.0), "2.00");
    }

    #[test]
    fn what_is_cut_is_said() {
        let note = cut_note(20, 1_000, "silos").unwrap();
        assert_eq!(note, "These are the first 20 of 1\u{202f}000 silos.");
        assert_eq!((cut_note(20, 20, "silos"), cut_note(20, 3, "silos")), (None, None));
    }

    #[test]
    fn counts_are_grouped_and_long_names_cut() {
        assert_eq!([1, 999, 1_000, 1_234_567].map(grouped), ["1", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
        assert_eq!((cut("Lübeck", 6), cut("Lübeck-Süd", 6)), ("Lübeck".to_owned(), "Lübeck…".to_owned()));
    }
}
