//! Makes a silo a node of the SuperLink itself, so that it needs no SuperNode and no Python beside it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::carrier::{Api, Carrier};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::heart::Heart;
use crate::keeper::Keeper;
use crate::notice::Seldom;
use crate::own_file;
use crate::pace::Pace;
use crate::silo::{AtWork, SiloOptions};
use crate::task::Source;
use crate::wire::{
    ActivateNodeRequest, ActivateNodeResponse, DeactivateNodeRequest, Empty, Node, RegisterNodeFleetRequest,
    SendNodeHeartbeatRequest, SendNodeHeartbeatResponse,
};

/// The interval of heartbeats that the engine is told, in seconds: it counts a node as gone after two of them.
const INTERVAL: f64 = 30.0;

/// How long a node that the engine still counts as there, though its process was killed, waits for its place.
const STILL_THERE: Duration = Duration::from_secs(75);

/// The longest pause between two looks for a message, and before one is expected.
const LONGEST_PAUSE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// The pause after a look that the engine refused.
const REFUSED: Duration = Duration::from_secs(1);

/// How often a node that is not taken says so: at its start, and once it has been one before.
const SAID_AT_START: Duration = Duration::from_secs(15);
const SAID_AGAIN: Duration = Duration::from_secs(10);

/// The status of a call by a node that the engine does not know.
const UNKNOWN: u16 = 401;
/// How many such answers in a row show that the engine has lost the node, as one that keeps nothing on disk does when it
/// is started again.
const STRANGER: u32 = 3;

/// The interval of its heartbeats, of which one may fail.
const BEAT: Duration = Duration::from_secs(20);

/// How long after its last answer a node does not say that it leaves.
const FETCHED: Duration = Duration::from_secs(60);

/// The file in a silo's folder that says which node it is.
const NODE: &str = "node.json";

/// Which node a silo is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Place {
    node: u64,
}

/// A node of the SuperLink.
struct FleetNode {
    carrier: Carrier,
    file: PathBuf,
    heart: Option<Heart>,
    /// When it last answered.
    answered: Option<Instant>,
    /// How often in a row the engine has not known it.
    strange: u32,
    /// When it last said that it gets no message.
    said: Seldom,
}

/// Serves requests as a node until `stop` is set; `log` receives one line for each event.
pub(crate) fn serve_as_node(
    connection: Connection,
    options: &SiloOptions,
    keeper: &mut Keeper,
    stop: &AtomicBool,
    log: &mut dyn FnMut(&str),
) -> Result<()> {
    let limits = options.limits();
    let Some(mut node) = FleetNode::join(connection, keeper.folder(), stop, log)? else { return Ok(()) };
    let mut silo = AtWork::new(options, keeper);
    silo.settle(&node.carrier, log);
    let mut pace = Pace::new(LONGEST_PAUSE);
    while !stop.load(Ordering::Relaxed) {
        match node.carrier.pull(limits, &mut || stop.load(Ordering::Relaxed)) {
            Ok(arrived) => {
                node.strange = 0;
                match arrived {
                    Some(arrived) => {
                        pace.came(arrived.metadata.created_at);
                        let answered = silo.answer(Source::Node(&node.carrier), arrived, log);
                        node.answered = Some(Instant::now());
                        match answered {
                            Err(Error::Interrupted { .. }) => break,
                            answered => answered?,
                        }
                        pace.wait();
                        pace.pause(stop);
                    }
                    None => pace.pause(stop),
                }
            }
            Err(error @ (Error::Refused { .. } | Error::Malformed { .. })) => node.unserved(&error, stop, log)?,
            Err(Error::Interrupted { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    silo.finish(log);
    node.leave(log);
    Ok(())
}

impl FleetNode {
    /// Joins the SuperLink; `None` if it was stopped before.
    fn join(
        connection: Connection,
        folder: &Path,
        stop: &AtomicBool,
        log: &mut dyn FnMut(&str),
    ) -> Result<Option<Self>> {
        let file = folder.join(NODE);
        let place: Place =
            std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let node = match place.node != 0 && beat(&connection, place.node).unwrap_or(false) {
            true => place.node,
            false => {
                let most = STILL_THERE.min(connection.patience());
                let said = (Seldom::default(), SAID_AT_START);
                match wait_for_place(&connection, Some(most), said, stop, log)? {
                    Some(node) => node,
                    None => return Ok(None),
                }
            }
        };
        let heart = Some(heart_of(&connection, node, BEAT)?);
        let carrier = Carrier { connection, node, api: Api::Fleet };
        let joined = Self { carrier, file, heart, answered: None, strange: 0, said: Seldom::default() };
        joined.keep()?;
        Ok(Some(joined))
    }

    /// Sees to a look for a message that the engine refused: a node that it does not know any more joins anew.
    fn unserved(&mut self, error: &Error, stop: &AtomicBool, log: &mut dyn FnMut(&str)) -> Result<()> {
        let is_strange = matches!(error, Error::Refused { status: UNKNOWN, .. });
        self.strange = if is_strange { self.strange + 1 } else { 0 };
        if self.strange >= STRANGER {
            return self.join_anew(stop, log);
        }
        if self.said.is_due(SAID_AGAIN) {
            log(&format!("no message: {error}"));
        }
        std::thread::sleep(REFUSED);
        Ok(())
    }

    /// Becomes a node once more, as at the start, however long the engine takes none; a wait ends with `stop`.
    fn join_anew(&mut self, stop: &AtomicBool, log: &mut dyn FnMut(&str)) -> Result<()> {
        log("the engine does not know this node any more: it is registered anew");
        drop(self.heart.take());
        let said = (Seldom(Some(Instant::now())), SAID_AGAIN);
        let Some(node) = wait_for_place(&self.carrier.connection, None, said, stop, log)? else { return Ok(()) };
        self.carrier.node = node;
        self.heart = Some(heart_of(&self.carrier.connection, node, BEAT)?);
        self.strange = 0;
        log("the engine has taken this node again");
        self.keep()
    }

    /// Records which node this is, for the next process.
    fn keep(&self) -> Result<()> {
        let bytes = serde_json::to_vec(&Place { node: self.carrier.node });
        own_file::write(&self.file, &bytes.map_err(|error| Error::file(&self.file, error))?)
    }

    fn leave(mut self, log: &mut dyn FnMut(&str)) {
        drop(self.heart.take());
        // Its last answer may not have been fetched yet. The engine notices by itself within a minute that it left.
        if self.answered.is_some_and(|when| when.elapsed() < FETCHED) {
            return;
        }
        let connection = self.carrier.connection.with_patience(Duration::from_secs(5));
        let request = DeactivateNodeRequest { node_id: self.carrier.node };
        let left: Result<Empty> = connection.call("leaving", "fleet/deactivate-node", &request);
        if let Err(error) = left {
            log(&format!("the engine was not told that this silo left: {error}"));
        }
    }
}

/// One heartbeat; false if the engine does not know the node.
fn beat(connection: &Connection, node: u64) -> Result<bool> {
    let request = SendNodeHeartbeatRequest { node: Some(Node { node_id: node }), heartbeat_interval: INTERVAL };
    let connection = connection.with_patience(Duration::from_secs(20));
    let answer: Result<SendNodeHeartbeatResponse> =
        connection.call("keeping a node alive", "fleet/send-node-heartbeat", &request);
    match answer {
        Ok(answer) => Ok(answer.success),
        // A server that is busy, or between it and here, refuses a call and knows the node all the same.
        Err(Error::Refused { status: UNKNOWN, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The heartbeats of a node, which go on when one is lost: the next may be taken, and while the silo computes they could
/// not be started again before the engine counts the node as gone. A node that the engine does not know any more finds
/// out by its looks.
fn heart_of(connection: &Connection, node: u64, interval: Duration) -> Result<Heart> {
    let own = connection.for_user(None);
    Heart::start(interval, move || {
        let _ = beat(&own, node);
        true
    })
}

/// Waits, so long at most, until the engine takes this silo as a node, and says every `pause` that it waits; `None` if it
/// was stopped before.
fn wait_for_place(
    connection: &Connection,
    most: Option<Duration>,
    (mut said, pause): (Seldom, Duration),
    stop: &AtomicBool,
    log: &mut dyn FnMut(&str),
) -> Result<Option<u64>> {
    let started = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match activate(connection) {
            Ok(node) => return Ok(Some(node)),
            Err(Error::Refused { operation, status, detail, .. }) => {
                if most.is_some_and(|most| started.elapsed() > most) {
                    let remedy = "Give the silo's public key to the operator of the SuperLink, who registers it with \
                                  `flwr supernode register`; and start no second silo with this key.";
                    return Err(Error::Refused { operation, status, detail, remedy });
                }
                if said.is_due(pause) {
                    log(&not_taken(status, &detail));
                }
                std::thread::sleep(Duration::from_secs(1));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// What a silo says that the engine does not take as a node: the causes that the engine does not tell apart, and remedies.
fn not_taken(status: u16, detail: &str) -> String {
    let causes = match status {
        UNKNOWN => "The clocks of this machine and of the engine differ by too much: set them",
        _ if detail.contains("authentication is enabled") => {
            "Either the key of this silo is not registered: give its public key to the operator of the SuperLink, for `flwr supernode register`. Or the silo was registered under this key moments ago, and its state folder was deleted or another process still runs with the key: wait a minute"
        }
        _ => {
            "The silo was registered under this key moments ago, and its state folder was deleted or another process still runs with the key: wait a minute, and start no second silo with it"
        }
    };
    format!("waiting to be taken as a node: {detail}. {causes}")
}

/// Tries once to be the node of a key that is registered, or that a SuperLink without registration takes as it comes.
fn activate(connection: &Connection) -> Result<u64> {
    let public_key = connection.public_key().unwrap_or_default().to_vec();
    let request = ActivateNodeRequest { public_key: public_key.clone(), heartbeat_interval: INTERVAL };
    let activate =
        || -> Result<ActivateNodeResponse> { connection.call("joining as a node", "fleet/activate-node", &request) };
    match activate() {
        Err(Error::Refused { .. }) => {}
        joined => return joined.map(|answer| answer.node_id),
    }
    // It is refused where the key is known, and another process, or one that was killed, still counts as this node; and
    // where keys are registered by the engine's operator alone, who has yet to do it.
    let _: Empty =
        connection.call("registering a node", "fleet/register-node", &RegisterNodeFleetRequest { public_key })?;
    activate().map(|answer| answer.node_id)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_node_that_is_not_taken_says_both_causes_where_keys_are_registered() {
        let disabled =
            not_taken(412, "SuperNode authentication is enabled. All SuperNodes must be registered via the CLI");
        for words in ["`flwr supernode register`", "wait a minute", "registered via the CLI. Either"] {
            assert!(disabled.contains(words), "{disabled}");
        }
        let in_use = not_taken(412, "Public key already in use");
        assert!(in_use.contains("wait a minute") && !in_use.contains("flwr supernode"), "{in_use}");
        assert!(not_taken(401, "Invalid SuperNode authentication").contains("clocks"));
    }

    /// An engine that answers every call with this status, and how often it was called.
    fn answering(status: &'static str) -> (Connection, Arc<AtomicUsize>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // The head of a call; its few dozen bytes may come after it.
                let _ = stream.read(&mut [0; 4096]);
                counted.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
                );
                // With bytes of the call unread a connection would be reset, perhaps before the answer is read.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
        });
        (Connection::new(&crate::engine::Engine::insecure(&address)).unwrap(), calls)
    }

    #[test]
    fn a_node_is_unknown_only_where_the_engine_says_so() {
        let beaten = |status| beat(&answering(status).0, 5);
        assert!(beaten("429 Too Many Requests").is_err());
        assert!(beaten("403 Forbidden").is_err());
        assert!(!beaten("401 Unauthorized").unwrap());
    }

    #[test]
    fn heartbeats_go_on_after_one_that_was_not_taken() {
        let (connection, calls) = answering("401 Unauthorized");
        let heart = heart_of(&connection, 5, Duration::from_millis(1)).unwrap();
        let started = Instant::now();
        while calls.load(Ordering::Relaxed) < 3 {
            assert!(started.elapsed() < Duration::from_secs(60), "{} heartbeats", calls.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!heart.is_stopped());
    }
}
