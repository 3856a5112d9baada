//! Keeps a silo's state on disk, so that after a crash nothing is lost and nothing applied twice.

mod allowance;
mod archive;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use partita_inference::{Message, SiloProgram, caught};
use serde::{Deserialize, Serialize};

use crate::entries::short;
use crate::envelope::Envelope;
use crate::error::{Error, Result, shown};
use crate::folder_lock::FolderLock;
use crate::object::ObjectId;
use crate::own_file;
use crate::refused;
use crate::seal::SealKey;
use crate::signature::milliseconds;

/// Makes a silo's program in its state before the first request of a run.
pub type Program = Box<dyn FnMut() -> partita_inference::Result<Box<dyn SiloProgram>> + Send>;

/// A silo with its state.
///
/// After every answer the state and the answer are saved beside those before. A request names the answer after which
/// the coordinator continues. A silo may be ahead of it, if its last answers were lost or the coordinator returned to
/// its checkpoint. It then repeats its answer if it has answered the same request, and otherwise returns to the earlier
/// state. States older than the coordinator's checkpoint are deleted; of later ones at most 512 are kept. A silo whose
/// process was killed resumes from its folder. The states of a run that another replaces are moved to `archive`, which
/// holds those of three runs.
///
/// # Laws
/// An answer is applied once, however often its request arrives. A request older than one already answered changes
/// nothing: its answer is repeated if it is still stored, and the request is refused otherwise.
pub struct Keeper {
    folder: PathBuf,
    make: Program,
    /// The program, and the round after which its state is.
    program: Option<(u64, Box<dyn SiloProgram>)>,
    state: State,
    /// The most requests that are answered in a day.
    requests_a_day: Option<u64>,
    /// The rows that the silo has; none where they were not stated.
    rows: Option<u64>,
    /// What requests are sealed to.
    seal_key: SealKey,
    /// No other silo uses the folder.
    _lock: FolderLock,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Keeper")
            .field("folder", &self.folder)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// The content of the file `silo.json` of the folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct State {
    run: String,
    began: u64,
    identity: String,
    /// The rows with which the silo began the run; none where they were not stated, or an earlier version began it.
    #[serde(default)]
    rows: Option<u64>,
    /// The round of the oldest state that is kept; 0 for the state before any.
    kept: u64,
    /// The answers given since, each from the state after the one before it.
    answers: Vec<Answer>,
    /// The newest request that was answered: the coordinator's start, and the round.
    latest: (u64, u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    round: u64,
    /// The round whose state it started from.
    after: u64,
    /// The hash of the request.
    request: String,
}

impl State {
    /// The round of the newest state.
    fn newest(&self) -> u64 {
        self.answers.last().map_or(self.kept, |answer| answer.round)
    }

    fn has(&self, round: u64) -> bool {
        self.kept == round || self.answers.iter().any(|answer| answer.round == round)
    }

    /// The state after `round`, without later answers and without states before `kept`.
    fn back_to(&self, round: u64, kept: u64) -> Self {
        let mut state = self.clone();
        state.answers.retain(|answer| answer.round <= round);
        let oldest = state.answers.iter().map(|answer| answer.round).filter(|round| *round <= kept).max();
        if let Some(oldest) = oldest {
            state.kept = oldest;
            state.answers.retain(|answer| answer.round > oldest);
        }
        state
    }
}

/// The most states of a run that are kept: a coordinator that writes checkpoints needs a few.
const MOST_STATES: usize = 512;

/// How far ahead of this machine's clock a run may have begun, in milliseconds.
const AHEAD: u64 = 3_600_000;

impl Keeper {
    /// A silo with its state in `folder`, which is created if absent.
    ///
    /// # Errors
    /// [`Error::File`] for a folder that cannot be written or that another silo uses, or a state that cannot be read.
    pub fn open(folder: &Path, make: Program) -> Result<Self> {
        let lock = FolderLock::take(folder)?;
        archive::take_back(folder)?;
        let path = folder.join("silo.json");
        let state = match own_file::read(&path)? {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let problem = format!("it is not the state of a silo ({error}). Move the folder away to start anew.");
                Error::file(&path, problem)
            })?,
            None => State::default(),
        };
        let (folder, seal_key) = (folder.to_owned(), SealKey::kept(&folder.join("seal.key"))?);
        let (program, requests_a_day, rows) = (None, None, None);
        Ok(Self { folder, make, program, state, requests_a_day, rows, seal_key, _lock: lock })
    }

    /// Answers at most so many requests a day; a repeated answer is not counted.
    #[must_use]
    pub fn at_most(mut self, requests_a_day: Option<u64>) -> Self {
        self.requests_a_day = requests_a_day;
        self
    }

    /// Says how many rows the silo has: a run that it began with another number is not gone on with.
    pub(crate) fn set_rows(&mut self, rows: u64) {
        self.rows = Some(rows);
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The key to which a coordinator seals what only this silo may read.
    pub(crate) fn seal_key(&self) -> &SealKey {
        &self.seal_key
    }

    /// The round of this run that the silo answered last, for a coordinator that has lost it; 0 for none.
    #[must_use]
    pub fn place(&self, run: &str) -> u64 {
        if self.state.run == run { self.state.newest() } else { 0 }
    }

    /// The silo in its newest state, for its owner; `None` before the first answer of a run.
    ///
    /// # Errors
    /// [`Error::File`] for a state that cannot be read.
    pub fn silo(&mut self) -> Result<Option<&dyn SiloProgram>> {
        match self.state.newest() {
            0 => Ok(None),
            round => Ok(Some(&**self.program(round)?)),
        }
    }

    /// Answers a request of a round, or repeats the earlier answer.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for a request of the past, or after a round of which this silo has no state, or of a run that
    /// the silo began with another number of rows; otherwise the error of the program. A failed answer leaves the state
    /// as it was.
    pub fn answer(&mut self, envelope: &Envelope, request: &Message) -> Result<Message> {
        if envelope.run != self.state.run {
            self.begin(envelope)?;
        }
        let (found, expected) = (&envelope.identity, &self.state.identity);
        let remedy = "Start the coordinator with the settings of the run that it continues.";
        Error::unless(found == expected, refused::IDENTITY_OF_RUN, short(found), short(expected), remedy)?;
        let hash = ObjectId::of(&request.encode()).to_string();
        let asked = Answer { round: envelope.round, after: envelope.accepted, request: hash };
        let order = (envelope.start, envelope.round);
        if self.state.answers.contains(&asked) {
            let reply = self.recorded(asked.round)?;
            if order > self.state.latest {
                self.write(State { latest: order, ..self.state.clone() })?;
            }
            return Ok(reply);
        }
        self.welcome(envelope)?;
        if let Err(refused) = self.has_its_rows() {
            // A program whose state knows more of its rows says so itself.
            self.program(envelope.accepted)?;
            return Err(refused);
        }
        if let Some(most) = self.requests_a_day {
            allowance::count(&self.folder, most)?;
        }
        let settled = self.state.back_to(envelope.accepted, envelope.kept);
        if settled.newest() < self.state.newest() {
            // What is undone is removed from the record before anything is written in its place.
            self.write(settled.clone())?;
        }
        let count = settled.answers.len();
        let found = format_args!("{count} since the coordinator's checkpoint");
        let expected = format_args!("at most {MOST_STATES}");
        let remedy = "Let the coordinator write checkpoints more often.";
        Error::unless(count < MOST_STATES, refused::STATES, found, expected, remedy)?;
        let program = self.program(envelope.accepted)?;
        let name = program.name().to_owned();
        // A panic is answered as a failure: a process that it ended would be asked the same again.
        let reply = match caught(&name, || program.answer(request)) {
            Ok(reply) => reply,
            Err(error) => {
                // The effects of a failed request were never answered: the next request loads the state that was saved.
                self.program = None;
                return Err(error.into());
            }
        };
        let rows = settled.rows.or(self.rows);
        self.record(State { latest: order, rows, ..settled }, asked, &reply)?;
        Ok(reply)
    }

    /// Refuses to go on with a run that the silo began with another number of rows.
    fn has_its_rows(&self) -> Result<()> {
        match (self.state.rows, self.rows) {
            (Some(before), Some(now)) if before != now => Err(Error::Unwelcome {
                what: refused::ROWS,
                found: format!("{now} rows now"),
                expected: format!("{before} rows, with which this silo began the run"),
                remedy: "Restore the file of its rows, or have the coordinator give the run up by `--restart`.",
            }),
            _ => Ok(()),
        }
    }

    /// Refuses a request of the past, and a request that follows a state which this silo does not have.
    fn welcome(&self, envelope: &Envelope) -> Result<()> {
        let (start, round) = self.state.latest;
        let is_new = (envelope.start, envelope.round) > (start, round) && envelope.round > envelope.accepted;
        let found = format_args!("round {} of start {}", envelope.round, envelope.start);
        let expected = format_args!("one after round {round} of start {start}");
        let remedy = "A message of the past needs no action; if it comes again, another coordinator goes on with the same run: stop one of the two.";
        Error::unless(is_new, refused::AGE_OF_REQUEST, found, expected, remedy)?;
        let found = format_args!("a request after round {}", envelope.accepted);
        let expected = format_args!("one after round {}, the silo's own", self.state.newest());
        let remedy = "This silo's folder does not match the run: start it with its latest state, and not from a copy of its folder.";
        Error::unless(self.state.has(envelope.accepted), refused::STATE, found, expected, remedy)?;
        Ok(())
    }

    /// Archives another run and begins this one.
    fn begin(&mut self, envelope: &Envelope) -> Result<()> {
        let unwelcome = |what, found, expected, remedy| Err(Error::Unwelcome { what, found, expected, remedy });
        let own = format!("run `{}`, the one this silo has the state of", shown(&self.state.run));
        let asked = shown(&envelope.run);
        if envelope.began < self.state.began {
            let found = format!("run `{asked}`, made {} ms earlier", self.state.began - envelope.began);
            let remedy = "Another coordinator has begun a run with this silo since, or this is a message of the past, or the clock of the coordinator's machine was set back. Stop one of the two, or correct the clock and start the run again; to go on with the earlier run, give this silo its state folder, or what `archive` in it has of that run.";
            return unwelcome(refused::AGE_OF_RUN, found, own, remedy);
        }
        // A start in the future would make every later run one of the past.
        let latest = milliseconds().saturating_add(AHEAD);
        if envelope.began > latest {
            let ahead = (envelope.began - latest + AHEAD) / 1_000;
            let found = format!("run `{asked}`, made {ahead} s ahead of this silo's clock");
            let remedy = "Set the clocks of this machine and of the coordinator's, and start the run again.";
            return unwelcome(refused::START_OF_RUN, found, format!("at most {} s ahead", AHEAD / 1_000), remedy);
        }
        if envelope.accepted > 0 {
            let found = format!("run `{asked}`, of which the coordinator has taken round {}", envelope.accepted);
            let remedy = "Give this silo the state folder of that run, or start a new run.";
            return unwelcome(refused::STATE, found, own, remedy);
        }
        let Envelope { run, began, identity, .. } = envelope.clone();
        self.program = None;
        if self.state.newest() > 0 {
            archive::put_away(&self.folder, &self.state)?;
        }
        self.write(State { run, began, identity, rows: self.rows, ..State::default() })?;
        self.tidy();
        Ok(())
    }

    /// The program in the state after a round.
    fn program(&mut self, round: u64) -> Result<&mut Box<dyn SiloProgram>> {
        if self.program.as_ref().is_none_or(|(at, _)| *at != round) {
            self.program = None;
            let mut program = caught("this silo", &mut self.make)?;
            if round > 0 {
                let folder = self.round(round);
                let restore = Message::new("silo.restore").setting("folder", &folder.to_string_lossy());
                program.answer(&restore).map_err(|error| own(&folder, error.into()))?;
            }
            self.program = Some((round, program));
        }
        match &mut self.program {
            Some((_, program)) => Ok(program),
            None => unreachable!("invariant: the program was just made"),
        }
    }

    /// Saves the state after an answer, and the answer.
    fn record(&mut self, mut settled: State, answer: Answer, reply: &Message) -> Result<()> {
        let (round, after, folder) = (answer.round, answer.after, self.round(answer.round));
        settled.answers.push(answer);
        let saved = (|| {
            // What a kill, or an answer that was undone, has left there is of another state.
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::file(&folder, error)),
                _ => std::fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?,
            }
            self.program(after)?.answer(&Message::new("silo.save").setting("folder", &folder.to_string_lossy()))?;
            reply.write_to(&folder.join("reply.partita"))?;
            self.write(settled)
        })();
        match saved {
            Ok(()) => {
                if let Some((at, _)) = &mut self.program {
                    *at = round;
                }
                self.tidy();
                Ok(())
            }
            Err(error) => {
                // An answer that cannot be saved was not given: the next request loads the state before it.
                self.program = None;
                Err(own(&folder, error))
            }
        }
    }

    fn recorded(&self, round: u64) -> Result<Message> {
        let path = self.round(round).join("reply.partita");
        let remedy = "Put this silo's folder back from a copy, or move it away and start the run anew";
        Message::read_from(&path, remedy).map_err(|error| own(&path, error.into()))
    }

    fn write(&mut self, state: State) -> Result<()> {
        let path = self.folder.join("silo.json");
        own_file::write(&path, &serde_json::to_vec_pretty(&state).map_err(|error| Error::file(&path, error))?)?;
        self.state = state;
        Ok(())
    }

    fn round(&self, round: u64) -> PathBuf {
        self.folder.join(format!("round-{round:08}"))
    }

    /// Deletes states that no request can need. A file that cannot be deleted takes space and does no harm.
    fn tidy(&self) {
        let answers = self.state.answers.iter().map(|answer| answer.round);
        let keep: Vec<PathBuf> = answers.chain([self.state.kept]).map(|round| self.round(round)).collect();
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_round = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("round-"));
            if is_round && !keep.contains(&path) {
                let _ = std::fs::remove_dir_all(&path);
            }
        }
    }
}

/// The error of a silo that cannot save or load its own state: it cannot continue.
fn own(path: &Path, error: Error) -> Error {
    match error {
        found @ Error::File { .. } => found,
        other => Error::file(path, other),
    }
}
