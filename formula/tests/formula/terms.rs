//! Compares the expansion of a hundred formulas with R's `terms()`.

use partita_formula::{Formula, Frame, MissingCells, ReadOptions};

use crate::golden::{golden, words};

#[test]
fn terms_have_the_labels_order_and_intercept_that_r_gives_them() {
    let designs = golden();
    let designs = designs["designs"].as_array().unwrap();
    assert!(designs.len() >= 100);
    for design in designs {
        let text = design["formula"].as_str().unwrap();
        let formula = Formula::parse(text).unwrap();
        assert_eq!(formula.term_labels(), words(&design["labels"]), "{text}");
        assert_eq!(formula.has_intercept(), design["intercept"].as_bool().unwrap(), "{text}");
    }
}

#[test]
fn the_place_of_a_column_is_that_of_its_term() {
    let formula = Formula::parse("y ~ f * fu + poly(x, 2) + log(x):f").unwrap();
    let meant = |column: &str| {
        let place = formula.place_of_column(column);
        place.map(|own| own.text[own.start..own.end].to_owned())
    };
    for (column, text) in [
        ("fb", "f"),
        ("fu", "fu"),
        ("fub", "fu"),
        ("fb:fub", "f * fu"),
        ("poly(x, 2)2", "poly(x, 2)"),
        ("(Intercept)", ""),
        ("g", ""),
    ] {
        assert_eq!(meant(column).unwrap_or_default(), text, "{column}");
    }
}

#[test]
fn random_terms_are_those_of_lme4() {
    let labels = |text: &str| Formula::parse(text).unwrap().random_labels();
    assert_eq!(labels("y ~ x + (1 + x | g) + (0 + x || h)"), ["1 + x | g", "0 + x || h"]);
    assert_eq!(labels("y ~ (1 | a/b/c)"), ["1 | c:b:a", "1 | b:a", "1 | a"]);
    assert_eq!(labels("y ~ (1 | a:b) + (1 | silo)"), ["1 | a:b", "1 | silo"]);
    assert_eq!(labels("y ~ x - 1 + (x | `my group`)"), ["x | `my group`"]);
    assert_eq!(Formula::parse("y ~ (a + b) ** 2").unwrap().term_labels(), ["a", "b", "a:b"]);
    assert!(!Formula::parse("y ~ (1 | g) - 1").unwrap().has_intercept());
    assert!(Formula::parse("y ~ (1 | g)").unwrap().has_intercept());
}

#[test]
fn a_formula_lists_the_columns_it_needs_and_no_other() {
    let formula = Formula::parse("y | trials(n) ~ log(x) * f - f + offset(e) + (1 + z | a/b)").unwrap();
    assert_eq!(formula.columns(), ["y", "n", "x", "f", "e", "z", "a", "b"]);
    assert_eq!(Formula::parse("y ~ x + dropped - dropped").unwrap().columns(), ["y", "x"]);
    assert_eq!(Formula::parse("surv(time, status) ~ x").unwrap().columns(), ["time", "status", "x"]);
}

#[test]
fn pi_and_logicals_in_arithmetic_are_numbers_and_not_columns() {
    let formula = Formula::parse("y ~ sin(2 * pi * month / 12) + I(smoke == TRUE) + I(x * FALSE) + pi").unwrap();
    assert_eq!(formula.columns(), ["y", "month", "smoke", "x", "pi"]);
    assert_eq!(Formula::parse("y ~ log(`pi`) + offset(pi)").unwrap().columns(), ["y", "pi"]);
    let frame = |text: &str| Frame::from_bytes("all.csv", text.as_bytes(), ReadOptions::default()).unwrap();
    let read = |formula: &str, text: &str| {
        frame(text).columns("all", &[&Formula::parse(formula).unwrap()], MissingCells::Refuse)
    };
    let error = read("y ~ log(pi * x)", "y,pi,x\n1,2,3\n").unwrap_err().to_string();
    assert!(error.contains("a column `pi`") && error.contains("Write `` `pi` `` for the column"), "{error}");
    assert!(error.ends_with("  y ~ log(pi * x)\n          ^^"), "{error}");
    assert!(read("y ~ log(`pi` * x)", "y,pi,x\n1,2,3\n").is_ok());
}
