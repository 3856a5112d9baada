//! Holds what a silo's owner allows, and the seat of a silo between that and what a study promises.

use std::path::{Path, PathBuf};

use partita_core::{Device, Model};
use partita_flower::Result;
use partita_inference::{FitOptions, Privacy, PrivateRoundsOptions, Report, SiloProgram, write_atomically};
use partita_privacy::{Accountant, Budget, Conversion, Ledger, Mark, SystemEntropy};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::StudyFile;
use super::agree::declined;
use super::owner::{begins, ledger_path, outside};
use super::promise::StudyPrivacy;
use crate::executables::masks::{behind, masking, unwelcome};
use crate::executables::{SiloFile, removed};
use crate::formula::{Agreed, Columns, Study};
use crate::private::secure::{Departures, Masking};
use crate::private::{self, ClippedRows, NoisedSums, Seated, Shares, Sums};

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

/// What a silo of a private study has: what is agreed, the promise, and the account of its owner.
#[derive(Debug, Clone)]
pub(super) struct PrivateSeat {
    pub(super) agreed: Agreed,
    promise: StudyPrivacy,
    /// How much noise all its sums together need.
    sums: Sums,
    /// The hash of the study.
    study: String,
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
    /// [`partita_flower::Error::Unwelcome`] where study and owner do not ask for the same, or for rows that are not as declared.
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
                "no questions to single rows, which private silos do not answer".into(),
                "Take it out of the silo's file.",
            );
        }
        let sums = study.promised_sums(&promise)?;
        let asked = Accountant::of([sums.cost()?]).epsilon(allowed.delta, Conversion::Improved);
        let asked = asked.map_err(declined)?;
        if asked > allowed.epsilon {
            return unwelcome(
                "the privacy budget of this silo's owner",
                format!("a study of epsilon {asked:.4} at delta {:e}", allowed.delta),
                format!("at most {}", allowed.epsilon),
                "Ask for a study with a smaller epsilon, or raise `epsilon` under `[privacy]` in the silo's file.",
            );
        }
        let agreed = promise.agreed(own)?;
        let (unit, of_rows) = (promise.protected(own), own.protected());
        let design = own.declared_design(rows, &agreed.agreement).map_err(declined)?;
        let count = match of_rows == PrivateRoundsOptions::UNIT {
            true => design.rows,
            false => design.random.first().map_or(design.rows, |term| term.levels.len()),
        };
        for (whose, delta) in [("the study", promise.delta), ("this silo's file", allowed.delta)] {
            private::check_delta(whose, delta, count)?;
        }
        let departures = match sums.shares.colluders {
            None => Departures::FreshNoise,
            Some(_) => Departures::SharedNoise,
        };
        let masking = masking(&study.silos, file, promise.secure_sums, departures)?;
        check_colluders(study, file, sums.shares)?;
        let budget = Budget { epsilon: allowed.epsilon, delta: allowed.delta, unit: unit.clone() };
        let path = ledger_path(file, &allowed);
        let mut notes = outside(&promise, rows);
        if !path.exists() {
            notes.push(begins(&path));
        }
        let ledger = Ledger::open(&path, budget).map_err(declined)?;
        let own = Self {
            agreed,
            promise,
            sums,
            study: study.asked_of_rows()?,
            allowed,
            ledger,
            clipped: ClippedRows::default(),
            state: file.state.clone(),
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
        let spent = self.ledger.spent().map_err(declined)?;
        let SiloPrivacy { epsilon, delta, .. } = self.allowed;
        let Shares { count, colluders } = self.sums.shares;
        let share = match colluders {
            None => String::new(),
            Some(_) => format!(
                ". Its noise is one of {count} shares: the promise holds{}, if the others follow the protocol",
                Privacy::against(colluders).replace(',', "")
            ),
        };
        let masked = match &self.masking {
            None => "its sums leave it with noise and without masks".to_owned(),
            Some(Masking { peers, fewest, .. }) => {
                format!("its sums leave it masked with {} silos, at least {fewest} in all{share}", peers.len() - 1)
            }
        };
        let lost = format!(
            "privacy: {} of these sums were charged and have no reply: a process ended between the two. They stay charged, and the same request \
             is charged again",
            spent.never_drawn
        );
        let mut lines = vec![
            self.promise.promise(&self.unit, self.sums)?,
            format!("privacy: {masked}"),
            format!(
                "privacy: epsilon {:.4} of the owner's {epsilon} at delta {delta:e} is spent{}, by {} sums; nothing else is said of the rows but their number",
                spent.epsilon,
                Privacy::against(spent.colluders),
                spent.releases
            ),
        ];
        lines.extend((spent.never_drawn > 0).then_some(lost));
        lines.extend(self.notes.iter().cloned());
        Ok(lines)
    }

    /// The silo, with its number of rows.
    pub(super) fn silo<M: Model>(
        &self,
        (name, index): (&str, u32),
        model: &M,
        rows: &M::Data,
        device: &Device,
        fit: &FitOptions,
    ) -> partita_inference::Result<(Box<dyn SiloProgram>, usize)> {
        let sums = NoisedSums::new(Some(self.ledger.clone()), Box::new(SystemEntropy::default()));
        let sums = sums.telling(&self.clipped).shared(self.sums.shares);
        let seated = Seated { name, index, study: &self.study };
        let (own, count) = private::silo(seated, (model, rows), device, fit, sums)?;
        Ok((behind(own, self.masking.as_ref()), count))
    }

    /// What the owner reads after the report: which rows were shorter in the sums than they are.
    pub(super) fn clipped_line(&self) -> Option<String> {
        let share = 100.0 * self.clipped.share()?;
        if self.unit == Privacy::WHOLE_SILO {
            let was = if share > 0.0 { "longer than the clip, and was shortened" } else { "no longer than the clip" };
            return Some(format!("privacy: what this silo changed in the last round was {was}. This stays here"));
        }
        Some(format!(
            "privacy: {share:.1} % of the rows were clipped in the last sum. This number has no noise and stays here; where it is more than a \
             few, rows that are unlike the others count for less than they are"
        ))
    }

    /// Writes into the state how far the ledger has come.
    pub(super) fn mark(&self) -> partita_inference::Result<()> {
        self.expect()?;
        let Mark { entries, head } = self.ledger.mark().map_err(declined)?;
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
        self.ledger.expect(&mark).map_err(declined)
    }

    /// Writes what the study promised and what is spent, for the owner.
    pub(super) fn write_spent(&self, folder: &Path) -> partita_inference::Result<()> {
        let spent = self.ledger.spent().map_err(declined)?;
        let SiloPrivacy { epsilon, delta, .. } = self.allowed;
        let text = json!({
            "study": {
                "unit": self.unit,
                "epsilon": self.promise.epsilon,
                "delta": self.promise.delta,
                "against": against(self.sums.shares.colluders),
            },
            "allowed": { "epsilon": epsilon, "delta": delta },
            "spent": { "epsilon": spent.epsilon, "releases": spent.releases, "against": against(spent.colluders) },
            // Without noise: the owner's alone, as the file is.
            "share_of_rows_clipped_in_the_last_sum": self.clipped.share(),
        });
        write_atomically(&folder.join(PRIVACY), format!("{text:#}\n").as_bytes())
    }
}

/// Refuses a study whose promise is against fewer silos together than the owner wants: against all others, where its file
/// says nothing of it.
fn check_colluders(study: &StudyFile, file: &SiloFile, shares: Shares) -> Result<()> {
    let others = (study.silos.len() as u64).saturating_sub(1);
    let wanted = file.secure.as_ref().and_then(|own| own.colluders).unwrap_or(others).min(others);
    match shares.colluders.filter(|asked| *asked < wanted) {
        None => Ok(()),
        Some(asked) => unwelcome(
            "against how many silos together the study's promise holds",
            format!("`colluders = {asked}` under `[privacy]`"),
            format!(
                "at least {wanted}: `colluders` under `[secure]` in this silo's file, or all others where it has none"
            ),
            "Ask for a study that promises against more silos, which has more noise. Or write `colluders` under `[secure]`, if so many silos and no more might work together with the coordinator.",
        ),
    }
}

/// Against whom a promise is, for files.
fn against(colluders: Option<u64>) -> String {
    match colluders {
        None => "the coordinator, the engine and all other silos together".to_owned(),
        Some(_) => {
            let words = Privacy::against(colluders);
            format!("{}, if the others follow the protocol", words.trim_start_matches(", against "))
        }
    }
}

/// Writes what a fit promised of single rows, and what the noise did to each number; the name of the file. Without a promise
/// that of an earlier fit goes out of the folder.
pub(in crate::executables) fn write_privacy(
    report: &Report,
    folder: &Path,
) -> partita_inference::Result<Option<&'static str>> {
    let path = folder.join(PRIVACY);
    let Some(own) = &report.privacy else {
        removed(&path, std::fs::remove_file(&path))?;
        return Ok(None);
    };
    let labels = report.sites.iter().map(|site| site.label.clone());
    let widened: Value = match own.widened.len() == report.sites.len() {
        true => labels.zip(own.widened.iter().map(|by| json!(by))).collect::<Map<_, _>>().into(),
        false => json!(own.widened),
    };
    let text = json!({
        "unit": format!("one {}", own.unit),
        "epsilon": own.epsilon,
        "delta": own.delta,
        "against": against(own.colluders),
        "releases_of_each_silo": own.releases,
        "noise_in_clips": own.noise,
        "silos": report.silos,
        "standard_deviations_widened_by": widened,
        "not_promised": "timing, taking part, numbers of rows, or of groups where these are protected, several rows of one person, false answers of silos",
    });
    write_atomically(&path, format!("{text:#}\n").as_bytes())?;
    Ok(Some(PRIVACY))
}
