//! Asks silos for masked sums in place of plain ones, and gives the method the sum over all of them.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use partita_inference::{Arrival, Error, Exchange, Manifest, Message, Outcome, Request, Result, Resumable};
use partita_privacy::{Entropy, Masked, SignedKey, SystemEntropy};

use super::fixed_point::Unit;
use super::messages::{KEY, MaskedRequest, PLAIN, fields, key_of, values_of};
use crate::private::declined;

/// Silos behind another exchange whose sums only their coordinator's total is read of.
///
/// A method that asks all silos for noised sums gets the total in the first silo's answer, and zeros in the others'. A silo
/// that was started again in between has lost its keys: then keys are exchanged anew, and the sum is asked for again.
pub(crate) struct SecureSums<'a> {
    own: &'a mut dyn Exchange,
    session: Option<Session>,
    ready: VecDeque<Arrival>,
}

/// The keys of silos that masks are made of.
struct Session {
    name: String,
    keys: Vec<SignedKey>,
}

/// How often keys are exchanged for one sum.
const ATTEMPTS: u64 = 5;
/// The most numbers of a sum.
const MOST: usize = 1 << 24;

impl<'a> SecureSums<'a> {
    pub(crate) fn new(own: &'a mut dyn Exchange) -> Self {
        Self { own, session: None, ready: VecDeque::new() }
    }

    /// The same for all silos.
    fn ask(&mut self, message: &Message, deadline: Option<Duration>) -> Result<Vec<Outcome>> {
        let count = self.own.silos().len();
        let manifest = Manifest { fields: fields(MOST) };
        self.own.exchange(Request::to_all(count, message), &manifest, deadline)
    }

    /// The keys of a session, exchanged now if there is none.
    fn keys(&mut self, deadline: Option<Duration>) -> Result<std::result::Result<(), Vec<Outcome>>> {
        if self.session.is_some() {
            return Ok(Ok(()));
        }
        let mut bytes = [0; 16];
        SystemEntropy::default().fill(&mut bytes).map_err(declined)?;
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let outcomes = self.ask(&Message::new(KEY).setting("session", &name), deadline)?;
        let keys: Result<Vec<SignedKey>> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Reply(reply) => Some(key_of(reply)),
                _ => None,
            })
            .collect();
        let keys = keys?;
        if keys.len() < outcomes.len() {
            return Ok(Err(outcomes));
        }
        self.session = Some(Session { name, keys });
        Ok(Ok(()))
    }

    /// The total of what all silos answer to `plain`; or their outcomes, where one has none.
    fn total(
        &mut self,
        plain: &Message,
        deadline: Option<Duration>,
    ) -> Result<std::result::Result<Vec<f64>, Vec<Outcome>>> {
        let unit = Unit::of(plain)?;
        for attempt in 0..ATTEMPTS {
            if let Err(outcomes) = self.keys(deadline)? {
                return Ok(Err(outcomes));
            }
            let Some(Session { name, keys }) = &self.session else { break };
            let roster = self.own.silos().to_vec();
            // An attempt of the same silos has the same noise: the difference of two would be zero.
            let request =
                MaskedRequest { session: name.clone(), attempt: 0, roster, keys: keys.clone(), plain: plain.clone() };
            let outcomes = self.ask(&request.write()?, deadline)?;
            let replies: Vec<&Message> = outcomes
                .iter()
                .filter_map(|outcome| match outcome {
                    Outcome::Reply(reply) => Some(reply),
                    _ => None,
                })
                .collect();
            if replies.len() == outcomes.len() {
                let masked = replies.into_iter().map(values_of).collect::<Result<Vec<Masked>>>()?;
                return Masked::sum(&masked, outcomes.len()).map_err(declined).map(|sum| Ok(unit.read(&sum)));
            }
            self.session = None;
            let is_lost = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Lost { .. } | Outcome::Timeout));
            if is_lost || attempt + 1 == ATTEMPTS {
                return Ok(Err(outcomes));
            }
        }
        Err(Error::Exchange { problem: "a masked sum had no attempt".into() })
    }
}

/// The answers that a method gets of a total of `gradient` and `curvature`: the first has it, the others zeros.
fn shared(total: &[f64], silos: usize, globals: usize) -> Vec<Message> {
    let none = vec![0.0; total.len()];
    let message = |numbers: &[f64]| {
        let (gradient, curvature) = numbers.split_at(globals.min(numbers.len()));
        Message::new("private.answer").floats("gradient", gradient).floats("curvature", curvature)
    };
    (0..silos).map(|silo| message(if silo == 0 { total } else { &none })).collect()
}

/// The number of globals of which a sum has so many gradients and curvatures: $`d + d (d + 1) / 2`$ of them.
fn globals(numbers: usize) -> Result<usize> {
    let found = (1..=numbers).find(|own| own + own * (own + 1) / 2 >= numbers);
    match found {
        Some(own) if own + own * (own + 1) / 2 == numbers => Ok(own),
        _ => Err(Error::Exchange {
            problem: format!("a masked sum of {numbers} numbers, which are no gradient and curvature"),
        }),
    }
}

impl Exchange for SecureSums<'_> {
    fn silos(&self) -> &[String] {
        self.own.silos()
    }

    fn send(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        let count = self.own.silos().len();
        let is_sum = requests.len() == count && requests.iter().all(|request| request.message.kind == PLAIN);
        let same = requests.first().filter(|first| requests.iter().all(|own| own.message == first.message));
        match same.filter(|_| is_sum) {
            None => self.own.send(requests, deadline),
            Some(first) => {
                let plain = first.message.clone();
                let outcomes: Vec<Outcome> = match self.total(&plain, deadline)? {
                    Ok(total) => shared(&total, count, globals(total.len())?).into_iter().map(Outcome::Reply).collect(),
                    // What the others answered is a part of no sum.
                    Err(outcomes) => outcomes.into_iter().map(without_reply).collect(),
                };
                self.ready.extend(outcomes.into_iter().enumerate().map(|(silo, outcome)| Arrival { silo, outcome }));
                Ok(())
            }
        }
    }

    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<Arrival>> {
        let Some(arrival) = self.ready.pop_front() else { return self.own.receive(manifest, deadline) };
        if let (Outcome::Reply(reply), Some(name)) = (&arrival.outcome, self.own.silos().get(arrival.silo)) {
            manifest.check(name, reply)?;
        }
        Ok(Some(arrival))
    }

    fn next_is(&mut self, silo: usize) {
        self.own.next_is(silo);
    }

    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        self.own.resumable().is_some().then_some(self as &mut dyn Resumable)
    }
}

fn without_reply(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Reply(_) => Outcome::Lost { reason: "another silo of the sum did not answer".into() },
        other => other,
    }
}

impl SecureSums<'_> {
    fn resumed(&mut self) -> Result<&mut dyn Resumable> {
        let none = || Error::Exchange { problem: "this exchange keeps no state".into() };
        self.own.resumable().ok_or_else(none)
    }
}

impl Resumable for SecureSums<'_> {
    fn save(&mut self, folder: &Path) -> Result<()> {
        self.resumed()?.save(folder)
    }

    fn restore(&mut self, folder: &Path) -> Result<()> {
        self.session = None;
        self.resumed()?.restore(folder)
    }
}
