//! Reads what a command is about: a formula or a study over the files of silos, or a model that is compiled in.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;

use super::models::{Compiled, Models};
use super::reading::Reading;
use super::say::note;
use crate::executables::StudyFile;
use crate::formula::{MissingCells, ResponseFamily, SiloTable, StatedPrior, Study};

/// A formula, a study, or a model.
#[derive(Args, Debug)]
pub(super) struct Asked {
    /// The formula, as in 'wheeze ~ smoke * age + (1 | child)'.
    #[arg(required_unless_present_any = ["study", "model"], conflicts_with_all = ["study", "model"])]
    formula: Option<String>,
    /// The family of the outcome, with a link where it is not the usual one: gaussian, 'bernoulli(probit)', poisson,
    /// hurdle_gamma, cumulative, categorical, weibull, piecewise_exponential; a word that is none lists all.
    #[arg(long, required_unless_present_any = ["study", "model"], conflicts_with_all = ["study", "model"])]
    family: Option<ResponseFamily>,
    /// The formula of another parameter of the family, as in 'sigma ~ age'; any number of them.
    #[arg(long = "parameter", conflicts_with_all = ["study", "model"])]
    parameters: Vec<String>,
    /// The file of a study, in place of a formula: study.toml, as silos and a coordinator have it.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    study: Option<PathBuf>,
    /// A model that this program has compiled in, in place of a formula; `list` names them.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The CSV file of a silo, as FILE or NAME=FILE; once for each silo.
    #[arg(long = "silo", required_unless_present = "model")]
    silos: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// The prior of a number or a class in place of the usual one, such as 'smoke ~ normal(0, 1)' or 'sd ~ exponential(1)';
    /// any number of them. Classes are b (all coefficients but the intercept and those of `--parameter`), sd and cor.
    #[arg(long = "prior", conflicts_with = "model")]
    priors: Vec<String>,
    /// A grouping whose groups have rows in several silos, such as school: their effects, by name, are known to all silos; any
    /// number of them.
    #[arg(long, value_name = "GROUPING", conflicts_with = "model")]
    across_silos: Vec<String>,
}

/// What it is.
pub(super) enum Subject<'a> {
    /// A formula, with the file of its study if it has one.
    Formula(Box<Study>, Option<Box<StudyFile>>),
    Model(&'a dyn Compiled),
    /// The models that there are, which were to be listed.
    List,
}

impl Asked {
    pub(super) fn subject<'a>(&self, models: &'a Models) -> Result<Subject<'a>, Box<dyn Error>> {
        if let Some(name) = &self.model {
            return match name.as_str() {
                "list" => Ok(Subject::List),
                name => Ok(Subject::Model(models.named(name)?)),
            };
        }
        let (study, file) = self.study()?;
        Ok(Subject::Formula(Box::new(study), file.map(Box::new)))
    }

    /// The study that the formula or the file states.
    pub(super) fn study(&self) -> Result<(Study, Option<StudyFile>), Box<dyn Error>> {
        let file = self.study.as_ref().map(|path| StudyFile::read(path)).transpose()?;
        let mut study = match (&file, &self.formula, self.family) {
            (Some(file), ..) => file.study(self.reading.options())?,
            (None, Some(formula), Some(family)) => {
                let mut study = Study::new(formula, family)?;
                study.read = self.reading.options();
                study
            }
            _ => {
                return Err(match &self.model {
                    Some(name) => {
                        format!("--model {name}: this command takes formulas and studies alone. Leave it out")
                    }
                    None => "expected a formula and a --family, or the file of a --study".to_owned(),
                }
                .into());
            }
        };
        for formula in &self.parameters {
            study = study.with_parameter(formula)?;
        }
        if self.reading.drop_missing {
            study.missing = MissingCells::Drop;
        }
        study.declared.groups_across_silos.extend(self.across_silos.iter().cloned());
        study.priors.extend(priors(&self.priors)?);
        Ok((study, file))
    }

    /// The silos' files: a silo without a name has that of its file. Those of a study are silos of it, in its order.
    pub(super) fn tables(&self, study: Option<&StudyFile>) -> Result<Vec<SiloTable>, Box<dyn Error>> {
        let table = |text: &String| {
            let (name, path) = named(text);
            let stem = || path.file_stem().map_or_else(|| text.clone(), |stem| stem.to_string_lossy().into_owned());
            SiloTable { name: name.unwrap_or_else(stem), path }
        };
        let mut all: Vec<SiloTable> = self.silos.iter().map(table).collect();
        if let Some(study) = study {
            of_study(&mut all, &study.silos)?;
        }
        match all.iter().enumerate().find(|(place, own)| all[..*place].iter().any(|other| other.name == own.name)) {
            Some((_, twice)) => {
                Err(format!("two silos are called `{}`. Name them apart: --silo NAME=FILE", twice.name).into())
            }
            None => one_file_each(&all).map(|()| all).map_err(Into::into),
        }
    }

    /// What it is called in a heading.
    pub(super) fn title(&self, file: Option<&StudyFile>) -> String {
        let formula = file.map(|own| &own.formula).or(self.formula.as_ref());
        formula.or(self.model.as_ref()).cloned().unwrap_or_default()
    }
}

/// Puts files in the order of a study's silos, refuses those of others, and names the silos without one.
fn of_study(files: &mut [SiloTable], silos: &[String]) -> Result<(), String> {
    if let Some(other) = files.iter().find(|own| !silos.contains(&own.name)) {
        return Err(format!(
            "--silo {}: the study has no silo `{}`, expected some of {}. Name the silo of the file: --silo NAME={}",
            other.path.display(),
            other.name,
            silos.join(", "),
            other.path.display()
        ));
    }
    files.sort_by_key(|own| silos.iter().position(|name| *name == own.name));
    let missing: Vec<_> = silos.iter().filter(|name| files.iter().all(|own| own.name != **name)).cloned().collect();
    if !missing.is_empty() {
        note(format_args!(
            "no --silo for {} of the study: what follows is about the other silos alone",
            missing.join(", ")
        ));
    }
    Ok(())
}

/// Refuses one file under two names, whose rows would count twice, and tells of two files of the same bytes.
fn one_file_each(all: &[SiloTable]) -> Result<(), String> {
    let real: Vec<Option<PathBuf>> = all.iter().map(|own| std::fs::canonicalize(&own.path).ok()).collect();
    for (place, own) in all.iter().enumerate() {
        for (other, known) in all[..place].iter().zip(&real) {
            if known.is_some() && *known == real[place] {
                return Err(format!(
                    "--silo {}: it is the file of the silo `{}` and of the silo `{}`, expected a file for each silo: every row would \
                     count twice, and standard deviations would be too small. Leave one of them out, or name the file of the other silo",
                    own.path.display(),
                    other.name,
                    own.name
                ));
            }
            if has_same_bytes(&own.path, &other.path) {
                note(format_args!(
                    "the files of the silos `{}` and `{}` have the same bytes: if one is a copy, every row counts twice, and \
                     standard deviations are too small. Leave one of them out",
                    other.name, own.name
                ));
            }
        }
    }
    Ok(())
}

/// Whether two files, and no pipes, hold the same: they are read as far as they do. A file that cannot be read is told of where it
/// is needed.
fn has_same_bytes(one: &Path, two: &Path) -> bool {
    let length = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|own| own.len());
    let bytes = |path: &Path| Some(BufReader::new(File::open(path).ok()?).bytes().map_while(Result::ok));
    length(one).is_some()
        && length(one) == length(two)
        && bytes(one).zip(bytes(two)).is_some_and(|(one, two)| one.eq(two))
}

/// `NAME=FILE` or `FILE`.
pub(super) fn named(text: &str) -> (Option<String>, PathBuf) {
    match text.split_once('=') {
        Some((name, path)) => (Some(name.to_owned()), PathBuf::from(path)),
        None => (None, PathBuf::from(text)),
    }
}

/// The priors that were stated, each once.
fn priors(given: &[String]) -> Result<BTreeMap<String, StatedPrior>, Box<dyn Error>> {
    let mut all = BTreeMap::new();
    for text in given {
        let (name, prior) = StatedPrior::parse_named(text)?;
        if all.insert(name.clone(), prior).is_some() {
            return Err(format!("two priors of `{name}`. State one of them").into());
        }
    }
    Ok(all)
}
