//! Says what one CSV file holds, column by column, and for a formula all that would leave the silo before a fit.

use std::error::Error;
use std::path::PathBuf;

use crate::formula::{Declared, Formula, Frame, MissingCells, Profile};
use clap::Args;

use super::reading::Reading;
use super::say::{say, text};

/// The file, and perhaps a formula.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The CSV file.
    file: PathBuf,
    /// A formula, whose needs are listed.
    #[arg(long)]
    formula: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let frame = Frame::from_path(&options.file, options.reading.options())?;
    say(format_args!("{}: {} rows, {} columns", options.file.display(), frame.rows(), frame.names().len()))?;
    let width = frame.names().iter().map(|name| name.chars().count()).max().unwrap_or_default();
    for name in frame.names() {
        match frame.contents(name) {
            Ok(own) => say(format_args!("  {name:<width$}  {own}"))?,
            // What no formula may use as it stands is still a column of the file.
            Err(error) => say(format_args!("  {name:<width$}  {error}"))?,
        }
    }
    let Some(formula) = &options.formula else { return Ok(()) };
    let formula = Formula::parse(formula)?;
    // Missing cells are counted; what the study makes of them it says itself.
    let columns = frame.columns("this file", &[&formula], MissingCells::Drop)?;
    let (rows, lost) = (columns.rows(), columns.dropped());
    say(format_args!("rows that the formula uses: {rows}; with missing cells: {lost}"))?;
    if lost > 0 && !options.reading.drop_missing {
        say("a fit refuses them, or leaves them out with --drop-missing, in a study with `missing = \"drop\"`")?;
    }
    say("before a fit these leave the silo:")?;
    Ok(text(Profile::of(&[&formula], &columns, &Declared::default())?)?)
}
