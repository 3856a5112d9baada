//! Reads the file that all parties of a run share: the model, the algorithm and the settings.

mod names;
mod options;
mod table;

pub use names::{AlgorithmName, ScheduleName};

use std::path::Path;

use partita_inference::{
    AlgorithmChoice, FewRoundsOptions, FitOptions, PredictiveCheck, PrivateRoundsOptions, PrivateSfviOptions,
    PviOptions, Settings,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::entries::{VERSION, short_hash};
use crate::error::{Error, Result};
use crate::object::hexadecimal;
use names::{AfterTheFit, all_verbs, quoted, unknown_verb};
use table::Table;

/// The file `run.toml`, the same at every party.
///
/// # Example
/// ```
/// use partita_flower::RunFile;
/// let run = RunFile::parse(r#"
///     model = "six-cities"
///     algorithm = "pvi"
///     silos = ["north", "south"]
///     steps = 3000
///     local_steps = 300
///     schedule = "synchronous"
///     damping = 1.0
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
    /// The model, by its name in the executables.
    pub model: String,
    /// The algorithm.
    pub algorithm: AlgorithmName,
    /// All silos, in the order of sums over them.
    pub silos: Vec<String>,
    /// Gradient steps of the run, over all its rounds.
    pub steps: u64,
    /// Gradient steps of a silo in a round, for `sfvi-avg`, `fed-opt` and `pvi`.
    #[serde(default = "one")]
    pub local_steps: u64,
    /// The schedule of silos for `pvi`; by default one silo after another.
    #[serde(default)]
    pub schedule: Option<ScheduleName>,
    /// The damping of `pvi`; by default 1 for one silo after another, and one over the number of silos otherwise.
    #[serde(default)]
    pub damping: Option<f64>,
    /// The rounds of `sfvi-avg`: entries of [`partita_inference::RoundOptions`] that differ from its paper, such as
    /// `scale_entropy`.
    #[serde(default, rename = "sfvi-avg")]
    pub sfvi_avg: Option<Map<String, Value>>,
    /// The estimation of `fed-opt`: entries of [`partita_inference::FedOptOptions`] that differ from FedAvg.
    #[serde(default, rename = "fed-opt")]
    pub fed_opt: Option<Map<String, Value>>,
    /// The options of `pvi`: entries of [`PviOptions`] that differ from the defaults, such as `divergence` and
    /// `solver`.
    #[serde(default)]
    pub pvi: Option<Map<String, Value>>,
    /// The options of `vertical`, for columns at different parties: entries of [`partita_inference::VerticalOptions`].
    #[serde(default)]
    pub vertical: Option<Map<String, Value>>,
    /// The options of `private-rounds`: entries of [`partita_inference::PrivateRoundsOptions`], epsilon, delta and noise among
    /// them.
    #[serde(default, rename = "private-rounds")]
    pub private_rounds: Option<Map<String, Value>>,
    /// The options of `private-sfvi`: entries of [`partita_inference::PrivateSfviOptions`], as for `private-rounds`.
    #[serde(default, rename = "private-sfvi")]
    pub private_sfvi: Option<Map<String, Value>>,
    /// Whether silos mask their sums, so that the coordinator reads the sum over all of them alone: for `sfvi`, and for `vertical`
    /// but for the power likelihood.
    #[serde(default)]
    pub secure_sums: bool,
    /// The names of the columns of a silo's table in their order, for a model that takes them by place: a silo with others does
    /// not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// The number of sampled bounds whose mean is reported.
    #[serde(default = "bounds")]
    pub elbo_draws: usize,
    /// Draws for the evaluation or prediction of rows never seen in training, after the fit; 0 for none.
    #[serde(default)]
    pub held_out_draws: u64,
    /// Draws at which silos leave the rows that were fitted out one at a time, after the fit; 0 for none.
    #[serde(default)]
    pub leave_one_out_draws: u64,
    /// Posterior predictive checks that silos make after the fit, such as `mean of wheeze`.
    #[serde(default)]
    pub checks: Vec<PredictiveCheck>,
    /// Entries of [`Settings`] that differ from those of the model.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// What parties tell of the file that this was made of, where it was made of another one.
    #[serde(skip)]
    told: Vec<(String, String)>,
    /// The words of `asks` of the study that this was made of, where it has that entry.
    #[serde(skip)]
    listed: Option<Vec<String>>,
}

/// The entries of a run file in the order in which a difference is looked for; what tables say is in settings and algorithm.
const ENTRIES: [&str; 13] = [
    "model",
    "algorithm",
    "silos",
    "steps",
    "local_steps",
    "schedule",
    "damping",
    "secure_sums",
    "columns",
    "elbo_draws",
    "held_out_draws",
    "leave_one_out_draws",
    "checks",
];

/// The first word of requests for masked sums, whatever is summed.
const MASKED: &str = "private";
/// The first word of requests for bounds.
const BOUNDS: &str = "sfvi";
/// The entry of a table that hides rows behind noised sums, [`partita_inference::PrivateSteps`].
const PRIVATE: &str = "private";

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
    /// [`Error::File`], with the line of the mistake.
    pub fn read(path: &Path) -> Result<Self> {
        read_toml(path)
    }

    /// Reads its text.
    ///
    /// # Errors
    /// [`Error::Malformed`], with the line of the mistake.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::malformed("a run file", error.to_string()))
    }

    /// The options of the fit: the settings of the model, overridden by the entries of the file.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an entry that settings or options do not have, or of another type; [`Error::Unwelcome`]
    /// for one that the algorithm does not use; [`Error::Inference`] for invalid options.
    pub fn fit_options(&self, base: &Settings) -> Result<FitOptions> {
        self.check_silos()?;
        self.check_entries()?;
        self.check_sums()?;
        let settings = self.settings_over(base)?;
        let algorithm = match self.algorithm {
            AlgorithmName::Sfvi => AlgorithmChoice::Sfvi,
            AlgorithmName::FewRounds => AlgorithmChoice::FewRounds(FewRoundsOptions::default()),
            AlgorithmName::PrivateRounds => {
                let usual = PrivateRoundsOptions::new(1.0, 1.0, 1.0);
                let what = "the table `private-rounds` of a run file";
                AlgorithmChoice::PrivateRounds(options::promised(what, self.private_rounds.as_ref(), &usual)?)
            }
            AlgorithmName::PrivateSfvi => {
                let usual = PrivateSfviOptions::new(1.0, 1.0, 1.0);
                let what = "the table `private-sfvi` of a run file";
                AlgorithmChoice::PrivateSfvi(options::promised(what, self.private_sfvi.as_ref(), &usual)?)
            }
            AlgorithmName::SfviAvg => {
                AlgorithmChoice::SfviAvg(options::rounds(self.sfvi_avg.as_ref(), self.local_steps)?)
            }
            AlgorithmName::FedOpt => {
                AlgorithmChoice::FedOpt(options::fed_opt(self.fed_opt.as_ref(), self.local_steps)?)
            }
            AlgorithmName::Pvi => AlgorithmChoice::Pvi(options::pvi(self.pvi.as_ref(), &self.usual_pvi())?),
            AlgorithmName::Vertical => AlgorithmChoice::Vertical(options::vertical(self.vertical.as_ref())?),
        };
        let (leave_one_out_draws, checks) = (self.leave_one_out_draws, self.checks.clone());
        // Bounds and weights are sums without noise.
        let (elbo_draws, trust_draws) =
            if algorithm.is_private() { (1, Some(0)) } else { (self.elbo_draws, self.secure_sums.then_some(0)) };
        let usual = FitOptions::default();
        Ok(FitOptions { algorithm, settings, elbo_draws, trust_draws, leave_one_out_draws, checks, ..usual })
    }

    /// Refuses a run of no silos, or of one that is named twice.
    fn check_silos(&self) -> Result<()> {
        let twice = self.silos.iter().enumerate().find(|(place, name)| self.silos[..*place].contains(name));
        let found = match twice {
            Some((_, name)) => format!("`{name}` twice"),
            None if self.silos.is_empty() => "none".into(),
            None => return Ok(()),
        };
        Err(Error::Unwelcome {
            what: "the silos of the run",
            found,
            expected: "the name of each silo once".into(),
            remedy: "Correct `silos` in the file that all parties share.",
        })
    }

    /// Refuses entries that the algorithm does not use, since they would have no effect.
    fn check_entries(&self) -> Result<()> {
        use AlgorithmName::{FedOpt, PrivateRounds, PrivateSfvi, Pvi, SfviAvg, Vertical};
        let entries: [(&str, bool, &[AlgorithmName]); 9] = [
            ("local_steps", self.local_steps != 1, &[SfviAvg, FedOpt, Pvi]),
            ("schedule", self.schedule.is_some(), &[Pvi]),
            ("damping", self.damping.is_some(), &[Pvi]),
            ("sfvi-avg", self.sfvi_avg.is_some(), &[SfviAvg]),
            ("fed-opt", self.fed_opt.is_some(), &[FedOpt]),
            ("pvi", self.pvi.is_some(), &[Pvi]),
            ("vertical", self.vertical.is_some(), &[Vertical]),
            ("private-rounds", self.private_rounds.is_some(), &[PrivateRounds]),
            ("private-sfvi", self.private_sfvi.is_some(), &[PrivateSfvi]),
        ];
        let foreign =
            |(_, is_given, takers): &&(&str, bool, &[AlgorithmName])| *is_given && !takers.contains(&self.algorithm);
        let Some((name, _, takers)) = entries.iter().find(foreign) else { return Ok(()) };
        let takers: Vec<&str> = takers.iter().map(|taker| taker.written()).collect();
        Err(Error::Unwelcome {
            what: "an entry of the run file",
            found: format!("`{name}` with the algorithm `{}`, which does not take it", self.algorithm.written()),
            expected: format!("it with {} alone", quoted(&takers, " or ")),
            remedy: "Take the entry out of the run file of every party, or change `algorithm` there.",
        })
    }

    /// Refuses sums behind masks where the coordinator needs the answers of single silos.
    fn check_sums(&self) -> Result<()> {
        let is_power = || options::vertical(self.vertical.as_ref()).is_ok_and(|how| how.exchanges_a_step() > 1);
        let after = self.after_the_fit().into_iter().find(|own| own.is_asked).map(|own| own.entry);
        let needed = match (self.algorithm, after) {
            _ if !self.secure_sums => return Ok(()),
            (AlgorithmName::Vertical, _) if is_power() => {
                "in the power likelihood every party gets another gradient".to_owned()
            }
            // What is expected of new rows is a sum over the parties' contributions.
            (AlgorithmName::Vertical, None | Some("held_out_draws")) | (AlgorithmName::Sfvi, None) => return Ok(()),
            (AlgorithmName::Vertical | AlgorithmName::Sfvi, Some(entry)) => {
                format!("`{entry}` asks each silo about its own rows")
            }
            (AlgorithmName::FewRounds, _) => "few rounds begin with a start of each silo's own".to_owned(),
            (AlgorithmName::SfviAvg | AlgorithmName::FedOpt, _) => {
                "every silo's posterior counts by its number of rows".to_owned()
            }
            (AlgorithmName::Pvi, _) => "every silo has a factor of its own".to_owned(),
            (AlgorithmName::PrivateRounds | AlgorithmName::PrivateSfvi, _) => {
                "private studies have the entry under `[privacy]`".to_owned()
            }
        };
        Err(Error::Unwelcome {
            what: "sums behind masks",
            found: format!("`secure_sums` with `{}`: {needed}", self.algorithm.written()),
            expected: "`sfvi`, or `vertical` without the power likelihood, whose coordinator needs sums alone".into(),
            remedy: "Take `secure_sums` out of the run file of every party, or change what it asks. Few rounds have masks in studies with `[privacy]`.",
        })
    }

    /// The settings of the model, overridden by the entries of the file.
    fn settings_over(&self, base: &Settings) -> Result<Settings> {
        let table = Table { what: "the table `settings` of a run file", elsewhere: &[], usual: Vec::new() };
        if let Some(other) = self.settings.get("steps").filter(|given| given.as_u64() != Some(self.steps)) {
            let problem = format!("`steps` is {other} in `[settings]` and {} before the first table", self.steps);
            return Err(table.wrong(problem));
        }
        Ok(Settings { steps: self.steps, ..table.over(base, &self.settings)? })
    }

    /// The defaults of PVI, for a file without a table of that name.
    fn usual_pvi(&self) -> PviOptions {
        let base = PviOptions::new(self.local_steps);
        // A step of the point parameters needs all silos at one posterior.
        let theta_every = if self.is_asynchronous() { 0 } else { base.theta_every };
        PviOptions { schedule: self.schedule.unwrap_or_default().into(), damping: self.damping, theta_every, ..base }
    }

    /// Whether silos are asked asynchronously, each as soon as it has answered.
    #[must_use]
    pub fn is_asynchronous(&self) -> bool {
        self.algorithm == AlgorithmName::Pvi && self.schedule == Some(ScheduleName::Asynchronous)
    }

    /// The exchanges of a whole run, except those of its report and of a climb to the mode before it.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        let local_steps = self.local_steps.max(1);
        let rounds = self.steps.div_ceil(local_steps);
        match self.algorithm {
            // After the rounds each step is an exchange.
            AlgorithmName::SfviAvg => {
                let most = self.sfvi_avg.as_ref().and_then(|table| table.get("most")?.as_u64()).unwrap_or(rounds);
                most.min(rounds) + self.steps.saturating_sub(most.saturating_mul(local_steps))
            }
            AlgorithmName::Vertical => {
                rounds * options::vertical(self.vertical.as_ref()).map_or(1, |how| how.exchanges_a_step())
            }
            // It ends by itself: `steps` is the most it may take.
            AlgorithmName::FewRounds | AlgorithmName::PrivateRounds | AlgorithmName::PrivateSfvi => self.steps,
            AlgorithmName::Sfvi | AlgorithmName::FedOpt | AlgorithmName::Pvi => rounds,
        }
    }

    /// Refuses a silo's `allow` with a word that begins no request or that the study does not list, or without one that this run needs.
    ///
    /// # Errors
    /// [`Error::Unwelcome`], with the word.
    pub fn check_allowed(&self, allowed: &[String]) -> Result<()> {
        let what = "what a silo allows";
        if let Some(word) = unknown_verb(allowed) {
            let remedy = "Correct `allow` in the silo's file.";
            return Err(Error::Unwelcome { what, found: format!("`{word}`"), expected: all_verbs(), remedy });
        }
        let is_wider = |word: &&String| self.listed.as_ref().is_some_and(|listed| !listed.contains(word));
        if let Some(word) = allowed.iter().find(is_wider) {
            return Err(Error::Unwelcome {
                what,
                found: format!("`{word}` in `allow` of the silo's file"),
                expected: format!("words of `asks` of study.toml: {}", self.listed().unwrap_or_default().join(", ")),
                remedy: "Take it out of `allow` in the silo's file, or add it to `asks` in study.toml at all parties.",
            });
        }
        let is_missing = |verb: &&&str| !allowed.iter().any(|word| word == **verb);
        let verbs = self.verbs();
        let Some(missing) = verbs.iter().find(is_missing) else { return Ok(()) };
        Err(Error::Unwelcome {
            what,
            found: format!("no `{missing}` among {}", allowed.join(", ")),
            expected: format!("{}, which `{}` asks", quoted(&verbs, " and "), self.algorithm.written()),
            remedy: "Add it to `allow` in the silo's file, if its owner agrees.",
        })
    }

    /// The first words of the requests that its algorithm makes.
    fn verbs(&self) -> Vec<&'static str> {
        if self.secure_sums {
            return vec![MASKED];
        }
        // Bounds are sums without noise, which a private silo is never asked for.
        let is_asked = |word: &&&str| **word != BOUNDS || self.algorithm == AlgorithmName::Sfvi || !self.is_private();
        self.algorithm.verbs().iter().filter(is_asked).copied().collect()
    }

    /// Whether its silos answer with what follows from noised sums alone.
    fn is_private(&self) -> bool {
        let steps = [&self.sfvi_avg, &self.fed_opt, &self.pvi].into_iter().flatten();
        matches!(self.algorithm, AlgorithmName::PrivateRounds | AlgorithmName::PrivateSfvi)
            || steps.into_iter().any(|table| table.get(PRIVATE).is_some_and(|own| !own.is_null()))
    }

    /// The first words of the requests that silos get in this run, the round of trust among them.
    #[must_use]
    pub fn asks(&self) -> Vec<&'static str> {
        let mut words = self.verbs();
        let holds_trust = self.algorithm != AlgorithmName::Vertical && !self.is_private() && !self.secure_sums;
        if holds_trust && !words.contains(&"trust") {
            words.push("trust");
        }
        // What is asked of masked sums has their word, and predictions of rows of a vertical run have that of the algorithm.
        let has_own_word = self.algorithm != AlgorithmName::Vertical && !self.secure_sums;
        let after = self.after_the_fit().into_iter().filter(|own| own.is_asked && has_own_word);
        words.extend(after.map(|own| own.word));
        words
    }

    /// The entry by which silos get requests of a word after the fit; `None` for words of the algorithm.
    #[must_use]
    pub fn entry_asking(&self, word: &str) -> Option<&'static str> {
        self.after_the_fit().into_iter().find(|own| own.word == word).map(|own| own.entry)
    }

    /// What silos can be asked after the fit, in the order in which they are.
    fn after_the_fit(&self) -> [AfterTheFit; 3] {
        let asked = |entry, word, is_asked| AfterTheFit { entry, word, is_asked };
        [
            asked("held_out_draws", "evaluate", self.held_out_draws > 0),
            asked("leave_one_out_draws", "leave_one_out", self.leave_one_out_draws > 0),
            asked("checks", "predictive", !self.checks.is_empty()),
        ]
    }

    /// The same run, of which silos answer requests of these words alone: `asks` of a study's file, if it has that entry.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for a word that begins no request.
    pub fn listing(mut self, asks: Option<&[String]>) -> Result<Self> {
        if let Some(word) = asks.and_then(unknown_verb) {
            return Err(Error::Unwelcome {
                what: "`asks` of a study",
                found: format!("`{word}`"),
                expected: format!("words of {}", all_verbs()),
                remedy: "Correct `asks` in study.toml.",
            });
        }
        self.listed = asks.map(<[String]>::to_vec);
        Ok(self)
    }

    /// The words that [`RunFile::listing`] has put down.
    #[must_use]
    pub fn listed(&self) -> Option<&[String]> {
        self.listed.as_deref()
    }

    /// A hash of everything that parties must agree on: this file, the settings that follow from it, and the versions
    /// of message and program.
    ///
    /// # Errors
    /// As for [`RunFile::fit_options`].
    pub fn identity(&self, base: &Settings) -> Result<String> {
        let options = self.fit_options(base)?;
        // What its tables say is in settings and algorithm, whose order no build of a party changes.
        let rest =
            Self { settings: Map::new(), sfvi_avg: None, fed_opt: None, pvi: None, vertical: None, ..self.clone() };
        let rest = Self { private_rounds: None, private_sfvi: None, ..rest };
        let all = serde_json::to_string(&(rest, &options.settings, &options.algorithm, env!("CARGO_PKG_VERSION")));
        let all = all.map_err(|error| Error::malformed("a run file", error.to_string()))?;
        Ok(hexadecimal(&Sha256::digest(all.as_bytes())))
    }

    /// The same run, of which parties tell the entries of another file that it follows from, such as that of a study.
    #[must_use]
    pub fn told_as(mut self, file: &[(&str, Value)]) -> Self {
        self.told = file.iter().map(|(name, value)| ((*name).to_owned(), short_hash(value))).collect();
        self
    }

    /// The entries of the file that all parties share, each with the first twelve digits of the SHA-256 of its value: parties
    /// compare them where their [`RunFile::identity`] differs, to say by which entry it does. The file is no secret among them.
    ///
    /// # Errors
    /// As for [`RunFile::fit_options`].
    pub fn entries(&self, base: &Settings) -> Result<Vec<(String, String)>> {
        let wrong = |error: serde_json::Error| Error::malformed("a run file", error.to_string());
        let mut entries = vec![(VERSION.to_owned(), short_hash(&Value::from(env!("CARGO_PKG_VERSION"))))];
        if !self.told.is_empty() {
            entries.extend(self.told.iter().cloned());
            return Ok(entries);
        }
        let (own, options) = (serde_json::to_value(self).map_err(wrong)?, self.fit_options(base)?);
        entries.extend(ENTRIES.iter().map(|name| ((*name).to_owned(), short_hash(&own[*name]))));
        let settings = serde_json::to_value(&options.settings).map_err(wrong)?;
        let algorithm = serde_json::to_value(&options.algorithm).map_err(wrong)?;
        // The options of an algorithm stand in the table of its name.
        let rest = [("settings", settings), (self.algorithm.written(), algorithm)];
        entries.extend(rest.iter().map(|(name, value)| ((*name).to_owned(), short_hash(value))));
        Ok(entries)
    }
}

/// Reads a configuration file.
///
/// # Errors
/// [`Error::File`], with the line of the mistake.
pub fn read_toml<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    toml::from_str(&text).map_err(|error| {
        let said = error.to_string();
        // What begins as `nan` or `inf` is read as a number.
        let is_word = ["invalid float", "must be quoted"].iter().any(|own| said.contains(own));
        let remedy = if is_word { "Text stands in quotation marks, as in `name = \"north\"`." } else { "" };
        Error::file(path, said + remedy)
    })
}
