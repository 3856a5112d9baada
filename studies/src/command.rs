//! Names every study, and runs the study named on the command line.
#![allow(clippy::print_stderr, reason = "what ended a study early is no part of its tables")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::framework_thesis::{gaussian_mean, ruggedness};
use crate::harness::{Result, WithPage};
use crate::misspecification::{clutter, tables};
use crate::sfvi::{digits, six_cities, topics};
use crate::{autoencoder, columns, packages, private_adult, private_six_cities, pvi, verdicts, weight_uncertainty};

/// Repeats the tables and figures of papers with Partita.
#[derive(Parser, Debug)]
#[command(name = "partita-studies")]
struct Command {
    /// The folder of public data files; else the variable `PARTITA_DATA`, else they are downloaded.
    #[arg(long, global = true)]
    data: Option<PathBuf>,
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand, Debug)]
#[command(rename_all = "snake_case")]
enum Study {
    BayesianMnist(weight_uncertainty::Options),
    Clutter(clutter::Options),
    ClutterTables(tables::Options),
    GaussianMean(gaussian_mean::Options),
    MnistRegression(digits::Options),
    /// Analyses of package manuals, over one file and over three silos.
    Packages(WithPage),
    PrivateAdult(private_adult::Options),
    PrivateSixCities(private_six_cities::Options),
    PviMnist(pvi::mnist::Options),
    PviUci(pvi::uci::Options),
    Ruggedness(ruggedness::Options),
    SixCities(six_cities::Options),
    Topics(topics::Options),
    Vae(autoencoder::Options),
    /// Verdicts of default fits beside right answers.
    Verdicts(WithPage),
    VerticalHeart(columns::heart::Options),
    VerticalLogistic(columns::logistic::Options),
    VerticalPoisson(columns::poisson::Options),
}

/// Runs the study named on the command line.
#[must_use]
pub fn main() -> ExitCode {
    let command = Command::parse();
    let done = match &command.data {
        Some(folder) => run_with_data(folder),
        None => run(command.study).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("partita-studies: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the same command with the variable for the folder of data, which a process cannot safely set for itself.
fn run_with_data(folder: &Path) -> Result<ExitCode> {
    let mut own = std::env::args_os().skip(1).peekable();
    let mut same = std::process::Command::new(std::env::current_exe()?);
    while let Some(argument) = own.next() {
        match argument.to_str() {
            Some("--data") => drop(own.next()),
            Some(one) if one.starts_with("--data=") => {}
            _ => drop(same.arg(argument)),
        }
    }
    let status = same.env("PARTITA_DATA", folder).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(study: Study) -> Result<()> {
    match study {
        Study::BayesianMnist(options) => weight_uncertainty::run(options),
        Study::Clutter(options) => clutter::run(options),
        Study::ClutterTables(options) => tables::run(options),
        Study::GaussianMean(options) => gaussian_mean::run(options),
        Study::MnistRegression(options) => digits::run(options),
        Study::Packages(options) => packages::run(&options),
        Study::PrivateAdult(options) => private_adult::run(options),
        Study::PrivateSixCities(options) => private_six_cities::run(options),
        Study::PviMnist(options) => pvi::mnist::run(options),
        Study::PviUci(options) => pvi::uci::run(options),
        Study::Ruggedness(options) => ruggedness::run(options),
        Study::SixCities(options) => six_cities::run(options),
        Study::Topics(options) => topics::run(options),
        Study::Vae(options) => autoencoder::run(options),
        Study::Verdicts(options) => verdicts::run(&options),
        Study::VerticalHeart(options) => columns::heart::run(options),
        Study::VerticalLogistic(options) => columns::logistic::run(options),
        Study::VerticalPoisson(options) => columns::poisson::run(options),
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    /// What stands after `partita-studies` and `--` in the lines of a text, without a comment behind it.
    fn commands(text: &str) -> Vec<&str> {
        let rest = text.lines().filter_map(|line| line.split_once("partita-studies")?.1.split(['`', '#']).next());
        rest.filter_map(|rest| Some(rest.split_once("-- ")?.1.trim())).filter(|own| !own.contains("...")).collect()
    }

    #[test]
    fn every_command_of_the_book_names_a_study_with_its_options() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = std::fs::read_dir(root.join("docs/src")).unwrap().map(|entry| entry.unwrap().path());
        let mut count = 0;
        for page in pages.filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
            let text = std::fs::read_to_string(&page).unwrap();
            for own in commands(&text) {
                let words = ["partita-studies"].into_iter().chain(own.split_whitespace());
                let wrong = Command::try_parse_from(words).err().filter(|error| error.kind() != ErrorKind::DisplayHelp);
                assert!(wrong.is_none(), "{}: {own}: {}", page.display(), wrong.unwrap());
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
        assert!(Command::try_parse_from(["partita-studies", "autoencoder"]).is_err());
    }
}
