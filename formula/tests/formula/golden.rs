//! Reads what R made of formulas over `children.csv`, written by `designs.R`.

use serde_json::Value;

pub fn designs() -> Value {
    serde_json::from_str(include_str!("../golden/designs.json")).unwrap()
}

pub fn words(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}
