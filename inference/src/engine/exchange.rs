//! States how requests reach silos and replies come back, whatever carries them.

mod asynchronous;
mod in_process;

pub use asynchronous::{AsynchronousExchange, Resumable, Threads};
pub use in_process::InProcess;

use std::time::Duration;

use crate::engine::error::{Error, Result};
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

/// Carries requests to silos and replies back.
///
/// # Laws
/// `exchange` returns one outcome for each request, in the order of the requests, whatever order the replies came in.
/// Every reply has passed the manifest. An implementation adds no randomness: the same requests give the same replies.
/// `laws::exchange` checks it.
pub trait Exchange: Send {
    /// The names of the silos.
    fn silos(&self) -> &[String];

    /// Sends `requests` and waits for all outcomes, no longer than `deadline`.
    ///
    /// # Errors
    /// [`crate::Error::Manifest`] if a silo's reply held something that may not leave it.
    fn exchange(
        &mut self,
        requests: Vec<Request>,
        manifest: &Manifest,
        deadline: Option<Duration>,
    ) -> Result<Vec<Outcome>>;

    /// What saves where this exchange is and its silos are; `None` if silos are to be asked one by one to save
    /// themselves.
    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        None
    }
}

/// What a silo does with a request: the silo's side of an algorithm.
///
/// # Laws
/// An answer depends only on the request and the silo's own state, and a failed answer leaves that state unchanged.
pub trait SiloProgram: Send {
    /// The silo's name.
    fn name(&self) -> &str;

    /// Means and standard deviations of the local latents, unconstrained and at the globals' mean: one pair a block of
    /// [`partita_core::SiteTable::blocks`], each `[rows, width]`.
    ///
    /// For the silo's owner: no message carries them. Where an encoder serves the rows, they are at the θ of the latest
    /// request.
    ///
    /// # Errors
    /// What the model's encoder refuses.
    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>>;

    /// The trained parameters that stay in this silo ([`partita_core::Model::private_len`]); none for most models.
    ///
    /// For the silo's owner: no message carries them.
    fn private_theta(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`crate::Error::Message`] for a request it does not understand; otherwise what the model reports.
    fn answer(&mut self, request: &Message) -> Result<Message>;
}
