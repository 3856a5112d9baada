//! A silo's state in two phases: repeated, lost and stale requests, and a process that is killed, change nothing.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::path::{Path, PathBuf};

use partita_flower::{Envelope, Error, Keeper};
use partita_inference::{Message, Result, SiloProgram};

/// Adds what it is asked to a sum, and answers the sum.
struct Adder {
    sum: f64,
}

impl SiloProgram for Adder {
    fn name(&self) -> &str {
        "adder"
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        Ok(Vec::new())
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
            _ => {
                self.sum += request.get_number("add")?;
                Ok(Message::new("sum").number("sum", self.sum))
            }
        }
    }
}

fn open(folder: &Path) -> Keeper {
    Keeper::open(folder, Box::new(|| Ok(Box::new(Adder { sum: 0.0 })))).unwrap()
}

fn ask(keeper: &mut Keeper, run: &str, (round, accepted): (u64, u64), add: f64) -> partita_flower::Result<f64> {
    let envelope =
        Envelope { run: run.into(), round, attempt: 1, accepted, identity: "model".into(), silo: "adder".into() };
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
    for stale in [(1, 0), (2, 1), (5, 4)] {
        let found = ask(&mut keeper, "a", stale, 1.0).unwrap_err();
        assert!(matches!(found, Error::Unwelcome { what: "the state of this silo", .. }), "{found}");
    }
    // In the middle of a run that this silo never saw.
    let found = ask(&mut keeper, "b", (7, 6), 1.0).unwrap_err();
    assert!(found.to_string().contains("state folder"), "{found}");
    assert_sum(ask(&mut keeper, "a", (4, 3), 1.0), 4.0);
    // A new run starts anew.
    assert_sum(ask(&mut keeper, "b", (1, 0), 5.0), 5.0);
    assert!(ask(&mut keeper, "a", (5, 4), 1.0).is_err());
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
