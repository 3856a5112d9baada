//! Names every way in which a fit can fail, with silo, step and what to try.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The result of an inference operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong while a model was being fitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model or its data.
    #[error(transparent)]
    Model(#[from] partita_core::Error),
    /// The model failed in one silo at one step.
    #[error("silo `{silo}`, step {step}: {source}")]
    InSilo {
        /// The silo.
        silo: String,
        /// The step.
        step: u64,
        /// What the model reported.
        source: Box<Error>,
    },
    /// A gradient or an ELBO share is not finite.
    #[error(
        "{who}, step {step}: {quantity} is {found}, expected a finite number. Lower the learning rate, use gradient clipping, or start from a smaller initial scale; the last finite state is in the checkpoint, if one was asked for."
    )]
    NotFinite {
        /// The silo, or the coordinator.
        who: String,
        /// The step.
        step: u64,
        /// What is not finite, with the site where it belongs to one.
        quantity: String,
        /// The value.
        found: f64,
    },
    /// A setting is out of its domain.
    #[error("setting `{setting}`: found {found}, expected {expected}.")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// What was found.
        found: String,
        /// What was expected, and what to try.
        expected: &'static str,
    },
    /// A site name is not in the model.
    #[error("{operation} names site `{site}`, which the model does not declare as latent. Its sites: {known}")]
    UnknownSite {
        /// The name.
        site: String,
        /// What named it.
        operation: String,
        /// The model's sites.
        known: String,
    },
    /// There is no silo.
    #[error(
        "fitting: found no silo, expected at least one. Give one (name, data) pair for each party; for pooled data give one."
    )]
    NoSilos,
    /// Two silos have one name.
    #[error("fitting: two silos are called `{name}`. Give each silo its own name.")]
    DuplicateSilo {
        /// The name.
        name: String,
    },
    /// A silo declares other globals than the coordinator.
    #[error(
        "silo `{silo}` declares other global sites ({found}) than the coordinator ({expected}). All parties must run the same model."
    )]
    OtherModel {
        /// The silo.
        silo: String,
        /// Its global sites.
        found: String,
        /// The coordinator's.
        expected: String,
    },
    /// A message does not have the form its receiver expects.
    #[error(
        "message `{}`: {}. Both sides must run the same version of Partita, the same model and the same settings.",
        plain(kind),
        plain(problem)
    )]
    Message {
        /// The kind of the message.
        kind: String,
        /// What is wrong.
        problem: String,
    },
    /// A party declines, in the words of what it is made of: a formula, a file, a study.
    #[error("{problem}")]
    Declined {
        /// What is wrong, and what to try.
        problem: String,
    },
    /// A silo refuses for a reason that it may say, since it tells nothing of its rows.
    #[error("{problem}")]
    Refused {
        /// The reason.
        reason: Refusal,
        /// What was asked and found, and what to try.
        problem: String,
    },
    /// A silo's reply held something the manifest does not allow to leave it.
    #[error(
        "silo `{silo}`: field `{}` of the reply {problem}, so the exchange held it back. The algorithm's manifest lists what may leave a silo.",
        plain(field)
    )]
    Manifest {
        /// The silo.
        silo: String,
        /// The field.
        field: String,
        /// Why it may not leave.
        problem: String,
    },
    /// A silo did not answer. In the library PVI goes on without it by `missing_silo` of [`crate::PviOptions`].
    #[error(
        "silo `{silo}`, step {step}: no answer ({reason}). Restart the silo and resume from the checkpoint; PVI can also go on without it: `lost_silo = \"go-on\"` in the coordinator's file."
    )]
    SiloLost {
        /// The silo.
        silo: String,
        /// The step.
        step: u64,
        /// Why.
        reason: String,
    },
    /// The model panicked inside a silo.
    #[error(
        "silo `{silo}`: the model panicked: {reason}. This is usually a shape error in a tensor operation of the model; `partita::check` finds it before a run."
    )]
    Panicked {
        /// The silo.
        silo: String,
        /// The panic's message.
        reason: String,
    },
    /// Posteriors cannot be averaged.
    #[error(
        "averaging posteriors ({operation}): {problem}. Average by another rule, or fit fewer local steps between rounds."
    )]
    Average {
        /// What was being computed.
        operation: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// Natural parameters are those of no density.
    #[error(
        "{operation}: {component} has precision (or shape, or rate) {}, expected a finite number > 0: these natural parameters are of no density. In PVI a smaller `damping`, longer visits or `hold_improper` may help.",
        short(*found)
    )]
    Improper {
        /// What was being computed.
        operation: String,
        /// Where.
        component: String,
        /// What was found there.
        found: f64,
    },
    /// A divergence does not exist between a density and its cavity.
    #[error(
        "{divergence} with index {index}: the variance of component {component} is {found}, expected below {largest}, where the integral exists. Start narrower (`Start::Tight` with a standard deviation below {}), lower the learning rate, or choose an index nearer to 1.", largest.sqrt()
    )]
    DivergenceDomain {
        /// Which divergence.
        divergence: &'static str,
        /// Its index, such as the $`\alpha`$ of Rényi.
        index: f64,
        /// The component, or the largest entry of the direction, that is too wide.
        component: usize,
        /// Its variance.
        found: f64,
        /// The largest variance for which the divergence exists, approached and never reached.
        largest: f64,
    },
    /// The product of prior and factors is no density.
    #[error(
        "silo `{silos}`, step {step}: with damping rho = {damping} the product of the prior and the silos' factors is no density: the precision at site `{site}` is {found}, expected > 0. Lower the damping (1 over the number of silos is safe where they answer from one posterior), solve the local problems further, or allow backtracking."
    )]
    ImproperProduct {
        /// The silos whose change makes it so; all that answered, where only their sum does.
        silos: String,
        /// The step.
        step: u64,
        /// The damping factor.
        damping: f64,
        /// The site.
        site: String,
        /// The precision found, or the smallest eigenvalue of the precision matrix.
        found: f64,
    },
    /// The exchange itself failed, so that no outcome is known.
    #[error("the exchange with the silos failed: {problem}")]
    Exchange {
        /// What happened and what to try.
        problem: String,
    },
    /// A Markov chain found no place to start.
    #[error(
        "NUTS, chain {chain}: the log density or its gradient was not finite and non-zero at any of {tries} starts; at the last one, site `{site}`: {problem}. Check the priors and the data of that site, or lower `start_radius`."
    )]
    NoStart {
        /// The chain.
        chain: usize,
        /// How many starts were tried.
        tries: usize,
        /// The site at fault at the last of them.
        site: String,
        /// What was wrong there.
        problem: String,
    },
    /// The sampler itself failed.
    #[error("NUTS, chain {chain}, draw {draw}: {reason}. Please report it: the model is not at fault.")]
    Sampler {
        /// The chain.
        chain: usize,
        /// The draw, warm-up included.
        draw: usize,
        /// What it said.
        reason: String,
    },
    /// A checkpoint cannot be used.
    #[error("checkpoint {}: {problem}", path.display())]
    Checkpoint {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong and what to try.
        problem: String,
    },
    /// A file cannot be written or read.
    #[error("{operation} {}: {reason}. {}", path.display(), of_files(operation))]
    File {
        /// What was being done.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        reason: String,
    },
}

/// A text with words of another party, in which nothing moves a terminal or begins a line of a log.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// What to try with a file.
fn of_files(operation: &str) -> &'static str {
    match operation.starts_with("reading") {
        true => "Check the path, and that the file may be read.",
        false => "Check that the folder exists, is writable and has room.",
    }
}

/// A reason for which a silo refuses: public, and the only words about a refusal that leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request costs more than its owner's privacy budget has left. Asked again, it refuses again.
    Budget,
    /// The study has had all the sums that it promised. Asked again, it refuses again.
    Sums,
    /// It has no key of the session in which a sum is to be masked, as after a start. With keys of a new session it answers.
    Keys,
}

impl Refusal {
    /// The name by which it crosses the wire.
    ///
    /// # Example
    /// ```
    /// use partita_inference::Refusal;
    /// assert_eq!(Refusal::Budget.name(), "the owner's privacy budget");
    /// assert_eq!(Refusal::named("the keys of a session"), Some(Refusal::Keys));
    /// assert_eq!(Refusal::named("the age of a run"), None);
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Budget => "the owner's privacy budget",
            Self::Sums => "the sums of the study",
            Self::Keys => "the keys of a session",
        }
    }

    /// The reason of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Budget, Self::Sums, Self::Keys].into_iter().find(|own| own.name() == name)
    }

    /// What the party that asked can do.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Budget => {
                "Ask for less: fewer rounds or a smaller epsilon of the study; or have its owner raise `epsilon` in the silo's file"
            }
            Self::Sums => {
                "What was asked is answered again: go on with the run that asked it by `--resume`. For other questions make another study, which every owner's budget has to allow"
            }
            Self::Keys => "Exchange keys anew",
        }
    }
}

impl Error {
    /// [`Error::Setting`] unless something `holds`; what was found is put into words for the error alone.
    pub(crate) fn unless(
        holds: bool,
        setting: &'static str,
        found: impl Display,
        expected: &'static str,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        Err(Self::Setting { setting, found: found.to_string(), expected })
    }

    /// The same unless a setting is a finite number above zero.
    pub(crate) fn unless_positive(setting: &'static str, value: f64) -> Result<()> {
        Self::unless(value > 0.0 && value.is_finite(), setting, value, "a finite number > 0")
    }

    /// [`Error::Message`] of a message of this kind.
    pub(crate) fn malformed(kind: impl Into<String>, problem: impl Display) -> Self {
        Self::Message { kind: kind.into(), problem: problem.to_string() }
    }

    /// The same unless something `holds` of the message; the problem is put into words for the error alone.
    pub(crate) fn well_formed(holds: bool, kind: &str, problem: impl Display) -> Result<()> {
        if holds { Ok(()) } else { Err(Self::malformed(kind, problem)) }
    }

    /// What happened to a file.
    pub(crate) fn file(operation: &'static str, path: &Path, reason: impl Display) -> Self {
        Self::File { operation, path: path.to_owned(), reason: reason.to_string() }
    }

    /// Whether this says that a posterior, or a point of it, lies where the model has no finite density, and nothing
    /// against the way in which the model was asked.
    pub(crate) fn is_outside(&self) -> bool {
        match self {
            Self::InSilo { source, .. } => source.is_outside(),
            Self::NotFinite { .. } => true,
            Self::Model(error) => is_outside(error),
            _ => false,
        }
    }

    /// Why a silo refused, where this says so.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::InSilo { source, .. } => source.refusal(),
            Self::Refused { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// Says in which silo and at which step this happened.
    #[must_use]
    pub fn in_silo(self, silo: &str, step: u64) -> Self {
        match self {
            located @ (Self::InSilo { .. } | Self::NotFinite { .. } | Self::Panicked { .. }) => located,
            source => Self::InSilo { silo: silo.to_owned(), step, source: Box::new(source) },
        }
    }
}

/// Whether a model refuses the place and not the way in which it is asked.
pub(crate) fn is_outside(error: &partita_core::Error) -> bool {
    use partita_core::Error::{NotFinite, NotFiniteMade, NotPositiveDefinite, Operation, Parameter, Support};
    // A solver of differential equations that gets no further refuses a place too.
    matches!(
        error,
        NotFinite { .. }
            | NotFiniteMade { .. }
            | NotPositiveDefinite { .. }
            | Operation { .. }
            | Parameter { .. }
            | Support { .. }
    )
}

/// A number in few digits: in scientific notation where it is very large or very small.
pub(crate) fn short(number: f64) -> String {
    let is_usual = number == 0.0 || !number.is_finite() || (1e-4..1e7).contains(&number.abs());
    if is_usual { number.to_string() } else { format!("{number:.2e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_another_party_in_an_error_neither_move_a_terminal_nor_begin_a_line() {
        let hostile = "x\u{1b}[2J\r\n12:00 run finished".to_owned();
        let manifest = Error::Manifest { silo: "north".into(), field: hostile.clone(), problem: "is long".into() };
        let message = Error::Message { kind: hostile.clone(), problem: format!("unknown field `{hostile}`") };
        for found in [manifest, message] {
            let said = found.to_string();
            assert!(said.contains("`x [2J  12:00 run finished`") && !said.contains(char::is_control), "{said:?}");
        }
    }
}
