//! Reads good formulas, and holds the messages of bad ones to their place, what was found, and what to write.

use partita_formula::{Formula, FormulaError};
use proptest::prelude::*;

/// What the error of `text` says, whole.
fn message(text: &str) -> String {
    Formula::parse(text).unwrap_err().to_string()
}

#[test]
fn a_message_shows_the_place() {
    let expected = "reading the formula: found the end of the formula, expected a column, a number, a function or `(`.
  y ~ x +
         ^";
    assert_eq!(message("y ~ x +"), expected);
    let expected = "reading the formula: found `z`, expected an operator, or the end of the formula; a name with spaces stands in backquotes.
  y ~ x z
        ^";
    assert_eq!(message("y ~ x z"), expected);
}

#[test]
fn bad_formulas_say_what_was_found_and_what_is_expected() {
    let cases = [
        ("y", "found the end of the formula, expected `~`"),
        ("", "found the end of the formula, expected a column"),
        ("y ~", "found the end of the formula, expected a column"),
        ("y = x", "found `=`, expected `~`"),
        ("y ~ x ~ z", "found `~`, expected an operator, or the end"),
        ("y ~ log(x", "found the end of the formula, expected an operator, `,` or `)`"),
        ("y ~ (x + z", "found the end of the formula, expected an operator or `)`"),
        ("y ~ log(x + )", "found `)`, expected a column"),
        ("y ~ `my var", "expected the closing backquote"),
        ("y ~ * x", "found `*`, expected a column"),
        ("y ~ x + (1 | g", "expected an operator or `)`"),
        ("y + ~ x", "found `~`, expected a column"),
        (
            "y ~ 2 * x",
            "found `2`, expected a term, or 1 or 0 for the intercept. Arithmetic stands inside of `I()`, as `I(2 * x)`.",
        ),
        ("y ~ x^2.5", "found `2.5`, expected a whole number from 1. A square of a column is `I(x^2)`."),
        ("y ~ x > 2", "found `x > 2`, expected a term. A comparison stands inside of `I()`: `I(x > 2)`."),
        ("y ~ I(1 < x < 2)", "found `<`, expected"),
        ("y ~ I(s > \"a\")", "expected a column `==` or `!=` a level in quotation marks"),
        ("y ~ I(x = 2)", "expected arithmetic without `=`. To compare write `x == 2`."),
        ("y ~ I(x & z)", "found `&`, expected"),
        ("bf(y ~ x, sigma ~ z)", "expected one formula; that of a parameter stands apart"),
        ("time | cens(c) ~ x", "it is `surv(time, 1 - c)`"),
        ("y ~ x^z", "found `z`, expected a whole number from 1"),
        (
            "y ~ lgo(x)",
            "found the function `lgo`, expected one of log, log2, log10, log1p, exp, expm1, sqrt, abs, sin, cos, I, scale, poly, bs, factor, C, offset. Did you mean `log`?",
        ),
        ("y ~ spline(x)", "found the function `spline`"),
        ("y ~ 1 | g", "`|` stands inside of parentheses. Write random terms as `(1 + x | group)`."),
        ("y ~ x + (1 | g + h)", "found `g + h`, expected the name of a column after `|`, `a:b` or `a/b`"),
        ("y ~ x + (0 | g)", "expected at least one coefficient"),
        ("y ~ x + (1 | a/(b/c))", "expected one grouping here. Write `a/b/c`"),
        ("y ~ x * (1 | g)", "`|` stands inside of parentheses"),
        ("y ~ x - (1 | g)", "expected a fixed term after `-`"),
        ("y ~ poly(x, 2.5)", "found `2.5`, expected a whole number from 1 to 9"),
        ("y ~ poly(x, dgree = 2)", "expected arguments x, degree, raw of `poly`. Take `dgree =` out"),
        ("y ~ bs(x, df = 4, knots = 2)", "expected `df` or `knots`"),
        ("y ~ bs(x, df = 1)", "found `1`, expected a whole number from 3 to 50"),
        ("y ~ scale(scale(x))", "expected `scale` once"),
        ("y ~ poly(scale(x), 2)", "expected an argument without `scale`"),
        ("y ~ log(x:z)", "expected arithmetic with + - * / ^"),
        ("y ~ 'x'", "expected a term. Write names of columns without quotes."),
        ("y ~ log()", "expected an argument. Write `log(x)` with the name of a column."),
        ("y ~ log(poly(x, 2))", "found the function `poly`"),
        ("y | trial(n) ~ x", "found the function `trial`, expected one of trials, weights. Did you mean `trials`?"),
        ("y | n ~ x", "expected `trials(n)` or `weights(w)` after `|`"),
        ("surv(time) ~ x", "Write `surv(time, status)`."),
        ("surv(t, s, cuts = c(5, 2)) ~ x", "times above zero, each later than the one before"),
        ("surv(t, s, cuts = 5, pieces = 2) ~ x", "`cuts` or `pieces`"),
        ("surv(t, s, pieces = 1) ~ x", "a whole number from 2 to 50"),
        ("y ~ x + y", "found the outcome `y` among the terms"),
        ("y ~ factor(x + 1)", "expected the name of a column"),
        ("y ~ x + offset(f, g)", "`offset(x)` with one argument"),
        ("y ~ .", "found `.`"),
        ("y ~ x $ z", "found `$`, expected an operator, or the end of the formula"),
    ];
    for (text, expected) in cases {
        let message = message(text);
        assert!(message.contains(expected), "{text}: {message}");
        assert!(message.contains('^'), "{text}: {message}");
    }
    let parameter = Formula::parse_parameter("log(sigma) ~ x").unwrap_err().to_string();
    assert!(parameter.contains("expected the name of a parameter before `~`"), "{parameter}");
}

#[test]
fn a_place_counts_characters_not_bytes() {
    let FormulaError::Meaning { place, .. } = Formula::parse("größe ~ 3 + x").unwrap_err() else { panic!() };
    assert_eq!((place.start, place.characters_before()), (10, 8));
    assert!(message("größe ~ 3 + x").ends_with("  größe ~ 3 + x\n          ^"), "{}", message("größe ~ 3 + x"));
}

#[test]
fn what_is_too_long_or_too_deep_is_refused_before_it_is_read() {
    let deep = format!("y ~ {}x{}", "(".repeat(5_000), ")".repeat(5_000));
    let signs = format!("y ~ {}x", "- ".repeat(5_000));
    let powers = format!("y ~ x{}", "^2".repeat(4_000));
    let long = format!("y ~ {}", vec!["x"; 40_000].join(" + "));
    for text in [deep, signs, powers, long] {
        assert!(matches!(Formula::parse(&text), Err(FormulaError::TooLong { .. })));
    }
    let sum = |count: usize| (0..count).map(|at| format!("x{at}")).collect::<Vec<_>>();
    assert_eq!(Formula::parse(&format!("y ~ {}", sum(1_000).join("+"))).unwrap().term_labels().len(), 1_000);
    let power = Formula::parse(&format!("y ~ ({})^20", sum(40).join("+")));
    assert!(matches!(power, Err(FormulaError::TooManyTerms { .. })));
}

#[test]
fn left_sides_are_read() {
    for (text, outcome) in [
        ("y ~ x", "y"),
        ("log(y + 1) ~ x", "log(y + 1)"),
        ("y | trials(n) ~ x", "y"),
        ("y | trials(10) + weights(w) ~ x", "y"),
        ("surv(time, status) ~ x", "time"),
        ("Surv(time / 30, status) | weights(w) ~ x", "time/30"),
        ("`my outcome` ~ x", "`my outcome`"),
        ("-y ~ x", "-y"),
    ] {
        assert_eq!(Formula::parse(text).unwrap().outcome(), Some(outcome), "{text}");
    }
    assert_eq!(Formula::parse("~ x").unwrap().outcome(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_and_every_error_has_a_place_in_it(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "y", "x", "`my x`", "é", "1", "0", "2.5e3", "~", "+", "-", "*", "/", ":", "^", "%in%", "|", "||", "(", ")", ",",
            "=", " ", "log(", "poly(", "bs(", "factor(", "scale(", "offset(", "surv(", "I(", "c(", "'a'", "TRUE", "df", "\n", "`", "\"", "@",
        ]), 0..30)
    ) {
        for text in [words.concat(), format!("y ~ {}", words.concat()), format!("y ~ x + ({})", words.concat())] {
            match Formula::parse(&text) {
                Ok(formula) => prop_assert!(formula.columns().len() < 40),
                Err(FormulaError::Syntax { place, .. } | FormulaError::Meaning { place, .. } | FormulaError::UnknownFunction { place, .. }) => {
                    prop_assert!(place.start <= place.end && text.get(place.start..place.end).is_some(), "{:?}", place);
                }
                Err(_) => {}
            }
        }
    }
}
