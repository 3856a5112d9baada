//! Reads the file that all parties of a run have alike: which model, which algorithm, which settings.

mod pvi;

use std::path::Path;

use partita_inference::{
    AlgorithmChoice, Delays, FitOptions, Order, PviOptions, RoundOptions, Settings, VerticalOptions, VisitSchedule,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::object::hexadecimal;

/// The algorithms that may run over an engine, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlgorithmName {
    /// Structured federated variational inference: an exchange a step.
    Sfvi,
    /// Rounds of local steps and an average.
    SfviAvg,
    /// One approximate factor a silo.
    Pvi,
    /// Columns of the same rows at different parties: an exchange or two a step.
    Vertical,
}

impl AlgorithmName {
    /// The name in a run file.
    fn written(self) -> &'static str {
        match self {
            Self::Sfvi => "sfvi",
            Self::SfviAvg => "sfvi-avg",
            Self::Pvi => "pvi",
            Self::Vertical => "vertical",
        }
    }
}

/// Who is visited when, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleName {
    /// One silo after another.
    #[default]
    Sequential,
    /// All at once.
    Synchronous,
    /// All at once, each asked again as soon as it has answered: nobody waits for the slowest.
    Asynchronous,
}

/// The file `run.toml`, of which every party has the same.
///
/// # Example
/// ```
/// use partita_flower::RunFile;
/// let run = RunFile::parse(r#"
///     model = "six-cities"
///     algorithm = "sfvi-avg"
///     silos = ["north", "south"]
///     steps = 3000
///     local_steps = 300
///     [settings]
///     schedule = { Cosine = { initial = 0.02, last = 0.0 } }
/// "#)?;
/// let options = run.fit_options(&partita_inference::Settings::default())?;
/// assert_eq!(options.settings.steps, 3_000);
/// # Ok::<(), partita_flower::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFile {
    /// The model, by the name under which the executables know it.
    pub model: String,
    /// The algorithm.
    pub algorithm: AlgorithmName,
    /// All silos, in the order in which sums run.
    pub silos: Vec<String>,
    /// Gradient steps of the run, over all its rounds.
    pub steps: u64,
    /// Gradient steps of a silo in a round, for `sfvi-avg` and `pvi`.
    #[serde(default = "one")]
    pub local_steps: u64,
    /// Who is visited when, for `pvi`; one silo after another where it is not given.
    #[serde(default)]
    pub schedule: Option<ScheduleName>,
    /// The damping of `pvi`; where it is not given, 1 for one silo after another and 1 over the number of silos otherwise.
    #[serde(default)]
    pub damping: Option<f64>,
    /// How `pvi` goes about it: entries of [`PviOptions`] that are not the usual, such as `divergence` and `solver`.
    #[serde(default)]
    pub pvi: Option<Map<String, Value>>,
    /// How columns at different parties are fitted, for `vertical`.
    #[serde(default)]
    pub vertical: Option<VerticalOptions>,
    /// Sampled bounds whose mean is reported.
    #[serde(default = "bounds")]
    pub elbo_draws: usize,
    /// Draws with which rows never seen in training are judged or predicted after the fit; 0 for none.
    #[serde(default)]
    pub held_out_draws: u64,
    /// Entries of [`Settings`] that are not those of the model.
    #[serde(default)]
    pub settings: Map<String, Value>,
}

fn one() -> u64 {
    1
}

fn bounds() -> usize {
    FitOptions::default().elbo_draws
}

impl RunFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::File`], with the line that is wrong.
    pub fn read(path: &Path) -> Result<Self> {
        read_toml(path)
    }

    /// Reads its text.
    ///
    /// # Errors
    /// [`Error::Malformed`], with the line that is wrong.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::malformed("a run file", error.to_string()))
    }

    /// What a fit is told: the settings of the model, with the entries of the file in their place.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an entry that settings or options do not have, or of another type;
    /// [`Error::Unwelcome`] for one that the algorithm does not take; [`Error::Inference`] for options that mean nothing.
    pub fn fit_options(&self, base: &Settings) -> Result<FitOptions> {
        self.check_entries()?;
        let settings = self.settings_over(base)?;
        let algorithm = match self.algorithm {
            AlgorithmName::Sfvi => AlgorithmChoice::Sfvi,
            AlgorithmName::Vertical => match self.vertical {
                Some(how) => AlgorithmChoice::Vertical(how),
                None => return Err(wrong("`vertical` needs a table of that name: see the how-to".into())),
            },
            AlgorithmName::SfviAvg => AlgorithmChoice::SfviAvg(RoundOptions::paper(self.local_steps)),
            AlgorithmName::Pvi => AlgorithmChoice::Pvi(self.pvi_options()?),
        };
        Ok(FitOptions { algorithm, settings, elbo_draws: self.elbo_draws, ..FitOptions::default() })
    }

    /// Refuses entries that the algorithm does not take: whoever wrote them expects that they do something.
    fn check_entries(&self) -> Result<()> {
        use AlgorithmName::{Pvi, SfviAvg, Vertical};
        let entries: [(&str, bool, &[AlgorithmName]); 5] = [
            ("local_steps", self.local_steps != 1, &[SfviAvg, Pvi]),
            ("schedule", self.schedule.is_some(), &[Pvi]),
            ("damping", self.damping.is_some(), &[Pvi]),
            ("pvi", self.pvi.is_some(), &[Pvi]),
            ("vertical", self.vertical.is_some(), &[Vertical]),
        ];
        let foreign =
            |(_, is_given, takers): &&(&str, bool, &[AlgorithmName])| *is_given && !takers.contains(&self.algorithm);
        let Some((name, _, takers)) = entries.iter().find(foreign) else { return Ok(()) };
        let takers: Vec<String> = takers.iter().map(|taker| format!("`{}`", taker.written())).collect();
        Err(Error::Unwelcome {
            what: "an entry of the run file",
            found: format!("`{name}` with the algorithm `{}`, which does not take it", self.algorithm.written()),
            expected: format!("it with {} alone", takers.join(" or ")),
            remedy: "Take the entry out of the run file of every party, or change `algorithm` there.",
        })
    }

    /// The settings of the model, with the entries of the file in their place.
    fn settings_over(&self, base: &Settings) -> Result<Settings> {
        let mut value = serde_json::to_value(base).map_err(|error| wrong(error.to_string()))?;
        let Value::Object(known) = &mut value else { return Err(wrong("they are no table".into())) };
        for (name, entry) in &self.settings {
            let Some(slot) = known.get_mut(name) else {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                return Err(wrong(format!("`{name}` is none of {}", names.join(", "))));
            };
            *slot = entry.clone();
        }
        if let Some(other) = self.settings.get("steps").filter(|given| given.as_u64() != Some(self.steps)) {
            let problem = format!("`steps` is {other} in `[settings]` and {} before the first table", self.steps);
            return Err(wrong(problem));
        }
        known.insert("steps".into(), self.steps.into());
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
    }

    /// How PVI goes about it.
    fn pvi_options(&self) -> Result<PviOptions> {
        let schedule = match self.schedule.unwrap_or_default() {
            ScheduleName::Sequential => VisitSchedule::Sequential(Order::Fixed),
            ScheduleName::Synchronous => VisitSchedule::Synchronous,
            // The delays are those of a simulated clock: here silos take the time that they take.
            ScheduleName::Asynchronous => VisitSchedule::Asynchronous(Delays::default()),
        };
        let base = PviOptions::new(self.local_steps);
        // A step of a model's own parameters needs all silos at one posterior.
        let theta_every = if self.is_by_arrival() { 0 } else { base.theta_every };
        let base = PviOptions { schedule, damping: self.damping, theta_every, ..base };
        pvi::options(self.pvi.as_ref().unwrap_or(&Map::new()), base)
    }

    /// Whether silos are asked one by one, each as soon as it has answered.
    #[must_use]
    pub fn is_by_arrival(&self) -> bool {
        self.algorithm == AlgorithmName::Pvi && self.schedule == Some(ScheduleName::Asynchronous)
    }

    /// The exchanges of a whole run, without those of its report.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        let steps = self.steps.div_ceil(self.local_steps.max(1));
        steps * self.vertical.as_ref().map_or(1, VerticalOptions::exchanges_a_step)
    }

    /// What the beginnings of its requests are: what silos have to allow.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self.algorithm {
            AlgorithmName::Sfvi => "sfvi",
            AlgorithmName::SfviAvg => "avg",
            AlgorithmName::Pvi => "pvi",
            AlgorithmName::Vertical => "vertical",
        }
    }

    /// A hash of all that parties have to agree on: this file, the settings that follow from it, and the versions of message and
    /// program.
    ///
    /// # Errors
    /// As for [`RunFile::fit_options`].
    pub fn identity(&self, base: &Settings) -> Result<String> {
        let options = self.fit_options(base)?;
        let all = serde_json::to_string(&(self, &options.settings, options.algorithm, env!("CARGO_PKG_VERSION")));
        let all = all.map_err(|error| Error::malformed("a run file", error.to_string()))?;
        Ok(hexadecimal(&Sha256::digest(all.as_bytes())))
    }
}

fn wrong(problem: String) -> Error {
    Error::malformed("the settings of a run file", problem)
}

/// Reads a configuration file.
///
/// # Errors
/// [`Error::File`], with the line that is wrong.
pub fn read_toml<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let wrong = |problem: String| Error::File { path: path.to_owned(), problem };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    toml::from_str(&text).map_err(|error| wrong(error.to_string()))
}
