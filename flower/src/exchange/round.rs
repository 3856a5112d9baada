//! Carries requests to their silos, again where they are lost, and takes the answers.

use std::time::{Duration, Instant};

use partita_inference::{Manifest, Outcome, Refusal, Request};

use super::roster::Moment;
use super::{Attempt, EventKind, Flower, LostSilo, Place};
use crate::carrier::Parcel;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::jitter::spread;
use crate::object::{ObjectId, Objects};
use crate::refused;
use crate::signature::SIGNATURE;
use crate::silo::FAILED;
use crate::transit::Arrived;

/// A request that waits for its answer. None waits for another: each has its own times.
pub(super) struct Waiting {
    pub(super) request: Request,
    round: u64,
    /// How long an answer may take.
    time: Duration,
    /// Its messages, one an attempt: the answer to any of them counts.
    pub(super) ids: Vec<ObjectId>,
    attempt: u64,
    /// The node that this attempt was sent to; none while it is not on its way.
    sent: Option<u64>,
    pub(super) not_before: Instant,
    /// When this attempt has taken too long.
    due: Instant,
    /// When a silo that a run can do without has taken too long.
    until: Instant,
}

impl Waiting {
    /// The sending of this request that is due.
    fn attempt(&self) -> Attempt {
        Attempt { silo: Some(self.request.silo), round: self.round, attempt: self.attempt, time: self.time }
    }

    /// Whether its answer takes long, or it has yet to be sent again.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.sent.is_none() || now + self.time > self.due + SLOW
    }

    /// Whether half of the time for its answer is over.
    pub(super) fn is_half_over(&self, now: Instant) -> bool {
        self.sent.is_some() && now + self.time / 2 > self.due
    }
}

/// What becomes of a request after something happened to it.
enum Verdict {
    /// It is sent to this node now.
    Due(u64),
    /// It waits.
    Again,
    Lost(String),
}

/// How long an answer takes in rounds where all silos are there.
const SLOW: Duration = Duration::from_secs(5);

/// How long after an error a request is sent again.
pub(super) const BREATH: Duration = Duration::from_secs(1);

impl Flower {
    /// A request of the present round, which is not on its way yet.
    pub(super) fn waiting(&self, request: Request, deadline: Option<Duration>) -> Waiting {
        let time = deadline.unwrap_or(Duration::from_secs(self.options.patience.deadline_seconds));
        let (ids, now, round) = (Vec::new(), Instant::now(), self.place.round);
        let until = now + time;
        Waiting { request, round, time, ids, attempt: 1, sent: None, not_before: now, due: until, until }
    }

    /// Sends what is to be sent now, and gives up what takes too long.
    pub(super) fn send_waiting(&mut self) -> Result<()> {
        let mut due = Vec::new();
        for mut one in std::mem::take(&mut self.under_way.waiting) {
            match self.advance(&mut one) {
                Verdict::Due(node) => due.push((one, node)),
                Verdict::Again => self.under_way.waiting.push(one),
                Verdict::Lost(reason) => self.given_up(&one, reason)?,
            }
        }
        if due.is_empty() { Ok(()) } else { self.send_due(due) }
    }

    /// Sends all that is due in one call.
    fn send_due(&mut self, due: Vec<(Waiting, u64)>) -> Result<()> {
        let parcels: Vec<Parcel<'_>> = due
            .iter()
            .map(|(one, node)| self.parcel(&one.request.message, *node, one.attempt()))
            .collect::<Result<_>>()?;
        let (ids, problem) = match self.push(&parcels) {
            Ok(ids) => {
                (ids, "the engine did not take it: its receiver is not connected, or its time had passed".into())
            }
            Err(error @ (Error::Transport { .. } | Error::Untrusted { .. })) => return Err(error),
            Err(error) => (vec![None; parcels.len()], error.to_string()),
        };
        drop(parcels);
        for ((mut one, node), id) in due.into_iter().zip(ids) {
            if let Some(id) = id {
                one.ids.push(id);
                (one.sent, one.due) = (Some(node), Instant::now() + one.time);
                self.under_way.waiting.push(one);
                continue;
            }
            self.roster.forget(one.request.silo);
            match self.failed(&mut one, format!("it could not be sent: {problem}"), BREATH) {
                Verdict::Lost(reason) => self.given_up(&one, reason)?,
                Verdict::Due(_) | Verdict::Again => self.under_way.waiting.push(one),
            }
        }
        Ok(())
    }

    /// Does what is to be done now, without waiting: sends requests, takes answers, gives up what takes too long.
    pub(super) fn look_after(&mut self, manifest: &Manifest) -> Result<()> {
        self.send_waiting()?;
        let ids: Vec<ObjectId> = self.under_way.waiting.iter().flat_map(|one| one.ids.iter().cloned()).collect();
        let (limits, turn) = (self.options.patience.limits(), self.under_way.turn());
        for arrived in self.inbox.collect(self.task.carrier(), &ids, limits, turn.as_ref())? {
            self.take(arrived, manifest)?;
        }
        if self.under_way.waiting.is_empty() {
            return Ok(());
        }
        if self.task.is_stopped() {
            return Err(Error::Refused {
                operation: "the run",
                status: 200,
                detail: "the engine has stopped it".into(),
                remedy: "Start the coordinator again with `--resume` to go on from the last checkpoint, or without it if the folder `state` has no checkpoint yet.",
            });
        }
        self.look(Moment::Run).map(drop)
    }

    /// Takes what came in answer to a request.
    fn take(&mut self, arrived: Arrived, manifest: &Manifest) -> Result<()> {
        let asked = |one: &Waiting| one.ids.iter().any(|id| id.as_str() == arrived.metadata.reply_to_message_id);
        // Another answer to what has been answered already.
        let Some(known) = self.under_way.waiting.iter().position(asked) else { return Ok(()) };
        let mut one = self.under_way.waiting.swap_remove(known);
        let is_latest = one.ids.last().is_some_and(|id| id.as_str() == arrived.metadata.reply_to_message_id);
        one.ids.retain(|id| id.as_str() != arrived.metadata.reply_to_message_id);
        let silo = one.request.silo;
        let before = self.place.accepted[silo];
        match self.arrived(arrived, &one, manifest)? {
            Ok(outcome) => {
                if matches!(outcome, Outcome::Reply(_)) {
                    self.place.accepted[silo] = one.round;
                    self.is_back(silo, one.round);
                }
                self.under_way.end(silo, outcome, before);
            }
            // What became of an earlier attempt does not matter while a later one is on its way.
            Err(_) if !is_latest || one.sent.is_none() => self.under_way.waiting.push(one),
            Err(reason) => match self.failed(&mut one, reason, BREATH) {
                Verdict::Lost(reason) => self.given_up(&one, reason)?,
                Verdict::Due(_) | Verdict::Again => self.under_way.waiting.push(one),
            },
        }
        Ok(())
    }

    /// Whether a request is to be sent now; sees to one that takes too long.
    fn advance(&mut self, one: &mut Waiting) -> Verdict {
        let (silo, time, now) = (one.request.silo, one.time, Instant::now());
        let node = self.roster.nodes[silo];
        if let Some(sent) = one.sent {
            if now > one.due {
                return self.failed(one, format!("no answer in {} s", time.as_secs()), Duration::ZERO);
            }
            if node != sent {
                let what = if node == 0 { "its node is gone" } else { "it is another node now" };
                return self.failed(one, what.into(), Duration::ZERO);
            }
            return Verdict::Again;
        }
        if now < one.not_before {
            return Verdict::Again;
        }
        if node == 0 {
            if self.options.patience.lost_silo != LostSilo::Wait && self.is_dispensable(silo) {
                return Verdict::Lost("it is not connected".into());
            }
            if now > one.due {
                let reason = format!("it is not connected, for {} s", time.as_secs());
                let verdict = self.failed(one, reason, Duration::ZERO);
                one.due = now + time;
                return verdict;
            }
            return Verdict::Again;
        }
        Verdict::Due(node)
    }

    /// Notes what went wrong with an attempt, and makes the next one if there is to be one.
    fn failed(&mut self, one: &mut Waiting, reason: String, pause: Duration) -> Verdict {
        let silo = one.request.silo;
        self.note(silo, one.round, EventKind::Unanswered, format!("attempt {}: {reason}", one.attempt));
        let now = Instant::now();
        let is_over = match self.options.patience.lost_silo {
            LostSilo::Wait => false,
            LostSilo::Fail => true,
            LostSilo::GoOn => now + pause >= one.until && self.is_dispensable(silo),
        };
        if is_over || one.attempt >= self.options.patience.attempts {
            return Verdict::Lost(reason);
        }
        one.attempt += 1;
        (one.sent, one.not_before) = (None, now + spread(pause));
        Verdict::Again
    }

    /// Whether the run has to do without this silo, or can: under [`LostSilo::GoOn`], whether a quorum of others is
    /// there.
    fn is_dispensable(&self, silo: usize) -> bool {
        let others = (0..self.missing.len()).filter(|other| *other != silo && !self.missing[*other]).count();
        self.options.patience.lost_silo != LostSilo::GoOn || others >= self.options.quorum
    }

    /// A silo from which nothing comes. It is not waited for again before it has said hello.
    fn given_up(&mut self, one: &Waiting, reason: String) -> Result<()> {
        let silo = one.request.silo;
        self.roster.forget(silo);
        let outcome = self.lost(one, reason)?;
        self.under_way.end(silo, outcome, self.place.accepted[silo]);
        Ok(())
    }

    /// A silo that is lost, for this round or for good.
    fn lost(&mut self, one: &Waiting, reason: String) -> Result<Outcome> {
        let silo = one.request.silo;
        let is_over = self.options.patience.lost_silo == LostSilo::GoOn && !self.is_dispensable(silo);
        self.is_missing(silo, one.round, &reason);
        if is_over {
            let answering = self.missing.iter().filter(|missing| !**missing).count();
            return Err(Error::Unwelcome {
                what: "the silos that are there",
                found: format!("{answering}, without `{}`", self.options.silos[silo]),
                expected: format!("a quorum of {}", self.options.quorum),
                remedy: "Bring the missing silos back, and start the coordinator again with `--resume` to go on from the last checkpoint, or without it if the folder `state` has no checkpoint yet.",
            });
        }
        Ok(Outcome::Lost { reason })
    }

    /// What an answer says; or why it cannot be used, and the request is to be sent again.
    fn arrived(
        &mut self,
        arrived: Arrived,
        one: &Waiting,
        manifest: &Manifest,
    ) -> Result<std::result::Result<Outcome, String>> {
        let (objects, root) = match arrived.content {
            Ok(content) => content,
            Err(trouble) => return Ok(Err(trouble.to_string())),
        };
        self.bytes[1] += objects.size() as u64;
        self.read(objects, &root, one, manifest)
    }

    fn read(
        &mut self,
        objects: Objects,
        root: &ObjectId,
        one: &Waiting,
        manifest: &Manifest,
    ) -> Result<std::result::Result<Outcome, String>> {
        let silo = one.request.silo;
        let name = self.options.silos[silo].clone();
        let (reply, envelope) =
            match self.answer_key.read(objects, root, self.options.patience.limits(), &self.options.signatures) {
                Ok(found) => found,
                Err(error) => return Ok(Err(error.to_string())),
            };
        if is_stranger(&reply, &envelope, &self.place, one.round) {
            let reason = "the silo refused the signature of the request: its file names another key than `key` in the \
                          coordinator's, or the clocks of the two machines differ by more than an hour. Compare keys, and set the clocks";
            return Ok(Err(reason.into()));
        }
        if let Some(reason) = misplaced(&envelope, &self.place, one.round, &name) {
            return Ok(Err(reason));
        }
        if reply.kind == FAILED {
            return self.refused(&reply, one).map(Ok);
        }
        if envelope.identity != self.identity {
            return Ok(Err("its answer is of another model or other settings".into()));
        }
        let patience = self.options.patience;
        match manifest.check(&name, &reply).map_err(Error::from).and_then(|()| patience.check(&name, &reply)) {
            Ok(()) => Ok(Ok(Outcome::Reply(reply))),
            // The silo goes back to the state before this answer: what it is asked next follows the last one that was taken.
            Err(error) if patience.lost_silo == LostSilo::GoOn => {
                self.note(silo, one.round, EventKind::Refused, error.to_string());
                self.lost(one, "its answer was refused".into()).map(Ok)
            }
            Err(error) => Err(error),
        }
    }

    /// What a silo's refusal comes to. A silo whose state is of another time may join again where the run goes on
    /// without it: from the state that it has, with its factor as the coordinator has it.
    fn refused(&mut self, reply: &partita_inference::Message, one: &Waiting) -> Result<Outcome> {
        let silo = one.request.silo;
        let error = reply.get_setting("error").map_or("unknown", |kind| kind);
        let what = reply.get_setting("what").ok();
        let reason = what.and_then(Refusal::named);
        let problem = match reason {
            Some(reason) => {
                format!("the silo refused: {}. Its own log says more. {}.", reason.name(), reason.remedy())
            }
            None => refused::told(&one.request.message.kind, error, what),
        };
        self.note(silo, one.round, EventKind::Refused, problem.clone());
        if self.options.patience.lost_silo == LostSilo::GoOn {
            let own = reply.get_word("state").unwrap_or(0).min(one.round);
            self.place.accepted[silo] = own;
            if let Some(kept) = &mut self.kept {
                kept[silo] = own;
            }
            if let Outcome::Lost { reason } = self.lost(one, problem.clone())? {
                return Ok(Outcome::Lost { reason });
            }
        }
        Ok(Outcome::Failed(match reason {
            Some(reason) => partita_inference::Error::Refused { reason, problem },
            None if error == "Message" => {
                partita_inference::Error::Message { kind: one.request.message.kind.clone(), problem }
            }
            None => partita_inference::Error::Declined { problem },
        }))
    }
}

/// Whether it is the answer of a silo to which this coordinator is a stranger: it says nothing else, not even its name.
fn is_stranger(reply: &partita_inference::Message, envelope: &Envelope, place: &Place, round: u64) -> bool {
    let what = reply.get_setting("what").unwrap_or_default();
    reply.kind == FAILED && what == SIGNATURE && envelope.run == place.run && envelope.round == round
}

/// What an answer belongs to that was not asked for: another run, another start of its coordinator, another round or
/// silo.
fn misplaced(envelope: &Envelope, place: &Place, round: u64, silo: &str) -> Option<String> {
    let found = [
        ("run", envelope.run.clone(), place.run.clone()),
        ("start", envelope.start.to_string(), place.start.to_string()),
        ("round", envelope.round.to_string(), round.to_string()),
        ("silo", envelope.silo.clone(), silo.to_owned()),
    ];
    let (what, found, expected) = found.into_iter().find(|(_, found, expected)| found != expected)?;
    Some(format!("its answer is of {what} `{}`, asked was `{expected}`", crate::error::shown(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_run_start_round_or_silo_is_not_taken() {
        let text = r#"{"run": "a", "began": 1, "start": 2, "round": 9, "accepted": [], "task": {"token": "", "task_id": 0, "run_id": 0}}"#;
        let place: Place = serde_json::from_str(text).unwrap();
        let asked = Envelope { run: "a".into(), start: 2, round: 9, silo: "north".into(), ..Envelope::default() };
        assert_eq!(misplaced(&asked, &place, 9, "north"), None);
        for (other, what) in [
            (Envelope { run: "b".into(), ..asked.clone() }, "run `b`, asked was `a`"),
            (Envelope { start: 1, ..asked.clone() }, "start `1`, asked was `2`"),
            (Envelope { round: 8, ..asked.clone() }, "round `8`, asked was `9`"),
            (Envelope { silo: "south".into(), ..asked.clone() }, "silo `south`, asked was `north`"),
        ] {
            let found = misplaced(&other, &place, 9, "north").unwrap();
            assert!(found.contains(what), "{found}");
        }
    }
}
