//! Reads the files of single parties: a silo's and the coordinator's, each with the address of its engine.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use partita_flower::{Engine, Error, LostSilo, Patience, ROUND_SECONDS, Result};
use partita_inference::{FitOptions, write_atomically};
use partita_privacy::{Entropy, SystemEntropy};
use serde::Deserialize;

use super::{Planned, SiloPrivacy};
use crate::formula::ReadOptions;

/// A silo's own file, such as `north.toml`: its name, its data, and the requests its owner allows.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiloFile {
    /// The silo's name.
    pub name: String,
    /// Its SuperNode.
    pub engine: Engine,
    /// The requests it answers: `sfvi`, `few`, `private`, `avg`, `fed`, `pvi`, `vertical`, `evaluate`, `trust`, `leave_one_out`,
    /// `predictive`, `formula`, `average`. In a study it may be left out: then the silo answers what the study's file asks for.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Its data, in the format of the model.
    pub data: PathBuf,
    /// The labels of its rows, if columns are at different parties and the algorithm needs labels at each.
    #[serde(default)]
    pub labels: Option<PathBuf>,
    /// Rows never seen in training.
    #[serde(default)]
    pub held_out: Option<PathBuf>,
    /// The folder of its state: its factor, its local posteriors. Silos must not share it.
    pub state: PathBuf,
    /// Where the report of its own rows is written when it is stopped: JSON for a name that ends in `.json`, else CSV.
    #[serde(default)]
    pub own_rows: Option<PathBuf>,
    /// Where predictive checks of its own rows are written when it is stopped, or has the report of its study, with every
    /// data set that the fitted model made up: JSON for a name that ends in `.json`, else a page of HTML with pictures.
    #[serde(default)]
    pub own_checks: Option<PathBuf>,
    /// The file of the coordinator's public key: the silo answers requests that are signed with it, and nothing else.
    #[serde(default)]
    pub coordinator: Option<PathBuf>,
    /// The file of the private key that signs its answers: a coordinator that has the public one takes no others.
    #[serde(default)]
    pub signs: Option<PathBuf>,
    /// Whose seed the noise of its local steps and its minibatches follow.
    #[serde(default)]
    pub noise: NoiseOf,
    /// The most requests that it answers in a day; any number if it is not given.
    #[serde(default)]
    pub requests_a_day: Option<u64>,
    /// The fewest rows never seen in training of which it says how probable they are.
    #[serde(default)]
    pub least_held_out_rows: Option<u64>,
    /// The most draws of an evaluation, of predictive checks, of rows left out, of an averaged contrast and of a look of the round of
    /// trust, in one request; any number if it is not given. What a study asks for by default has 2,048 draws in a look, and 500 in an
    /// averaged contrast.
    #[serde(default)]
    pub most_draws: Option<u64>,
    /// The most bytes of a request; a gigabyte if it is not given.
    #[serde(default)]
    pub largest_request: Option<usize>,
    /// In a study, the folder of the report that the coordinator tells every silo; if it is not given, `state`.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// In a study, where the silo writes what is expected of its own rows once it has the report, as `partita fit --fitted` does.
    #[serde(default)]
    pub fitted: Option<PathBuf>,
    /// In a study, what the silo does not say of its rows, by the names that `partita describe` prints.
    #[serde(default)]
    pub refuse: Vec<String>,
    /// In a study, how its file is read: what the file itself does not show.
    #[serde(default)]
    pub read: ReadOptions,
    /// What the owner allows about single rows, over all studies: the silo then takes part in private studies alone.
    #[serde(default)]
    pub privacy: Option<SiloPrivacy>,
    /// With whom it masks its sums, in a run with `secure_sums`, and in a private study that asks for them.
    #[serde(default)]
    pub secure: Option<SiloSecure>,
}

/// The table `secure` of a silo's file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiloSecure {
    /// The fewest silos of a sum that this one takes part in: with two each learns the other's number by subtraction.
    pub fewest: usize,
    /// Against how many silos, together with the coordinator, a private study has to promise at least, for this one to take part
    /// with a share of the noise; all others if it is not said: then every silo has to have all of the noise.
    #[serde(default)]
    pub colluders: Option<u64>,
    /// The files of the public keys of the other silos, by name, which came by another way than through the coordinator.
    pub peers: BTreeMap<String, PathBuf>,
}

/// Whose seed a silo's own noise follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoiseOf {
    /// One that the silo makes at its first start and keeps in its state folder: no other party knows it.
    #[default]
    Silo,
    /// That of the run, which all parties have: for a simulation that is to be repeated.
    Run,
}

impl SiloFile {
    /// The options of the run with the silo's own noise.
    ///
    /// # Errors
    /// Those of the run file; [`Error::File`] for a seed that cannot be read or written.
    pub(super) fn fit_options(&self, run: Planned<'_>) -> Result<FitOptions> {
        Ok(FitOptions { private_seed: self.private_seed()?, ..run.file.fit_options(run.base)? })
    }

    /// The seed of the silo's own noise, which is made at its first start.
    fn private_seed(&self) -> Result<Option<u64>> {
        if self.noise == NoiseOf::Run {
            return Ok(None);
        }
        let path = self.state.join("seed");
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let seed = u64::from_str_radix(text.trim(), 16);
                return seed
                    .map(Some)
                    .map_err(|error| Error::file(&path, format!("it is no seed of a silo ({error})")));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // Another seed would give other noise in the same run.
            Err(error) => return Err(Error::file(&path, error)),
        }
        let mut bytes = [0; 8];
        SystemEntropy::default().fill(&mut bytes).map_err(|error| Error::file(&path, error))?;
        let seed = u64::from_le_bytes(bytes);
        // As of every file that is written by way of a temporary one, only its owner may read it.
        write_atomically(&path, format!("{seed:016x}\n").as_bytes())?;
        Ok(Some(seed))
    }

    /// Refuses results that would be written over the rows, or that cannot be written: a silo finds that out at its start, and
    /// not when it has them.
    pub(super) fn check_outputs(&self) -> Result<()> {
        let outputs = [("own_rows", &self.own_rows), ("own_checks", &self.own_checks), ("fitted", &self.fitted)];
        let inputs = [("data", Some(&self.data)), ("held_out", self.held_out.as_ref())];
        for (output, path) in outputs.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?))) {
            let is_same = |own: &Path| match (own.canonicalize(), path.canonicalize()) {
                (Ok(own), Ok(path)) => own == path,
                _ => own == path,
            };
            if let Some((input, _)) = inputs.iter().find(|(_, own)| own.is_some_and(|own| is_same(own))) {
                return Err(Error::Unwelcome {
                    what: "where a silo writes",
                    found: format!("`{output} = \"{}\"`, which is `{input}`", path.display()),
                    expected: "a file of its own".into(),
                    remedy: "Name another file: this one would be overwritten.",
                });
            }
            if path.is_dir() {
                return Err(unwritable(output, path, "it is a folder"));
            }
            can_write(path.parent().unwrap_or(Path::new(""))).map_err(|error| unwritable(output, path, error))?;
        }
        for (entry, folder) in [("state", Some(&self.state)), ("output", self.output.as_ref())] {
            if let Some(folder) = folder {
                can_write(folder).map_err(|error| unwritable(entry, folder, error))?;
            }
        }
        Ok(())
    }

    /// Refuses entries that belong to studies, where the run is not of one.
    pub(super) fn check_for_rows(&self) -> Result<()> {
        let entries = [
            ("output", self.output.is_some()),
            ("fitted", self.fitted.is_some()),
            ("refuse", !self.refuse.is_empty()),
            ("read", self.read != ReadOptions::default()),
            ("privacy", self.privacy.is_some()),
        ];
        match entries.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((name, _)) => Err(Error::Unwelcome {
                what: "an entry of the silo's file",
                found: format!("`{name}` in a run of a model that is compiled in"),
                expected: "it in studies of a formula alone".into(),
                remedy: if *name == "privacy" { PRIVATELY } else { "Take it out of the silo's file." },
            }),
        }
    }
}

/// How else a model that is compiled in is fitted under a promise.
const PRIVATELY: &str = "Take it out: over an engine private rounds fit studies of formulas. `private::fit` fits any model in one process, by few rounds, SFVI, SFVI-Avg, FedOpt or PVI. A party with columns sends a number for each row, which no sum over rows hides: bring all columns of a row to one silo, and fit a study of a formula.";

/// Whether files can be made in a folder, which is created if absent.
fn can_write(folder: &Path) -> partita_inference::Result<()> {
    let probe = folder.join(format!("partita-{}", std::process::id()));
    write_atomically(&probe, &[])?;
    // If it stays, it is empty.
    let _ = std::fs::remove_file(probe);
    Ok(())
}

fn unwritable(entry: &str, path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::Unwelcome {
        what: "where a silo writes",
        found: format!("`{entry} = \"{}\"`, which cannot be written ({problem})", path.display()),
        expected: "a place that can be written before the silo begins".into(),
        remedy: "Name another place in the silo's file, or let the silo's user write there.",
    }
}

/// The coordinator's own file: the address of the SuperLink, and the folder of its results.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Written")]
pub struct CoordinatorFile {
    /// The SuperLink.
    pub engine: Engine,
    /// The folder of its checkpoints: one after every round.
    pub state: PathBuf,
    /// The folder of the report.
    pub output: PathBuf,
    /// The labels, if columns are at different parties and the labels are here.
    pub labels: Option<PathBuf>,
    /// The labels of rows to predict, if columns are at different parties.
    pub held_out: Option<PathBuf>,
    /// The duration of a round here, in seconds, for the estimate of the duration of the run: about four with stock SuperNodes.
    pub round_seconds: f64,
    /// Time and size limits; their entries stand beside the others in the file.
    pub patience: Patience,
    /// The fewest silos with which the run continues, with `lost_silo = "go-on"`.
    pub quorum: Option<usize>,
    /// The files of the public keys of the silos' SuperNodes, by name: a node with another key is not accepted as that
    /// silo.
    pub keys: BTreeMap<String, PathBuf>,
    /// The files of the public keys that sign the answers of silos, by name: what others say in their names is refused.
    pub signatures: BTreeMap<String, PathBuf>,
    /// The file of the private key that signs its requests.
    pub key: Option<PathBuf>,
    /// In a study, how files of rows to predict are read: what the files themselves do not show.
    pub read: ReadOptions,
}

/// The coordinator's file as written. A flattened [`Patience`] would let serde report the missing `output` before the
/// misspelt `outptu`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    engine: Engine,
    state: PathBuf,
    output: PathBuf,
    labels: Option<PathBuf>,
    held_out: Option<PathBuf>,
    round_seconds: Option<f64>,
    quorum: Option<usize>,
    #[serde(default)]
    keys: BTreeMap<String, PathBuf>,
    #[serde(default)]
    signatures: BTreeMap<String, PathBuf>,
    key: Option<PathBuf>,
    appear_seconds: Option<u64>,
    deadline_seconds: Option<u64>,
    attempts: Option<u64>,
    largest_answer: Option<usize>,
    largest_norm: Option<f64>,
    #[serde(default)]
    lost_silo: LostSilo,
    #[serde(default)]
    read: ReadOptions,
}

impl From<Written> for CoordinatorFile {
    fn from(file: Written) -> Self {
        let usual = Patience::default();
        let patience = Patience {
            appear_seconds: file.appear_seconds.unwrap_or(usual.appear_seconds),
            deadline_seconds: file.deadline_seconds.unwrap_or(usual.deadline_seconds),
            attempts: file.attempts.unwrap_or(usual.attempts),
            largest_answer: file.largest_answer.unwrap_or(usual.largest_answer),
            largest_norm: file.largest_norm,
            lost_silo: file.lost_silo,
        };
        Self {
            engine: file.engine,
            state: file.state,
            output: file.output,
            labels: file.labels,
            held_out: file.held_out,
            round_seconds: file.round_seconds.unwrap_or(ROUND_SECONDS),
            patience,
            quorum: file.quorum,
            keys: file.keys,
            signatures: file.signatures,
            key: file.key,
            read: file.read,
        }
    }
}

#[cfg(test)]
mod tests {
    use partita_flower::RunFile;
    use partita_inference::Settings;

    use super::*;

    /// The private seed in the options of a silo with this line in its file.
    fn seed(folder: &Path, line: &str) -> Result<Option<u64>> {
        let run: RunFile =
            toml::from_str("model = \"x\"\nalgorithm = \"sfvi\"\nsilos = [\"north\"]\nsteps = 1\n").unwrap();
        let text = format!(
            "name = \"north\"\ndata = \"north.csv\"\nstate = {:?}\n{line}\n[engine]\naddress = \"127.0.0.1:1\"\n",
            folder.display().to_string()
        );
        let file: SiloFile = toml::from_str(&text).unwrap();
        Ok(file.fit_options(Planned { file: &run, base: &Settings::default() })?.private_seed)
    }

    #[test]
    fn a_silo_draws_its_noise_from_a_seed_of_its_own_unless_its_file_says_otherwise() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let own = seed(first.path(), "").unwrap();
        assert!(own.is_some() && own != seed(second.path(), "").unwrap());
        // After a restart it is the same.
        assert_eq!(seed(first.path(), "noise = \"silo\"").unwrap(), own);
        assert_eq!(seed(first.path(), "noise = \"run\"").unwrap(), None);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(first.path().join("seed")).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "others may read the seed: {mode:o}");
        }
    }

    #[test]
    fn a_seed_that_cannot_be_read_is_an_error_and_not_another_seed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("seed"), "north\n").unwrap();
        let found = seed(folder.path(), "").unwrap_err().to_string();
        assert!(found.contains("it is no seed of a silo"), "{found}");
        std::fs::remove_file(folder.path().join("seed")).unwrap();
        std::fs::create_dir(folder.path().join("seed")).unwrap();
        assert!(matches!(seed(folder.path(), ""), Err(Error::File { .. })));
    }

    #[test]
    fn results_are_not_written_over_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("north.csv");
        std::fs::write(&data, "y\n1\n").unwrap();
        let file = |entry: &str| -> SiloFile {
            let state = match entry.starts_with("state") {
                true => String::new(),
                false => format!("state = {:?}\n", folder.path().join("state")),
            };
            let head = format!("name = \"north\"\ndata = {data:?}\n{state}");
            toml::from_str(&format!("{head}{entry}\n[engine]\naddress = \"127.0.0.1:1\"\n")).unwrap()
        };
        let same = folder.path().join(".").join("north.csv");
        for name in ["fitted", "own_rows", "own_checks"] {
            let found = file(&format!("{name} = {same:?}")).check_outputs().unwrap_err().to_string();
            assert!(found.contains(&format!("`{name} = ")) && found.contains("which is `data`"), "{found}");
        }
        file(&format!("fitted = {:?}", folder.path().join("fitted.csv"))).check_outputs().unwrap();
        // No folder can be made in a file, whoever runs the test.
        for name in ["fitted", "own_rows", "own_checks", "output", "state"] {
            let found = file(&format!("{name} = {:?}", data.join("below"))).check_outputs().unwrap_err().to_string();
            assert!(found.contains(&format!("`{name} = ")) && found.contains("cannot be written ("), "{found}");
        }
        let found = file(&format!("fitted = {:?}", folder.path())).check_outputs().unwrap_err().to_string();
        assert!(found.contains("it is a folder"), "{found}");
        file(&format!("output = {:?}", folder.path().join("report"))).check_outputs().unwrap();
        assert!(std::fs::read_dir(folder.path().join("report")).unwrap().next().is_none());
    }
}
