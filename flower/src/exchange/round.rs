//! Carries the requests of one round to their silos, again where they are lost, and takes the answers.

use std::time::{Duration, Instant};

use partita_inference::{Manifest, Outcome, Request};

use super::{Flower, PAUSE};
use crate::error::{Error, Result};
use crate::object::{ObjectId, Objects};
use crate::record::unpack;
use crate::silo::FAILED;

/// A request that waits for its answer.
struct Waiting {
    request: Request,
    slot: usize,
    id: ObjectId,
    attempt: u64,
    due: Instant,
}

impl Flower {
    /// Sends a request again and again, until it is on its way or the attempts are used up.
    fn launch(
        &mut self,
        request: Request,
        slot: usize,
        from: u64,
        time: Duration,
    ) -> Result<std::result::Result<Waiting, String>> {
        let mut reason = "no attempt is left".to_owned();
        for attempt in from..=self.options.patience.attempts.max(1) {
            if attempt > 1 {
                std::thread::sleep(Duration::from_secs(1));
                if let Err(error) = self.find_silos() {
                    reason = error.to_string();
                    continue;
                }
            }
            let (node, name) = (self.nodes[request.silo], self.options.silos[request.silo].clone());
            match self.send(&request.message, node, (&name, self.place.accepted[request.silo], attempt), time) {
                Ok(id) => return Ok(Ok(Waiting { request, slot, id, attempt, due: Instant::now() + time })),
                Err(error @ Error::Transport { .. }) => return Err(error),
                Err(error) => {
                    reason = error.to_string();
                    self.note(request.silo, format!("attempt {attempt} could not be sent: {reason}"));
                }
            }
        }
        Ok(Err(reason))
    }

    pub(super) fn round(
        &mut self,
        requests: Vec<Request>,
        manifest: &Manifest,
        deadline: Option<Duration>,
    ) -> Result<Vec<Outcome>> {
        let time = deadline.unwrap_or(Duration::from_secs(self.options.patience.deadline_seconds));
        self.place.round += 1;
        let asked: Vec<usize> = requests.iter().map(|request| request.silo).collect();
        let mut outcomes: Vec<Option<Outcome>> = Vec::new();
        outcomes.resize_with(requests.len(), || None);
        let mut waiting = Vec::new();
        for (slot, request) in requests.into_iter().enumerate() {
            match self.launch(request, slot, 1, time)? {
                Ok(sent) => waiting.push(sent),
                Err(reason) => outcomes[slot] = Some(Outcome::Lost { reason }),
            }
        }
        while !waiting.is_empty() {
            let ids: Vec<ObjectId> = waiting.iter().map(|one| one.id.clone()).collect();
            let mut again = Vec::new();
            for arrived in self.task.pull(&ids, self.limits())? {
                let known = waiting.iter().position(|one| one.id.as_str() == arrived.metadata.reply_to_message_id);
                // Another answer to what has been answered already.
                let Some(known) = known else { continue };
                let one = waiting.swap_remove(known);
                match arrived.content {
                    Ok((objects, root)) => {
                        self.bytes[1] += objects.size() as u64;
                        let outcome = self.read(&objects, &root, &one)?;
                        if let Outcome::Reply(reply) = &outcome {
                            manifest.check(&self.options.silos[one.request.silo], reply)?;
                        }
                        outcomes[one.slot] = Some(outcome);
                    }
                    Err((code, reason)) => {
                        self.note(one.request.silo, format!("attempt {}: error {code}: {reason}", one.attempt));
                        again.push(one);
                    }
                }
            }
            let (late, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|one| Instant::now() > one.due);
            waiting = rest;
            for one in late {
                self.note(one.request.silo, format!("attempt {}: no answer in {} s", one.attempt, time.as_secs()));
                again.push(one);
            }
            for one in again {
                let (slot, silo) = (one.slot, one.request.silo);
                match self.launch(one.request, slot, one.attempt + 1, time)? {
                    Ok(sent) => waiting.push(sent),
                    Err(reason) => {
                        self.note(silo, format!("lost: {reason}"));
                        outcomes[slot] = Some(Outcome::Lost { reason });
                    }
                }
            }
            if self.task.is_stopped() {
                return Err(Error::Refused {
                    operation: "the run",
                    status: 200,
                    detail: "the engine has stopped it".into(),
                    remedy: "Start the coordinator again: it goes on from its checkpoint.",
                });
            }
            if !waiting.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
        let outcomes: Vec<Outcome> = outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Timeout)).collect();
        let answered = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Reply(_))).count();
        if answered < self.options.quorum.min(asked.len()) {
            return Err(Error::Unwelcome {
                what: "the silos that answered a round",
                found: answered.to_string(),
                expected: format!("a quorum of {}", self.options.quorum),
                remedy: "Bring the missing silos back and start the coordinator again: it goes on from its checkpoint.",
            });
        }
        for (silo, outcome) in asked.iter().zip(&outcomes) {
            if matches!(outcome, Outcome::Reply(_)) {
                self.place.accepted[*silo] = self.place.round;
            }
        }
        Ok(outcomes)
    }

    /// A silo's answer, or what it says went wrong.
    fn read(&self, objects: &Objects, root: &ObjectId, one: &Waiting) -> Result<Outcome> {
        let name = &self.options.silos[one.request.silo];
        let lost = |problem: String| Outcome::Lost { reason: problem };
        let (reply, envelope) = match unpack(objects, root) {
            Ok(found) => found,
            Err(error) => return Ok(lost(error.to_string())),
        };
        let expected = (&self.place.run, self.place.round, &self.identity, name);
        let found = (&envelope.run, envelope.round, &envelope.identity, &envelope.silo);
        if found != expected {
            return Ok(lost(format!("it answered for {found:?}, asked was {expected:?}")));
        }
        if reply.kind == FAILED {
            let kind = reply.get_setting("error").map_or("unknown", |kind| kind).to_owned();
            let problem = format!("the silo answered with an error of kind `{kind}`; its own log says more");
            let kind = one.request.message.kind.clone();
            return Ok(Outcome::Failed(partita_inference::Error::Message { kind, problem }));
        }
        Ok(Outcome::Reply(reply))
    }
}
