//! A silo's state in two phases: repeated, lost and stale requests, and a process that is killed, change nothing.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::path::{Path, PathBuf};

use partita_flower::{Envelope, Error, Keeper};
use partita_inference::{Message, Result, SiloProgram};

/// The largest sum.
const MOST: f64 = 1e6;

/// Adds what it is asked to a sum, and answers the sum.
struct Adder {
    sum: f64,
}

impl SiloProgram for Adder {
    fn name(&self) -> &str {
        "adder"
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        Ok(vec![(vec![self.sum], vec![0.0])])
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let path = || Ok::<_, partita_inference::Error>(PathBuf::from(request.get_setting("folder")?).join("sum"));
        let file = |reason: std::io::Error| partita_inference::Error::File {
            operation: "keeping",
            path: PathBuf::new(),
            reason: reason.to_string(),
        };
        match request.kind.as_str() {
            "silo.save" => {
                std::fs::write(path()?, self.sum.to_le_bytes()).map_err(file)?;
                Ok(Message::new("silo.saved"))
            }
            "silo.restore" => {
                self.sum = f64::from_le_bytes(std::fs::read(path()?).map_err(file)?.try_into().unwrap());
                Ok(Message::new("silo.restored"))
            }
            "sum.panic" => panic!("a shape that does not fit"),
            _ => {
                self.sum += request.get_number("add")?;
                // It is late to find out: what was added is in the sum.
                if self.sum > MOST {
                    let problem = format!("the sum is {}, expected at most {MOST}", self.sum);
                    return Err(partita_inference::Error::Message { kind: request.kind.clone(), problem });
                }
                Ok(Message::new("sum").number("sum", self.sum))
            }
        }
    }
}

fn open(folder: &Path) -> Keeper {
    Keeper::open(folder, Box::new(|| Ok(Box::new(Adder { sum: 0.0 })))).unwrap()
}

/// A coordinator that has gone on from a checkpoint so many times, and whose checkpoint is of so many rounds.
#[derive(Clone, Copy)]
struct Coordinator {
    start: u64,
    kept: Option<u64>,
}

/// One without checkpoints.
const PLAIN: Coordinator = Coordinator { start: 0, kept: None };

fn ask(keeper: &mut Keeper, run: &str, rounds: (u64, u64), add: f64) -> partita_flower::Result<f64> {
    ask_of(keeper, PLAIN, run, rounds, add)
}

fn ask_of(
    keeper: &mut Keeper,
    of: Coordinator,
    run: &str,
    (round, accepted): (u64, u64),
    add: f64,
) -> partita_flower::Result<f64> {
    let envelope = Envelope {
        run: run.into(),
        // Runs are made in the order of the alphabet.
        began: u64::from(run.as_bytes()[0]),
        start: of.start,
        round,
        attempt: 1,
        accepted,
        kept: of.kept.unwrap_or(accepted),
        identity: "model".into(),
        silo: "adder".into(),
        signature: None,
    };
    Ok(keeper.answer(&envelope, &Message::new("sum.add").number("add", add))?.get_number("sum")?)
}

#[track_caller]
fn assert_sum(found: partita_flower::Result<f64>, expected: f64) {
    assert!((found.unwrap() - expected).abs() < 1e-12);
}

#[test]
fn a_request_that_comes_twice_is_applied_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    assert_sum(ask(&mut keeper, "a", (1, 0), 2.0), 2.0);
    assert_sum(ask(&mut keeper, "a", (1, 0), 2.0), 2.0);
    assert_sum(ask(&mut keeper, "a", (2, 1), 3.0), 5.0);
    assert_sum(ask(&mut keeper, "a", (2, 1), 3.0), 5.0);
}

/// Every file below a folder with what is in it.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_request_that_fails_after_it_was_begun_leaves_neither_file_nor_program_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    // In the state before any, and in one that was saved.
    assert!(matches!(ask(&mut keeper, "a", (1, 0), 2.0 * MOST), Err(Error::Inference(_))));
    assert_sum(ask(&mut keeper, "a", (2, 0), 2.0), 2.0);
    let before = files(folder.path());
    assert!(before.len() >= 3, "{before:?}");
    assert!(matches!(ask(&mut keeper, "a", (3, 2), 2.0 * MOST), Err(Error::Inference(_))));
    assert!(files(folder.path()) == before);
    assert_sum(ask(&mut keeper, "a", (4, 2), 3.0), 5.0);
}

#[test]
fn an_answer_that_was_not_taken_is_undone_before_another_request() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    ask(&mut keeper, "a", (1, 0), 2.0).unwrap();
    ask(&mut keeper, "a", (2, 1), 3.0).unwrap();
    // The coordinator went on without round 2 and asks something else.
    assert_sum(ask(&mut keeper, "a", (3, 1), 10.0), 12.0);
    assert_sum(ask(&mut keeper, "a", (4, 3), 1.0), 13.0);
}

#[test]
fn a_silo_whose_process_was_killed_goes_on_from_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    ask(&mut open(folder.path()), "a", (1, 0), 2.0).unwrap();
    // The reply was lost with the process: it is asked again, of a new process.
    assert_sum(ask(&mut open(folder.path()), "a", (1, 0), 2.0), 2.0);
    assert_sum(ask(&mut open(folder.path()), "a", (2, 1), 3.0), 5.0);
    assert_sum(ask(&mut open(folder.path()), "a", (3, 1), 7.0), 9.0);
    let rounds = std::fs::read_dir(folder.path()).unwrap().flatten();
    let rounds = rounds.filter(|entry| entry.file_name().to_string_lossy().starts_with("round-")).count();
    assert!(rounds <= 3, "{rounds} states are kept");
}

#[test]
fn messages_of_the_past_and_of_other_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    for round in 1..=3 {
        ask(&mut keeper, "a", (round, round - 1), 1.0).unwrap();
    }
    for (stale, about) in [((1, 0), "the age of a request"), ((2, 1), "the age"), ((5, 4), "the state of this silo")] {
        let found = ask(&mut keeper, "a", stale, 1.0).unwrap_err();
        assert!(matches!(&found, Error::Unwelcome { what, .. } if what.starts_with(about)), "{found}");
    }
    // In the middle of a run that this silo never saw.
    let found = ask(&mut keeper, "b", (7, 6), 1.0).unwrap_err();
    assert!(found.to_string().contains("state folder"), "{found}");
    assert_sum(ask(&mut keeper, "a", (4, 3), 1.0), 4.0);
    // A new run starts anew.
    assert_sum(ask(&mut keeper, "b", (1, 0), 5.0), 5.0);
    assert!(ask(&mut keeper, "a", (5, 4), 1.0).is_err());
    // The first request of the older run, delivered late, does not make the silo forget the newer one.
    let found = ask(&mut keeper, "a", (1, 0), 1.0).unwrap_err();
    assert!(matches!(found, Error::Unwelcome { what: "the age of a run", .. }), "{found}");
    assert_sum(ask(&mut keeper, "b", (2, 1), 6.0), 11.0);
}

#[test]
fn a_coordinator_that_goes_back_to_its_checkpoint_finds_the_silo_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    let first = Coordinator { start: 0, kept: Some(2) };
    assert_sum(ask_of(&mut keeper, Coordinator { start: 0, kept: Some(0) }, "a", (1, 0), 1.0), 1.0);
    assert_sum(ask_of(&mut keeper, Coordinator { start: 0, kept: Some(1) }, "a", (2, 1), 2.0), 3.0);
    for (round, add, sum) in [(3, 4.0, 7.0), (4, 8.0, 15.0), (5, 16.0, 31.0)] {
        assert_sum(ask_of(&mut keeper, first, "a", (round, round - 1), add), sum);
    }
    // Killed after three exchanges without a checkpoint, it asks the first of them again, and then something else.
    let second = Coordinator { start: 1, kept: Some(2) };
    assert_sum(ask_of(&mut keeper, second, "a", (3, 2), 4.0), 7.0);
    assert_sum(ask_of(&mut keeper, second, "a", (4, 3), 100.0), 107.0);
    // What the one before it had sent comes too late, whatever state it follows.
    for late in [(5, 4), (6, 5), (6, 4)] {
        assert!(ask_of(&mut keeper, first, "a", late, 1_000.0).is_err(), "{late:?}");
    }
    assert_sum(ask_of(&mut keeper, second, "a", (5, 4), 1.0), 108.0);
    // The same from a new process.
    drop(keeper);
    let third = Coordinator { start: 2, kept: Some(2) };
    let mut keeper = open(folder.path());
    assert_sum(ask_of(&mut keeper, third, "a", (3, 2), 4.0), 7.0);
    assert_sum(ask_of(&mut keeper, third, "a", (4, 3), 5.0), 12.0);
}

#[test]
fn a_request_that_comes_after_a_newer_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    let of = Coordinator { start: 0, kept: Some(1) };
    ask_of(&mut keeper, of, "a", (1, 0), 1.0).unwrap();
    ask_of(&mut keeper, of, "a", (2, 1), 2.0).unwrap();
    // Round 2 was given up; its request, sent a second time, comes after that of round 3.
    assert_sum(ask_of(&mut keeper, of, "a", (3, 1), 4.0), 5.0);
    assert!(ask_of(&mut keeper, of, "a", (2, 1), 2.0).is_err());
    assert_sum(ask_of(&mut keeper, of, "a", (4, 3), 8.0), 13.0);
    // That of round 3, answered and taken, is repeated from the disk.
    assert_sum(ask_of(&mut keeper, of, "a", (3, 1), 4.0), 5.0);
    assert_sum(ask_of(&mut keeper, of, "a", (5, 4), 16.0), 29.0);
}

#[test]
fn a_disk_that_cannot_be_written_leaves_the_state_before_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    ask(&mut keeper, "a", (1, 0), 2.0).unwrap();
    // A file stands where the folder of round 2 should be: nothing can be written there.
    let place = folder.path().join("round-00000002");
    std::fs::write(&place, "in the way").unwrap();
    let found = ask(&mut keeper, "a", (2, 1), 3.0).unwrap_err();
    assert!(matches!(found, Error::File { .. }), "{found}");
    std::fs::remove_file(&place).unwrap();
    assert_sum(ask(&mut keeper, "a", (2, 1), 3.0), 5.0);
}

/// A first request of a run that began so many milliseconds after now.
fn begun(keeper: &mut Keeper, run: &str, ahead: i64) -> partita_flower::Result<Message> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let began = u64::try_from(now).unwrap().saturating_add_signed(ahead);
    let (run, identity, silo) = (run.into(), "model".into(), "adder".into());
    let envelope =
        Envelope { run, began, start: 0, round: 1, attempt: 1, accepted: 0, kept: 0, identity, silo, signature: None };
    keeper.answer(&envelope, &Message::new("sum.add").number("add", 1.0))
}

#[test]
fn a_run_that_begins_in_the_future_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    assert_sum(ask(&mut keeper, "a", (1, 0), 2.0), 2.0);
    let before = files(folder.path());
    for ahead in [i64::MAX, 2 * 3_600_000] {
        let found = begun(&mut keeper, "later", ahead).unwrap_err();
        assert!(matches!(found, Error::Unwelcome { what: "the start of a run", .. }), "{found}");
    }
    assert!(files(folder.path()) == before);
    assert_sum(ask(&mut keeper, "a", (2, 1), 3.0), 5.0);
    // Clocks differ by minutes.
    begun(&mut keeper, "now", 60_000).unwrap();
    begun(&mut keeper, "next", 61_000).unwrap();
}

#[test]
fn the_states_of_replaced_runs_are_archived_and_those_of_the_last_three_can_be_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let mut keeper = open(folder.path());
    let names = ["a", "b", "c", "d", "../../e"];
    for (run, sum) in names.into_iter().zip([1.0, 2.0, 3.0, 4.0, 5.0]) {
        match run.len() {
            1 => assert_sum(ask(&mut keeper, run, (1, 0), sum), sum),
            _ => drop(begun(&mut keeper, run, 0).unwrap()),
        }
    }
    begun(&mut keeper, "f", 1).unwrap();
    let mut runs: Vec<PathBuf> = std::fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    let named: Vec<String> = runs.iter().map(|run| std::fs::read_to_string(run.join("silo.json")).unwrap()).collect();
    assert_eq!(named.len(), 3);
    for (record, run) in named.iter().zip(&names[2..]) {
        assert!(record.contains(&format!("\"run\": \"{run}\"")), "{record}");
    }
    // The owner goes on with run `c`.
    let own = folder.path().join("again");
    std::fs::rename(&runs[0], &own).unwrap();
    assert_sum(ask(&mut open(&own), "c", (2, 1), 10.0), 13.0);
}

#[test]
fn a_silo_killed_while_it_archives_a_run_goes_on_with_it() {
    let folder = tempfile::tempdir().unwrap();
    assert_sum(ask(&mut open(folder.path()), "a", (1, 0), 2.0), 2.0);
    let record = std::fs::read(folder.path().join("silo.json")).unwrap();
    assert_sum(ask(&mut open(folder.path()), "b", (1, 0), 7.0), 7.0);
    // The states are in the archive, and the next run was not begun.
    std::fs::write(folder.path().join("silo.json"), record).unwrap();
    assert_sum(ask(&mut open(folder.path()), "a", (2, 1), 3.0), 5.0);
}

#[test]
fn a_coordinator_that_never_has_a_checkpoint_does_not_fill_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    let greedy = Coordinator { start: 0, kept: Some(0) };
    for round in 1..=512 {
        ask_of(&mut keeper, greedy, "a", (round, round - 1), 1.0).unwrap();
    }
    let found = ask_of(&mut keeper, greedy, "a", (513, 512), 1.0).unwrap_err().to_string();
    assert!(found.contains("at most 512") && found.contains("checkpoints"), "{found}");
    // With a checkpoint it goes on.
    assert_sum(ask_of(&mut keeper, Coordinator { start: 0, kept: Some(512) }, "a", (514, 512), 1.0), 513.0);
}

#[test]
fn a_panic_is_a_failure_that_leaves_the_silo_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    assert_sum(ask(&mut keeper, "a", (1, 0), 2.0), 2.0);
    let (run, identity, silo) = ("a".into(), "model".into(), "adder".into());
    let envelope = Envelope {
        run,
        began: 97,
        start: 0,
        round: 2,
        attempt: 1,
        accepted: 1,
        kept: 1,
        identity,
        silo,
        signature: None,
    };
    for _ in 0..2 {
        let found = keeper.answer(&envelope, &Message::new("sum.panic")).unwrap_err().to_string();
        assert!(found.contains("adder") && found.contains("a shape that does not fit"), "{found}");
    }
    assert_sum(ask(&mut keeper, "a", (3, 1), 3.0), 5.0);
}

#[test]
fn a_second_silo_in_a_folder_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let second = || Keeper::open(folder.path(), Box::new(|| Ok(Box::new(Adder { sum: 0.0 }))));
    let found = second().unwrap_err().to_string();
    assert!(found.contains("in use by another party") && found.contains(&*folder.path().to_string_lossy()), "{found}");
    drop(first);
    second().unwrap();
}

#[test]
fn the_owner_sees_the_newest_state_and_nothing_before_the_first_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut keeper = open(folder.path());
    assert!(keeper.silo().unwrap().is_none());
    assert_sum(ask(&mut keeper, "a", (1, 0), 2.0), 2.0);
    // Another process reads the state that this one saved.
    drop(keeper);
    let mut keeper = open(folder.path());
    assert_eq!(keeper.silo().unwrap().unwrap().local_moments().unwrap(), [(vec![2.0], vec![0.0])]);
    // Looking changes nothing.
    assert_sum(ask(&mut keeper, "a", (2, 1), 3.0), 5.0);
}
