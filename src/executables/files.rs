//! Reads the files of the parties themselves: a silo's and the coordinator's, each with where its engine is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use partita_flower::{Engine, LostSilo, Patience, STOCK_ROUND_SECONDS};
use serde::{Deserialize, Serialize};

/// A silo's own file, such as `north.toml`: who it is, where its data are, and what its owner allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiloFile {
    /// The silo's name.
    pub name: String,
    /// Its SuperNode.
    pub engine: Engine,
    /// What it may be asked: `sfvi`, `avg`, `fed`, `pvi`, `vertical`, `evaluate`.
    pub allow: Vec<String>,
    /// Its data, as the model reads them.
    pub data: PathBuf,
    /// The labels of its rows, where columns are at different parties and the algorithm needs them at every one.
    #[serde(default)]
    pub labels: Option<PathBuf>,
    /// Rows never seen in training.
    #[serde(default)]
    pub held_out: Option<PathBuf>,
    /// The folder of its state: its factor, its local posteriors. No other silo may have it.
    pub state: PathBuf,
}

/// The coordinator's own file: where the SuperLink is, and where its results go.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Written")]
pub struct CoordinatorFile {
    /// The SuperLink.
    pub engine: Engine,
    /// The folder of its checkpoints: one after every round.
    pub state: PathBuf,
    /// The folder of the report.
    pub output: PathBuf,
    /// The labels, where columns are at different parties and labels here.
    pub labels: Option<PathBuf>,
    /// The labels of rows to be predicted, where columns are at different parties.
    pub held_out: Option<PathBuf>,
    /// What a round takes here, in seconds: how long a run will take is judged by it.
    pub round_seconds: f64,
    /// How long it waits, and how much it reads; its entries stand beside the others in the file.
    pub patience: Patience,
    /// The fewest silos with which the run goes on, where `lost_silo = "go-on"`.
    pub quorum: Option<usize>,
    /// The files of the public keys of the SuperNodes of silos, by name: a node with another key is not taken for such
    /// a silo.
    pub keys: BTreeMap<String, PathBuf>,
}

/// The coordinator's file as it is written. A flattened [`Patience`] would let serde miss `output` before it names
/// `outptu`.
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
    appear_seconds: Option<u64>,
    deadline_seconds: Option<u64>,
    attempts: Option<u64>,
    largest_answer: Option<usize>,
    largest_norm: Option<f64>,
    #[serde(default)]
    lost_silo: LostSilo,
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
            round_seconds: file.round_seconds.unwrap_or(STOCK_ROUND_SECONDS),
            patience,
            quorum: file.quorum,
            keys: file.keys,
        }
    }
}
