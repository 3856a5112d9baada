//! Reads the table `[pvi]` of a run file: the entries of the algorithm's options that are not the usual ones.

use partita_inference::{Expectation, GradientDescent, Lbfgs, PowerExpectation, PviOptions, SolverChoice};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Options that a run says elsewhere, and where.
const ELSEWHERE: [(&str, &str); 4] = [
    ("schedule", "before the first table of the run file"),
    ("damping", "before the first table of the run file"),
    ("local_steps", "before the first table of the run file"),
    ("absence", "in the coordinator's file, as `lost_silo`"),
];

/// The options with the entries of the table in their place.
///
/// # Errors
/// [`Error::Malformed`] for an entry that the options do not have, that a run says elsewhere, or of another type;
/// [`Error::Inference`] for a value that means nothing.
pub(super) fn options(table: &Map<String, Value>, base: PviOptions) -> Result<PviOptions> {
    let mut value = serde_json::to_value(base).map_err(|error| wrong(error.to_string()))?;
    let Value::Object(known) = &mut value else { return Err(wrong("they are no table".into())) };
    for (name, entry) in table {
        if let Some((_, place)) = ELSEWHERE.iter().find(|(own, _)| own == name) {
            return Err(wrong(format!("`{name}` is said {place}")));
        }
        let Some(slot) = known.get_mut(name) else {
            let names = known.keys().filter(|name| ELSEWHERE.iter().all(|(own, _)| own != name));
            let names: Vec<&str> = names.map(String::as_str).collect();
            return Err(wrong(format!("`{name}` is none of {}", names.join(", "))));
        };
        *slot = if name == "solver" { completed(entry)? } else { entry.clone() };
    }
    let options: PviOptions = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    let kept = serde_json::to_value(options).map_err(|error| wrong(error.to_string()))?;
    for (name, entry) in table {
        if let Some(dropped) = dropped(name, entry, &kept[name]) {
            return Err(wrong(format!("`{dropped}` is nothing that there is")));
        }
    }
    options.check()?;
    Ok(options)
}

fn wrong(problem: String) -> Error {
    Error::malformed("the table `pvi` of a run file", problem)
}

/// A solver with the usual constants where the file says none.
fn completed(entry: &Value) -> Result<Value> {
    let expectation = Expectation::GaussHermite { points: 1 };
    // The last of each is what it cannot do without, which the file has to say.
    let usual = [
        (SolverChoice::Gradient(GradientDescent::default()), ""),
        (SolverChoice::Lbfgs(Lbfgs::new(expectation)), "expectation"),
        (SolverChoice::PowerExpectation(PowerExpectation::new(1.0)), "alpha"),
    ];
    let mut whole = entry.clone();
    for (solver, needed) in usual {
        let solver = serde_json::to_value(solver).map_err(|error| wrong(error.to_string()))?;
        for (name, constants) in solver.as_object().into_iter().flatten() {
            let Some(Value::Object(own)) = whole.get_mut(name) else { continue };
            for (constant, value) in constants.as_object().into_iter().flatten().filter(|(name, _)| *name != needed) {
                own.entry(constant).or_insert_with(|| value.clone());
            }
        }
    }
    Ok(whole)
}

/// The first name in an entry that nobody read.
fn dropped(path: &str, given: &Value, kept: &Value) -> Option<String> {
    given.as_object()?.iter().find_map(|(name, given)| {
        let path = format!("{path}.{name}");
        match kept.get(name) {
            Some(kept) => dropped(&path, given, kept),
            None => Some(path),
        }
    })
}
