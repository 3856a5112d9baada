//! Reads what R made of formulas over `children.csv`, written by `designs.R`, and makes the same of one or more silos.

use partita_formula::{
    Agreement, Columns, Contrast, Declared, Design, Formula, Frame, MissingCells, Profile, ReadOptions,
};
use serde_json::Value;

pub(crate) const CHILDREN: &str = include_str!("../golden/children.csv");

pub(crate) fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/designs.json")).unwrap()
}

pub(crate) fn words(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// What the study of `contrast` declares.
pub(crate) fn declared(contrast: &str) -> Declared {
    let contrast = if contrast == "sum" { Contrast::Sum } else { Contrast::Treatment };
    Declared { contrast, ..Declared::default() }
}

pub(crate) fn columns(silo: &str, text: &str, formula: &Formula) -> Columns {
    let frame = Frame::from_bytes(silo, text.as_bytes(), ReadOptions::default()).unwrap();
    frame.columns(silo, &[formula], MissingCells::Refuse).unwrap_or_else(|error| panic!("{formula}: {error}"))
}

/// The agreement of the silos with `texts`, and the design of each.
pub(crate) fn designs(texts: &[(&str, &str)], formula: &Formula, declared: &Declared) -> (Agreement, Vec<Design>) {
    let silos: Vec<Columns> = texts.iter().map(|(silo, text)| columns(silo, text, formula)).collect();
    let profiles: Vec<Profile> = silos
        .iter()
        .map(|columns| Profile::of(&[formula], columns, declared).unwrap_or_else(|error| panic!("{formula}: {error}")))
        .collect();
    let agreement = Agreement::merge(&profiles, declared).unwrap_or_else(|error| panic!("{formula}: {error}"));
    let design =
        |columns| Design::of(formula, columns, &agreement).unwrap_or_else(|error| panic!("{formula}: {error}"));
    let designs = silos.iter().map(design).collect();
    (agreement, designs)
}

/// The largest difference of two numbers, relative to those above one; infinite if one is not a number.
pub(crate) fn difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / b.abs().max(1.0));
    apart.map(|apart| if apart.is_nan() { f64::INFINITY } else { apart }).fold(0.0, f64::max)
}
