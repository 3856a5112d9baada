//! Lets silos answer whenever they are ready, each on a thread of its own.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Arrival, Exchange, Outcome, Request, SiloProgram, check_names, nothing_asked};
use crate::engine::error::{Error, Result};
use crate::engine::panic::caught;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// Silos of this process, each on a thread of its own.
#[derive(Debug)]
pub struct Threads {
    names: Vec<String>,
    requests: Vec<Sender<Message>>,
    arrivals: Receiver<Arrival>,
    /// Requests of each silo that its thread has not answered, the oldest first.
    under_way: Vec<VecDeque<Asked>>,
    /// Outcomes of silos that cannot be asked.
    lost: VecDeque<Arrival>,
    threads: Vec<JoinHandle<()>>,
}

/// A request that a thread has not answered.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// When it has taken too long.
    due: Option<Instant>,
    /// Whether its outcome is still waited for.
    is_awaited: bool,
}

impl Threads {
    /// Starts a thread for each silo.
    ///
    /// # Errors
    /// [`Error::NoSilos`]; [`Error::DuplicateSilo`]; [`Error::Setting`] if the machine cannot start that many threads.
    pub fn start(silos: Vec<Box<dyn SiloProgram>>) -> Result<Self> {
        let names: Vec<String> = silos.iter().map(|silo| silo.name().to_owned()).collect();
        check_names(&names)?;
        let (sender, arrivals) = channel();
        let (mut requests, mut threads) = (Vec::new(), Vec::new());
        for (place, mut silo) in silos.into_iter().enumerate() {
            let (request, inbox) = channel::<Message>();
            let sender = sender.clone();
            let work = move || {
                for message in inbox {
                    let name = silo.name().to_owned();
                    let answer = caught(&name, || silo.answer(&message));
                    let outcome = answer.map_or_else(Outcome::Failed, Outcome::Reply);
                    // The receiver is gone once the run is over.
                    if sender.send(Arrival { silo: place, outcome }).is_err() {
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
        let under_way = vec![VecDeque::new(); names.len()];
        Ok(Self { names, requests, arrivals, under_way, lost: VecDeque::new(), threads })
    }

    /// The request whose time is over first, with the place of its silo; `None` if none is waited for.
    fn next_due(&mut self) -> Option<(usize, &mut Asked)> {
        let asked = self.under_way.iter_mut().enumerate();
        let awaited = asked.flat_map(|(silo, own)| own.iter_mut().map(move |one| (silo, one)));
        // What is never due comes after all that is.
        awaited.filter(|(_, one)| one.is_awaited).min_by_key(|(_, one)| (one.due.is_none(), one.due))
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

impl Exchange for Threads {
    fn silos(&self) -> &[String] {
        &self.names
    }

    fn send(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        for request in &requests {
            // What it was asked before was given up by a run that ended.
            self.under_way.get_mut(request.silo).into_iter().flatten().for_each(|old| old.is_awaited = false);
        }
        for Request { silo, message } in requests {
            match self.requests.get(silo).map(|own| own.send(message)) {
                Some(Ok(())) => {
                    let due = deadline.map(|deadline| Instant::now() + deadline);
                    self.under_way[silo].push_back(Asked { due, is_awaited: true });
                }
                Some(Err(_)) => self.lost.push_back(lost(silo, "its thread has ended".into())),
                None => self.lost.push_back(lost(silo, format!("there is no silo {silo}"))),
            }
        }
        Ok(())
    }

    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<Arrival>> {
        let until = deadline.map(|deadline| Instant::now() + deadline);
        loop {
            if let Some(lost) = self.lost.pop_front() {
                return Ok(Some(lost));
            }
            let (silo, next) = self.next_due().ok_or_else(nothing_asked)?;
            let now = Instant::now();
            if next.due.is_some_and(|due| due <= now) {
                next.is_awaited = false;
                return Ok(Some(Arrival { silo, outcome: Outcome::Timeout }));
            }
            let end = next.due.into_iter().chain(until).min();
            let received = match end {
                Some(end) => self.arrivals.recv_timeout(end.saturating_duration_since(now)),
                None => self.arrivals.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(arrival) => {
                    let asked = self.under_way[arrival.silo].pop_front();
                    if !asked.is_some_and(|asked| asked.is_awaited) {
                        continue;
                    }
                    if let Outcome::Reply(reply) = &arrival.outcome {
                        manifest.check(&self.names[arrival.silo], reply)?;
                    }
                    return Ok(Some(arrival));
                }
                Err(RecvTimeoutError::Timeout) if until.is_some_and(|until| until <= Instant::now()) => {
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::NoSilos),
            }
        }
    }
}

fn lost(silo: usize, reason: String) -> Arrival {
    Arrival { silo, outcome: Outcome::Lost { reason } }
}
