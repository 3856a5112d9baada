//! Receives the objects of messages side by side, so that one message that never comes whole delays no other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::carrier::Carrier;
use crate::error::{Error, Result};
use crate::object::{Limits, ObjectId, Objects, identifiers};
use crate::wire::{EngineError, Metadata, ObjectTree};

/// A message that arrived: its head, and its content or the reason for its absence.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) metadata: Metadata,
    pub(crate) content: std::result::Result<(Objects, ObjectId), Trouble>,
}

/// The reason why a message has no content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The engine, or the other party through it, reports an error.
    #[error("error {code}: {reason}")]
    Reported { code: i64, reason: String },
    /// It is malformed.
    #[error(transparent)]
    Unreadable(Error),
}

/// The content of a message, or the reason for its absence.
type Content = std::result::Result<(Objects, ObjectId), Trouble>;

/// A message whose head has come, and not yet all of its objects.
#[derive(Debug)]
pub(crate) struct Transit {
    pub(crate) metadata: Metadata,
    /// What was wrong with the head.
    trouble: Option<Trouble>,
    /// Its objects that have not come, children before parents.
    missing: VecDeque<ObjectId>,
    objects: Objects,
    limits: Limits,
    /// When the last object came.
    since: Instant,
    /// Whether its objects have been asked for.
    is_looked_for: bool,
}

/// What became of a message at a look.
#[derive(Debug)]
pub(crate) enum Step {
    /// An object has come; there are more.
    Received,
    /// The next object has not come.
    Waits,
    /// The message is whole, or will never be.
    Over(Content),
}

/// The time limit between two objects of a message: a SuperNode delivers them once it has them all.
const ON_ITS_WAY: Duration = Duration::from_secs(120);

impl Transit {
    pub(crate) fn new(metadata: Metadata, error: Option<EngineError>, tree: &ObjectTree, limits: Limits) -> Self {
        let reported =
            error.map(|EngineError { code, reason }| Trouble::Reported { code, reason: crate::error::shown(&reason) });
        let (trouble, missing) = match (reported, identifiers(tree, limits)) {
            (Some(reported), _) => (Some(reported), VecDeque::new()),
            (None, Ok(missing)) => (None, missing.into()),
            (None, Err(error)) => (Some(Trouble::Unreadable(error)), VecDeque::new()),
        };
        let objects = Objects::default();
        Self { metadata, trouble, missing, objects, limits, since: Instant::now(), is_looked_for: false }
    }

    /// Whether an object of it has come.
    fn has_begun(&self) -> bool {
        self.objects.size() > 0
    }

    /// Takes the next object, if it has come.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Untrusted`]; other errors are those of the message, and its content.
    pub(crate) fn advance(&mut self, carrier: &Carrier) -> Result<Step> {
        if let Some(trouble) = self.trouble.take() {
            return Ok(Step::Over(Err(trouble)));
        }
        if !self.is_looked_for {
            (self.is_looked_for, self.since) = (true, Instant::now());
        }
        match self.take(carrier) {
            Err(error @ (Error::Transport { .. } | Error::Untrusted { .. } | Error::Interrupted { .. })) => Err(error),
            Err(error) => Ok(Step::Over(Err(Trouble::Unreadable(error)))),
            Ok(step) => Ok(step),
        }
    }

    fn take(&mut self, carrier: &Carrier) -> Result<Step> {
        let Some(id) = self.missing.front() else {
            return Err(Error::malformed("a message", "it has no objects"));
        };
        let answer = carrier.object(self.metadata.run_id, id)?;
        if !answer.object_available {
            if answer.object_found && self.since.elapsed() <= ON_ITS_WAY {
                return Ok(Step::Waits);
            }
            return Err(Error::malformed("a message", format!("its object {id} never arrived at the engine")));
        }
        self.objects.receive(id, answer.object_content, self.limits)?;
        self.since = Instant::now();
        match self.missing.pop_front() {
            // The last is the message itself.
            Some(message) if self.missing.is_empty() => self.whole(carrier, &message),
            _ => Ok(Step::Received),
        }
    }

    fn whole(&mut self, carrier: &Carrier, message: &ObjectId) -> Result<Step> {
        carrier.confirm(self.metadata.run_id, message)?;
        Ok(Step::Over(Ok((std::mem::take(&mut self.objects), message.clone()))))
    }
}

/// How long a message is remembered whose objects were left at the engine.
const UNTOUCHED: Duration = Duration::from_secs(3_600);

/// Whose answer a coordinator takes next, where there is an order: those of others stay at the engine as long as it
/// holds enough of them.
pub(crate) struct Next {
    /// The messages that the answer is to.
    pub(crate) ids: Vec<ObjectId>,
    /// The bytes of answers that have come before their turn.
    pub(crate) held: usize,
}

/// The bytes of answers that come before their turn, beyond which no other is begun.
const AHEAD: usize = 16 * 1024 * 1024;

/// The messages that are on their way to a coordinator.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Vec<Transit>);

/// How long a look takes objects that have come, where there are many.
const A_LOOK: Duration = Duration::from_secs(1);

impl Inbox {
    /// The replies to `ids` that are whole, without waiting for those that are not: an object of each in turn. With `next`
    /// a reply is not begun before its turn while another comes in several objects, or enough is held.
    pub(crate) fn collect(
        &mut self,
        carrier: &Carrier,
        ids: &[ObjectId],
        limits: Limits,
        next: Option<&Next>,
    ) -> Result<Vec<Arrived>> {
        let is_asked =
            |one: &Transit, ids: &[ObjectId]| ids.iter().any(|id| id.as_str() == one.metadata.reply_to_message_id);
        let is_next = |one: &Transit| next.is_none_or(|next| is_asked(one, &next.ids));
        let is_here = |id: &&ObjectId| self.0.iter().any(|one| one.metadata.reply_to_message_id == id.as_str());
        let open: Vec<ObjectId> = ids.iter().filter(|id| !is_here(id)).cloned().collect();
        // Without identifiers the engine would give the message of the task.
        if !open.is_empty() {
            self.0.extend(carrier.heads(&open, limits)?);
        }
        // A message that nothing waits for any more.
        self.0.retain(|one| one.since.elapsed() <= if one.is_looked_for { 2 * ON_ITS_WAY } else { UNTOUCHED });
        self.0.sort_by_key(|one| (!is_next(one), !one.has_begun()));
        let (started, mut arrived) = (Instant::now(), Vec::new());
        let mut held = next.map_or(0, |next| next.held) + self.0.iter().map(|one| one.objects.size()).sum::<usize>();
        loop {
            let mut has_received = false;
            for mut one in std::mem::take(&mut self.0) {
                let is_early = !is_next(&one) && !one.has_begun() && (has_received || held >= AHEAD);
                if is_early || !is_asked(&one, ids) {
                    self.0.push(one);
                    continue;
                }
                let before = one.objects.size();
                match one.advance(carrier)? {
                    Step::Over(content) => {
                        held += content.as_ref().map_or(0, |(objects, _)| objects.size().saturating_sub(before));
                        arrived.push(Arrived { metadata: one.metadata, content });
                    }
                    step => {
                        has_received |= matches!(step, Step::Received);
                        held += one.objects.size() - before;
                        self.0.push(one);
                    }
                }
            }
            if !has_received || !arrived.is_empty() || started.elapsed() > A_LOOK {
                return Ok(arrived);
            }
        }
    }
}
