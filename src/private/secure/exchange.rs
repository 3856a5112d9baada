//! Asks silos for masked sums in place of plain ones, and gives the method the sum over all of them.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use partita_inference::{Arrival, Error, Exchange, Manifest, Message, Outcome, Refusal, Request, Result, Resumable};
use partita_privacy::{Entropy, Masked, SignedKey, SystemEntropy, hexadecimal};

use super::messages::{KEY, MaskedRequest, fields, key_of, values_of};
use super::parts::{Frame, is_additive};
use crate::private::declined;

/// Silos behind another exchange whose sums only their coordinator's total is read of.
///
/// A method that asks all silos the same for a sum gets the total in the first silo's answer, and zeros in the others'. A silo
/// that was started again in between has lost its keys: then keys are exchanged anew, and the sum is asked for again.
pub(crate) struct SecureSums<'a> {
    pub(super) own: &'a mut dyn Exchange,
    session: Option<Session>,
    /// The sums asked for so far: no mask of a session is for two of them.
    round: u64,
    ready: VecDeque<Arrival>,
}

/// The keys of silos that masks are made of.
#[derive(Clone)]
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
        Self { own, session: None, round: 0, ready: VecDeque::new() }
    }

    /// The same for all silos.
    fn ask(&mut self, message: &Message, deadline: Option<Duration>) -> Result<Vec<Outcome>> {
        let count = self.own.silos().len();
        let manifest = Manifest { fields: fields(MOST) };
        self.own.exchange(Request::to_all(count, message), &manifest, deadline)
    }

    /// A session and its keys, exchanged now if there is none.
    fn session(&mut self, deadline: Option<Duration>) -> Result<Session> {
        if let Some(own) = &self.session {
            return Ok(own.clone());
        }
        let mut bytes = [0; 16];
        SystemEntropy::default().fill(&mut bytes).map_err(declined)?;
        let name = hexadecimal::write(&bytes);
        let outcomes = self.ask(&Message::new(KEY).setting("session", &name), deadline)?;
        let each = outcomes.into_iter().zip(self.own.silos());
        let keys = each.map(|(outcome, silo)| key_of(&outcome.reply(silo, self.round)?)).collect::<Result<_>>()?;
        Ok(self.session.insert(Session { name, keys }).clone())
    }

    /// The total of what all silos answer to `plain`: the sum of some is a part of nothing, so that a silo without an
    /// answer ends the round with an error that names it.
    fn total(&mut self, plain: &Message, deadline: Option<Duration>) -> Result<(Frame, Vec<u128>)> {
        let (roster, step) = (self.own.silos().to_vec(), plain.get_word("step").unwrap_or(self.round));
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Session { name: session, keys } = self.session(deadline)?;
            self.round += 1;
            // An attempt of the same silos has the same noise: the difference of two would be zero.
            let (round, roster_of) = (self.round, roster.clone());
            let request = MaskedRequest { session, round, attempt: 0, roster: roster_of, keys, plain: plain.clone() };
            let (mut answers, mut keyless) = (Vec::new(), None);
            let mut frame: Option<Frame> = None;
            for (outcome, silo) in self.ask(&request.write()?, deadline)?.into_iter().zip(&roster) {
                match outcome.reply(silo, step) {
                    Ok(reply) => {
                        let (own, values) = values_of(&reply)?;
                        if frame.get_or_insert_with(|| own.clone()) != &own {
                            let problem = "its answer has other numbers than those of the silos before it: parties have to have the same model and settings".into();
                            return Err(Error::Message { kind: reply.kind.clone(), problem }.in_silo(silo, step));
                        }
                        answers.push(values);
                    }
                    Err(error) if error.refusal() == Some(Refusal::Keys) => keyless = Some(error),
                    // Another attempt would mend nothing.
                    Err(error) => return Err(error),
                }
            }
            if let (None, Some(frame)) = (&keyless, frame) {
                return Masked::sum(&answers, roster.len()).map_err(declined).map(|sum| (frame, sum));
            }
            (self.session, last) = (None, keyless);
        }
        Err(last.unwrap_or_else(|| Error::Exchange { problem: "a masked sum had no attempt".into() }))
    }
}

impl Exchange for SecureSums<'_> {
    fn silos(&self) -> &[String] {
        self.own.silos()
    }

    fn send(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        let count = self.own.silos().len();
        let is_sum = requests.len() == count && requests.iter().all(|request| is_additive(&request.message.kind));
        let same = requests.first().filter(|first| requests.iter().all(|own| own.message == first.message));
        match same.filter(|_| is_sum) {
            // A silo that masks its sums refuses what is none.
            None => self.own.send(requests, deadline),
            Some(first) => {
                let (frame, total) = self.total(&first.message, deadline)?;
                let nothing = vec![0; total.len()];
                for silo in 0..count {
                    let outcome = Outcome::Reply(frame.with(if silo == 0 { &total } else { &nothing })?);
                    self.ready.push_back(Arrival { silo, outcome });
                }
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
