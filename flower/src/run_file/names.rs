//! Names the algorithms and schedules of a run file, and the requests that silos must allow for each algorithm.

use partita_inference::{Delays, Order, SiloSchedule};
use serde::{Deserialize, Serialize};

/// The algorithms that may run over an engine, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlgorithmName {
    /// Structured federated variational inference: an exchange a step.
    Sfvi,
    /// Rows integrated out in their silos: a handful of exchanges.
    FewRounds,
    /// The same by noised sums over clipped rows: for studies with `[privacy]`.
    PrivateRounds,
    /// SFVI by noised sums over clipped rows: for studies with `[privacy]`.
    PrivateSfvi,
    /// Rounds of local steps and an average.
    SfviAvg,
    /// Federated point estimation: FedAvg and its kin.
    FedOpt,
    /// One approximate factor a silo.
    Pvi,
    /// Columns of the same rows at different parties: an exchange or two a step.
    Vertical,
}

/// Every word that a silo's `allow` may hold.
const VERBS: [&str; 13] = [
    "sfvi",
    "few",
    "private",
    "avg",
    "fed",
    "pvi",
    "vertical",
    "evaluate",
    "trust",
    "leave_one_out",
    "predictive",
    "formula",
    "average",
];

impl AlgorithmName {
    /// Its name in a run file.
    pub(super) fn written(self) -> &'static str {
        match self {
            Self::Sfvi => "sfvi",
            Self::FewRounds => "few-rounds",
            Self::PrivateRounds => "private-rounds",
            Self::PrivateSfvi => "private-sfvi",
            Self::SfviAvg => "sfvi-avg",
            Self::FedOpt => "fed-opt",
            Self::Pvi => "pvi",
            Self::Vertical => "vertical",
        }
    }

    /// The first words of its requests, including those for the bound of the report.
    pub(super) fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Sfvi => &["sfvi"],
            Self::FewRounds => &["few", "trust"],
            Self::PrivateRounds | Self::PrivateSfvi => &["private"],
            Self::SfviAvg => &["avg", "sfvi"],
            Self::FedOpt => &["fed", "sfvi"],
            Self::Pvi => &["pvi", "sfvi"],
            Self::Vertical => &["vertical"],
        }
    }
}

/// What silos are asked after the fit where an entry says so.
pub(super) struct AfterTheFit {
    pub(super) entry: &'static str,
    /// The first word of the requests.
    pub(super) word: &'static str,
    pub(super) is_asked: bool,
}

/// The first word that begins no request.
pub(super) fn unknown_verb(allowed: &[String]) -> Option<&String> {
    allowed.iter().find(|word| !VERBS.contains(&word.as_str()))
}

/// Words in quotation marks, as in "`sfvi` or `avg`".
pub(super) fn quoted(words: &[&str], between: &str) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between)
}

/// All words of `allow`, as an error lists them.
pub(super) fn all_verbs() -> String {
    quoted(&VERBS, ", ")
}

/// The schedules of silos, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleName {
    /// One silo after another.
    #[default]
    Sequential,
    /// One silo after another, in a new random order in every sweep.
    Random,
    /// One silo at a time, next the one whose last answer moved the posterior most.
    Residual,
    /// All at once.
    Synchronous,
    /// This number at once, drawn anew for each round.
    Subset(usize),
    /// All at once, each asked again as soon as it has answered, without waiting for the slowest.
    Asynchronous,
}

impl From<ScheduleName> for SiloSchedule {
    fn from(name: ScheduleName) -> Self {
        match name {
            ScheduleName::Sequential => Self::Sequential(Order::Fixed),
            ScheduleName::Random => Self::Sequential(Order::Random),
            ScheduleName::Residual => Self::Sequential(Order::Residual),
            ScheduleName::Synchronous => Self::Synchronous,
            ScheduleName::Subset(silos) => Self::Subset(silos),
            // The delays belong to a simulated clock: over an engine silos take real time.
            ScheduleName::Asynchronous => Self::Asynchronous(Delays::default()),
        }
    }
}
