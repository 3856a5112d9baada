//! Keeps a silo's state in two phases on disk, so that whatever is killed when, nothing is lost and nothing applied twice.

use std::path::{Path, PathBuf};

use partita_inference::{Message, SiloProgram, write_atomically};
use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::object::ObjectId;

/// Makes a silo's program in the state before the first request of a run.
pub type Program = Box<dyn FnMut() -> partita_inference::Result<Box<dyn SiloProgram>> + Send>;

/// A silo with its state.
///
/// After every answer the state is saved beside the state before it. The next request says which answers the coordinator has
/// taken: then the older state is deleted. If it says that the last answer was not taken, that answer is sent again if the
/// request is the same, and otherwise the older state is restored first. A silo whose process was killed goes on from its
/// folder.
pub struct Keeper {
    folder: PathBuf,
    make: Program,
    program: Option<Box<dyn SiloProgram>>,
    state: State,
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

/// What the file `silo.json` of the folder says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct State {
    run: String,
    identity: String,
    /// The round after which the coordinator's and the silo's state agree; 0 before any.
    committed: u64,
    candidate: Option<Candidate>,
}

/// An answer that the coordinator has yet to take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Candidate {
    round: u64,
    /// The hash of the request that was answered.
    request: String,
}

impl Keeper {
    /// A silo whose state lies in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::File`] for a folder that cannot be written, or a state that cannot be read.
    pub fn open(folder: &Path, make: Program) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| file(folder, &error))?;
        let path = folder.join("silo.json");
        let state = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::File {
                path,
                problem: format!("it is no state of a silo ({error}). Move it away to start anew."),
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(file(&path, &error)),
        };
        Ok(Self { folder: folder.to_owned(), make, program: None, state })
    }

    /// Answers a request of a round, or gives the answer that was given before.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for a request of an earlier round, or of a state that this silo no longer has; otherwise what the
    /// program reports. A failed answer leaves the state as it was.
    pub fn answer(&mut self, envelope: &Envelope, request: &Message) -> Result<Message> {
        if envelope.run != self.state.run {
            self.begin(envelope)?;
        }
        if envelope.identity != self.state.identity {
            return Err(Error::Unwelcome {
                what: "the model and settings of a run",
                found: envelope.identity.clone(),
                expected: self.state.identity.clone(),
                remedy: "Start the coordinator with the settings of the run that it continues.",
            });
        }
        let hash = ObjectId::of(&request.encode()).to_string();
        self.settle(envelope, &hash)?;
        if let Some(candidate) = &self.state.candidate {
            // Settled and still here: the same request again.
            return self.recorded(candidate.round);
        }
        let reply = self.program()?.answer(request)?;
        self.record(envelope.round, hash, &reply)?;
        Ok(reply)
    }

    /// Forgets another run.
    fn begin(&mut self, envelope: &Envelope) -> Result<()> {
        if envelope.accepted > 0 {
            return Err(Error::Unwelcome {
                what: "the run of a request",
                found: format!(
                    "run `{}`, of which the coordinator has taken round {}",
                    envelope.run, envelope.accepted
                ),
                expected: format!("run `{}`, the one this silo has the state of", self.state.run),
                remedy: "Give this silo the state folder of that run, or start a new run.",
            });
        }
        let (run, identity) = (envelope.run.clone(), envelope.identity.clone());
        self.program = None;
        self.write(State { run, identity, committed: 0, candidate: None })?;
        self.tidy();
        Ok(())
    }

    /// Brings the state to what the coordinator knows. Leaves the candidate in place only if it answers this very request.
    fn settle(&mut self, envelope: &Envelope, hash: &str) -> Result<()> {
        let behind = |found: u64, expected: u64| Error::Unwelcome {
            what: "the state of this silo",
            found: format!("a request after round {found}"),
            expected: format!("one after round {expected}"),
            remedy: "It is a message of the past, or this silo's folder is older than the run: restore its latest state.",
        };
        if envelope.round <= envelope.accepted {
            return Err(behind(envelope.accepted, envelope.round));
        }
        match self.state.candidate.clone() {
            Some(candidate) if candidate.round == envelope.accepted => {
                let committed = candidate.round;
                self.write(State { committed, candidate: None, ..self.state.clone() })?;
                self.tidy();
            }
            Some(candidate) if self.state.committed == envelope.accepted => {
                if candidate.round == envelope.round && candidate.request == hash {
                    return Ok(());
                }
                self.program = None;
                self.write(State { candidate: None, ..self.state.clone() })?;
            }
            None if self.state.committed == envelope.accepted => {}
            _ => return Err(behind(envelope.accepted, self.state.committed)),
        }
        Ok(())
    }

    /// The program in the committed state.
    fn program(&mut self) -> Result<&mut Box<dyn SiloProgram>> {
        if self.program.is_none() {
            let mut program = (self.make)()?;
            if self.state.committed > 0 {
                let folder = self.round(self.state.committed);
                program.answer(&Message::new("silo.restore").setting("folder", &folder.to_string_lossy()))?;
            }
            self.program = Some(program);
        }
        match &mut self.program {
            Some(program) => Ok(program),
            None => unreachable!("invariant: the program was just made"),
        }
    }

    /// Saves the state after an answer, and the answer.
    fn record(&mut self, round: u64, request: String, reply: &Message) -> Result<()> {
        let folder = self.round(round);
        let saved = (|| {
            std::fs::create_dir_all(&folder).map_err(|error| file(&folder, &error))?;
            self.program()?.answer(&Message::new("silo.save").setting("folder", &folder.to_string_lossy()))?;
            let path = folder.join("reply.partita");
            write_atomically(&path, &reply.encode())?;
            self.write(State { candidate: Some(Candidate { round, request }), ..self.state.clone() })
        })();
        if saved.is_err() {
            // What cannot be kept was not answered: the next request finds the state before it.
            self.program = None;
        }
        saved
    }

    fn recorded(&self, round: u64) -> Result<Message> {
        let path = self.round(round).join("reply.partita");
        let bytes = std::fs::read(&path).map_err(|error| file(&path, &error))?;
        Ok(Message::decode(&bytes)?)
    }

    fn write(&mut self, state: State) -> Result<()> {
        let path = self.folder.join("silo.json");
        let bytes = serde_json::to_vec_pretty(&state)
            .map_err(|error| Error::File { path: path.clone(), problem: error.to_string() })?;
        write_atomically(&path, &bytes)?;
        self.state = state;
        Ok(())
    }

    fn round(&self, round: u64) -> PathBuf {
        self.folder.join(format!("round-{round:08}"))
    }

    /// Deletes states that nobody will ask for. What cannot be deleted takes space and does no harm.
    fn tidy(&self) {
        let candidate = self.state.candidate.as_ref().map(|candidate| candidate.round);
        let keep: Vec<PathBuf> =
            [Some(self.state.committed), candidate].into_iter().flatten().map(|round| self.round(round)).collect();
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_round = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("round-"));
            if is_round && !keep.contains(&path) {
                let _ = std::fs::remove_dir_all(&path);
            }
        }
    }
}

fn file(path: &Path, error: &std::io::Error) -> Error {
    Error::File { path: path.to_owned(), problem: error.to_string() }
}
