//! Compares the bytes of a round on the wire with the manifest's counts, over a real engine.

use fixtures::counting::Counting;
use fixtures::engine::Deployment;
use fixtures::engine_run::{seats, through};
use fixtures::six_cities_halves;
use fixtures::table::rows;
use partita::core::{Key, Noise, Purpose};
use partita::inference::{AlgorithmChoice, Exchange, Manifest, Message, Outcome, Request, StartFrom, coordinator};
use partita::models::{BinaryRows, LogisticRegression, MixedLogistic};
use partita::{Device, FamilyPlan, FitOptions, Gaussian, Model, RoundOptions, Settings};

/// The cost of a message beside its numbers, and of each of its fields, as stated in the how-to.
const A_MESSAGE: u64 = 1_500;
const A_FIELD: u64 = 600;

/// The bytes of one round, both ways.
struct Crossed {
    /// Of requests and of answers, as counted by the exchange.
    counted: [u64; 2],
    /// On the socket, with headers and polls.
    socket: u64,
    /// The coordinator's calls that announce requests, and those that send objects of them.
    pushes: [u64; 2],
    requests: Vec<Message>,
    replies: Vec<Message>,
    manifest: Manifest,
}

/// A round of SFVI-Avg of one local step.
fn one_round<M: Model>(model: &M, silos: &[(String, M::Data)], family: FamilyPlan) -> Option<Crossed>
where
    M::Data: Clone + Send + 'static,
{
    let (folder, deployment) = Deployment::capped(2)?;
    let door = Counting::before(&deployment.coordinator());
    // A climb to the mode would come before the round.
    let settings = Settings { steps: 1, family, start: StartFrom::Declared, ..Settings::default() };
    let algorithm = AlgorithmChoice::SfviAvg(RoundOptions::paper(1));
    let how = FitOptions { algorithm, settings, ..FitOptions::default() };
    let seats = seats(model, silos, &how);
    Some(through((&deployment, door.engine()), folder.path(), seats, |exchange| {
        let names = exchange.silos().to_vec();
        let mut algorithm = coordinator(model, &names, &rows(exchange), &Device::flex(), &how).unwrap();
        let asked: Vec<Request> = algorithm.outgoing().unwrap();
        let requests = asked.iter().map(|request| request.message.clone()).collect();
        let pushed = || {
            let calls = door.by_name();
            ["runtime/push-messages", "runtime/push-object"].map(|name| calls.get(name).copied().unwrap_or_default())
        };
        let (before, socket, earlier) = (exchange.bytes(), door.bytes(), pushed());
        let outcomes = exchange.exchange(asked, algorithm.manifest(), None).unwrap();
        let (after, socket, later) = (exchange.bytes(), door.bytes() - socket, pushed());
        let pushes = [later[0] - earlier[0], later[1] - earlier[1]];
        let reply = |outcome: Outcome| match outcome {
            Outcome::Reply(reply) => reply,
            other => panic!("a silo did not answer: {other:?}"),
        };
        let replies = outcomes.into_iter().map(reply).collect();
        let counted = [after[0] - before[0], after[1] - before[1]];
        Crossed { counted, socket, pushes, requests, replies, manifest: algorithm.manifest().clone() }
    }))
}

/// The numbers of messages, and their fields.
fn size(messages: &[Message]) -> [u64; 2] {
    let fields = |message: &Message| message.records.len() + message.numbers.len() + message.settings.len();
    let numbers = |message: &Message| {
        let arrays: usize = message.records.iter().map(|record| record.bytes.len() / 8).sum();
        let words: usize = message.settings.iter().map(|(_, value)| value.len().div_ceil(8)).sum();
        arrays + message.numbers.len() + words
    };
    [messages.iter().map(numbers).sum::<usize>() as u64, messages.iter().map(fields).sum::<usize>() as u64]
}

impl Crossed {
    /// Holds both directions to numbers times eight bytes, plus the stated cost of messages and fields.
    fn assert_counts(&self) {
        for (messages, counted) in [(&self.requests, self.counted[0]), (&self.replies, self.counted[1])] {
            let [numbers, fields] = size(messages);
            let most = 8 * numbers + A_MESSAGE * messages.len() as u64 + A_FIELD * fields;
            assert!(counted <= most, "{counted} bytes for {numbers} numbers in {fields} fields: more than {most}");
        }
        // Equal parts of two requests cross once; answers differ.
        assert!(self.counted[1] >= 8 * size(&self.replies)[0], "{:?}", self.counted);
        // No answer has more numbers than the manifest counts.
        let limit: usize = self.manifest.fields.iter().map(|field| field.limit).sum();
        for reply in &self.replies {
            assert!(size(std::slice::from_ref(reply))[0] <= limit as u64, "{} allowed", limit);
        }
    }
}

#[test]
fn a_round_of_six_cities_costs_its_numbers_and_what_is_stated_for_messages_and_fields() {
    let silos = six_cities_halves(["north", "south"], &Device::flex());
    let family = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal().given_globals());
    let Some(found) = one_round(&MixedLogistic::new(4), &silos, family) else { return };
    found.assert_counts();
    // Both requests are announced by one call, and each is one object.
    assert_eq!(found.pushes, [1, 2]);
    // Five globals: means and a triangle; the round, the bound and the clipped steps.
    assert_eq!(size(&found.replies), [2 * (5 + 15 + 3), 2 * 4]);
    println!("six cities: {:?} bytes counted, {} through the socket", found.counted, found.socket);
}

#[test]
fn a_round_of_a_million_numbers_crosses_the_socket_with_less_than_five_per_cent_more() {
    const COLUMNS: usize = 499_999;
    let mut inputs = vec![0.0; 2 * COLUMNS];
    Noise::new(3).stream(Key::new(Purpose::Check, 0)).normal(&mut inputs);
    let silo = |name: &str, sign: f64| {
        let own: Vec<f64> = inputs.iter().map(|x| sign * x).collect();
        (name.to_owned(), BinaryRows::new(&own, COLUMNS, &[true, false], &Device::flex()).unwrap())
    };
    let silos = [silo("north", 1.0), silo("south", -0.5)];
    let family = FamilyPlan::new().global(Gaussian::diagonal());
    let Some(found) = one_round(&LogisticRegression::new(COLUMNS), &silos, family) else { return };
    found.assert_counts();
    // The posterior to two silos and one back from each. The engine receives one copy for both silos, or a second one
    // if the first silo has fetched its own before the second is asked.
    let (copy, [requests, replies]) = (8 * 1_000_000, found.counted);
    assert!(requests >= copy && replies >= 2 * copy, "{:?}", found.counted);
    // One call announces both, and beside the object of each there is one chunk that they share, of less than 16 MiB.
    assert!(found.pushes[0] == 1 && found.pushes[1] <= 4, "{:?}", found.pushes);
    let overhead = found.socket as f64 / ((requests / copy + 2) * copy) as f64 - 1.0;
    assert!(overhead < 0.05, "{overhead}: {} bytes, {:?} counted", found.socket, found.counted);
    println!("a million numbers: {:?} bytes counted, {} through the socket", found.counted, found.socket);
}
