//! Compares designs of one silo with R's `model.matrix` and lme4's `lFormula`.

use partita_formula::{Formula, Outcome};

use crate::golden::{CHILDREN, declared, designs, difference, golden, numbers, words};

/// R's numbers have fifteen digits, and polynomials of degree four lose some.
const TOLERANCE: f64 = 1e-10;

#[test]
fn columns_have_the_names_and_numbers_of_model_matrix() {
    let golden = golden();
    let cases = golden["designs"].as_array().unwrap();
    for case in cases {
        let (text, contrast) = (case["formula"].as_str().unwrap(), case["contrast"].as_str().unwrap());
        let formula = Formula::parse(text).unwrap();
        let (_, designs) = designs(&[("all", CHILDREN)], &formula, &declared(contrast));
        let design = &designs[0];
        assert_eq!(design.fixed.names, words(&case["design"]["names"]), "{text}");
        let apart = difference(&design.fixed.values, &numbers(&case["design"]["values"]));
        assert!(apart < TOLERANCE, "{text}: {apart:e}");
        let Some(Outcome::Numbers(outcome)) = &design.outcome else { panic!("{text}") };
        assert!(difference(outcome, &numbers(&case["outcome"])) < TOLERANCE, "{text}");
        let offset = numbers(&case["offset"]);
        let found = design.offset.clone().unwrap_or_default();
        assert!(difference(&found, &offset) < TOLERANCE, "{text}: {found:?}");
    }
}

#[test]
fn random_terms_have_the_groups_and_columns_of_lme4() {
    let golden = golden();
    for case in golden["random"].as_array().unwrap() {
        let text = case["formula"].as_str().unwrap();
        let formula = Formula::parse(text).unwrap();
        let (_, designs) = designs(&[("all", CHILDREN)], &formula, &declared("treatment"));
        // lme4 puts the grouping with the most groups first, and makes two terms of `||`.
        let mut terms: Vec<_> = designs[0].random.iter().collect();
        terms.sort_by_key(|term| std::cmp::Reverse(term.levels.len()));
        let parts = terms.iter().flat_map(|term| {
            let whole: Vec<usize> = (0..term.columns.names.len()).collect();
            let parts = if term.correlated { vec![whole] } else { whole.iter().map(|at| vec![*at]).collect() };
            parts.into_iter().map(move |part| (*term, part))
        });
        let parts: Vec<_> = parts.collect();
        let expected = case["terms"].as_array().unwrap();
        assert_eq!(parts.len(), expected.len(), "{text}");
        for ((term, part), expected) in parts.into_iter().zip(expected) {
            let grouping = expected["grouping"].as_str().unwrap().replace(['(', ')'], "");
            assert_eq!(term.grouping.replace('`', ""), grouping, "{text}");
            assert_eq!(term.levels, words(&expected["levels"]), "{text}");
            let group: Vec<usize> = numbers(&expected["group"]).into_iter().map(|group| group as usize).collect();
            assert_eq!(term.group, group, "{text}");
            let names: Vec<String> = part.iter().map(|at| term.columns.names[*at].clone()).collect();
            assert_eq!(names, words(&expected["names"]), "{text}");
            // lme4 holds the transpose, a column a row: for each group, the coefficients of that group.
            let width = term.columns.names.len();
            let mut dense = Vec::new();
            for (row, own) in term.group.iter().enumerate() {
                for group in 0..term.levels.len() {
                    let value = |at: &usize| if group == *own { term.columns.values[row * width + at] } else { 0.0 };
                    dense.extend(part.iter().map(value));
                }
            }
            assert!(difference(&dense, &numbers(&expected["columns"])) < TOLERANCE, "{text}");
        }
    }
}

#[test]
fn groups_inside_of_others_are_found_from_the_rows_however_they_are_written() {
    let inside = |text: &str, inner: usize, outer: usize| {
        let (_, designs) = designs(&[("all", CHILDREN)], &Formula::parse(text).unwrap(), &declared("treatment"));
        designs[0].random[inner].inside(&designs[0].random[outer])
    };
    assert_eq!(inside("y ~ (1 | school/class)", 0, 1), Some(vec![0, 1, 0, 1, 1]));
    assert_eq!(inside("y ~ (1 | school/class)", 1, 0), None);
    // Each child is in one school; classes have the same names in both schools.
    let apart = "y ~ (1 | school) + (1 | child) + (1 | class)";
    assert!(inside(apart, 1, 0).is_some() && inside(apart, 1, 2).is_some());
    assert!(inside(apart, 2, 0).is_none() && inside(apart, 0, 1).is_none());
    let three = "y ~ (1 | school/class/child)";
    assert!(inside(three, 0, 1).is_some() && inside(three, 1, 2).is_some());
    assert!(inside("y ~ (1 | f) + (1 | h)", 0, 1).is_none() && inside("y ~ (1 | f) + (1 | h)", 1, 0).is_none());
}
