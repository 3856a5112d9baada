//! Writes numbers with the digits that they have, and tables that a screen reader can walk through.

use maud::{Markup, html};

use crate::engine::report::text::LARGE;

/// A number with as many places as give `like` three digits; a dash where there is none.
pub(super) fn rounded(value: f64, like: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let power = like.abs().log10().floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 16")]
    let text = match power {
        power if (-5.0..7.0).contains(&power) && value.abs() < LARGE => {
            format!("{value:.*}", (2.0 - power).max(0.0) as usize)
        }
        power if (-14.0..-5.0).contains(&power) && value.abs() >= 1e-3 => format!("{value:.*}", (2.0 - power) as usize),
        power if power.is_finite() => format!("{value:.2e}"),
        _ => format!("{value:.2}"),
    };
    let is_zero = !text.contains(|letter: char| ('1'..='9').contains(&letter));
    if is_zero { text.replace('-', "") } else { text.replace('-', "\u{2212}") }
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
        assert_eq!(rounded(f64::NAN, 1.0), "–");
        assert_eq!(rounded(2.0, 0.0), "2.00");
    }

    #[test]
    fn counts_are_grouped_and_long_names_cut() {
        assert_eq!([1, 999, 1_000, 1_234_567].map(grouped), ["1", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
        assert_eq!((cut("Lübeck", 6), cut("Lübeck-Süd", 6)), ("Lübeck".to_owned(), "Lübeck…".to_owned()));
    }
}
