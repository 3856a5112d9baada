//! Writes what shells and manuals know of the commands, from their own declarations.

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::say::text;

/// The shell.
#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell whose completions are printed.
    shell: Shell,
}

/// The folder.
#[derive(Args, Debug)]
pub(super) struct Manual {
    /// The folder of the pages: partita.1, and one for each task.
    folder: PathBuf,
}

pub(super) fn completions(options: &Completions, mut command: Command) -> Result<(), Box<dyn Error>> {
    let mut all = Vec::new();
    clap_complete::generate(options.shell, &mut command, "partita", &mut all);
    Ok(text(String::from_utf8(all)?)?)
}

pub(super) fn manual(options: &Manual, command: Command) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(&options.folder)?;
    Ok(clap_mangen::generate_to(command, &options.folder)?)
}
