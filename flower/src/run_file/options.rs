//! Reads the tables of a run file with the options of an algorithm.

use partita_inference::{
    Adam, Expectation, FedOptOptions, GradientDescent, Lbfgs, LocalSolver, Mask, Optimiser, Plug, PowerExpectation,
    PrivateSteps, PviOptions, RoundOptions, Sgd, VerticalOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::table::{Elsewhere, Table, Usual};
use crate::error::Result;

/// Entries of a table.
type Entries = Map<String, Value>;

/// The place of an option that every algorithm with rounds has.
const LOCAL_STEPS: Elsewhere = Elsewhere { entry: "local_steps", place: BEFORE };
const BEFORE: &str = "before the first table of the run file";

/// The entries of a table without what is promised of rows, and that; none of a table that is not there.
fn promise(table: &Table, entries: Option<&Entries>) -> Result<(Entries, Option<PrivateSteps>)> {
    let mut entries = entries.cloned().unwrap_or_default();
    let private = entries.remove(super::PRIVATE).filter(|own| !own.is_null()).map(serde_json::from_value);
    Ok((entries, private.transpose().map_err(|error| table.wrong(format!("`{}`: {error}", super::PRIVATE)))?))
}

/// The options of SFVI-Avg.
///
/// # Errors
/// As for [`Table::over`].
pub(super) fn rounds(entries: Option<&Entries>, local_steps: u64) -> Result<RoundOptions> {
    let table = Table { what: "the table `sfvi-avg` of a run file", elsewhere: &[LOCAL_STEPS], usual: Vec::new() };
    let (entries, private) = promise(&table, entries)?;
    Ok(RoundOptions { private, ..table.over(&RoundOptions::paper(local_steps), &entries)? })
}

/// The options of federated point estimation.
///
/// # Errors
/// As for [`Table::over`]; [`crate::Error::Inference`] for constants that are invalid for a rule.
pub(super) fn fed_opt(entries: Option<&Entries>, local_steps: u64) -> Result<FedOptOptions> {
    let usual = vec![
        Usual::new("server", FedOptOptions::fed_avg(1).server, "")?,
        Usual::new("server", FedOptOptions::fed_adagrad(1, 1.0).server, "rate")?,
        Usual::new("server", FedOptOptions::fed_adam(1, 1.0).server, "rate")?,
        Usual::new("server", FedOptOptions::fed_yogi(1, 1.0).server, "rate")?,
        Usual::new("optimiser", Plug::<dyn Optimiser>::from(Adam::default()), "")?,
        Usual::new("optimiser", Plug::<dyn Optimiser>::from(Sgd { momentum: 0.0 }), "")?,
    ];
    let table = Table { what: "the table `fed-opt` of a run file", elsewhere: &[LOCAL_STEPS], usual };
    let (entries, private) = promise(&table, entries)?;
    let options = FedOptOptions { private, ..table.over(&FedOptOptions::fed_avg(local_steps), &entries)? };
    options.server.check()?;
    options.mask.map_or(Ok(()), Mask::check)?;
    options.optimiser.check()?;
    Ok(options)
}

/// The options of PVI.
///
/// # Errors
/// As for [`Table::over`]; [`crate::Error::Inference`] for invalid options.
pub(super) fn pvi(entries: Option<&Entries>, base: &PviOptions) -> Result<PviOptions> {
    const ELSEWHERE: [Elsewhere; 4] = [
        LOCAL_STEPS,
        Elsewhere { entry: "schedule", place: BEFORE },
        Elsewhere { entry: "damping", place: BEFORE },
        Elsewhere { entry: "missing_silo", place: "in the coordinator's file, as `lost_silo`" },
    ];
    let expectation = Expectation::GaussHermite { points: 1 };
    let usual = vec![
        Usual::new("solver", Plug::<dyn LocalSolver>::from(GradientDescent::default()), "")?,
        Usual::new("solver", Plug::<dyn LocalSolver>::from(Lbfgs::new(expectation)), "expectation")?,
        Usual::new("solver", Plug::<dyn LocalSolver>::from(PowerExpectation::new(1.0)), "alpha")?,
    ];
    let table = Table { what: "the table `pvi` of a run file", elsewhere: &ELSEWHERE, usual };
    let (entries, private) = promise(&table, entries)?;
    let options = PviOptions { private, ..table.over(base, &entries)? };
    options.check()?;
    Ok(options)
}

/// The options of a private method; the table must name what is promised, and the noise that keeps it.
///
/// # Errors
/// As for [`Table::over`]; [`crate::Error::Malformed`] without `epsilon`, `delta` or `noise`.
pub(super) fn promised<T: Serialize + DeserializeOwned>(
    what: &'static str,
    entries: Option<&Entries>,
    usual: &T,
) -> Result<T> {
    let table = Table { what, elsewhere: &[], usual: Vec::new() };
    let Some(entries) = entries else {
        return Err(table.wrong("it is not there: write `[privacy]` in a study".into()));
    };
    match ["epsilon", "delta", "noise"].into_iter().find(|entry| !entries.contains_key(*entry)) {
        Some(entry) => Err(table.wrong(format!("missing field `{entry}`"))),
        None => table.over(usual, entries),
    }
}

/// The options for columns at different parties; the table must name what hides the contributions.
///
/// # Errors
/// As for [`Table::over`]; [`crate::Error::Malformed`] without `augmentation` or `auxiliary`.
pub(super) fn vertical(entries: Option<&Entries>) -> Result<VerticalOptions> {
    let table = Table { what: "the table `vertical` of a run file", elsewhere: &[], usual: Vec::new() };
    let Some(entries) = entries else { return Err(table.wrong("it is not there: see the how-to".into())) };
    match ["augmentation", "auxiliary"].into_iter().find(|entry| !entries.contains_key(*entry)) {
        Some(entry) => Err(table.wrong(format!("missing field `{entry}`"))),
        None => table.over(&VerticalOptions::direct(), entries),
    }
}
