//! Reads the file of a study, which is the same at all parties: formula, family, silos, and what is agreed beforehand.

use std::collections::BTreeMap;
use std::path::Path;

use partita_flower::{Error, ObjectId, Result, RunFile, read_toml};
use partita_inference::{AlgorithmChoice, FitOptions, PredictiveCheck, Schedule, Settings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::promise::StudyPrivacy;
use crate::formula::{
    Contrast, Declared, DeclaredColumn, MissingCells, ReadOptions, ResponseFamily, StatedPrior, Study,
};

/// The file `study.toml`, the same at every party.
///
/// # Example
/// ```
/// use partita::executables::StudyFile;
/// let study = StudyFile::parse(r#"
///     formula = "wheeze ~ smoke * age + (1 | child)"
///     family = "bernoulli"
///     silos = ["north", "south"]
///     checks = ["zeros of y"]
///     [priors]
///     smoke = "normal(0, 1)"
///     [declared.levels]
///     smoke = ["no", "yes"]
/// "#)?;
/// assert_eq!(study.asks()?, ["formula", "few", "trust", "predictive"]);
/// # Ok::<(), partita::flower::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// The formula.
    pub formula: String,
    /// The family of the outcome.
    pub family: ResponseFamily,
    /// Formulas of other parameters of the family, such as `sigma ~ age`.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// All silos, in the order of sums over them.
    pub silos: Vec<String>,
    /// What happens to rows with missing cells: `"refuse"` or `"drop"`.
    #[serde(default)]
    pub missing: MissingCells,
    /// Priors in place of the usual ones, by the name of a number or of a class, as in `smoke = "normal(0, 1)"`.
    #[serde(default)]
    pub priors: BTreeMap<String, StatedPrior>,
    /// What is fixed in advance, so that no silo is asked for it: levels, scalings, knots.
    #[serde(default)]
    pub declared: Declared,
    /// Columns that every silo's file has to have, with their units, as in `age = "years"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, String>,
    /// Posterior predictive checks that silos make after the fit, such as `zeros of y`.
    #[serde(default)]
    pub checks: Vec<PredictiveCheck>,
    /// Contrasts, such as `smoke: 1 - 0 averaged`; silos are asked about averaged ones that stand here, and no others.
    #[serde(default)]
    pub contrasts: Vec<Contrast>,
    /// Draws at which silos leave their rows out one at a time, after the fit; 0 for none.
    #[serde(default)]
    pub leave_one_out_draws: u64,
    /// The first words of the requests that the coordinator may make of silos, in the words of `allow` of a silo's file; those that the
    /// other entries need, if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<String>>,
    /// The seed of all noise.
    #[serde(default = "one")]
    pub seed: u64,
    /// What is promised of every row; silos then answer with noised sums, and nothing else that depends on their rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<StudyPrivacy>,
    /// Entries of a run file that are to be other than usual, such as `algorithm`.
    #[serde(default)]
    pub run: Map<String, Value>,
}

fn one() -> u64 {
    1
}

/// The most rounds of a study that names none: few rounds end by themselves after about a dozen, with effects of silos some forty.
const MOST_ROUNDS: u64 = 100;
/// The most steps of one with `sfvi` that names none: it finds its rate and its end by itself.
pub(crate) const MOST_STEPS: u64 = 30_000;

/// The entries of the file, in the order in which a difference between parties is looked for.
const ENTRIES: [&str; 15] = [
    "formula",
    "family",
    "parameters",
    "silos",
    "missing",
    "priors",
    "declared",
    "columns",
    "checks",
    "contrasts",
    "leave_one_out_draws",
    "asks",
    "seed",
    "privacy",
    "run",
];

impl StudyFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::File`], with the line of the mistake, or the place in the formula.
    pub fn read(path: &Path) -> Result<Self> {
        let study: Self = read_toml(path)?;
        study.check().map_err(|error| Error::file(path, problem(error)))?;
        Ok(study)
    }

    /// Reads its text.
    ///
    /// # Errors
    /// [`Error::Malformed`], with the line of the mistake, or the place in the formula.
    pub fn parse(text: &str) -> Result<Self> {
        let study: Self = toml::from_str(text).map_err(malformed)?;
        study.check()?;
        Ok(study)
    }

    fn check(&self) -> Result<()> {
        let study = self.study(ReadOptions::default())?;
        if let Some(privacy) = &self.privacy {
            privacy.check(self)?;
            study.declared_alone(&privacy.columns).map_err(malformed)?;
        }
        self.check_asks()?;
        self.fit_options().map(drop)
    }

    /// How it is fitted, in one process and over an engine.
    pub(crate) fn fit_options(&self) -> Result<FitOptions> {
        self.run_file()?.fit_options(&self.settings())
    }

    /// The study, with the file of a silo read in this way.
    ///
    /// # Errors
    /// [`Error::Malformed`], with the place in the formula.
    pub(crate) fn study(&self, read: ReadOptions) -> Result<Study> {
        let Self { family, missing, mut declared, priors, privacy, columns: units, .. } = self.clone();
        for (name, own) in privacy.iter().flat_map(|own| &own.columns) {
            if let DeclaredColumn::Levels(levels) = own {
                declared.levels.entry(name.clone()).or_insert_with(|| levels.clone());
            }
        }
        let stand_in = privacy.map(|own| own.columns);
        let mut study = Study::new(&self.formula, family).map_err(malformed)?;
        for formula in &self.parameters {
            study = study.with_parameter(formula).map_err(malformed)?;
        }
        Ok(Study { read, missing, declared, priors, units, stand_in, ..study })
    }

    /// The run that it asks for.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an entry of `run` that a run file does not have.
    pub(crate) fn run_file(&self) -> Result<RunFile> {
        if self.run.get("algorithm").is_some_and(|own| own == "nuts") {
            return Err(Error::Unwelcome {
                what: "the table `run` of a study",
                found: "`nuts`, which needs the rows of all silos in one process".into(),
                expected: "a method that silos answer over an engine, such as few-rounds".into(),
                remedy: "To compare with a sampler, where the files may lie together, take `partita fit --study FILE --method nuts`, and leave `algorithm` out of `[run]`.",
            });
        }
        if self.privacy.is_none() && self.run.contains_key("secure_sums") {
            return Err(Error::Unwelcome {
                what: "the table `run` of a study",
                found: "`secure_sums`, in a study whose silos say sums of their columns one by one".into(),
                expected: "it under `[privacy]`, where silos say nothing else, or in the run file of a model that is compiled in".into(),
                remedy: "Take it out, or make the study private.",
            });
        }
        if self.run.contains_key("columns") {
            return Err(Error::Unwelcome {
                what: "the table `run` of a study",
                found: "`columns`, the names of columns in their order".into(),
                expected: "it in the run file of `logistic-regression`: a formula finds columns by name".into(),
                remedy: "Take it out. The table `[columns]` of a study names columns that every file has to have.",
            });
        }
        let mut entries = self.entries()?;
        if let Some(privacy) = &self.privacy {
            self.write_promise(privacy, &mut entries)?;
        }
        let run: RunFile = serde_json::from_value(Value::Object(entries)).map_err(malformed)?;
        // A difference of two parties is told by the entry of this file that differs.
        let own = serde_json::to_value(self).map_err(malformed)?;
        run.told_as(&ENTRIES.map(|name| (name, own[name].clone()))).listing(self.asks.as_deref())
    }

    /// The method that it names, without a promise.
    pub(super) fn named(&self) -> Result<AlgorithmChoice> {
        let run: RunFile = serde_json::from_value(Value::Object(self.entries()?)).map_err(malformed)?;
        Ok(run.fit_options(&self.settings())?.algorithm)
    }

    /// The entries of the run file, but for what is promised.
    fn entries(&self) -> Result<Map<String, Value>> {
        let all = serde_json::to_string(self).map_err(malformed)?;
        let hash = ObjectId::of(all.as_bytes()).to_string();
        let most = if self.finds_its_end() { MOST_STEPS } else { MOST_ROUNDS };
        let mut entries =
            Map::from_iter([("algorithm".to_owned(), json!("few-rounds")), ("steps".to_owned(), json!(most))]);
        entries.extend(self.run.clone());
        let checks = self.study(ReadOptions::default())?.checks(&self.checks).map_err(malformed)?;
        let own = [
            ("model", json!(format!("`{}` ({})", self.formula, &hash[..12]))),
            ("silos", json!(self.silos)),
            ("checks", json!(checks)),
            ("leave_one_out_draws", json!(self.leave_one_out_draws)),
        ];
        for (name, value) in own {
            if entries.insert(name.into(), value).is_some() {
                return Err(Error::Unwelcome {
                    what: "the table `run` of a study",
                    found: format!("`{name}`"),
                    expected: "only entries that a study does not have itself".into(),
                    remedy: "Write it above all tables of the study's file, or leave it out.",
                });
            }
        }
        Ok(entries)
    }

    /// What one unit of its promise is: `row`, the name of the grouping, or a whole silo.
    pub(crate) fn protected(&self) -> Result<String> {
        let study = self.study(ReadOptions::default())?;
        Ok(self.privacy.as_ref().map_or_else(|| study.protected(), |own| own.protected(&study)))
    }

    /// A hash of all that decides on what silos answer: contrasts follow from the posterior.
    pub(crate) fn asked_of_rows(&self) -> Result<String> {
        let own = Self { contrasts: Vec::new(), ..self.clone() };
        let text = serde_json::to_string(&own).map_err(malformed)?;
        Ok(ObjectId::of(text.as_bytes()).to_string())
    }

    /// The most rounds of the fit.
    ///
    /// # Errors
    /// As for [`StudyFile::parse`].
    pub fn most_rounds(&self) -> Result<u64> {
        Ok(self.run_file()?.steps)
    }

    /// Whether it is of `sfvi`, and says nothing of its steps, which those of a private study follow from its rounds.
    fn finds_its_end(&self) -> bool {
        let is_sfvi = self.run.get("algorithm").is_some_and(|own| own == "sfvi");
        is_sfvi && !self.run.contains_key("steps") && self.privacy.is_none()
    }

    /// The settings that the file does not override.
    pub(crate) fn settings(&self) -> Settings {
        let usual = Settings { seed: self.seed, ..Settings::default() };
        match self.finds_its_end() {
            true => Settings { schedule: Schedule::adaptive(), ..usual },
            false => usual,
        }
    }
}

/// What is wrong in a file of one's own, of which nothing was refused.
pub(crate) fn problem(error: Error) -> String {
    match error {
        Error::Malformed { problem, .. } => problem,
        other => other.to_string(),
    }
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::Malformed { what: "the file of a study", problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A study that says something of everything.
    const STUDY: &str = r#"
        formula = "y ~ x + s"
        family = "gaussian"
        parameters = ["sigma ~ x"]
        silos = ["north", "south"]
        missing = "refuse"
        checks = ["mean of y"]
        contrasts = ["x: 1 - 0"]
        leave_one_out_draws = 100
        asks = ["formula", "few", "sfvi", "trust", "predictive", "leave_one_out"]
        seed = 1
        [priors]
        x = "normal(0, 1)"
        [columns]
        x = "years"
        [declared]
        contrast = "treatment"
        [declared.levels]
        s = ["a", "b"]
        [run]
        algorithm = "few-rounds"
        "#;

    #[test]
    fn studies_that_differ_in_anything_are_other_runs_and_the_same_text_is_the_same_run() {
        let identity = |text: &str| {
            let study = StudyFile::parse(text).unwrap();
            study.run_file().unwrap().identity(&study.settings()).unwrap()
        };
        let own = identity(STUDY);
        assert_eq!(identity(STUDY), own);
        // What is no part of the study is none of the run.
        assert_eq!(identity(&STUDY.replace("seed = 1", "seed   = 1 # as ever")), own);
        let changes = [
            ("y ~ x + s", "y ~ s + x"),
            ("family = \"gaussian\"", "family = \"student\""),
            ("sigma ~ x", "sigma ~ s"),
            ("[\"north\", \"south\"]", "[\"south\", \"north\"]"),
            ("missing = \"refuse\"", "missing = \"drop\""),
            ("mean of y", "sd of y"),
            ("x: 1 - 0", "x: 2 - 0"),
            ("leave_one_out_draws = 100", "leave_one_out_draws = 200"),
            ("\"leave_one_out\"]", "\"leave_one_out\", \"average\"]"),
            ("seed = 1", "seed = 2"),
            ("normal(0, 1)", "normal(0, 2)"),
            ("x = \"years\"", "x = \"months\""),
            ("contrast = \"treatment\"", "contrast = \"sum\""),
            ("s = [\"a\", \"b\"]", "s = [\"b\", \"a\"]"),
            ("algorithm = \"few-rounds\"", "algorithm = \"sfvi\""),
        ];
        let mut all = vec![own];
        for (from, to) in changes {
            assert!(STUDY.contains(from), "{from}");
            let other = identity(&STUDY.replace(from, to));
            assert!(!all.contains(&other), "{to}");
            all.push(other);
        }
    }
}
