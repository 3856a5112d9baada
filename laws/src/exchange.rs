//! Checks the laws of exchanges: one outcome a request, failures kept apart, and nothing beside the manifest.

use partita_inference::{
    Arrival, Error, Exchange, Field, Manifest, Message, Outcome, Release, Request, Result as Answer, SiloProgram,
};

/// Silos of a checked exchange; the reply of a later one is ready before that of an earlier one.
const SILOS: usize = 4;

/// A law of [`Exchange`] that does not hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeViolation {
    /// The exchange calls its silos something else.
    #[error("silos are called {found:?}, expected {expected:?}")]
    Names {
        /// The names it gives.
        found: Vec<String>,
        /// The names of the programs.
        expected: Vec<String>,
    },
    /// There is not one outcome for each request.
    #[error("{found} outcomes for {expected} requests")]
    Count {
        /// The outcomes.
        found: usize,
        /// The requests.
        expected: usize,
    },
    /// An outcome is not that of the request in its place.
    #[error("{case}: outcome {index} is {found}, expected {expected}")]
    Order {
        /// Which requests were sent.
        case: &'static str,
        /// The place.
        index: usize,
        /// The outcome found there.
        found: String,
        /// The outcome of the request.
        expected: String,
    },
    /// A reply passed with something the manifest does not allow.
    #[error("a reply with {problem} passed the manifest")]
    Leak {
        /// What should not have passed.
        problem: &'static str,
    },
    /// The exchange failed where it should not, or with another error.
    #[error("{case}: {error}")]
    Failed {
        /// Which requests were sent.
        case: &'static str,
        /// What it reported.
        error: Error,
    },
}

/// Checks an exchange that `make` builds over the silos of the suite.
///
/// What is sent and received silo by silo gives one outcome a request; what is exchanged at once stands in the order
/// of the requests: for all silos, for some, and for one asked twice; a silo that fails, or that does not exist, harms
/// no other; a reply with a field beside the manifest, or a field longer than listed, is [`Error::Manifest`] with the
/// silo's name; and the same requests give the same replies again.
///
/// # Errors
/// The first [`ExchangeViolation`] found.
///
/// # Example
/// ```
/// use partita_inference::InProcess;
/// use partita_laws as laws;
/// laws::exchange(|programs| InProcess::new(programs, 2))?;
/// # Ok::<(), laws::ExchangeViolation>(())
/// ```
pub fn exchange<E: Exchange>(make: impl Fn(Vec<Box<dyn SiloProgram>>) -> Answer<E>) -> Result<(), ExchangeViolation> {
    let programs = || (0..SILOS).map(|index| Box::new(Echo::new(index)) as Box<dyn SiloProgram>).collect();
    let failed = |error| ExchangeViolation::Failed { case: "making the exchange", error };
    let mut exchange = make(programs()).map_err(failed)?;
    let expected: Vec<String> = (0..SILOS).map(|index| Echo::new(index).name).collect();
    if exchange.silos() != expected {
        return Err(ExchangeViolation::Names { found: exchange.silos().to_vec(), expected });
    }
    let all: Vec<usize> = (0..SILOS).collect();
    for (case, silos) in [
        ("all silos", all.as_slice()),
        ("all silos again", all.as_slice()),
        ("two silos, the later first", &[2, 0]),
        ("one silo twice", &[1, 1]),
        ("a silo that does not exist", &[0, SILOS, 1]),
        ("none", &[]),
    ] {
        hold(&mut exchange, case, silos, None)?;
    }
    hold(&mut exchange, "a silo that fails", &all, Some(1))?;
    for (verb, problem) in [("leak", "a field beside the manifest"), ("long", "a field longer than listed")] {
        let requests = all.iter().map(|&silo| Request { silo, message: Message::new(verb) }).collect();
        match exchange.exchange(requests, &manifest(), None) {
            Err(Error::Manifest { silo, .. }) if silo == expected[SILOS - 1] => {}
            Err(error) => return Err(ExchangeViolation::Failed { case: problem, error }),
            Ok(_) => return Err(ExchangeViolation::Leak { problem }),
        }
    }
    Ok(())
}

fn manifest() -> Manifest {
    let field = |name| Field { name, meaning: "what the request said", limit: 1, release: Release::Public };
    Manifest { fields: vec![field("silo"), field("number")] }
}

/// Sends one numbered request to each of `silos` and compares the outcomes, place by place: as handed over, and
/// all at once.
fn hold(
    exchange: &mut dyn Exchange,
    case: &'static str,
    silos: &[usize],
    failing: Option<usize>,
) -> Result<(), ExchangeViolation> {
    let verb = |silo: usize| if Some(silo) == failing { "fail" } else { "echo" };
    let request =
        |(number, &silo): (u64, &usize)| Request { silo, message: Message::new(verb(silo)).word("number", number) };
    let requests: Vec<Request> = (0_u64..).zip(silos).map(request).collect();
    let failed = |error| ExchangeViolation::Failed { case, error };
    let expected = |index: usize| match silos[index] {
        silo if Some(silo) == failing => "a failure".to_owned(),
        silo if silo >= SILOS => "a lost silo".to_owned(),
        silo => format!("silo {silo}'s reply to request {index}"),
    };
    exchange.send(requests.clone(), None).map_err(failed)?;
    // Of a silo with several requests the outcomes come in their order.
    let mut open: Vec<usize> = (0..silos.len()).collect();
    let mut arrived = Vec::new();
    for found in 0..silos.len() {
        let arrival = exchange.receive(&manifest(), None).map_err(failed)?;
        let Some(Arrival { silo, outcome }) = arrival else {
            return Err(ExchangeViolation::Count { found, expected: silos.len() });
        };
        let place = open.iter().position(|&index| silos[index] == silo).unwrap_or(0);
        arrived.push((open.remove(place), outcome));
    }
    arrived.sort_by_key(|(index, _)| *index);
    arrived.iter().try_for_each(|(index, outcome)| same(case, *index, outcome, &expected))?;
    let outcomes = exchange.exchange(requests, &manifest(), None).map_err(failed)?;
    if outcomes.len() != silos.len() {
        return Err(ExchangeViolation::Count { found: outcomes.len(), expected: silos.len() });
    }
    outcomes.iter().enumerate().try_for_each(|(index, outcome)| same(case, index, outcome, &expected))
}

/// Compares the outcome that was handed over for a request with what it is to be.
fn same(
    case: &'static str,
    index: usize,
    outcome: &Outcome,
    expected: &impl Fn(usize) -> String,
) -> Result<(), ExchangeViolation> {
    let (found, expected) = (describe(outcome), expected(index));
    if found == expected { Ok(()) } else { Err(ExchangeViolation::Order { case, index, found, expected }) }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Reply(reply) => match (reply.get_word("silo"), reply.get_word("number")) {
            (Ok(silo), Ok(number)) => format!("silo {silo}'s reply to request {number}"),
            _ => "a reply without its fields".into(),
        },
        Outcome::Failed(_) => "a failure".into(),
        Outcome::Lost { .. } => "a lost silo".into(),
        Outcome::Timeout => "a timeout".into(),
        _ => "an outcome that the suite does not know".into(),
    }
}

/// A silo that says its place and the number of the request; the last one leaks when asked to.
struct Echo {
    name: String,
    index: usize,
}

impl Echo {
    fn new(index: usize) -> Self {
        Self { name: format!("silo-{index}"), index }
    }
}

impl SiloProgram for Echo {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&mut self, request: &Message) -> Answer<Message> {
        // Earlier silos take longer, so that replies come in the reverse order wherever silos answer at once.
        std::thread::sleep(std::time::Duration::from_millis((SILOS - self.index) as u64));
        let reply = Message::new("echo.reply").word("silo", self.index as u64);
        let is_last = self.index + 1 == SILOS;
        match request.kind.as_str() {
            "echo" => Ok(reply.word("number", request.get_word("number")?)),
            "leak" if is_last => Ok(reply.floats("secret", &[1.0])),
            "long" if is_last => Ok(Message::new("echo.reply").floats("number", &[1.0, 2.0])),
            "leak" | "long" => Ok(reply),
            other => Err(Error::Message { kind: other.to_owned(), problem: "an echo does not know it".into() }),
        }
    }
}
