//! Reads the report of a fit back from its files, to show it anew.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;

use super::say::{say, text};

use crate::executables::{CONTENT, RESULT};
use crate::formula::prepare::readings;
use crate::inference::{PageContent, Report};

/// Where the report is.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// A result.json, or the folder that a fit, a coordinator or a silo wrote it into.
    result: PathBuf,
    /// Writes the report as a page too, into this file: the page of the fit.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The heading of the page.
    #[arg(long, requires = "html")]
    title: Option<String>,
}

/// Prints a report that was written, and writes its page anew.
pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let is_folder = options.result.is_dir();
    let path = if is_folder { options.result.join(RESULT) } else { options.result.clone() };
    let report = Report::read_json(&path)?;
    let content = path.with_file_name(CONTENT);
    let mut page = if content.exists() { PageContent::read_json(&content)? } else { PageContent::default() };
    text(format_args!("{report}{}", readings(&page.options.effects, &report.answer())))?;
    if let Some(file) = &options.html {
        if let Some(title) = &options.title {
            page.options.title.clone_from(title);
        }
        page.write_html(&report, file)?;
        say(format_args!("\nthe page is {}", file.display()))?;
    }
    Ok(())
}
