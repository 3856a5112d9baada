//! Finds out which node of the engine is which silo, and again when a silo comes back as another.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use partita_inference::Message;

use super::{Attempt, EventKind, Flower, PAUSE};
use crate::carrier::Parcel;
use crate::entries::{differing, short};
use crate::error::{Error, Result};
use crate::exchange::LostSilo;
use crate::notice::Seldom;
use crate::object::ObjectId;
use crate::silo::{ENTRIES, FAILED, HELLO, SEAL, told};

/// The silos that have said hello, and the nodes that were asked.
#[derive(Debug)]
pub(super) struct Roster {
    /// The node of each silo; 0 for none.
    pub(super) nodes: Vec<u64>,
    /// The node at which each silo was found last, as long as it is connected; 0 for none. No other is taken for the
    /// silo.
    first: Vec<u64>,
    /// The rows that each silo says it has.
    pub(super) rows: Vec<u64>,
    /// What requests to each silo can be sealed to.
    pub(super) seals: Vec<Option<String>>,
    greeted: Vec<Greeting>,
    /// What went wrong last with a hello, and when that was said.
    trouble: Option<String>,
    said: Seldom,
    /// When the engine was asked last who is there.
    looked: Option<Instant>,
}

/// The hellos that were sent to a node.
#[derive(Debug)]
struct Greeting {
    node: u64,
    /// One an attempt: the answer to any of them counts.
    ids: Vec<ObjectId>,
    at: Instant,
    is_answered: bool,
    /// The silo that it says it is and is not taken for, since another node is.
    claims: Option<usize>,
}

/// When the engine is asked which nodes there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the first round: at once, and a silo that takes part with something else ends the run.
    Start,
    /// While the run goes: not too often.
    Run,
}

/// A node's word that it is a silo.
struct Claim<'a> {
    silo: usize,
    node: u64,
    key: &'a [u8],
    identity: &'a str,
    /// The entry by which its file differs from the coordinator's, if it says so.
    differing: Option<&'a str>,
    rows: u64,
    /// The key to which requests are sealed.
    seal: Option<&'a str>,
}

/// The most rows that a silo can have: the weight of each in a run is by their number.
const MOST_ROWS: u64 = 1_000_000_000;
/// How often the engine is asked who is there, once the run goes: where somebody is missing, has yet to say who it is or takes
/// long, and in rounds where all is well. Each is a call beside those that every silo makes.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AT_ALL: Duration = Duration::from_secs(10);
/// How long after a hello without an answer a node is asked again; after a second one twice as long, and so on: with
/// many silos on a slow engine the first may take long.
const AGAIN: Duration = Duration::from_secs(20);
/// What is said of a hello that the engine did not store.
const NOT_TAKEN: &str = "the engine did not take a hello: its node is not connected any more, or the clocks of this machine and of the engine differ: set them";
/// How often it is said that hellos cannot be sent.
const TROUBLE: Duration = Duration::from_secs(60);

impl Roster {
    pub(super) fn new(silos: usize) -> Self {
        let none = || vec![0; silos];
        let (seals, greeted) = (vec![None; silos], Vec::new());
        let (trouble, said, looked) = (None, Seldom::default(), None);
        Self { nodes: none(), first: none(), rows: none(), seals, greeted, trouble, said, looked }
    }

    /// Whether every silo is there, and no other node that may want to be one.
    fn is_settled(&self) -> bool {
        let is_known = |one: &Greeting| one.is_answered && one.claims.is_none();
        self.nodes.iter().all(|node| *node != 0) && self.greeted.iter().all(is_known)
    }

    /// How long it is from one look to the next.
    fn between_looks(&self, is_slow: bool) -> Duration {
        if is_slow || !self.is_settled() { LOOK } else { LOOK_AT_ALL }
    }

    /// Forgets nodes that are gone. Whoever wanted to be a silo that is at none of those left is asked again.
    fn keep(&mut self, connected: impl Fn(u64) -> bool) {
        self.nodes.iter_mut().chain(&mut self.first).filter(|node| !connected(**node)).for_each(|node| *node = 0);
        let is_free = |silo: usize| self.first[silo] == 0;
        self.greeted.retain(|one| connected(one.node) && !one.claims.is_some_and(is_free));
    }

    /// Forgets where a silo is: its node is asked again.
    pub(super) fn forget(&mut self, silo: usize) {
        let node = std::mem::take(&mut self.nodes[silo]);
        self.greeted.retain(|one| one.node != node);
    }

    /// What was expected, where a silo cannot have so many rows: what it said first is what it is weighed by.
    fn refuses(&self, silo: usize, rows: u64) -> Option<String> {
        match self.rows[silo] {
            _ if rows > MOST_ROWS => Some(format!("at most {MOST_ROWS}")),
            0 => None,
            before => (rows != before).then(|| format!("{before}, as it said before")),
        }
    }

    /// Takes up what silos said before this coordinator was started. Who says another number now, and which.
    fn recall(&mut self, before: &[u64]) -> Vec<(usize, u64)> {
        let mut others = Vec::new();
        for (silo, (rows, before)) in self.rows.iter_mut().zip(before).enumerate().filter(|(_, (_, own))| **own != 0) {
            let now = std::mem::replace(rows, *before);
            if now != 0 && now != *before {
                others.push((silo, now));
            }
        }
        others
    }

    /// Keeps what went wrong with a hello; whether to say it now.
    fn is_troubled(&mut self, what: &str) -> bool {
        self.trouble = Some(what.to_owned());
        self.said.is_due(TROUBLE)
    }

    /// How many silos are there.
    pub(super) fn here(&self) -> usize {
        self.nodes.iter().filter(|node| **node != 0).count()
    }
}

impl Flower {
    /// Compares what silos say of their rows with what they said before this coordinator was started: who says something
    /// else is named, and refuses the next request by itself; later hellos are held to what was said first.
    pub(super) fn recall(&mut self, before: &[u64]) {
        for (silo, now) in self.roster.recall(before) {
            let what = format!("it says {now} rows, expected {}, as it said when the run began", before[silo]);
            self.note(silo, self.place.round, EventKind::Refused, what);
        }
    }

    /// Waits until all silos are there; where the run may go on without some, until the time is over and a quorum is
    /// there.
    pub(super) fn assemble(&mut self) -> Result<()> {
        let started = Instant::now();
        let seconds = self.options.patience.appear_seconds;
        loop {
            let connected = self.look(Moment::Start)?;
            let here = self.roster.here();
            if here == self.options.silos.len() {
                return Ok(());
            }
            let is_enough = self.options.patience.lost_silo == LostSilo::GoOn && here >= self.options.quorum;
            if started.elapsed().as_secs() >= seconds {
                let missing: Vec<usize> = (0..self.roster.nodes.len()).filter(|s| self.roster.nodes[*s] == 0).collect();
                if is_enough {
                    missing.iter().for_each(|silo| self.is_missing(*silo, self.place.round, "it has not appeared"));
                    return Ok(());
                }
                let names = missing.iter().map(|silo| format!("`{}`", self.options.silos[*silo]));
                let missing = names.collect::<Vec<_>>().join(", ");
                let trouble = self.roster.trouble.clone();
                return Err(Error::Missing { missing, found: connected, seconds, trouble });
            }
            let (nodes, names) = (&self.roster.nodes, &self.options.silos);
            let absent = || names.iter().zip(nodes).filter(|(_, node)| **node == 0).map(|(name, _)| name.as_str());
            self.wait.look(&self.user, || format!("{} to appear", absent().collect::<Vec<_>>().join(", ")))?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Looks, without waiting, who is there: says hello to nodes that are no silo yet, and takes their answers. How
    /// many nodes are connected.
    pub(super) fn look(&mut self, moment: Moment) -> Result<usize> {
        let now = Instant::now();
        let is_slow = self.under_way.waiting.iter().any(|one| one.is_slow(now));
        let pause = self.roster.between_looks(is_slow);
        if moment == Moment::Run && self.roster.looked.is_some_and(|looked| now < looked + pause) {
            return Ok(0);
        }
        self.roster.looked = Some(now);
        let connected: BTreeMap<u64, Vec<u8>> =
            self.task.nodes()?.into_iter().map(|node| (node.node_id, node.public_key)).collect();
        self.roster.keep(|node| connected.contains_key(&node));
        self.greet(connected.keys().copied());
        self.hear(&connected, moment)?;
        Ok(connected.len())
    }

    /// Says hello to nodes that are no silo yet, if it is time to.
    fn greet(&mut self, nodes: impl Iterator<Item = u64>) {
        let is_due = |node: &u64| {
            let known = self.roster.greeted.iter().find(|one| one.node == *node);
            let is_due = known.is_none_or(|one| {
                let hellos = u32::try_from(one.ids.len()).unwrap_or(u32::MAX);
                !one.is_answered && one.at.elapsed() > AGAIN * hellos.max(1)
            });
            is_due && !self.roster.nodes.contains(node)
        };
        let nodes: Vec<u64> = nodes.filter(is_due).collect();
        if nodes.is_empty() {
            return;
        }
        let attempt = Attempt { silo: None, round: self.place.round, attempt: 1, time: Duration::from_secs(60) };
        let hello = told(Message::new(HELLO), &self.options.entries);
        // Hellos are not sealed, so that there is no parcel that cannot be made.
        let parcels: Vec<Parcel<'_>> = nodes.iter().flat_map(|node| self.parcel(&hello, *node, attempt)).collect();
        let ids = match self.push(&parcels) {
            Ok(ids) => ids,
            // Nodes that cannot be reached now are asked at the next look.
            Err(error) => {
                self.trouble(&format!("no hello could be sent: {error}"));
                return;
            }
        };
        if ids.iter().any(Option::is_none) {
            self.trouble(NOT_TAKEN);
        }
        for (node, id) in nodes.into_iter().zip(ids).filter_map(|(node, id)| Some((node, id?))) {
            match self.roster.greeted.iter_mut().find(|one| one.node == node) {
                Some(one) => {
                    one.ids.push(id);
                    one.at = Instant::now();
                }
                None => {
                    let (ids, at) = (vec![id], Instant::now());
                    self.roster.greeted.push(Greeting { node, ids, at, is_answered: false, claims: None });
                }
            }
        }
    }

    /// Keeps what went wrong with a hello, and says it now and then.
    fn trouble(&mut self, what: &str) {
        if self.roster.is_troubled(what) {
            (self.user.log)(what);
        }
    }

    /// Takes the answers to hellos that have come.
    fn hear(&mut self, connected: &BTreeMap<u64, Vec<u8>>, moment: Moment) -> Result<()> {
        let open = self.roster.greeted.iter().filter(|one| !one.is_answered);
        let ids: Vec<ObjectId> = open.flat_map(|one| one.ids.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for arrived in self.inbox.collect(self.task.carrier(), &ids, self.options.patience.limits(), None)? {
            let id = arrived.metadata.reply_to_message_id;
            let mut greeted = self.roster.greeted.iter_mut();
            let Some(greeting) = greeted.find(|one| one.ids.iter().any(|own| own.as_str() == id)) else { continue };
            greeting.ids.retain(|own| own.as_str() != id);
            let (objects, root) = match arrived.content {
                Ok(content) => content,
                Err(trouble) => {
                    let said = format!(
                        "node {} could not answer this coordinator's hello ({trouble}): its silo's log says why; all parties need the same version of Partita, and clocks that are set",
                        greeting.node
                    );
                    (self.user.log)(&said);
                    self.roster.trouble = Some(said);
                    continue;
                }
            };
            let limits = self.options.patience.limits();
            let (message, envelope) = match self.answer_key.read(objects, &root, limits, &self.options.signatures) {
                Ok(found) => found,
                Err(error @ Error::Unwelcome { .. }) => {
                    let said = format!("what node {} says is refused: {error}", greeting.node);
                    (self.user.log)(&said);
                    self.roster.trouble = Some(said);
                    continue;
                }
                Err(_) => continue,
            };
            if message.kind == FAILED && envelope.run == self.place.run {
                let what = message.get_setting("what").map_or("an unknown reason", |what| what);
                let (node, what) = (greeting.node, crate::error::shown(what));
                let said = format!(
                    "node {node} refused this coordinator's hello for {what}: its silo's file names another key than `key` in the coordinator's, or the clocks of the two machines differ by more than an hour"
                );
                (self.user.log)(&said);
                self.roster.trouble = Some(said);
            }
            if message.kind != HELLO || envelope.run != self.place.run {
                continue;
            }
            // One that takes part with something else is asked again, as one that did not answer.
            greeting.is_answered = envelope.identity == self.identity;
            let node = greeting.node;
            if let Some(silo) = self.options.silos.iter().position(|name| *name == envelope.silo) {
                let key = connected.get(&node).map_or(&[][..], Vec::as_slice);
                let rows = message.get_word("rows").unwrap_or(u64::MAX);
                let seal = message.get_setting(SEAL).ok();
                let told = message.get_setting(ENTRIES).ok();
                let differing = told.and_then(|told| differing(&self.options.entries, told));
                let (identity, differing) = (&*envelope.identity, differing.as_deref());
                self.welcome(&Claim { silo, node, key, identity, differing, rows, seal }, moment)?;
            }
        }
        Ok(())
    }

    /// Takes a node for a silo, if it has the silo's key, or no other that is connected was taken for it, and if it
    /// takes part with the same model and settings.
    fn welcome(&mut self, claim: &Claim<'_>, moment: Moment) -> Result<()> {
        let Claim { silo, node, key, identity, differing, rows, seal } = *claim;
        let (own, first) = (self.options.keys.get(&self.options.silos[silo]), self.roster.first[silo]);
        if own.is_some_and(|own| !own.is(key)) {
            let what = format!("node {node} says that it is this silo, and has another key: refused");
            self.note(silo, self.place.round, EventKind::Refused, what);
            return Ok(());
        }
        // A key shows who it is. A name alone does not: whoever had it first keeps it.
        if own.is_none() && first != 0 && first != node {
            let what = format!(
                "node {node} says that it is this silo, which is at node {first} that is still connected: refused until that one is gone"
            );
            self.note(silo, self.place.round, EventKind::Refused, what);
            if let Some(one) = self.roster.greeted.iter_mut().find(|one| one.node == node) {
                (one.is_answered, one.claims) = (true, Some(silo));
            }
            return Ok(());
        }
        if identity != self.identity {
            let what = differing.unwrap_or("model or other settings");
            let what = format!("it takes part with another {what}: refused");
            self.note(silo, self.place.round, EventKind::Refused, what);
            if moment == Moment::Start && self.options.patience.lost_silo != LostSilo::GoOn {
                let (found, expected) = match differing {
                    Some(entry) => (format!("another {entry}"), "that of the coordinator".to_owned()),
                    None => (short(identity), short(&self.identity)),
                };
                return Err(Error::Unwelcome {
                    what: "the model and settings of a silo",
                    found: format!("{found} at silo `{}`", self.options.silos[silo]),
                    expected,
                    remedy: "Start all parties with the same file of the study, or of the run, and the same version of Partita.",
                });
            }
            return Ok(());
        }
        if let Some(expected) = self.roster.refuses(silo, rows) {
            self.note(
                silo,
                self.place.round,
                EventKind::Refused,
                format!("it says {rows} rows, expected {expected}: refused"),
            );
            // It may come back with the right ones under the same number: it is asked again, as one that did not answer.
            if let Some(one) = self.roster.greeted.iter_mut().find(|one| one.node == node) {
                one.is_answered = false;
            }
            if moment == Moment::Start && self.options.patience.lost_silo != LostSilo::GoOn {
                return Err(Error::Unwelcome {
                    what: "the number of rows of a silo",
                    found: format!("{rows} at silo `{}`", self.options.silos[silo]),
                    expected,
                    remedy: "Ask the silo's owner which rows it was started with.",
                });
            }
            return Ok(());
        }
        (self.roster.nodes[silo], self.roster.first[silo]) = (node, node);
        self.roster.rows[silo] = rows;
        self.roster.seals[silo] = seal.map(str::to_owned);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_asked_rarely_who_is_there_where_all_silos_are_and_none_is_slow() {
        let mut roster = Roster::new(2);
        let greeting = |node, is_answered, claims| {
            let (ids, at) = (Vec::new(), Instant::now());
            Greeting { node, ids, at, is_answered, claims }
        };
        roster.nodes = vec![7, 0];
        assert_eq!(roster.between_looks(false), LOOK);
        roster.nodes = vec![7, 8];
        roster.greeted = vec![greeting(7, true, None), greeting(8, true, None)];
        assert_eq!((roster.between_looks(false), roster.between_looks(true)), (LOOK_AT_ALL, LOOK));
        // Somebody who has not said who it is, or who wants to be a silo that is there.
        for other in [greeting(9, false, None), greeting(9, true, Some(0))] {
            roster.greeted.truncate(2);
            roster.greeted.push(other);
            assert_eq!(roster.between_looks(false), LOOK);
        }
        roster.greeted.truncate(2);
        roster.forget(1);
        assert_eq!(roster.between_looks(false), LOOK);
    }

    #[test]
    fn a_silo_has_the_number_of_rows_that_it_said_first_and_no_impossible_one() {
        let mut roster = Roster::new(2);
        assert_eq!(roster.refuses(0, MOST_ROWS), None);
        assert!(roster.refuses(0, MOST_ROWS + 1).unwrap().contains("at most"));
        roster.rows[0] = 5;
        assert_eq!((roster.refuses(0, 5), roster.refuses(1, 6)), (None, None));
        assert_eq!(roster.refuses(0, 6).unwrap(), "5, as it said before");
    }

    #[test]
    fn a_coordinator_that_is_started_again_knows_what_silos_said_before() {
        let mut roster = Roster::new(4);
        // The third has not appeared before, and the last not yet.
        roster.rows = vec![5, 6, 7, 0];
        assert_eq!(roster.recall(&[5, 5, 0, 8]), [(1, 6)]);
        assert_eq!(roster.rows, [5, 5, 7, 8]);
        assert_eq!(roster.refuses(3, 9).unwrap(), "8, as it said before");
        // An earlier version wrote none.
        assert!(roster.recall(&[]).is_empty());
        assert_eq!(roster.rows, [5, 5, 7, 8]);
    }

    #[test]
    fn why_a_hello_was_not_sent_is_said_once_and_kept_for_the_error() {
        let mut roster = Roster::new(1);
        assert!(roster.is_troubled("the engine refused") && !roster.is_troubled("it refused again"));
        assert_eq!(roster.trouble.as_deref(), Some("it refused again"));
        assert!(NOT_TAKEN.contains("clocks of this machine and of the engine"));
    }
}
