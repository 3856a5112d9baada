//! Holds messages of any content, and the exchange in one process, to their laws, and the laws to planted faults.

use std::time::Duration;

use partita::inference::{Arrival, Error, Exchange, InProcess, Manifest, Message, Request, Result, Threads};
use partita_laws::{ExchangeViolation, exchange, message};
use proptest::prelude::*;

/// One field of a message.
#[derive(Debug, Clone)]
enum Item {
    Array(String, Vec<f64>, usize),
    Word(String, u64),
    Number(String, f64),
    Setting(String, String),
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    // Every bit pattern, so that NaN payloads, infinities and minus zero are among the numbers.
    let number = || any::<u64>().prop_map(f64::from_bits);
    let text =
        || proptest::collection::vec(any::<char>(), 0..8).prop_map(|chars| chars.into_iter().collect::<String>());
    let item = prop_oneof![
        (text(), proptest::collection::vec(number(), 0..24), 1_usize..4).prop_map(|(n, v, w)| Item::Array(n, v, w)),
        (text(), any::<u64>()).prop_map(|(name, word)| Item::Word(name, word)),
        (text(), number()).prop_map(|(name, number)| Item::Number(name, number)),
        (text(), text()).prop_map(|(name, value)| Item::Setting(name, value)),
    ];
    proptest::collection::vec(item, 0..6)
}

fn build(kind: &str, items: &[Item]) -> Message {
    items.iter().fold(Message::new(kind), |message, item| match item {
        Item::Array(name, values, width) => {
            let rows = values.len() / width;
            message.array(name, &values[..rows * width], &[rows, *width])
        }
        Item::Word(name, word) => message.word(name, *word),
        Item::Number(name, number) => message.number(name, *number),
        Item::Setting(name, value) => message.setting(name, value),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_message_comes_back_from_its_bytes(kind in ".{0,12}", items in items()) {
        let result = message(&build(&kind, &items));
        prop_assert!(result.is_ok(), "{result:?}");
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = Message::decode(&bytes);
    }

    #[test]
    fn a_message_with_one_byte_changed_is_read_or_refused_without_a_panic(items in items(), at in any::<usize>(), to in any::<u8>()) {
        let mut bytes = build("changed", &items).encode();
        let at = at % bytes.len();
        bytes[at] = to;
        match Message::decode(&bytes) {
            // A decoded message is complete: it has exactly the bytes it was read from.
            Ok(read) => prop_assert_eq!(read.encode(), bytes),
            Err(error) => prop_assert!(matches!(error, Error::Message { .. }), "{error}"),
        }
    }
}

#[test]
fn an_empty_message_keeps_the_laws() {
    message(&Message::new("")).unwrap();
}

#[test]
fn the_exchange_in_one_process_keeps_the_laws_on_any_number_of_threads() {
    for threads in [1, 2, 8] {
        exchange(|programs| InProcess::new(programs, threads)).unwrap();
    }
}

#[test]
fn silos_on_threads_of_their_own_keep_the_laws() {
    exchange(Threads::start).unwrap();
}

#[test]
fn the_exchange_keeps_the_laws_when_silos_answer_in_reverse() {
    exchange(|programs| Ok(InProcess::new(programs, 1)?.with_order(|count| (0..count).rev().collect()))).unwrap();
}

/// An exchange with one planted fault, which the laws must find.
struct Faulty {
    inner: InProcess,
    fault: Fault,
    /// Outcomes that are still to be handed over.
    open: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Reverses,
    Drops,
    Leaks,
}

impl Exchange for Faulty {
    fn silos(&self) -> &[String] {
        self.inner.silos()
    }

    fn send(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        self.open = requests.len();
        self.inner.send(requests, deadline)
    }

    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<Arrival>> {
        let mut everything = manifest.clone();
        if self.fault == Fault::Leaks {
            let names = ["secret", "silo", "number"];
            everything.fields = names
                .map(|name| partita::inference::Field {
                    name,
                    meaning: "anything",
                    limit: 99,
                    release: partita::inference::Release::Forbidden,
                })
                .to_vec();
        }
        self.open -= 1;
        let arrival = self.inner.receive(&everything, deadline)?;
        Ok(match self.fault {
            Fault::Reverses => {
                arrival.map(|arrival| Arrival { silo: self.silos().len() - 1 - arrival.silo, ..arrival })
            }
            Fault::Drops => arrival.filter(|_| self.open > 0),
            Fault::Leaks => arrival,
        })
    }
}

#[test]
fn the_laws_find_an_exchange_that_reorders_drops_or_leaks() {
    let found =
        |fault| exchange(|programs| Ok(Faulty { inner: InProcess::new(programs, 1)?, fault, open: 0 })).unwrap_err();
    assert!(matches!(found(Fault::Reverses), ExchangeViolation::Order { index: 0, .. }));
    assert!(matches!(found(Fault::Drops), ExchangeViolation::Count { found: 3, expected: 4 }));
    assert!(matches!(found(Fault::Leaks), ExchangeViolation::Leak { .. }));
}
