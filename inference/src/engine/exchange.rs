//! States how requests reach silos and replies come back, whatever carries them.

mod in_process;
mod in_turn;
mod threads;

pub use in_process::InProcess;
pub(crate) use in_turn::InTurn;
pub use threads::Threads;

use std::path::Path;
use std::time::Duration;

use partita_core::Precision;

use crate::engine::error::{Error, Result};
use crate::engine::report::OwnChecks;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// A message for one silo.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The silo's place in [`Exchange::silos`].
    pub silo: usize,
    /// What it is asked.
    pub message: Message,
}

impl Request {
    /// The same message for each of so many silos.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{Message, Request};
    ///
    /// let requests = Request::to_all(3, &Message::new("hello"));
    /// assert_eq!(requests.iter().map(|request| request.silo).collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    #[must_use]
    pub fn to_all(silos: usize, message: &Message) -> Vec<Self> {
        (0..silos).map(|silo| Self { silo, message: message.clone() }).collect()
    }
}

/// What became of a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The silo's answer.
    Reply(Message),
    /// The silo refused or failed. The error's words may quote the silo's data: inside one process that helps, a
    /// transport to another party must send its kind only.
    Failed(Error),
    /// The silo cannot be reached.
    Lost {
        /// Why.
        reason: String,
    },
    /// No answer came before the deadline.
    Timeout,
}

impl Outcome {
    /// The reply, or the error that says what became of the request to `silo` at `step`.
    ///
    /// # Errors
    /// [`Error::InSilo`] or the silo's own error; [`Error::SiloLost`] where no answer came.
    pub fn reply(self, silo: &str, step: u64) -> Result<Message> {
        let lost = |reason| Err(Error::SiloLost { silo: silo.to_owned(), step, reason });
        match self {
            Self::Reply(reply) => Ok(reply),
            Self::Failed(error) => Err(error.in_silo(silo, step)),
            Self::Lost { reason } => lost(reason),
            Self::Timeout => lost("the deadline passed".into()),
        }
    }
}

/// An outcome as it is handed over.
#[derive(Debug)]
pub struct Arrival {
    /// The place in [`Exchange::silos`] of the silo that was asked.
    pub silo: usize,
    /// What became of the request.
    pub outcome: Outcome,
}

/// Carries requests to silos and replies back.
///
/// # Laws
/// Every request that was sent gives one outcome, that of its silo, unless the silo is sent another before; where a
/// silo was sent several at once, outcomes come in the order of its requests. Every reply has passed the manifest. An
/// implementation adds no randomness: the same requests give the same replies. `laws::exchange` checks it.
pub trait Exchange: Send {
    /// The names of the silos.
    fn silos(&self) -> &[String];

    /// Sends requests, each of which is to be answered within `deadline`, or as long as this exchange is patient by
    /// itself. What these silos were asked before and have not answered is not waited for any more.
    ///
    /// # Errors
    /// [`Error::Exchange`] if requests cannot be sent; a silo that is gone is an outcome.
    fn send(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()>;

    /// The next outcome, whichever silo it is of; `None` if none came within `deadline`. Without one it waits until the
    /// requests' own deadlines have passed.
    ///
    /// # Errors
    /// [`Error::Manifest`] if a reply held something that may not leave its silo; [`Error::Exchange`] if all that was
    /// sent has been answered.
    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<Arrival>>;

    /// Sends `requests` and waits for all outcomes, which come in the order of the requests.
    ///
    /// # Errors
    /// As for [`Exchange::send`] and [`Exchange::receive`].
    fn exchange(
        &mut self,
        requests: Vec<Request>,
        manifest: &Manifest,
        deadline: Option<Duration>,
    ) -> Result<Vec<Outcome>> {
        InTurn::send(self, requests, manifest, deadline)?.collect()
    }

    /// Says whose outcome is taken next. An exchange whose answers wait elsewhere may leave those of others there until
    /// then, where they are many bytes.
    fn next_is(&mut self, _silo: usize) {}

    /// What saves where this exchange is and its silos are; `None` if silos are to be asked one by one to save
    /// themselves.
    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        None
    }
}

/// The error of an exchange that is to wait for an outcome, and has none under way.
pub(crate) fn nothing_asked() -> Error {
    Error::Exchange { problem: "no silo was asked anything".into() }
}

/// Refuses an exchange without silos, or with two of one name.
pub(crate) fn check_names(names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Err(Error::NoSilos);
    }
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        Some((_, name)) => Err(Error::DuplicateSilo { name: name.clone() }),
        None => Ok(()),
    }
}

/// Saves where an exchange is while its silos are at work, and takes it up from there.
///
/// # Laws
/// After `restore` of what `save` wrote every silo is in the state after its last answer that was handed over before
/// `save`: answers that were not taken yet were never given.
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

/// What a silo does with a request: the silo's side of an algorithm.
///
/// # Laws
/// An answer depends only on the request and the silo's own state, and a failed answer leaves that state unchanged.
pub trait SiloProgram: Send {
    /// The silo's name.
    fn name(&self) -> &str;

    /// Marginal means and standard deviations of the local latents, unconstrained: one pair a block of
    /// [`partita_core::SiteTable::blocks`], each `[rows, width]`.
    ///
    /// They are over the outer rows that rows belong to, and over the globals as the latest request described their
    /// posterior; before the first request the globals are held at their mean. For the silo's owner: no message carries
    /// them. Where an encoder serves the rows, they are at the θ of the latest request.
    ///
    /// # Errors
    /// What the model's encoder refuses.
    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.within().map_or_else(|| Ok(Vec::new()), SiloProgram::local_moments)
    }

    /// The program that this one stands before, if it only checks or adds to what that one answers: what is said of the
    /// silo's owner alone, and this one does not say, is said by that one.
    fn within(&self) -> Option<&dyn SiloProgram> {
        None
    }

    /// The trained parameters that stay in this silo ([`partita_core::Model::private_len`]); none for most models.
    ///
    /// For the silo's owner: no message carries them.
    fn private_theta(&self) -> Vec<f64> {
        self.within().map_or_else(Vec::new, SiloProgram::private_theta)
    }

    /// Statistics of the silo's data beside those of data sets that the fitted model makes up, as the latest request for
    /// predictive checks had them; none before such a request.
    ///
    /// For the silo's owner: no message carries them.
    fn own_checks(&self) -> Option<OwnChecks> {
        self.within().and_then(SiloProgram::own_checks)
    }

    /// Computes in this precision from here on, whatever that of its device; whether it can. For the silo's owner: a fit in
    /// single precision compares itself with double precision by it.
    ///
    /// # Errors
    /// What the model refuses.
    fn compute_in(&mut self, _precision: Precision) -> Result<bool> {
        Ok(false)
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`crate::Error::Message`] for a request it does not understand; otherwise what the model reports.
    fn answer(&mut self, request: &Message) -> Result<Message>;
}
