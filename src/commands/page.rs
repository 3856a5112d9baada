//! Writes the report of a fit as files, and reads it back from them to show it anew.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::Fit;
use crate::executables::{NAMES, PAGE, RESULT};
use crate::formula::prepare::readings;
use crate::inference::{HtmlOptions, Report, write_atomically};

/// Where the report is.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// A result.json, or the folder that a fit, a coordinator or a silo wrote it into.
    result: PathBuf,
    /// Writes the report as a page too, into this file. Densities and the course of the fit are in the page of the fit alone.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The heading of the page.
    #[arg(long, requires = "html")]
    title: Option<String>,
}

/// Writes what was found; the names of the files that people look for.
pub(super) fn write_page(fit: &Fit, page: &HtmlOptions, folder: &Path) -> Result<Vec<&'static str>, Box<dyn Error>> {
    fit.write_html(&folder.join(PAGE), page)?;
    fit.report.write_json(&folder.join(RESULT))?;
    write_atomically(&folder.join(NAMES), &serde_json::to_vec_pretty(page)?)?;
    Ok(vec![PAGE, RESULT])
}

/// Prints a report that was written, and writes its page anew.
pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let is_folder = options.result.is_dir();
    let path = if is_folder { options.result.join(RESULT) } else { options.result.clone() };
    let report = Report::read_json(&path)?;
    let names = path.with_file_name(NAMES);
    let mut page = match std::fs::read(&names) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", names.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => HtmlOptions::default(),
        Err(error) => return Err(format!("{}: {error}", names.display()).into()),
    };
    print!("{report}{}", readings(&page.effects, &report));
    if let Some(file) = &options.html {
        if let Some(title) = &options.title {
            page.title.clone_from(title);
        }
        report.write_html(file, &page)?;
        println!("\nthe page is {}", file.display());
    }
    Ok(())
}
