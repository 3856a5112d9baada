//! Reads what a study promises of single rows, and by which method: the noise that keeps it follows.

use std::collections::BTreeMap;

use partita_core::{Device, SiteTable};
use partita_flower::{Error, Result};
use partita_inference::{AlgorithmChoice, Privacy, PrivateRoundsOptions};
use partita_privacy::{Accountant, Conversion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::StudyFile;
use super::agree::declined;
use crate::executables::masks::unwelcome;
use crate::formula::{Agreed, DeclaredColumn, MissingCells, ReadOptions, Study};
use crate::private::{PrivateMethod, PrivateOptions, Sums};

/// What is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtectedUnit {
    /// One row of a silo, or one group of rows where the formula has groups.
    Row,
    /// A silo as a whole, by `sfvi-avg` or `fed-opt`: what its local steps change in a round is clipped and noised at once.
    Silo,
}

/// The table `privacy` of a study. The method is that of `algorithm` in the table `run`, few rounds where it names none.
///
/// # Example
/// ```
/// use partita::executables::StudyFile;
/// let text = r#"
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
/// "#;
/// let study = StudyFile::parse(text)?;
/// assert_eq!((study.asks()?, study.most_rounds()?), (vec!["formula", "private"], 25));
/// // Every silo gives a sum at each of sixteen draws of five globals, twenty-four times.
/// let study = StudyFile::parse(&format!("{text}\n[run]\nalgorithm = \"sfvi\""))?;
/// assert_eq!((study.asks()?, study.most_rounds()?), (vec!["formula", "private"], 384));
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
    /// The rounds of the method, each of which has some of the noised sums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// The norm to which a row's numbers are clipped. For few rounds and SFVI it is in root mean squares over rows, and may be
    /// left out; for methods of local steps it is on the scale of the unconstrained globals, and has to be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// The probability with which each row is in a sum, for other methods than few rounds; all rows are, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Whether silos mask their sums, so that the coordinator reads the sum over all of them alone.
    #[serde(default)]
    pub secure_sums: bool,
    /// With `secure_sums`, how many silos may work together with the coordinator: the others have the noise together, each a
    /// share of it. If it is not said all others may, and every silo has all of the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colluders: Option<u64>,
    /// What is declared of the columns: the range of each column of numbers, and the levels of those that `declared` does
    /// not list.
    #[serde(default)]
    pub columns: BTreeMap<String, DeclaredColumn>,
}

/// The entries of the table `run` that a private study may have.
const OF_METHOD: [&str; 8] =
    ["settings", "algorithm", "local_steps", "schedule", "damping", "sfvi-avg", "fed-opt", "pvi"];
/// The entry of a method's table that this one writes.
const PRIVATE: &str = "private";

impl StudyPrivacy {
    /// The method that keeps the promise, with the options that the study names.
    fn method(&self, named: &AlgorithmChoice) -> Result<PrivateMethod> {
        let (what, rate) = ("`[privacy]` of a study", self.rate.unwrap_or(1.0));
        let is_summed = matches!(named, AlgorithmChoice::FewRounds(_) | AlgorithmChoice::Sfvi);
        if self.secure_sums && !is_summed {
            return unwelcome(
                what,
                "`secure_sums` with a method of local steps".into(),
                "it with few rounds or `sfvi`, whose coordinator needs sums alone: others need each silo's posterior or factor".into(),
                "Take `secure_sums` out, or name another `algorithm` in `[run]`. Each silo's answer has its noise either way.",
            );
        }
        if let Some(own) = self.colluders.filter(|_| !self.secure_sums) {
            return unwelcome(
                what,
                format!("`colluders = {own}` without `secure_sums = true`"),
                "masks around the sums of silos that divide the noise: the coordinator would read sums with a share of it".into(),
                "Write `secure_sums = true`, or take `colluders` out: then every silo has all of the noise.",
            );
        }
        let clip = || match self.clip {
            Some(clip) => Ok(clip),
            None => unwelcome(
                what,
                "no `clip`, with a method of local steps".into(),
                "the norm to which a row's gradient is clipped, on the scale of the unconstrained globals".into(),
                "Name one that follows from no look at the data, such as `clip = 2.0`. Few rounds and SFVI find their own.",
            ),
        };
        Ok(match named {
            AlgorithmChoice::FewRounds(_) if self.rate.is_some() => {
                return unwelcome(
                    what,
                    "`rate` with few rounds".into(),
                    "it with `sfvi`, `sfvi-avg`, `fed-opt` or `pvi`: few rounds have few sums, over all rows".into(),
                    "Take `rate` out, or name another `algorithm` in `[run]`.",
                );
            }
            AlgorithmChoice::FewRounds(_) => PrivateMethod::FewRounds,
            AlgorithmChoice::Sfvi => PrivateMethod::Sfvi { rate },
            AlgorithmChoice::SfviAvg(options) => {
                PrivateMethod::SfviAvg { options: options.clone(), rate, clip: clip()? }
            }
            AlgorithmChoice::FedOpt(options) => PrivateMethod::FedOpt { options: options.clone(), rate, clip: clip()? },
            AlgorithmChoice::Pvi(options) => PrivateMethod::Pvi { options: options.clone(), rate, clip: clip()? },
            _ => {
                return unwelcome(
                    what,
                    "a method without noised sums".into(),
                    "`few-rounds`, `sfvi`, `sfvi-avg`, `fed-opt` or `pvi`".into(),
                    "Name one of these as `algorithm` in `[run]`.",
                );
            }
        })
    }

    /// What is protected, in a word: `row`, the grouping of the formula, or a whole silo.
    pub(crate) fn protected(&self, study: &Study) -> String {
        match self.unit {
            ProtectedUnit::Row => study.protected(),
            ProtectedUnit::Silo => Privacy::WHOLE_SILO.to_owned(),
        }
    }

    /// What is promised of one `unit`, such as `row` or `child`, by these sums.
    pub(crate) fn promise(&self, unit: &str, sums: Sums) -> Result<String> {
        let Self { epsilon, delta, .. } = self;
        let Sums { count, noise, rate, shares } = sums;
        let spent = Accountant::of([sums.cost()?]).epsilon(*delta, Conversion::Improved);
        let spent = spent.map_err(declined)?;
        let sample = if rate < 1.0 { format!(" of a sample of {rate} of all") } else { String::new() };
        let against = Privacy::against(shares.colluders);
        let together = match shares.colluders {
            None => String::new(),
            Some(_) => format!(" of any {} silos together, each of which draws a share of it", shares.count),
        };
        let noised = Privacy::noised(unit);
        Ok(format!(
            "privacy: everything that a silo sends will be ({epsilon}, {delta:e})-differentially private for one {unit}{against}: {count} \
             {noised}{sample} with noise of {noise:.2} clips{together}, accounted for as epsilon {spent:.4}"
        ))
    }

    /// Refuses what a study asks of silos beside noised sums.
    pub(super) fn check(&self, study: &StudyFile) -> Result<()> {
        let averaged = study.contrasts.iter().find(|own| own.is_averaged);
        let other = study.run.keys().find(|name| !OF_METHOD.contains(&name.as_str()));
        let is_written = |table: &&String| study.run[table.as_str()].get(PRIVATE).is_some();
        let written = study.run.keys().find(is_written);
        let asked = [
            ("missing = \"drop\"".to_owned(), study.missing == MissingCells::Drop),
            (format!("the {} `checks`", study.checks.len()), !study.checks.is_empty()),
            ("`leave_one_out_draws`".to_owned(), study.leave_one_out_draws > 0),
            (format!("`{}`", averaged.map_or("", |own| own.text.as_str())), averaged.is_some()),
            (format!("`{}` in the table `run`", other.map_or("", String::as_str)), other.is_some()),
            (format!("`{PRIVATE}` in the table `{}`", written.map_or("", String::as_str)), written.is_some()),
        ];
        match asked.into_iter().find_map(|(name, is_asked)| is_asked.then_some(name)) {
            None => Ok(()),
            Some(found) => unwelcome(
                "a study with `[privacy]`",
                found,
                "nothing that depends on rows without noise, or on more sums than `[privacy]` says".into(),
                "Take it out, or take `[privacy]` out: then silos answer without noise. Rounds, clip, rate and masks of a method stand under `[privacy]`.",
            ),
        }
    }

    /// What all parties of the study agree on.
    pub(super) fn agreed(&self, study: &Study) -> Result<Agreed> {
        Ok(study.declared_alone(&self.columns).map_err(declined)?)
    }
}

/// Writes the promise into the entries of a run file: as the table of a private method, or into that of the method's own.
fn write(entries: &mut Map<String, Value>, algorithm: &AlgorithmChoice, steps: u64) -> Result<()> {
    let wrong = |error: serde_json::Error| Error::Malformed { what: "`[privacy]`", problem: error.to_string() };
    entries.insert("steps".into(), json!(steps));
    let (name, hidden) = match algorithm {
        AlgorithmChoice::PrivateRounds(own) => ("private-rounds", serde_json::to_value(own)),
        AlgorithmChoice::PrivateSfvi(own) => ("private-sfvi", serde_json::to_value(own)),
        AlgorithmChoice::SfviAvg(own) => ("sfvi-avg", serde_json::to_value(own.private)),
        AlgorithmChoice::FedOpt(own) => ("fed-opt", serde_json::to_value(own.private)),
        AlgorithmChoice::Pvi(own) => ("pvi", serde_json::to_value(own.private)),
        _ => return Ok(()),
    };
    let hidden = hidden.map_err(wrong)?;
    if name.starts_with(PRIVATE) {
        entries.insert("algorithm".into(), json!(name));
        entries.insert(name.into(), hidden);
    } else if let Some(table) = entries.entry(name).or_insert_with(|| json!({})).as_object_mut() {
        table.insert(PRIVATE.into(), hidden);
    }
    Ok(())
}

impl StudyFile {
    /// The promise, as the facade's fit takes it, with the middles of what is declared of the columns.
    pub(crate) fn private_options(&self, privacy: &StudyPrivacy) -> Result<PrivateOptions> {
        let method = privacy.method(&self.named()?)?;
        let study = self.study(ReadOptions::default())?;
        let agreed = privacy.agreed(&study)?;
        let options = PrivateOptions::new(privacy.epsilon, privacy.delta);
        let (rounds, clip) = (privacy.rounds.unwrap_or(options.rounds), privacy.clip);
        let (middles, unit, colluders) = (agreed.middles(), privacy.protected(&study), privacy.colluders);
        Ok(PrivateOptions { method, rounds, clip, middles, unit, colluders, ..options })
    }

    /// The algorithm that keeps the promise, the steps of its run, and the globals of the model.
    fn promised(&self, privacy: &StudyPrivacy) -> Result<(AlgorithmChoice, u64, usize)> {
        let study = self.study(ReadOptions::default())?;
        let plan = study.plan(&privacy.agreed(&study)?.summary).map_err(declined)?;
        let table = SiteTable::globals(&plan.model, &Device::flex()).map_err(partita_inference::Error::from)?;
        let globals = table.global_len();
        let unit = study.protected();
        if matches!(self.named()?, AlgorithmChoice::FedOpt(_)) && unit != PrivateRoundsOptions::UNIT {
            return unwelcome(
                "`fed-opt` in a study with `[privacy]`",
                format!("effects of `{unit}`, which each silo has for itself"),
                "a formula without groups: points are of what all silos share".into(),
                "Take `few-rounds`, `sfvi`, `sfvi-avg` or `pvi`, or take the groups out of the formula.",
            );
        }
        let (algorithm, steps) = self.private_options(privacy)?.algorithm(globals, self.silos.len())?;
        Ok((algorithm, steps, globals))
    }

    /// The sums that every silo gives.
    ///
    /// # Errors
    /// Those of the file, and of an epsilon, a delta or a number of rounds outside its range.
    pub(crate) fn promised_sums(&self, privacy: &StudyPrivacy) -> Result<Sums> {
        let (algorithm, _, globals) = self.promised(privacy)?;
        let none = || Error::Malformed { what: "`[privacy]`", problem: "its method has no noised sums".into() };
        let shares = self.private_options(privacy)?.shares(self.silos.len())?;
        Sums::of(&algorithm, globals, shares).ok_or_else(none)
    }

    /// Writes the promise into the entries of the run file.
    pub(super) fn write_promise(&self, privacy: &StudyPrivacy, entries: &mut Map<String, Value>) -> Result<()> {
        let (algorithm, steps, _) = self.promised(privacy)?;
        write(entries, &algorithm, steps)
    }
}
