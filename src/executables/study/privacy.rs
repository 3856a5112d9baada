//! Holds what a study promises of single rows, what a silo's owner allows, and the seat of a silo between the two.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use partita_core::{Device, Model};
use partita_flower::{Error, PartyKey, PartyPublicKey, Result};
use partita_inference::{FitOptions, PrivateRoundsOptions, Report, SiloProgram, write_atomically};
use partita_privacy::{Accountant, Budget, Conversion, Cost, Ledger, Mark, Peers, SiloKey, SystemEntropy};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::StudyFile;
use super::agree::{Agreed, declined};
use super::owner::{begins, ledger_path, outside};
use crate::executables::SiloFile;
use crate::formula::stand_in::AgreedAlone;
use crate::formula::{Columns, DeclaredColumn, MissingCells, Study};
use crate::private::secure::{MaskedSilo, Masking};
use crate::private::{self, ClippedRows, NoisedSums, PrivateOptions};

/// What is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtectedUnit {
    /// One row of a silo, or one group of rows where the formula has groups.
    Row,
}

/// The table `privacy` of a study.
///
/// # Example
/// ```
/// use partita::executables::StudyFile;
/// let study = StudyFile::parse(r#"
///     formula = "wheeze ~ smoke * age + (1 | child)"
///     family = "bernoulli"
///     silos = ["north", "south"]
///     [privacy]
///     unit = "row"
///     epsilon = 3.0
///     delta = 1e-5
///     [privacy.columns]
///     wheeze = [0, 1]
///     smoke = [0, 1]
///     age = [-2, 1]
/// "#)?;
/// assert_eq!(study.asks()?, ["formula", "private"]);
/// assert_eq!(study.privacy.map(|own| own.rounds), Some(24));
/// # Ok::<(), partita::flower::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyPrivacy {
    /// What is protected.
    pub unit: ProtectedUnit,
    /// Epsilon of everything that a silo sends in the study.
    pub epsilon: f64,
    /// The delta at which it is stated.
    pub delta: f64,
    /// The noised sums that every silo is asked for.
    #[serde(default = "rounds")]
    pub rounds: u64,
    /// The norm to which a row's numbers are clipped, in root mean squares over rows; as large as noise allows, and at least 3,
    /// where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Whether silos mask their sums, so that the coordinator reads the sum over all of them alone.
    #[serde(default)]
    pub secure_sums: bool,
    /// What is declared of the columns: the range of each column of numbers, and the levels of those that `declared` does
    /// not list.
    #[serde(default)]
    pub columns: BTreeMap<String, DeclaredColumn>,
}

fn rounds() -> u64 {
    PrivateRoundsOptions::ROUNDS
}

/// The table `privacy` of a silo's file: what its owner allows, over all studies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiloPrivacy {
    /// Epsilon of everything that the silo ever sends.
    pub epsilon: f64,
    /// The delta at which it is stated.
    pub delta: f64,
    /// The file of what is spent. It stands beside the folder of the state, by the name of that with `.ledger`, unless
    /// another is named: a state folder that is put back to an earlier copy leaves it as it is.
    #[serde(default)]
    pub ledger: Option<PathBuf>,
}

fn unwelcome<T>(what: &'static str, found: String, expected: String, remedy: &'static str) -> Result<T> {
    Err(Error::Unwelcome { what, found, expected, remedy })
}

impl StudyPrivacy {
    /// The promise, as the facade's fit takes it.
    #[must_use]
    pub fn options(&self) -> PrivateOptions {
        PrivateOptions { rounds: self.rounds, clip: self.clip, ..PrivateOptions::new(self.epsilon, self.delta) }
    }

    /// What is promised of one `unit`, such as `row` or `child`, by how many sums of how much noise.
    ///
    /// # Errors
    /// [`Error::Inference`] for an epsilon, a delta or a number of rounds outside its range.
    pub fn promise(&self, unit: &str) -> Result<String> {
        let noise = self.options().rounds()?.noise;
        let Self { epsilon, delta, rounds, .. } = self;
        let spent = Accountant::of([self.cost()?]).epsilon(*delta, Conversion::Improved);
        let spent = spent.map_err(|error| declined(&error))?;
        Ok(format!(
            "privacy: everything that a silo sends will be ({epsilon}, {delta:e})-differentially private for one {unit}: {rounds} sums over \
             clipped rows with noise of {noise:.2} clips, accounted for as epsilon {spent:.4}"
        ))
    }

    /// What a study costs a silo.
    fn cost(&self) -> Result<Cost> {
        let noise = self.options().rounds()?.noise;
        Ok(Cost::new(noise, self.rounds).map_err(|error| declined(&error))?)
    }

    /// The entries of the run file.
    pub(super) fn entries(&self, options: &PrivateOptions) -> Result<Map<String, Value>> {
        let wrong = |error: serde_json::Error| Error::Malformed { what: "`[privacy]`", problem: error.to_string() };
        let table = serde_json::to_value(options.rounds()?).map_err(wrong)?;
        // One more than there are: the method ends by itself.
        let (algorithm, steps) = (json!("private-rounds"), json!(self.rounds.saturating_add(1)));
        Ok(Map::from_iter([
            ("algorithm".to_owned(), algorithm),
            ("steps".to_owned(), steps),
            ("private-rounds".to_owned(), table),
        ]))
    }

    /// Refuses what a study asks of silos beside noised sums.
    pub(super) fn check(&self, study: &StudyFile) -> Result<()> {
        self.options().rounds()?;
        let averaged = study.contrasts.iter().find(|own| own.is_averaged);
        let asked = [
            ("missing = \"drop\"".to_owned(), study.missing == MissingCells::Drop),
            (format!("the {} `checks`", study.checks.len()), !study.checks.is_empty()),
            ("`leave_one_out_draws`".to_owned(), study.leave_one_out_draws > 0),
            (format!("`{}`", averaged.map_or("", |own| own.text.as_str())), averaged.is_some()),
        ];
        let other = study.run.keys().find(|name| *name != "settings");
        let asked = asked.into_iter().find_map(|(name, is_asked)| is_asked.then_some(name));
        let remedy = match asked {
            Some(_) => "Take it out, or take `[privacy]` out: then silos answer without noise.",
            None => {
                "Take it out: a private study is fitted by few rounds. `private::fit` has SFVI, SFVI-Avg, FedOpt and PVI for a model in one process."
            }
        };
        match asked.or(other.map(|name| format!("`{name}` in the table `run`"))) {
            None => Ok(()),
            Some(found) => unwelcome(
                "a study with `[privacy]`",
                found,
                "nothing that depends on rows without noise".into(),
                remedy,
            ),
        }
    }

    /// What all parties of the study agree on.
    pub(super) fn agreed(&self, study: &Study) -> Result<Agreed> {
        let AgreedAlone { agreement, summary } =
            study.declared_alone(&self.columns).map_err(|error| declined(&error))?;
        Ok(Agreed { agreement, summary })
    }
}

/// What a silo of a private study has: what is agreed, the promise, and the account of its owner.
#[derive(Debug, Clone)]
pub(super) struct PrivateSeat {
    pub(super) agreed: Agreed,
    promise: StudyPrivacy,
    /// The hash of the study.
    study: String,
    rounds: PrivateRoundsOptions,
    allowed: SiloPrivacy,
    ledger: Ledger,
    /// Of the last sum.
    clipped: ClippedRows,
    /// The folder of the silo's state.
    state: PathBuf,
    /// With whom it masks its sums, where the study asks for masks.
    masking: Option<Masking>,
    /// What is protected.
    unit: String,
    /// What the owner should know of the file and the ledger; it stays in the silo's log.
    notes: Vec<String>,
    /// The rows that are protected, or the groups: their number is public.
    count: usize,
}

/// The file of a state that says how far the ledger had come.
const MARK: &str = "ledger.json";
/// What is promised, and what was spent.
const PRIVACY: &str = "privacy.json";

impl PrivateSeat {
    /// The seat of a silo in a study; `None` where neither says anything of privacy.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] where study and owner do not ask for the same, or for rows that are not as declared.
    pub(super) fn of(study: &StudyFile, file: &SiloFile, own: &Study, rows: &Columns) -> Result<Option<Self>> {
        let (promise, allowed) = match (&study.privacy, &file.privacy) {
            (None, None) => return Ok(None),
            (None, Some(allowed)) => {
                return unwelcome(
                    "what the study promises of single rows",
                    "nothing: study.toml has no `[privacy]`".into(),
                    format!("an epsilon of at most {}, as this silo's file says", allowed.epsilon),
                    "Ask for a private study, or take `[privacy]` out of the silo's file: then its answers have no noise.",
                );
            }
            (Some(_), None) => {
                return unwelcome(
                    "what the owner of this silo allows about single rows",
                    "nothing: the silo's file has no `[privacy]`".into(),
                    "an epsilon and a delta over all studies".into(),
                    "Write `[privacy]`, `epsilon` and `delta` into the silo's file.",
                );
            }
            (Some(promise), Some(allowed)) => (promise.clone(), allowed.clone()),
        };
        let entries = [
            ("own_rows", file.own_rows.is_some()),
            ("own_checks", file.own_checks.is_some()),
            ("fitted", file.fitted.is_some()),
            ("held_out", file.held_out.is_some()),
        ];
        if let Some((name, _)) = entries.iter().find(|(_, is_given)| *is_given) {
            return unwelcome(
                "an entry of the silo's file",
                format!("`{name}` in a private study"),
                "no questions to single rows, which private rounds do not answer".into(),
                "Take it out of the silo's file.",
            );
        }
        let asked = Accountant::of([promise.cost()?]).epsilon(allowed.delta, Conversion::Improved);
        let asked = asked.map_err(|error| declined(&error))?;
        if asked > allowed.epsilon {
            return unwelcome(
                "the privacy budget of this silo's owner",
                format!("a study of epsilon {asked:.4} at delta {:e}", allowed.delta),
                format!("at most {}", allowed.epsilon),
                "Ask for a study with a smaller epsilon, or raise `epsilon` under `[privacy]` in the silo's file.",
            );
        }
        let agreed = promise.agreed(own)?;
        let unit = own.protected();
        let design = own.declared_design(rows, &agreed.agreement).map_err(|error| declined(&error))?;
        let count = match unit == PrivateRoundsOptions::UNIT {
            true => design.rows,
            false => design.random.first().map_or(design.rows, |term| term.levels.len()),
        };
        let masking = masking(study, file, &promise)?;
        let budget = Budget { epsilon: allowed.epsilon, delta: allowed.delta, unit: unit.clone() };
        let path = ledger_path(file, &allowed);
        let mut notes = outside(&promise, rows);
        if !path.exists() {
            notes.push(begins(&path));
        }
        let ledger = Ledger::open(&path, budget).map_err(|error| declined(&error))?;
        let (rounds, state) = (promise.options().rounds()?, file.state.clone());
        let own = Self {
            agreed,
            promise,
            study: study.asked_of_rows()?,
            rounds,
            allowed,
            ledger,
            clipped: ClippedRows::default(),
            state,
            masking,
            unit,
            notes,
            count,
        };
        own.expect()?;
        Ok(Some(own))
    }

    /// The number that everybody may know: of rows, or of groups where these are protected.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What the owner reads before the silo serves.
    pub(super) fn lines(&self) -> Result<Vec<String>> {
        let spent = self.ledger.spent().map_err(|error| declined(&error))?;
        let SiloPrivacy { epsilon, delta, .. } = self.allowed;
        let masked = match &self.masking {
            None => "its sums leave it with noise and without masks".to_owned(),
            Some(own) => {
                format!("its sums leave it masked with {} silos, at least {} in all", own.peers.len() - 1, own.fewest)
            }
        };
        let lost = format!(
            "privacy: {} of these sums were charged and have no reply: a process ended between the two. They stay charged, and the same request \
             is charged again",
            spent.never_drawn
        );
        let mut lines = vec![
            self.promise.promise(&self.unit)?,
            format!("privacy: {masked}"),
            format!(
                "privacy: epsilon {:.4} of the owner's {epsilon} at delta {delta:e} is spent, by {} sums; nothing else is said of the rows but their number",
                spent.epsilon, spent.releases
            ),
        ];
        lines.extend((spent.never_drawn > 0).then_some(lost));
        lines.extend(self.notes.iter().cloned());
        Ok(lines)
    }

    /// The silo, with its number of rows.
    pub(super) fn silo<M: Model>(
        &self,
        name: &str,
        model: &M,
        rows: &M::Data,
        device: &Device,
        fit: &FitOptions,
    ) -> partita_inference::Result<(Box<dyn SiloProgram>, usize)> {
        let sums = NoisedSums::new(Some(self.ledger.clone()), Box::new(SystemEntropy::default()));
        let sums = sums.telling(&self.clipped);
        let (own, count) =
            private::study_silo((name, &self.study), (model, rows), device, &fit.settings, &self.rounds, sums)?;
        Ok(match &self.masking {
            None => (own, count),
            Some(masking) => (Box::new(MaskedSilo::new(own, masking.clone())), count),
        })
    }

    /// What the owner reads after the report: which rows were shorter in the sums than they are.
    pub(super) fn clipped_line(&self) -> Option<String> {
        let share = 100.0 * self.clipped.share()?;
        Some(format!(
            "privacy: {share:.1} % of the rows were clipped in the last sum. This number has no noise and stays here; where it is more than a \
             few, rows that are unlike the others count for less than they are"
        ))
    }

    /// Writes into the state how far the ledger has come.
    pub(super) fn mark(&self) -> partita_inference::Result<()> {
        self.expect()?;
        let Mark { entries, head } = self.ledger.mark().map_err(|error| declined(&error))?;
        let text = json!({ "entries": entries, "head": head }).to_string();
        write_atomically(&self.state.join(MARK), text.as_bytes())
    }

    /// Refuses a ledger that the state has seen farther: it was put back to an earlier copy, or replaced.
    fn expect(&self) -> partita_inference::Result<()> {
        let path = self.state.join(MARK);
        let wrong = |problem: &dyn std::fmt::Display| partita_inference::Error::Declined {
            problem: format!("{}: {problem}", path.display()),
        };
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(wrong(&error)),
        };
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
        let entries = value["entries"].as_u64().and_then(|entries| usize::try_from(entries).ok());
        let (Some(entries), Some(head)) = (entries, value["head"].as_str()) else {
            return Err(wrong(&"it is no place in a ledger"));
        };
        let mark = Mark { entries, head: head.to_owned() };
        self.ledger.expect(&mark).map_err(|error| declined(&error))
    }

    /// Writes what the study promised and what is spent, for the owner.
    pub(super) fn write_spent(&self, folder: &Path) -> partita_inference::Result<()> {
        let spent = self.ledger.spent().map_err(|error| declined(&error))?;
        let SiloPrivacy { epsilon, delta, .. } = self.allowed;
        let text = json!({
            "study": { "unit": self.unit, "epsilon": self.promise.epsilon, "delta": self.promise.delta },
            "allowed": { "epsilon": epsilon, "delta": delta },
            "spent": { "epsilon": spent.epsilon, "releases": spent.releases },
            // Without noise: the owner's alone, as the file is.
            "share_of_rows_clipped_in_the_last_sum": self.clipped.share(),
        });
        write_atomically(&folder.join(PRIVACY), format!("{text:#}\n").as_bytes())
    }
}

/// With whom a silo masks its sums.
fn masking(study: &StudyFile, file: &SiloFile, promise: &StudyPrivacy) -> Result<Option<Masking>> {
    let what = "secure sums";
    let secure = match (promise.secure_sums, &file.secure) {
        (false, None) => return Ok(None),
        (false, Some(_)) => {
            let expected = "`secure_sums = true` under `[privacy]`: this silo's file has `[secure]`".into();
            let remedy = "Ask for a study with masks, or take `[secure]` out: then the coordinator reads this silo's noised sums.";
            return unwelcome(what, "a study without masks".into(), expected, remedy);
        }
        (true, None) => {
            let expected = "`[secure]`, with `fewest` and the public keys of the other silos".into();
            let remedy =
                "Get `NAME-signs.pub` of every other silo from its owner, and name the files under `[secure.peers]`.";
            return unwelcome(what, "no `[secure]` in the silo's file".into(), expected, remedy);
        }
        (true, Some(secure)) => secure,
    };
    if secure.fewest < 2 {
        let remedy =
            "Write 2 or more as `fewest` under `[secure]` in the silo's file; with 2 each silo learns the other's sum.";
        return unwelcome(
            "`fewest` of this silo's file",
            secure.fewest.to_string(),
            "at least 2: the sum over one silo hides nothing".into(),
            remedy,
        );
    }
    let Some(signs) = &file.signs else {
        let expected = "the file of the silo's private key".into();
        return unwelcome(what, "no `signs` in the silo's file".into(), expected, "Make it by `partita keys silo`.");
    };
    let key = SiloKey::from_bytes(&PartyKey::read(signs)?.secret_bytes());
    let mut peers = Peers::from([(file.name.clone(), key.public())]);
    for name in study.silos.iter().filter(|name| **name != file.name) {
        let Some(path) = secure.peers.get(name) else {
            let expected = "a key of every silo of the study".into();
            let remedy = "Get `NAME-signs.pub` from its owner, and name the file under `[secure.peers]`.";
            return unwelcome(what, format!("no key of silo `{name}`"), expected, remedy);
        };
        peers.insert(name.clone(), PartyPublicKey::read(path)?.bytes());
    }
    if peers.len() < secure.fewest {
        let expected = format!("at least {}, as this silo's file says", secure.fewest);
        return unwelcome("the silos of a secure sum", peers.len().to_string(), expected, "Wait for more silos.");
    }
    Ok(Some(Masking { key, peers, fewest: secure.fewest }))
}

/// Writes what a fit promised of single rows, and what the noise did to each number; nothing of a fit without privacy.
pub(crate) fn write_privacy(report: &Report, folder: &Path) -> partita_inference::Result<()> {
    let Some(own) = &report.privacy else { return Ok(()) };
    let labels = report.sites.iter().map(|site| site.label.clone());
    let widened: Value = match own.widened.len() == report.sites.len() {
        true => labels.zip(own.widened.iter().map(|by| json!(by))).collect::<Map<_, _>>().into(),
        false => json!(own.widened),
    };
    let text = json!({
        "unit": format!("one {}", own.unit),
        "epsilon": own.epsilon,
        "delta": own.delta,
        "releases_of_each_silo": own.releases,
        "noise_in_clips": own.noise,
        "silos": report.silos,
        "standard_deviations_widened_by": widened,
        "not_promised": "timing, taking part, numbers of rows, or of groups where these are protected, several rows of one person, false answers of silos",
    });
    write_atomically(&folder.join(PRIVACY), format!("{text:#}\n").as_bytes())
}
