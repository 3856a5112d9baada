//! Says what one CSV file holds, column by column, and for a formula all that would leave the silo before a fit.

use std::error::Error;
use std::path::PathBuf;

use crate::executables::StudyFile;
use crate::formula::{Declared, Formula, Frame, MissingCells, Profile, SiloTable, Study};
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
    /// The file of a study, in place of a formula: what it fixes leaves no silo.
    #[arg(long, value_name = "FILE", conflicts_with = "formula")]
    study: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let frame = Frame::from_path(&options.file, options.reading.options())?;
    let size = format!("{}, {}", counted(frame.rows(), "row"), counted(frame.names().len(), "column"));
    say(format_args!("{}: {size}", options.file.display()))?;
    let width = frame.names().iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let study = options.study.as_ref().map(|path| StudyFile::read(path)).transpose()?;
    let units = study.as_ref().map(|own| own.columns.clone()).unwrap_or_default();
    for name in frame.names() {
        let unit = units.get(name).map(|unit| format!(", in {unit}")).unwrap_or_default();
        match frame.contents(name) {
            Ok(own) => say(format_args!("  {name:<width$}  {own}{unit}"))?,
            // What no formula may use as it stands is still a column of the file.
            Err(error) => say(format_args!("  {name:<width$}  {error}"))?,
        }
    }
    // As a fit names the silo of a file.
    let name = options.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (profile, columns) = match (&study, &options.formula) {
        (None, None) => return Ok(()),
        // Missing cells are counted; what a fit makes of them stands below.
        (Some(file), _) => {
            let study = Study { missing: MissingCells::Drop, ..file.study(options.reading.options())? };
            let columns = study.columns(&SiloTable { name: name.clone(), path: options.file.clone() })?;
            (study.profile(&columns)?, columns)
        }
        (None, Some(formula)) => {
            let formula = Formula::parse(formula)?;
            let columns = frame.columns(&name, &[&formula], MissingCells::Drop)?;
            (Profile::of(&[&formula], &columns, &Declared::default())?, columns)
        }
    };
    let (rows, lost) = (columns.rows(), columns.dropped());
    say(format_args!("rows that the formula uses: {rows}; with missing cells: {lost}"))?;
    if lost > 0 && !options.reading.drop_missing {
        say("a fit refuses them, or leaves them out with --drop-missing, in a study with `missing = \"drop\"`")?;
    }
    if let Some((study, privacy)) = study.as_ref().and_then(|own| Some((own, own.privacy.as_ref()?))) {
        say(
            "the study is private: silos say nothing of these rows but their number, or that of the groups that are protected",
        )?;
        return Ok(say(privacy.promise(&study.protected()?, study.promised_sums(privacy)?)?)?);
    }
    say("before a fit these leave the silo:")?;
    Ok(text(profile)?)
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
