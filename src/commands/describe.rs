//! Says what one CSV file holds: its columns, and for a formula all that would leave the silo before a fit.

use std::error::Error;
use std::path::PathBuf;

use crate::formula::{Declared, Formula, Frame, MissingCells, Profile};
use clap::Args;

use super::reading::Reading;

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
    println!("{}: {} rows, {} columns", options.file.display(), frame.rows(), frame.names().len());
    println!("columns: {}", frame.names().join(", "));
    let Some(text) = &options.formula else { return Ok(()) };
    let formula = Formula::parse(text)?;
    let missing = if options.reading.drop_missing { MissingCells::Drop } else { MissingCells::Refuse };
    let columns = frame.columns("this file", &[&formula], missing)?;
    println!("rows that the formula uses: {}, left out: {}", columns.rows(), columns.dropped());
    println!("before a fit these leave the silo:");
    print!("{}", Profile::of(&[&formula], &columns, &Declared::default())?);
    Ok(())
}
