//! Holds the ledger to never forget: kill, rewind, replay and two coordinators cannot spend a budget twice.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use partita_privacy::{Accountant, Budget, Conversion, Cost, Error, Ledger};

/// Five releases at this noise cost just under the budget of epsilon 1.
fn cost() -> Cost {
    Cost::new(Accountant::noise_for(1.0, 1e-5, 5).unwrap(), 1).unwrap()
}

fn open(folder: &Path) -> Result<Ledger, Error> {
    Ledger::open(&folder.join("ledger"), Budget { epsilon: 1.0, delta: 1e-5, unit: "row".into() })
}

fn releases(ledger: &Ledger) -> u64 {
    ledger.spent().unwrap().releases
}

#[test]
fn an_identical_request_gets_the_stored_reply_at_no_cost_and_any_other_spends() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(folder.path()).unwrap();
    let first = ledger.answer(b"a", cost(), || Ok(b"noisy".to_vec())).unwrap();
    assert!(!first.stored);
    for _ in 0..9 {
        // Another process after a restart, too.
        let again = open(folder.path()).unwrap().answer(b"a", cost(), || panic!("noise is drawn twice")).unwrap();
        assert!(again.stored && again.bytes == b"noisy");
    }
    assert_eq!(releases(&ledger), 1);
    ledger.answer(b"b", cost(), || Ok(Vec::new())).unwrap();
    assert_eq!(releases(&ledger), 2);
}

#[test]
fn beyond_the_budget_a_request_is_refused_with_what_is_left_and_nothing_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(folder.path()).unwrap();
    assert_eq!(ledger.spent().unwrap().epsilon, 0.0);
    for request in [b"a", b"b", b"c"] {
        ledger.answer(request, cost(), || Ok(vec![1])).unwrap();
    }
    let refusal = ledger.answer(b"d", cost().with_releases(3), || panic!("noise is drawn")).unwrap_err();
    let spent = ledger.spent().unwrap();
    let Error::Budget { asked, spent: found, left, budget, fits, .. } = refusal else { panic!("{refusal}") };
    assert!(asked > 1.0 && found == spent.epsilon && (left - (1.0 - found)).abs() < 1e-12 && budget == 1.0);
    assert_eq!((fits, releases(&ledger)), (2, 3));
    // A smaller request still fits.
    ledger.answer(b"e", cost().with_releases(2), || Ok(vec![])).unwrap();
    assert!(ledger.answer(b"f", cost(), || panic!("noise is drawn")).is_err());
    assert!(ledger.answer(b"a", cost(), || panic!("stored")).unwrap().stored);
}

#[test]
fn a_study_has_no_more_sums_than_it_promised_whatever_it_asks_and_old_ledgers_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::open(&path, Budget { epsilon: 9.0, delta: 1e-5, unit: "row".into() }).unwrap();
    // As before lines named a subject: it counts for no study, and against the budget.
    ledger.answer(b"old", cost(), || Ok(vec![1])).unwrap();
    assert!(!fs::read_to_string(&path).unwrap().contains("subject"));
    let of = |subject: u8, request: &[u8]| {
        ledger.answer_of_study(&[subject; 32], cost().with_releases(2), request, || Ok(vec![2]))
    };
    assert!(of(1, b"old").unwrap().stored);
    of(1, b"a").unwrap();
    // What was charged and never given is none of the two.
    let failed = ledger
        .answer_of_study(&[1; 32], cost().with_releases(2), b"b", || Err(Error::Entropy { problem: "none".into() }));
    assert!(failed.is_err());
    of(1, b"b").unwrap();
    assert_eq!(of(1, b"c"), Err(Error::Study { given: 2, sums: 2 }));
    assert!(of(1, b"a").unwrap().stored && of(2, b"c").is_ok());
    assert_eq!(releases(&ledger), 5);
}

#[test]
fn against_how_many_silos_a_charge_holds_is_written_and_the_fewest_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(folder.path()).unwrap();
    ledger.answer(b"a", cost(), || Ok(vec![1])).unwrap();
    let text = fs::read_to_string(folder.path().join("ledger")).unwrap();
    assert!(ledger.spent().unwrap().colluders.is_none() && !text.contains("colluders"), "{text}");
    for (request, silos) in [(b"b", 3), (b"c", 1), (b"d", 2)] {
        ledger.clone().against(Some(silos)).answer(request, cost(), || Ok(vec![2])).unwrap();
    }
    // Another process reads it, and the charges are as large as any.
    let spent = open(folder.path()).unwrap().spent().unwrap();
    assert_eq!((spent.colluders, spent.releases), (Some(1), 4));
    assert_eq!(spent.epsilon, Accountant::of([cost().with_releases(4)]).epsilon(1e-5, Conversion::Improved).unwrap());
}

#[test]
fn the_cost_is_in_the_file_before_noise_is_drawn_and_stays_when_drawing_fails() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(folder.path()).unwrap();
    let failed = ledger.answer(b"a", cost(), || {
        let text = fs::read_to_string(folder.path().join("ledger")).unwrap();
        assert!(text.lines().last().unwrap().contains("spent") && text.ends_with('\n'), "{text}");
        Err(Error::Entropy { problem: "none".into() })
    });
    assert_eq!(failed, Err(Error::Entropy { problem: "none".into() }));
    assert_eq!(releases(&ledger), 1);
    let panicked = std::panic::catch_unwind(|| ledger.answer(b"b", cost(), || panic!("a model's panic")));
    assert!(panicked.is_err());
    assert_eq!(releases(&ledger), 2);
    // The same request, unanswered, spends again: its noise may have been seen.
    ledger.answer(b"a", cost(), || Ok(vec![])).unwrap();
    assert_eq!(releases(&ledger), 3);
}

/// Names the folder to the process that dies below.
const DYING: &str = "PARTITA_DYING_LEDGER";

#[test]
fn a_process_that_dies_while_it_draws_noise_has_spent() {
    if let Some(folder) = std::env::var_os(DYING) {
        let ledger = open(Path::new(&folder)).unwrap();
        let _ = ledger.answer(b"a", cost(), || std::process::abort());
        unreachable!("the process has ended");
    }
    let folder = tempfile::tempdir().unwrap();
    for died in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "ledger::a_process_that_dies_while_it_draws_noise_has_spent"]);
        assert!(!child.env(DYING, folder.path()).output().unwrap().status.success());
        assert_eq!(releases(&open(folder.path()).unwrap()), died);
    }
    let refused = open(folder.path()).unwrap().answer(b"a", cost(), || panic!("noise is drawn"));
    assert!(matches!(refused, Err(Error::Budget { fits: 0, .. })));
}

#[test]
fn a_ledger_put_back_shortened_or_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = open(folder.path()).unwrap();
    ledger.answer(b"a", cost(), || Ok(vec![1])).unwrap();
    let early = fs::read_to_string(&path).unwrap();
    ledger.answer(b"b", cost(), || Ok(vec![2])).unwrap();
    let mark = ledger.mark().unwrap();
    ledger.answer(b"c", cost(), || Ok(vec![3])).unwrap();
    // Later entries are expected; the state that was saved is an older one.
    ledger.expect(&mark).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &early).unwrap();
    let found = ledger.expect(&mark).unwrap_err().to_string();
    assert!(found.contains("put back"), "{found}");
    fs::write(&path, "").unwrap();
    assert!(ledger.expect(&mark).is_err());

    let lines: Vec<&str> = whole.lines().collect();
    for left_out in 0..lines.len() - 1 {
        let rest: Vec<&str> =
            lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
        fs::write(&path, rest.join("\n") + "\n").unwrap();
        assert!(matches!(open(folder.path()), Err(Error::Ledger { .. })), "without line {left_out}");
    }
    for (from, to) in
        [("\"releases\":1", "\"releases\":0"), ("\"rate\":1.0", "\"rate\":2.0"), ("row", "silo"), ("{", "")]
    {
        fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        assert!(matches!(open(folder.path()), Err(Error::Ledger { .. })), "{from}");
    }
    fs::write(&path, &whole).unwrap();
    let other = Budget { epsilon: 1.0, delta: 1e-5, unit: "silo".into() };
    assert!(Ledger::open(&path, other).unwrap_err().to_string().contains("protects one row"));
    assert_eq!(releases(&open(folder.path()).unwrap()), 3);
}

#[test]
fn an_open_ledger_sees_what_others_wrote_and_what_was_put_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let (ledger, other) = (open(folder.path()).unwrap(), open(folder.path()).unwrap());
    ledger.answer(b"a", cost(), || Ok(vec![1])).unwrap();
    let early = fs::read(&path).unwrap();
    other.answer(b"b", cost(), || Ok(vec![2])).unwrap();
    assert!(ledger.answer(b"b", cost(), || panic!("noise is drawn twice")).unwrap().stored);
    let mark = ledger.mark().unwrap();
    // The early copy, and one that has as many bytes as was read.
    fs::write(&path, &early).unwrap();
    assert!(ledger.expect(&mark).is_err() && releases(&ledger) == 1);
    ledger.answer(b"c", cost(), || Ok(vec![3])).unwrap();
    assert_eq!(releases(&other), 2);
    assert!(other.expect(&mark).is_err());
    assert!(!ledger.answer(b"b", cost(), || Ok(vec![4])).unwrap().stored);
    assert_eq!((releases(&ledger), releases(&open(folder.path()).unwrap())), (3, 3));
}

#[test]
fn a_line_torn_by_a_fall_of_the_machine_is_dropped_and_every_whole_one_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = open(folder.path()).unwrap();
    ledger.answer(b"a", cost(), || Ok(vec![1])).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{}", &whole[..40])).unwrap();
    assert_eq!(releases(&ledger), 1);
    ledger.answer(b"b", cost(), || Ok(vec![2])).unwrap();
    assert_eq!(releases(&ledger), 2);
    assert!(fs::read_to_string(&path).unwrap().starts_with(&whole));
}

#[test]
fn two_coordinators_that_ask_at_once_cannot_spend_a_budget_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (drawn, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for coordinator in 0..4 {
            let (folder, drawn, refused) = (folder.path(), &drawn, &refused);
            scope.spawn(move || {
                for round in 0..5 {
                    let draw = || {
                        drawn.fetch_add(1, Ordering::SeqCst);
                        Ok(vec![])
                    };
                    let request = format!("{coordinator} {round}");
                    match open(folder).unwrap().answer(request.as_bytes(), cost(), draw) {
                        Ok(_) => {}
                        Err(Error::Budget { .. }) => _ = refused.fetch_add(1, Ordering::SeqCst),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!((drawn.into_inner(), refused.into_inner()), (5, 15));
    let spent = open(folder.path()).unwrap().spent().unwrap();
    assert_eq!(spent.releases, 5);
    assert_eq!(spent.epsilon, Accountant::of([cost().with_releases(5)]).epsilon(1e-5, Conversion::Improved).unwrap());
}

#[test]
fn budgets_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (epsilon, delta) in [(-1.0, 1e-5), (f64::NAN, 1e-5), (1.0, 0.0), (1.0, 1.0)] {
        let budget = Budget { epsilon, delta, unit: "row".into() };
        assert!(matches!(Ledger::open(&folder.path().join("l"), budget), Err(Error::Setting { .. })));
    }
    let nowhere = Budget { epsilon: 1.0, delta: 1e-5, unit: "row".into() };
    assert!(matches!(Ledger::open(&folder.path().join("no/ledger"), nowhere), Err(Error::Ledger { .. })));
}

/// The bytes of a ledger with an answer, from the fuzzer's corpus.
fn corpus() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open(folder.path()).unwrap();
    ledger.answer(b"a", cost(), || Ok(b"noisy".to_vec())).unwrap();
    let bytes = fs::read(folder.path().join("ledger")).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flower/fuzz/corpus/ledger/honest");
    if std::env::var_os("PARTITA_WRITE_CORPUS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &bytes).unwrap();
    }
    assert!(fs::read(&path).unwrap() == bytes, "the layout of ledgers has changed");
    bytes
}

#[test]
fn what_the_fuzzer_found_is_refused_or_read_and_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flower/fuzz/corpus/ledger");
    for entry in fs::read_dir(found).unwrap() {
        fs::write(folder.path().join("ledger"), fs::read(entry.unwrap().path()).unwrap()).unwrap();
        if let Ok(own) = open(folder.path()) {
            let _ = own.spent();
        }
    }
}

#[test]
fn a_ledger_with_a_changed_byte_is_refused_or_has_spent_as_much_and_never_panics() {
    let (bytes, folder) = (corpus(), tempfile::tempdir().unwrap());
    let path = folder.path().join("ledger");
    for place in 0..bytes.len() {
        for bit in [1_u8, 2, 32, 128] {
            let mut changed = bytes.clone();
            changed[place] ^= bit;
            fs::write(&path, &changed).unwrap();
            // The last line has none after it that holds its hash; it is the stored reply, which costs nothing.
            if let Ok(own) = open(folder.path()) {
                assert_eq!(releases(&own), 1, "byte {place}, bit {bit}");
            }
        }
    }
}
