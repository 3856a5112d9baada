//! Lets silos answer whenever they are ready, each on a thread of its own.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Outcome, Request, SiloProgram};
use crate::engine::error::{Error, Result};
use crate::engine::panic::caught;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// Carries requests to silos and hands over their answers as they arrive, in whatever order.
///
/// # Laws
/// Every request gives one outcome, from the silo it was sent to, unless the deadline passes first. A reply that is
/// handed over has passed the manifest.
pub trait AsynchronousExchange {
    /// The names of the silos.
    fn silos(&self) -> &[String];

    /// Sends a request; if its silo is working on another, nobody waits for that one any more.
    ///
    /// # Errors
    /// [`Error::SiloLost`] if the silo is gone; [`Error::Exchange`] from one that cannot forget the other.
    fn send(&mut self, request: Request) -> Result<()>;

    /// The next outcome, with the place of its silo; `None` if none comes before the deadline. Of a silo that was sent
    /// a request before it had answered another, the outcome of the last is meant.
    ///
    /// # Errors
    /// [`Error::Manifest`] if a reply held something that may not leave its silo.
    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<(usize, Outcome)>>;

    /// What saves where this exchange is; `None` if it cannot be taken up again.
    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        None
    }
}

/// Saves where an exchange is while its silos are at work, and takes it up from there.
///
/// # Laws
/// After `restore` of what `save` wrote every silo is in the state after its last answer that was handed over before
/// `save`: answers that nobody had taken yet were never given.
pub trait Resumable {
    /// Writes into the folder of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Exchange`] if the folder cannot be written.
    fn save(&mut self, folder: &Path) -> Result<()>;

    /// Goes back to what was written there.
    ///
    /// # Errors
    /// [`Error::Exchange`] if the folder cannot be read or is of other silos.
    fn restore(&mut self, folder: &Path) -> Result<()>;
}

/// Silos of this process, each on a thread of its own.
#[derive(Debug)]
pub struct Threads {
    names: Vec<String>,
    requests: Vec<Sender<Message>>,
    outcomes: Receiver<(usize, Outcome)>,
    /// Requests of each silo whose outcomes have not come, and how many of these nobody waits for any more.
    under_way: Vec<[usize; 2]>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts a thread for each silo.
    ///
    /// # Errors
    /// [`Error::NoSilos`]; [`Error::DuplicateSilo`]; [`Error::Setting`] if the machine cannot start that many threads.
    pub fn start(silos: Vec<Box<dyn SiloProgram>>) -> Result<Self> {
        if silos.is_empty() {
            return Err(Error::NoSilos);
        }
        let names: Vec<String> = silos.iter().map(|silo| silo.name().to_owned()).collect();
        if let Some((_, name)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            return Err(Error::DuplicateSilo { name: name.clone() });
        }
        let (sender, outcomes) = channel();
        let (mut requests, mut threads) = (Vec::new(), Vec::new());
        for (place, mut silo) in silos.into_iter().enumerate() {
            let (request, inbox) = channel::<Message>();
            let sender = sender.clone();
            let work = move || {
                for message in inbox {
                    let name = silo.name().to_owned();
                    let answer = caught(&name, || silo.answer(&message));
                    // Nobody listens any more once the run is over.
                    if sender.send((place, answer.map_or_else(Outcome::Failed, Outcome::Reply))).is_err() {
                        break;
                    }
                }
            };
            let thread = std::thread::Builder::new().name(names[place].clone()).spawn(work);
            threads.push(thread.map_err(|error| Error::Setting {
                setting: "silos",
                found: format!("{} ({error})", names.len()),
                expected: "no more silos than the machine can start threads",
            })?);
            requests.push(request);
        }
        let under_way = vec![[0; 2]; names.len()];
        Ok(Self { names, requests, outcomes, under_way, threads })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.requests.clear();
        for thread in self.threads.drain(..) {
            // A panic of a model was caught and reported as an outcome.
            let _ = thread.join();
        }
    }
}

impl AsynchronousExchange for Threads {
    fn silos(&self) -> &[String] {
        &self.names
    }

    fn send(&mut self, request: Request) -> Result<()> {
        let sent = self.requests.get(request.silo).map(|silo| silo.send(request.message));
        if let Some(Ok(())) = sent {
            // What it was asked before was given up by a run that ended.
            let [open, given_up] = &mut self.under_way[request.silo];
            *given_up = *open;
            *open += 1;
            return Ok(());
        }
        let silo = self.names.get(request.silo).cloned().unwrap_or_else(|| request.silo.to_string());
        Err(Error::SiloLost { silo, step: 0, reason: "its thread has ended".into() })
    }

    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<(usize, Outcome)>> {
        let received = match deadline {
            Some(deadline) => self.outcomes.recv_timeout(deadline),
            None => self.outcomes.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok((silo, outcome)) => {
                let [open, given_up] = &mut self.under_way[silo];
                *open -= 1;
                if *given_up > 0 {
                    *given_up -= 1;
                    return self.receive(manifest, deadline);
                }
                if let Outcome::Reply(reply) = &outcome {
                    manifest.check(&self.names[silo], reply)?;
                }
                Ok(Some((silo, outcome)))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::NoSilos),
        }
    }
}
